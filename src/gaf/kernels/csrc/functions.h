/* The formulas, once: each shares its name with the Python function it implements.
 *
 * Branch-free scalar code that compilers turn into vectors of any width. Each takes g anywhere in float32, where
 * beta * g may underflow or overflow though f(g) does not, to within 4 units in the last place.
 * The coefficients are minimax fits; with each stands the relative error of the fit.
 */
#ifndef GAF_FUNCTIONS_H
#define GAF_FUNCTIONS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define GAF_INLINE static inline __attribute__((always_inline))

/* a * b + c with one rounding where the instruction set has it (GAF_HAS_FMA is set by the file that includes this
 * one), where it matters which product is taken up. Compilers make it of a * b + c, too. */
#ifdef GAF_HAS_FMA
#define GAF_FMA(a, b, c) _Generic((a), float: __builtin_fmaf, default: __builtin_fma)(a, b, c)
#else
#define GAF_FMA(a, b, c) ((a) * (b) + (c))
#endif

typedef struct {
    double alpha, beta;
} gaf_factors;

/* Those of g -> f(scale * g): no element need be multiplied. */
GAF_INLINE gaf_factors gaf_scaled(gaf_factors p, double scale) { return (gaf_factors){p.alpha, scale * p.beta}; }

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

/* y, or -y where `sign` is negative. */
GAF_INLINE float gaf_with_sign(float y, float sign) {
    return gaf_float(gaf_bits(y) ^ (gaf_bits(sign) & (int32_t)0x80000000));
}

/* x where `all` is -1, 0 where it is 0: cheaper than a select, and 0 * inf is not NaN. */
GAF_INLINE float gaf_keep_f32(float x, int32_t all) { return gaf_float(gaf_bits(x) & all); }

GAF_INLINE double gaf_keep_f64(double x, int32_t all) {
    int64_t i;
    memcpy(&i, &x, sizeof i);
    i &= (int64_t)all;
    memcpy(&x, &i, sizeof x);
    return x;
}

/* a >= 0, at most `limit`; NaN stays. */
GAF_INLINE float gaf_at_most(float a, float limit) { return a > limit ? limit : a; }

/* A double as the sum of two floats. */
#define GAF_HIGH(factor) ((float)(factor))
#define GAF_LOW(factor) ((float)((factor) - (double)(float)(factor)))

/* x * factor for a finite x, and x * factor + more, without the error of rounding the factor to float32 first. */
#ifdef GAF_HAS_FMA
GAF_INLINE float gaf_times(float x, double factor) { return GAF_FMA(x, GAF_HIGH(factor), x * GAF_LOW(factor)); }
GAF_INLINE float gaf_times_plus(float x, double factor, float more) {
    return GAF_FMA(x, GAF_HIGH(factor), GAF_FMA(x, GAF_LOW(factor), more));
}
#else
GAF_INLINE float gaf_times(float x, double factor) { return (float)((double)x * factor); }
GAF_INLINE float gaf_times_plus(float x, double factor, float more) { return (float)((double)x * factor + (double)more); }
#endif

/* f(|g|) from an approximation of f(|g|) whose beta |g| was made larger by GAF_UP: f is concave, and where that shows
 * it passes the line slope |g|, which there is f(|g|) to the last place. So nothing underflows near 0 (not even for g = 0,
 * which is common; some processors are slow with subnormal numbers). Log's approximation is NaN at infinity, where the
 * line is infinite. */
#define GAF_UP 0x1p-60f

GAF_INLINE float gaf_below_line(float approximation, float a, gaf_factors p) {
    float line = (float)(p.alpha * p.beta) * a;
    return approximation < line ? approximation : line;
}

/* (atan(r) / r - 1) / z on [0, 1] in z = r^2: 1.7e-8 of atan(r). */
GAF_INLINE float gaf_atan_polynomial(float z) {
    float q = 0.0029197544790804386f * z + -0.016364235430955887f;
    q = q * z + 0.043205972760915756f;
    q = q * z + -0.07551728934049606f;
    q = q * z + 0.10665786266326904f;
    q = q * z + -0.14211003482341766f;
    q = q * z + 0.19993767142295837f;
    return q * z + -0.33333152532577515f;
}

