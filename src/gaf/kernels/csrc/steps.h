/* The loops over elements, written once and compiled once per instruction set (isa_*.c).
 *
 * SGD: the loops differ in where f stands, before the velocity ("gradient") or after it ("momentum" and "update",
 * which differ only in the two factors `inner` and `outer`), and in the velocity: none, one, Nesterov's:
 *   d = inner * (sign * f?(g / scale) + decay * w);  v = momentum * v + gain * d;  w = shrink * w + outer * f?(u)
 * with u = d, v, or d + momentum * v. Factors that do not depend on the element are multiplied with one another
 * beforehand; where f comes first the loss's scale goes to beta.
 *
 * Adam: f stands before the moments ("gradient") or after their ratio ("momentum" and "update", which differ in `size`
 * and `outer`): w = shrink * w + outer * f(size * m / (sqrt(v) / root + eps)), where 0 / 0 is 0. USUAL is the loop
 * for a beta1 of 1/2 or more and no L2 decay, which has less to do.
 */
#include "elements.h"
#include "gaf.h"

#define GAF_PLAIN(x) (x)

/* A loop takes its elements in strips of a fixed length: the compiler unrolls a strip into independent vectors, and
 * before each strip one further ahead is fetched, so that the arithmetic of one overlaps with the loads of the next.
 * Each isa_*.c says how many elements its registers have room for: GAF_SGD_STRIP for SGD, GAF_STRIP for all else.
 * The factors of a step are converted once, before the strips: left to the compiler that would be done for each. */
#define GAF_FETCH 2048 /* bytes ahead; beyond the end of a tensor a prefetch does nothing */

GAF_INLINE void gaf_prefetch(const void *p, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch((const char *)p + GAF_FETCH + i);
}

#define GAF_SGD(NAME, FUNCTION, E, C, LOAD, STORE, SUFFIX, BEFORE, CARRY, NESTEROV)                                    \
    typedef struct {                                                                                                   \
        gaf_factors factors;                                                                                           \
        C scale, decay, momentum, gain, shrink, outer;                                                                 \
        int32_t decays; /* -1 or 0, for gaf_keep */                                                                    \
    } NAME##_constants;                                                                                                \
    GAF_INLINE void NAME##_strip(NAME##_constants k, E *restrict w, const E *restrict g, E *restrict v, ptrdiff_t n) { \
        for (ptrdiff_t i = 0; i < n; i++) {                                                                            \
            C weight = LOAD(w[i]);                                                                                     \
            C d = LOAD(g[i]);                                                                                          \
            if (BEFORE) d = gaf_##FUNCTION##_##SUFFIX(d, k.factors);                                                   \
            d = GAF_FMA(k.scale, d, k.decay * gaf_keep_##SUFFIX(weight, k.decays));                                    \
            C u = d;                                                                                                   \
            if (CARRY) {                                                                                               \
                C carried = GAF_FMA(k.gain, d, k.momentum * (C)LOAD(v[i]));                                            \
                v[i] = STORE(carried);                                                                                 \
                u = NESTEROV ? GAF_FMA(k.momentum, carried, d) : carried;                                              \
            }                                                                                                          \
            if (!BEFORE) u = gaf_##FUNCTION##_##SUFFIX(u, k.factors);                                                  \
            w[i] = STORE(GAF_FMA(k.outer, u, k.shrink * weight));                                                      \
        }                                                                                                              \
    }                                                                                                                  \
    static void NAME(const gaf_sgd_args *restrict s, void *restrict w_, const void *restrict g_, void *restrict v_,    \
                     ptrdiff_t n) {                                                                                    \
        E *restrict w = w_;                                                                                            \
        const E *restrict g = g_;                                                                                      \
        E *restrict v = v_;                                                                                            \
        const NAME##_constants k = {                                                                                   \
            .factors = BEFORE ? gaf_scaled(s->factors, s->inverse_scale) : s->factors,                                 \
            .scale = (C)(s->sign * s->inner * (BEFORE ? 1.0 : s->inverse_scale)),                                      \
            .decay = (C)(s->inner * s->weight_decay),                                                                  \
            .momentum = (C)s->momentum,                                                                                \
            .gain = (C)s->gain,                                                                                        \
            .shrink = (C)s->shrink,                                                                                    \
            .outer = (C)s->outer,                                                                                      \
            .decays = -(s->weight_decay != 0),                                                                         \
        };                                                                                                             \
        for (; n >= GAF_SGD_STRIP; n -= GAF_SGD_STRIP) {                                                               \
            gaf_prefetch(w, GAF_SGD_STRIP * sizeof(E)), gaf_prefetch(g, GAF_SGD_STRIP * sizeof(E));                    \
            if (CARRY) gaf_prefetch(v, GAF_SGD_STRIP * sizeof(E));                                                     \
            NAME##_strip(k, w, g, v, GAF_SGD_STRIP);                                                                   \
            w += GAF_SGD_STRIP, g += GAF_SGD_STRIP;                                                                    \
            if (CARRY) v += GAF_SGD_STRIP;                                                                             \
        }                                                                                                              \
        NAME##_strip(k, w, g, v, n);                                                                                   \
    }

