/* The formulas, once: each shares its name with the Python function it implements.
 *
 * Branch-free scalar code that compilers turn into vectors of any width. `x = beta * g` may underflow or
 * overflow where f(g) does not; near 0 the float32 forms
 * therefore take the line `slope * g`, and Log scales large g down (as gaf/functions/ranges.py does).
 * The coefficients are minimax fits; with each stands the relative error of the fit.
 */
#ifndef GAF_FUNCTIONS_H
#define GAF_FUNCTIONS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define GAF_INLINE static inline __attribute__((always_inline))

/* a * b + c with one rounding where the instruction set has it (GAF_HAS_FMA is set by the file that includes this
 * one), written out so that the vector body and the tail of a loop round alike. */
#ifdef GAF_HAS_FMA
#define GAF_FMA(a, b, c) _Generic((a), float: __builtin_fmaf, default: __builtin_fma)(a, b, c)
#else
#define GAF_FMA(a, b, c) ((a) * (b) + (c))
#endif

typedef struct {
    double alpha, beta;
} gaf_factors;

GAF_INLINE int32_t gaf_bits(float x) {
    int32_t i;
    memcpy(&i, &x, sizeof i);
    return i;
}

GAF_INLINE float gaf_float(int32_t i) {
    float x;
    memcpy(&x, &i, sizeof x);
    return x;
}

GAF_INLINE float gaf_abs(float x) { return gaf_float(gaf_bits(x) & 0x7fffffff); }

GAF_INLINE float gaf_copysign(float magnitude, float sign) {
    return gaf_float((gaf_bits(magnitude) & 0x7fffffff) | (gaf_bits(sign) & (int32_t)0x80000000));
}

/* a >= 0, at most `limit`; NaN stays. */
GAF_INLINE float gaf_at_most(float a, float limit) { return a > limit ? limit : a; }

/* Where beta * a passes 2^30 a bounded function has reached its bound; larger a would only overflow. */
GAF_INLINE float gaf_saturated_at(double beta) {
    double a = 0x1p30 / beta;
    return a < 0x1.fffffep127 ? (float)a : 0x1.fffffep127f;
}

/* x * factor for a finite x, without the error of rounding the factor to float32 first. */
GAF_INLINE float gaf_times(float x, double factor) {
#ifdef GAF_HAS_FMA
    float high = (float)factor, low = (float)(factor - (double)(float)factor);
    return GAF_FMA(x, high, x * low);
#else
    return (float)((double)x * factor);
#endif
}

/* Below this |beta g| the line slope * g is f(g): the cubic term is lost in rounding. */
#define GAF_TINY 0x1p-14f

/* alpha * atan(beta * g). atan(r) / r on [0, 1] in z = r^2: 2.4e-9. */
GAF_INLINE float gaf_arctan_f32(float g, gaf_factors p) {
    float a = gaf_times(gaf_at_most(gaf_abs(g), gaf_saturated_at(p.beta)), p.beta);
    float inverse = 1.0f / a;
    float r = a > 1.0f ? inverse : a;
    float z = r * r;
    float q = -0.001753906486555934f;
    q = q * z + 0.010726837441325188f;
    q = q * z + -0.03080439753830433f;
    q = q * z + 0.057551901787519455f;
    q = q * z + -0.08377303928136826f;
    q = q * z + 0.10942026972770691f;
    q = q * z + -0.142619326710701f;
    q = q * z + 0.1999826580286026f;
    q = q * z + -0.3333328366279602f;
    float small = r + r * (z * q);
    float large = 1.57079637f + (-4.37113883e-8f - small);
    float y = a > 1.0f ? large : small;
    float curved = gaf_copysign(gaf_times(y, p.alpha), g);
    return a < GAF_TINY ? (float)(p.alpha * p.beta) * g : curved;
}

/* alpha * tanh(beta * g) = -alpha * e / (2 + e) with e = expm1(-2 |beta g|).
 * (expm1(r) - r) / r^2 on [-ln 2 / 2, ln 2 / 2]: 2.6e-10. */