/* alpha * atan(beta * g): alpha (r + r z q) with r = x = beta |g| up to 1, beyond alpha (pi/2 + r + r z q) with
 * r = -1 / x. Where x overflows -1 / x is 0. */
GAF_INLINE float gaf_arctan_f32(float g, gaf_factors p) {
    float a = gaf_abs(g), x = GAF_FMA(a, (float)p.beta, GAF_UP), inverse = -1.0f / x;
    float r = x > 1.0f ? inverse : x;
    float quarter = x > 1.0f ? 1.57079632679489662f : 0.0f;
    float z = r * r;
    float angle = quarter + GAF_FMA(r * z, gaf_atan_polynomial(z), r);
    return gaf_with_sign(gaf_below_line(gaf_times(angle, p.alpha), a, p), g);
}

/* alpha * tanh(beta * g) = alpha * e / (-2 - e) with e = expm1(x), x = -2 |beta g|; beyond 9.5 tanh is 1.
 * expm1(r) on [-ln 2 / 2, ln 2 / 2]: 1.4e-8. ln 2 is within 3e-9 of a float32, so one part of it is enough. */
GAF_INLINE float gaf_tanh_f32(float g, gaf_factors p) {
    float a = gaf_abs(g), x = gaf_times_plus(gaf_at_most(a, (float)(9.5 / p.beta)), -2.0 * p.beta, -GAF_UP);
    float shifted = x * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: the integer part lands in the low bits */
    float n = shifted - 12582912.0f;
    float r = n * -0.693147182f + x;
    float r2 = r * r;
    float q = 0.0013869948452338576f * r + 0.008366253226995468f;
    q = q * r + 0.04166744276881218f;
    q = q * r + 0.1666654646396637f;
    q = q * r + 0.4999999701976776f;
    float m = r2 * q + r;
    float power = gaf_float((int32_t)(((uint32_t)gaf_bits(shifted) << 23) + 0x3f800000u)); /* 2^n */
    float e = power * m + (power - 1.0f);
    return gaf_with_sign(gaf_below_line(gaf_times(e, p.alpha) / (-2.0f - e), a, p), g);
}

/* alpha * sign(g) * ln(1 + beta |g|). Everything is scaled by s = 2^-e, so that s beta <= 1/4 and s beta |g|
 * stays below 2^126. With s (1 + x) = 2^k (1 + t), t in [-1/4, 1/2), what the sum s + s x loses is put back into t;
 * then ln(1 + x) = n ln 2 + ln(1 + t) with n = k + e. (ln(1 + t) - t) / t^2 there: 2.8e-8 of ln(1 + t). */
GAF_INLINE float gaf_log_f32(float g, gaf_factors p) {
    int32_t exponent = (gaf_bits((float)p.beta) >> 23) - 124;
    uint32_t e = exponent > 0 ? (uint32_t)exponent : 0;
    float s = gaf_float((int32_t)((127 - e) << 23)), a = gaf_abs(g);
    float x = gaf_times_plus(a, p.beta * (double)s, s * GAF_UP);
    float u = s + x;
    float lost = x - (u - s);
    uint32_t b = (uint32_t)gaf_bits(u) + ((e << 23) - 0x3f400000u); /* n, then the fraction of 1 + t */
    uint32_t n = b & 0xff800000u;
    float m = gaf_float((int32_t)(b - n + 0x3f400000u));
    float t = (m - 1.0f) + lost * gaf_float((int32_t)(((127 + e) << 23) - n));
    float q = 0.054145447909832f * t + -0.12066861242055893f;
    q = q * t + 0.14982286095619202f;
    q = q * t + -0.1682235449552536f;
    q = q * t + 0.19977208971977234f;
    q = q * t + -0.24993489682674408f;
    q = q * t + 0.3333354592323303f;
    q = q * t + -0.5000005960464478f;
    float t2 = t * t;
    float y = (float)(int32_t)n * (0.693147182f * 0x1p-23f) + (t + t2 * q); /* ln 2 is within 3e-9 of a float32 */
    return gaf_with_sign(gaf_below_line(gaf_times(y, p.alpha), a, p), g);
}