#define GAF_ADAM(NAME, FUNCTION, E, C, LOAD, STORE, SUFFIX, SQRT, BEFORE, AMSGRAD, USUAL)                              \
    typedef struct {                                                                                                   \
        gaf_factors factors;                                                                                           \
        C sign, shrink, decay, rate, beta2, one_minus_beta2, eps, size, outer, inverse_root;                           \
        int32_t decays; /* -1 or 0, for gaf_keep */                                                                    \
        int near;                                                                                                      \
    } NAME##_constants;                                                                                                \
    GAF_INLINE void NAME##_strip(NAME##_constants k, E *restrict w, const E *restrict g, E *restrict m, E *restrict v, \
                                 E *restrict top, ptrdiff_t n) {                                                       \
        for (ptrdiff_t i = 0; i < n; i++) {                                                                            \
            C weight = LOAD(w[i]);                                                                                     \
            C d = LOAD(g[i]);                                                                                          \
            if (BEFORE) d = gaf_##FUNCTION##_##SUFFIX(d, k.factors);                                                   \
            if (!USUAL)                                                                                                \
                d = GAF_FMA(k.sign, d, k.decay * gaf_keep_##SUFFIX(weight, k.decays));                                 \
            else if (!BEFORE)                                                                                          \
                d = k.sign * d;                                                                                        \
            C mean = LOAD(m[i]), way = USUAL && BEFORE ? GAF_FMA(k.sign, d, -mean) : d - mean;                         \
            mean = GAF_FMA(k.rate, way, USUAL || k.near ? mean : d); /* from the nearer end, as torch's lerp */        \
            C square = GAF_FMA(k.one_minus_beta2 * d, d, k.beta2 * (C)LOAD(v[i]));                                     \
            m[i] = STORE(mean);                                                                                        \
            v[i] = STORE(square);                                                                                      \
            if (AMSGRAD) {                                                                                             \
                C old = LOAD(top[i]);                                                                                  \
                square = square > old || square != square ? square : old;                                              \
                top[i] = STORE(square);                                                                                \
            }                                                                                                          \
            C above = k.size * mean, below = GAF_FMA(SQRT(square), k.inverse_root, k.eps);                             \
            C step = BEFORE ? above / below : k.outer * gaf_##FUNCTION##_ratio_##SUFFIX(above, below, k.factors.alpha);\
            w[i] = STORE(GAF_FMA(k.shrink, weight, step));                                                             \
        }                                                                                                              \
    }                                                                                                                  \
    static void NAME(const gaf_adam_args *restrict s, void *restrict w_, const void *restrict g_, void *restrict m_,   \
                     void *restrict v_, void *restrict top_, double step_size, double root_correction, ptrdiff_t n) {  \
        E *restrict w = w_;                                                                                            \
        const E *restrict g = g_;                                                                                      \
        E *restrict m = m_;                                                                                            \
        E *restrict v = v_;                                                                                            \
        E *restrict top = top_;                                                                                        \
        /* behind the moments beta goes to the side of the ratio that it makes larger: nothing underflows */           \
        const double above = !BEFORE && s->factors.beta > 1.0 ? s->factors.beta : 1.0;                                 \
        const double below = !BEFORE && s->factors.beta < 1.0 ? 1.0 / s->factors.beta : 1.0;                           \
        const NAME##_constants k = {                                                                                   \
            .factors = BEFORE ? gaf_scaled(s->factors, s->inverse_scale) : s->factors,                                 \
            .sign = (C)(s->sign * (BEFORE ? 1.0 : s->inverse_scale)),                                                  \
            .shrink = (C)s->shrink,                                                                                    \
            .decay = (C)s->weight_decay,                                                                               \
            .rate = (C)(s->one_minus_beta1 < 0.5 ? s->one_minus_beta1 : s->one_minus_beta1 - 1.0),                     \
            .beta2 = (C)s->beta2,                                                                                      \
            .one_minus_beta2 = (C)s->one_minus_beta2,                                                                  \
            .eps = (C)(below * (s->eps_hat ? s->eps / root_correction : s->eps)),                                      \
            .size = (C)(above * step_size),                                                                            \
            .outer = (C)s->outer,                                                                                      \
            .inverse_root = (C)(below / root_correction),                                                              \
            .decays = -(s->weight_decay != 0),                                                                         \
            .near = s->one_minus_beta1 < 0.5,                                                                          \
        };                                                                                                             \
        for (; n >= GAF_STRIP; n -= GAF_STRIP) {                                                                       \
            gaf_prefetch(w, GAF_STRIP * sizeof(E)), gaf_prefetch(g, GAF_STRIP * sizeof(E));                            \
            gaf_prefetch(m, GAF_STRIP * sizeof(E)), gaf_prefetch(v, GAF_STRIP * sizeof(E));                            \
            if (AMSGRAD) gaf_prefetch(top, GAF_STRIP * sizeof(E));                                                     \
            NAME##_strip(k, w, g, m, v, top, GAF_STRIP);                                                               \
            w += GAF_STRIP, g += GAF_STRIP, m += GAF_STRIP, v += GAF_STRIP;                                            \
            if (AMSGRAD) top += GAF_STRIP;                                                                             \
        }                                                                                                              \
        NAME##_strip(k, w, g, m, v, top, n);                                                                           \
    }

