/* The loops over elements, written once and compiled once per instruction set (isa_*.c).
 *
 * SGD: the two loops differ in where f stands, before the velocity ("gradient") or after it ("momentum" and
 * "update", which differ only in the two factors `inner` and `outer`):
 *   d = inner * (f?(sign * g / scale) + decay * w);  v = momentum * v + gain * d;  w = w + outer * f?(u)
 * Everything that is the same for all elements is a factor or a select the compiler lifts out of the loop.
 */
#include "functions.h"
#include "gaf.h"

/* Element types: how they are stored (E), and what they are computed in (C). */

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

#define GAF_PLAIN(x) (x)

#define GAF_SGD(NAME, FUNCTION, TYPE, E, C, LOAD, STORE, SUFFIX, BEFORE, CARRY)                                   \
    static void NAME(const gaf_sgd_args *restrict s, void *restrict w_, const void *restrict g_,                 \
                     void *restrict v_, int fresh, ptrdiff_t n) {                                                \
        E *restrict w = w_;                                                                                      \
        const E *restrict g = g_;                                                                                \
        E *restrict v = v_;                                                                                      \
        const gaf_factors p = s->factors;                                                                        \
        const C sign = (C)s->sign, scale = (C)s->inverse_scale, decay = (C)s->weight_decay;                      \
        const C inner = (C)s->inner, outer = (C)s->outer, momentum = (C)s->momentum;                             \
        const C gain = (C)s->gain;                                                                               \
        const int decays = s->weight_decay != 0, nesterov = s->nesterov;                                         \
        for (ptrdiff_t i = 0; i < n; i++) {                                                                      \
            C weight = LOAD(w[i]);                                                                               \
            C d = sign * (scale * (C)LOAD(g[i]));                                                                \
            if (BEFORE) d = gaf_##FUNCTION##_##SUFFIX(d, p);                                                     \
            d = decays ? GAF_FMA(decay, weight, d) : d;                                                          \
            if (!BEFORE) d = inner * d;                                                                          \
            C u = d;                                                                                             \
            if (CARRY) {                                                                                         \
                C carried = GAF_FMA(momentum, (C)LOAD(v[i]), gain * d);                                          \
                carried = fresh ? d : carried;                                                                   \
                v[i] = STORE(carried);                                                                           \
                u = nesterov ? GAF_FMA(momentum, carried, d) : carried;                                          \
            }                                                                                                    \
            if (!BEFORE) u = gaf_##FUNCTION##_##SUFFIX(u, p);                                                    \
            w[i] = STORE(GAF_FMA(outer, u, weight));                                                             \
        }                                                                                                        \
    }

#define GAF_ADAM(NAME, FUNCTION, TYPE, E, C, LOAD, STORE, SUFFIX, SQRT, AMSGRAD)                                  \
    static void NAME(const gaf_adam_args *restrict s, void *restrict w_, const void *restrict g_,                \
                     void *restrict m_, void *restrict v_, void *restrict top_, double step_size,                \
                     double root_correction, ptrdiff_t n) {                                                      \
        E *restrict w = w_;                                                                                      \
        const E *restrict g = g_;                                                                                \
        E *restrict m = m_;                                                                                      \
        E *restrict v = v_;                                                                                      \
        E *restrict top = top_;                                                                                  \
        const gaf_factors p = s->factors;                                                                        \
        const C sign = (C)s->sign, scale = (C)s->inverse_scale, shrink = (C)s->shrink;                           \
        const C decay = (C)s->weight_decay, rate = (C)s->rate;                                                   \
        const C beta2 = (C)s->beta2, one_minus_beta2 = (C)s->one_minus_beta2, eps = (C)s->eps;                   \
        const C size = (C)step_size, inverse_root = (C)(1.0 / root_correction);                                  \
        const int decays = s->weight_decay != 0, near = s->one_minus_beta1 < 0.5;                                \
        for (ptrdiff_t i = 0; i < n; i++) {                                                                      \
            C weight = shrink * (C)LOAD(w[i]);                                                                   \
            C d = gaf_##FUNCTION##_##SUFFIX(sign * (scale * (C)LOAD(g[i])), p);                                  \
            d = decays ? GAF_FMA(decay, weight, d) : d;                                                          \
            C mean = LOAD(m[i]);                                                                                 \
            mean = GAF_FMA(rate, d - mean, near ? mean : d); /* from the nearer end, as torch's lerp */          \
            C square = GAF_FMA(beta2, (C)LOAD(v[i]), one_minus_beta2 * (d * d));                                 \
            m[i] = STORE(mean);                                                                                  \
            v[i] = STORE(square);                                                                                \
            if (AMSGRAD) {                                                                                       \
                C old = LOAD(top[i]);                                                                            \
                square = square > old || square != square ? square : old;                                        \
                top[i] = STORE(square);                                                                          \
            }                                                                                                    \
            w[i] = STORE(weight - size * mean / (SQRT(square) * inverse_root + eps));                            \
        }                                                                                                        \
    }