/* What nears its bound like 1 / x is at it from here on, to the last place; the square is still a float32. */
#define GAF_FAR 0x1p60

/* x = beta |g|, at most GAF_FAR and larger by GAF_UP. */
GAF_INLINE float gaf_far_f32(float a, gaf_factors p) {
    return gaf_times_plus(gaf_at_most(a, (float)(GAF_FAR / p.beta)), p.beta, GAF_UP);
}

/* alpha times a share of it that is 1 at infinity, even where beta is so small that GAF_FAR / beta is no float32. */
GAF_INLINE float gaf_share_f32(float share, float g, gaf_factors p) {
    float a = gaf_abs(g), s = a > 0x1.fffffep127f ? 1.0f : share;
    return gaf_with_sign(gaf_below_line(gaf_times(s, p.alpha), a, p), g);
}

/* alpha * x / (1 + x) with x = beta |g|, and the sign of g. */
GAF_INLINE float gaf_softsign_f32(float g, gaf_factors p) {
    float x = gaf_far_f32(gaf_abs(g), p);
    return gaf_share_f32(x / (1.0f + x), g, p);
}

/* alpha * x / sqrt(1 + x^2) with x = beta |g|, and the sign of g. */
GAF_INLINE float gaf_algebraic_f32(float g, gaf_factors p) {
    float x = gaf_far_f32(gaf_abs(g), p);
    return gaf_share_f32(x / __builtin_sqrtf(GAF_FMA(x, x, 1.0f)), g, p);
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
    return x < GAF_TINY64 ? (p.alpha * p.beta) * g : p.alpha * copysign(y, g);
}

/* beta |g|, at most GAF_FAR; NaN stays. */
GAF_INLINE double gaf_far_f64(double g, gaf_factors p) {
    double x = p.beta * fabs(g);
    return x > GAF_FAR ? GAF_FAR : x;
}

GAF_INLINE double gaf_softsign_f64(double g, gaf_factors p) {
    double x = gaf_far_f64(g, p);
    return x < GAF_TINY64 ? (p.alpha * p.beta) * g : p.alpha * copysign(x / (1.0 + x), g);
}

GAF_INLINE double gaf_algebraic_f64(double g, gaf_factors p) {
    double x = gaf_far_f64(g, p);
    return x < GAF_TINY64 ? (p.alpha * p.beta) * g : p.alpha * copysign(x / sqrt(1.0 + x * x), g);
}

/* f(x / y) for y >= 0 and beta = 1, where 0 / 0 is 0: what stands behind Adam's moments. */
#define GAF_RATIO(NAME, C, SUFFIX)                                                          \
    GAF_INLINE C gaf_##NAME##_ratio_##SUFFIX(C x, C y, double alpha) {                      \
        return gaf_##NAME##_##SUFFIX(x == 0 ? x : x / y, (gaf_factors){alpha, 1.0});        \
    }
GAF_RATIO(arctan, double, f64)
GAF_RATIO(tanh, float, f32)
GAF_RATIO(tanh, double, f64)
GAF_RATIO(log, float, f32)
GAF_RATIO(log, double, f64)
GAF_RATIO(softsign, float, f32)
GAF_RATIO(softsign, double, f64)
GAF_RATIO(algebraic, float, f32)
GAF_RATIO(algebraic, double, f64)

/* alpha * atan2(x, y) by one division, that of the smaller by the larger. y is 0 or far above the smallest normal
 * number, as a root is: where both are below it, y is 0, and the quotient too. */
GAF_INLINE float gaf_arctan_ratio_f32(float x, float y, double alpha) {
    float a = gaf_abs(x), larger = a > y ? a : y, smaller = a > y ? y : a;
    float r = smaller / (larger < 0x1p-126f ? 0x1p-126f : larger), z = r * r;
    float angle = r + r * (z * gaf_atan_polynomial(z));
    return gaf_with_sign((float)alpha * (a > y ? 1.57079632679489662f - angle : angle), x);
}

/* Every function, in the order of their numbers. */
#define GAF_EACH_FUNCTION(X, TYPE) X(arctan, TYPE) X(tanh, TYPE) X(log, TYPE) X(softsign, TYPE) X(algebraic, TYPE)

#endif