/* f in place; returns the bits of the largest absolute value seen, which order as the values do, NaN above inf. */
#define GAF_ACTIVATE(NAME, FUNCTION, E, C, LOAD, STORE, SUFFIX, BITS, MASK)                             \
    GAF_INLINE BITS NAME##_strip(const gaf_factors *restrict factors, void *restrict g_, ptrdiff_t n) { \
        E *restrict g = g_;                                                                             \
        const gaf_factors p = *factors;                                                                 \
        BITS largest = 0;                                                                               \
        for (ptrdiff_t i = 0; i < n; i++) {                                                             \
            C x = LOAD(g[i]);                                                                           \
            BITS bits;                                                                                  \
            memcpy(&bits, &x, sizeof bits);                                                             \
            bits &= MASK;                                                                               \
            largest = bits > largest ? bits : largest;                                                  \
            g[i] = STORE(gaf_##FUNCTION##_##SUFFIX(x, p));                                              \
        }                                                                                               \
        return largest;                                                                                 \
    }                                                                                                   \
    static int64_t NAME(const gaf_factors *restrict factors, void *restrict g, ptrdiff_t n) {           \
        BITS largest = 0, bits;                                                                         \
        for (; n >= GAF_STRIP; n -= GAF_STRIP, g = (E *)g + GAF_STRIP) {                                \
            gaf_prefetch(g, GAF_STRIP * sizeof(E));                                                     \
            bits = NAME##_strip(factors, g, GAF_STRIP);                                                 \
            largest = bits > largest ? bits : largest;                                                  \
        }                                                                                               \
        bits = NAME##_strip(factors, g, n);                                                             \
        return (int64_t)(bits > largest ? bits : largest);                                              \
    }

/* The limit that bandwidth sets: the bytes of a step (SGD, or Adam with m) and no function. `zero` is 0, so that all
 * values stay; the compiler does not know. */
GAF_INLINE void gaf_stream_strip(float *restrict w, const float *restrict g, float *restrict v, float *restrict m,
                                 float zero, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; i++) {
        float d = zero * g[i];
        w[i] += d, v[i] += d;
        if (m) m[i] += d;
    }
}

void GAF_STREAM(float *restrict w, const float *restrict g, float *restrict v, float *restrict m, float zero,
                ptrdiff_t n) {
    for (; n >= GAF_STRIP; n -= GAF_STRIP, w += GAF_STRIP, g += GAF_STRIP, v += GAF_STRIP) {
        gaf_prefetch(w, GAF_STRIP * sizeof *w), gaf_prefetch(g, GAF_STRIP * sizeof *g), gaf_prefetch(v, GAF_STRIP * sizeof *v);
        if (m) gaf_prefetch(m, GAF_STRIP * sizeof *m);
        gaf_stream_strip(w, g, v, m, zero, GAF_STRIP);
        if (m) m += GAF_STRIP;
    }
    gaf_stream_strip(w, g, v, m, zero, n);
}