/* f in place; returns the bits of the largest absolute value seen, which order as the values do, NaN above inf. */
#define GAF_ACTIVATE(NAME, FUNCTION, TYPE, E, C, LOAD, STORE, SUFFIX, BITS, MASK)                                 \
    static int64_t NAME(const gaf_factors *restrict factors, void *restrict g_, ptrdiff_t n) {                   \
        E *restrict g = g_;                                                                                      \
        const gaf_factors p = *factors;                                                                          \
        BITS largest = 0;                                                                                        \
        for (ptrdiff_t i = 0; i < n; i++) {                                                                      \
            C x = LOAD(g[i]);                                                                                    \
            BITS bits;                                                                                           \
            memcpy(&bits, &x, sizeof bits);                                                                      \
            bits &= MASK;                                                                                        \
            largest = bits > largest ? bits : largest;                                                           \
            g[i] = STORE(gaf_##FUNCTION##_##SUFFIX(x, p));                                                       \
        }                                                                                                        \
        return (int64_t)largest;                                                                                 \
    }

#define GAF_LOOPS(FUNCTION, TYPE, E, C, LOAD, STORE, SUFFIX, SQRT, BITS, MASK)                                    \
    GAF_SGD(sgd_before_##FUNCTION##_##TYPE, FUNCTION, TYPE, E, C, LOAD, STORE, SUFFIX, 1, 0)                     \
    GAF_SGD(sgdm_before_##FUNCTION##_##TYPE, FUNCTION, TYPE, E, C, LOAD, STORE, SUFFIX, 1, 1)                    \
    GAF_SGD(sgd_after_##FUNCTION##_##TYPE, FUNCTION, TYPE, E, C, LOAD, STORE, SUFFIX, 0, 0)                      \
    GAF_SGD(sgdm_after_##FUNCTION##_##TYPE, FUNCTION, TYPE, E, C, LOAD, STORE, SUFFIX, 0, 1)                     \
    GAF_ADAM(adam_##FUNCTION##_##TYPE, FUNCTION, TYPE, E, C, LOAD, STORE, SUFFIX, SQRT, 0)                       \
    GAF_ADAM(amsgrad_##FUNCTION##_##TYPE, FUNCTION, TYPE, E, C, LOAD, STORE, SUFFIX, SQRT, 1)                    \
    GAF_ACTIVATE(activate_##FUNCTION##_##TYPE, FUNCTION, TYPE, E, C, LOAD, STORE, SUFFIX, BITS, MASK)

#define GAF_TYPES(FUNCTION)                                                                                                             \
    GAF_LOOPS(FUNCTION, f32, float, float, GAF_PLAIN, GAF_PLAIN, f32, sqrtf, int32_t, 0x7fffffff)                                      \
    GAF_LOOPS(FUNCTION, f64, double, double, GAF_PLAIN, GAF_PLAIN, f64, sqrt, int64_t, 0x7fffffffffffffff)                             \
    GAF_LOOPS(FUNCTION, bf16, uint16_t, float, gaf_load_bf16, gaf_store_bf16, f32, sqrtf, int32_t, 0x7fffffff)                         \
    GAF_LOOPS(FUNCTION, f16, uint16_t, float, gaf_load_f16, gaf_store_f16, f32, sqrtf, int32_t, 0x7fffffff)

GAF_TYPES(arctan)
GAF_TYPES(tanh)
GAF_TYPES(log)

#define GAF_ENTRY(FUNCTION, TYPE)                                                                                 \
    {                                                                                                            \
        {{sgd_before_##FUNCTION##_##TYPE, sgdm_before_##FUNCTION##_##TYPE},                                      \
         {sgd_after_##FUNCTION##_##TYPE, sgdm_after_##FUNCTION##_##TYPE}},                                       \
            {adam_##FUNCTION##_##TYPE, amsgrad_##FUNCTION##_##TYPE}, activate_##FUNCTION##_##TYPE                \
    }

/* In the order of the enums of gaf.h. */
#define GAF_ENTRIES(FUNCTION) \
    { GAF_ENTRY(FUNCTION, f32), GAF_ENTRY(FUNCTION, f64), GAF_ENTRY(FUNCTION, bf16), GAF_ENTRY(FUNCTION, f16) }

const gaf_loops GAF_TABLE[GAF_FUNCTIONS][GAF_TYPES_COUNT] = {GAF_ENTRIES(arctan), GAF_ENTRIES(tanh),
                                                             GAF_ENTRIES(log)};
