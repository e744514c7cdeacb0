/* Half-precision elements: how they are read and stored. They are computed in float32. */
#ifndef GAF_ELEMENTS_H
#define GAF_ELEMENTS_H

#include "functions.h"

GAF_INLINE float gaf_load_bf16(uint16_t h) { return gaf_float((int32_t)((uint32_t)h << 16)); }

GAF_INLINE uint16_t gaf_store_bf16(float x) {
    uint32_t b = (uint32_t)gaf_bits(x);
    uint32_t rounded = (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
    return (uint16_t)(x == x ? rounded : ((b >> 16) | 0x40u));
}

GAF_INLINE float gaf_load_f16(uint16_t h) {
    uint32_t em = h & 0x7fffu, sign = ((uint32_t)h & 0x8000u) << 16;
    float normal = gaf_float((int32_t)((em << 13) + (em >= 0x7c00u ? 0x70000000u : 0x38000000u)));
    float subnormal = (float)(int32_t)em * 0x1p-24f;
    float magnitude = em < 0x400u ? subnormal : normal;
    return gaf_float((int32_t)((uint32_t)gaf_bits(magnitude) | sign));
}

GAF_INLINE uint16_t gaf_store_f16(float x) {
    uint32_t b = (uint32_t)gaf_bits(x) & 0x7fffffffu, sign = ((uint32_t)gaf_bits(x) >> 16) & 0x8000u;
    uint32_t normal = (b - 0x38000000u + 0xfffu + ((b >> 13) & 1u)) >> 13;
    uint32_t subnormal = (uint32_t)gaf_bits(gaf_float((int32_t)b) + 0.5f) - 0x3f000000u;
    /* masks and not a chain of selects, which gcc 12 leaves scalar in the longest loop */
    uint32_t small = -(uint32_t)(b < 0x38800000u), nan = -(uint32_t)(b > 0x7f800000u);
    uint32_t large = -(uint32_t)(b >= 0x477ff000u); /* 65520 and above round to inf */
    uint32_t h = (subnormal & small) | (normal & ~small);
    h = (0x7c00u & large) | (h & ~large);
    h |= 0x7e00u & nan;
    return (uint16_t)(h | sign);
}

#endif