#define GAF_LOOPS(FUNCTION, TYPE, E, C, LOAD, STORE, SUFFIX, SQRT, BITS, MASK)                  \
    GAF_SGD(sgd_before_##FUNCTION##_##TYPE, FUNCTION, E, C, LOAD, STORE, SUFFIX, 1, 0, 0)       \
    GAF_SGD(sgdm_before_##FUNCTION##_##TYPE, FUNCTION, E, C, LOAD, STORE, SUFFIX, 1, 1, 0)      \
    GAF_SGD(nesterov_before_##FUNCTION##_##TYPE, FUNCTION, E, C, LOAD, STORE, SUFFIX, 1, 1, 1)  \
    GAF_SGD(sgd_after_##FUNCTION##_##TYPE, FUNCTION, E, C, LOAD, STORE, SUFFIX, 0, 0, 0)        \
    GAF_SGD(sgdm_after_##FUNCTION##_##TYPE, FUNCTION, E, C, LOAD, STORE, SUFFIX, 0, 1, 0)       \
    GAF_SGD(nesterov_after_##FUNCTION##_##TYPE, FUNCTION, E, C, LOAD, STORE, SUFFIX, 0, 1, 1)   \
    GAF_ADAM(usual_adam_before_##FUNCTION##_##TYPE, FUNCTION, E, C, LOAD, STORE, SUFFIX, SQRT, 1, 0, 1)     \
    GAF_ADAM(adam_before_##FUNCTION##_##TYPE, FUNCTION, E, C, LOAD, STORE, SUFFIX, SQRT, 1, 0, 0)    \
    GAF_ADAM(amsgrad_before_##FUNCTION##_##TYPE, FUNCTION, E, C, LOAD, STORE, SUFFIX, SQRT, 1, 1, 0) \
    GAF_ADAM(usual_adam_after_##FUNCTION##_##TYPE, FUNCTION, E, C, LOAD, STORE, SUFFIX, SQRT, 0, 0, 1)\
    GAF_ADAM(adam_after_##FUNCTION##_##TYPE, FUNCTION, E, C, LOAD, STORE, SUFFIX, SQRT, 0, 0, 0)     \
    GAF_ADAM(amsgrad_after_##FUNCTION##_##TYPE, FUNCTION, E, C, LOAD, STORE, SUFFIX, SQRT, 0, 1, 0)  \
    GAF_ACTIVATE(activate_##FUNCTION##_##TYPE, FUNCTION, E, C, LOAD, STORE, SUFFIX, BITS, MASK)

#define GAF_TYPES(FUNCTION)                                                                                    \
    GAF_LOOPS(FUNCTION, f32, float, float, GAF_PLAIN, GAF_PLAIN, f32, sqrtf, int32_t, 0x7fffffff)              \
    GAF_LOOPS(FUNCTION, f64, double, double, GAF_PLAIN, GAF_PLAIN, f64, sqrt, int64_t, 0x7fffffffffffffff)     \
    GAF_LOOPS(FUNCTION, bf16, uint16_t, float, gaf_load_bf16, gaf_store_bf16, f32, sqrtf, int32_t, 0x7fffffff) \
    GAF_LOOPS(FUNCTION, f16, uint16_t, float, gaf_load_f16, gaf_store_f16, f32, sqrtf, int32_t, 0x7fffffff)

GAF_TYPES(arctan)
GAF_TYPES(tanh)
GAF_TYPES(log)
GAF_TYPES(softsign)
GAF_TYPES(algebraic)

#define GAF_ENTRY(FUNCTION, TYPE)                                                                                                 \
    {                                                                                                                             \
        {{sgd_before_##FUNCTION##_##TYPE, sgdm_before_##FUNCTION##_##TYPE, nesterov_before_##FUNCTION##_##TYPE},                  \
         {sgd_after_##FUNCTION##_##TYPE, sgdm_after_##FUNCTION##_##TYPE, nesterov_after_##FUNCTION##_##TYPE}},                    \
            {{usual_adam_before_##FUNCTION##_##TYPE, adam_before_##FUNCTION##_##TYPE, amsgrad_before_##FUNCTION##_##TYPE},               \
             {usual_adam_after_##FUNCTION##_##TYPE, adam_after_##FUNCTION##_##TYPE, amsgrad_after_##FUNCTION##_##TYPE}},          \
            activate_##FUNCTION##_##TYPE                                                                                          \
    }

/* In the order of the enums of gaf.h. */
#define GAF_ENTRIES(FUNCTION)                                                                                   \
    { GAF_ENTRY(FUNCTION, f32), GAF_ENTRY(FUNCTION, f64), GAF_ENTRY(FUNCTION, bf16), GAF_ENTRY(FUNCTION, f16) }

const gaf_loops GAF_TABLE[GAF_FUNCTIONS][GAF_TYPES_COUNT] = {GAF_ENTRIES(arctan), GAF_ENTRIES(tanh),
                                                             GAF_ENTRIES(log),    GAF_ENTRIES(softsign),
                                                             GAF_ENTRIES(algebraic)};