GAF_INLINE float gaf_tanh_f32(float g, gaf_factors p) {
    float a = gaf_times(gaf_at_most(gaf_abs(g), gaf_saturated_at(p.beta)), p.beta);
    float x = -2.0f * (a > 10.0f ? 10.0f : a);
    float shifted = x * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: the integer part lands in the low bits */
    float n = shifted - 12582912.0f;
    float r = x + n * -0.693145752f;
    r = r + n * -1.42860677e-6f;
    float q = 0.0001984595728572458f;
    q = q * r + 0.0013941653305664659f;
    q = q * r + 0.008333391509950161f;
    q = q * r + 0.04166634753346443f;
    q = q * r + 0.1666666567325592f;
    q = q * r + 0.5f;
    float m = r + r * (r * q);
    float power = gaf_float((int32_t)(((uint32_t)gaf_bits(shifted) << 23) + 0x3f800000u)); /* 2^n */
    float e = power * m + (power - 1.0f);
    float y = -e / (2.0f + e);
    float curved = gaf_copysign(gaf_times(y, p.alpha), g);
    return a < GAF_TINY ? (float)(p.alpha * p.beta) * g : curved;
}

/* alpha * sign(g) * ln(1 + beta |g|). Everything is scaled by s = 2^-e, so that s beta <= 1/4 and s beta |g|
 * stays below 2^126. With s (1 + x) = 2^k (1 + t), t in [-1/4, 1/2), what the sum s + s x loses is put back into t;
 * then ln(1 + x) = n ln 2 + ln(1 + t) with n = k + e. (ln(1 + t) - t) / t^2 there: 4.8e-9. */
GAF_INLINE float gaf_log_f32(float g, gaf_factors p) {
    int32_t exponent = (gaf_bits((float)p.beta) >> 23) - 124;
    uint32_t e = exponent > 0 ? (uint32_t)exponent : 0;
    float tiny = (float)(0x1p-54 / p.beta), s = gaf_float((int32_t)((127 - e) << 23)), a = gaf_abs(g);
    float x = gaf_times(a, p.beta * (double)s);
    float u = s + x;
    float lost = x - (u - s);
    uint32_t b = (uint32_t)gaf_bits(u) + (e << 23) - 0x3f400000u; /* n, then the fraction of 1 + t */
    float m = gaf_float((int32_t)((b & 0x7fffffu) + 0x3f400000u));
    float t = (m - 1.0f) + lost * gaf_float((int32_t)(((127 + e) << 23) - (b & 0xff800000u)));
    float q = -0.04490908980369568f;
    q = q * t + 0.10448277741670609f;
    q = q * t + -0.13162223994731903f;
    q = q * t + 0.1448206752538681f;
    q = q * t + -0.16647768020629883f;
    q = q * t + 0.19990606606006622f;
    q = q * t + -0.250000536441803f;
    q = q * t + 0.3333345353603363f;
    q = q * t + -0.5f;
    float n = (float)(int32_t)(b >> 23);
    float y = n * 0.693145752f + (t + (t * (t * q) + n * 1.42860677e-6f));
    float curved = gaf_copysign(a < INFINITY ? gaf_times(y, p.alpha) : a, g);
    return a < tiny ? (float)(p.alpha * p.beta) * g : curved;
}

/* float64: the C library's functions are accurate; only the ends of the range need care. */
#define GAF_TINY64 0x1p-54

GAF_INLINE double gaf_arctan_f64(double g, gaf_factors p) {
    double x = p.beta * g;
    return fabs(x) < GAF_TINY64 ? (p.alpha * p.beta) * g : p.alpha * atan(x);
}

GAF_INLINE double gaf_tanh_f64(double g, gaf_factors p) {
    double x = p.beta * g;
    return fabs(x) < GAF_TINY64 ? (p.alpha * p.beta) * g : p.alpha * tanh(x);
}

GAF_INLINE double gaf_log_f64(double g, gaf_factors p) {
    double a = fabs(g), x = p.beta * a;
    double y = x < 0x1p100 ? log1p(x) : log(a) + log(p.beta);
    return x < GAF_TINY64 ? (p.alpha * p.beta) * g : copysign(p.alpha * y, g);
}

#endif
