/* The loops over elements, written once and compiled once per instruction set (isa_*.c).
 *
 * SGD: the two loops differ in where f stands, before the velocity ("gradient") or after it ("momentum" and
 * "update", which differ only in the two factors `inner` and `outer`):
 *   d = inner * (f?(sign * g / scale) + decay * w);  v = momentum * v + gain * d;  w = w + outer * f?(u)
 * Everything that is the same for all elements is a factor or a select the compiler lifts out of the loop.
 */
#include "elements.h"
#include "gaf.h"

#define GAF_PLAIN(x) (x)

/* A loop takes its elements in strips of a fixed length: the compiler unrolls a strip into independent vectors, and
 * before each strip one further ahead is fetched, so that the arithmetic of one overlaps with the loads of the next. */
#define GAF_STRIP 32      /* elements; Adam's four tensors and its arithmetic leave registers for no more */
#define GAF_SGD_STRIP 64
#define GAF_FETCH 2048    /* bytes ahead; beyond the end of a tensor a prefetch does nothing */

GAF_INLINE void gaf_prefetch(const void *p, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch((const char *)p + GAF_FETCH + i);
}

#define GAF_SGD(NAME, FUNCTION, TYPE, E, C, LOAD, STORE, SUFFIX, BEFORE, CARRY)                                   \
    GAF_INLINE void NAME##_strip(const gaf_sgd_args *restrict s, void *restrict w_, const void *restrict g_,      \
                     void *restrict v_, int fresh, ptrdiff_t n) {                                                 \
        E *restrict w = w_;                                                                                       \
        const E *restrict g = g_;                                                                                 \
        E *restrict v = v_;                                                                                       \
        const gaf_factors p = s->factors;                                                                         \
        const C scale = (C)(s->sign * s->inverse_scale), decay = (C)s->weight_decay;                              \
        const C inner = (C)s->inner, outer = (C)s->outer, momentum = (C)s->momentum;                              \
        const C gain = (C)s->gain;                                                                                \
        const int decays = s->weight_decay != 0, nesterov = s->nesterov;                                          \
        for (ptrdiff_t i = 0; i < n; i++) {                                                                       \
            C weight = LOAD(w[i]);                                                                                \
            C d = scale * (C)LOAD(g[i]);                                                                          \
            if (BEFORE) d = gaf_##FUNCTION##_##SUFFIX(d, p);                                                      \
            d = decays ? GAF_FMA(decay, weight, d) : d;                                                           \
            if (!BEFORE) d = inner * d;                                                                           \
            C u = d;                                                                                              \
            if (CARRY) {                                                                                          \
                C carried = GAF_FMA(momentum, (C)LOAD(v[i]), gain * d);                                           \
                carried = fresh ? d : carried;                                                                    \
                v[i] = STORE(carried);                                                                            \
                u = nesterov ? GAF_FMA(momentum, carried, d) : carried;                                           \
            }                                                                                                     \
            if (!BEFORE) u = gaf_##FUNCTION##_##SUFFIX(u, p);                                                     \
            w[i] = STORE(GAF_FMA(outer, u, weight));                                                              \
        }                                                                                                         \
    }                                                                                                             \
    static void NAME(const gaf_sgd_args *restrict s, void *restrict w, const void *restrict g, void *restrict v,  \
                     int fresh, ptrdiff_t n) {                                                                    \
        for (; n >= GAF_SGD_STRIP; n -= GAF_SGD_STRIP) {                                                          \
            gaf_prefetch(w, GAF_SGD_STRIP * sizeof(E)), gaf_prefetch(g, GAF_SGD_STRIP * sizeof(E));               \
            if (CARRY) gaf_prefetch(v, GAF_SGD_STRIP * sizeof(E));                                                \
            NAME##_strip(s, w, g, v, fresh, GAF_SGD_STRIP);                                                       \
            w = (E *)w + GAF_SGD_STRIP, g = (const E *)g + GAF_SGD_STRIP;                                         \
            if (CARRY) v = (E *)v + GAF_SGD_STRIP;                                                                \
        }                                                                                                         \
        NAME##_strip(s, w, g, v, fresh, n);                                                                       \
    }

#define GAF_ADAM(NAME, FUNCTION, TYPE, E, C, LOAD, STORE, SUFFIX, SQRT, AMSGRAD)                                  \
    GAF_INLINE void NAME##_strip(const gaf_adam_args *restrict s, void *restrict w_, const void *restrict g_,     \
                     void *restrict m_, void *restrict v_, void *restrict top_, double step_size,                 \
                     double root_correction, ptrdiff_t n) {                                                       \
        E *restrict w = w_;                                                                                       \
        const E *restrict g = g_;                                                                                 \
        E *restrict m = m_;                                                                                       \
        E *restrict v = v_;                                                                                       \
        E *restrict top = top_;                                                                                   \
        const gaf_factors p = s->factors;                                                                         \
        const C scale = (C)(s->sign * s->inverse_scale), shrink = (C)s->shrink;                                   \
        const C decay = (C)s->weight_decay, rate = (C)s->rate;                                                    \
        const C beta2 = (C)s->beta2, one_minus_beta2 = (C)s->one_minus_beta2, eps = (C)s->eps;                    \
        const C size = (C)step_size, inverse_root = (C)(1.0 / root_correction);                                   \
        const int decays = s->weight_decay != 0, near = s->one_minus_beta1 < 0.5;                                 \
        for (ptrdiff_t i = 0; i < n; i++) {                                                                       \
            C weight = shrink * (C)LOAD(w[i]);                                                                    \
            C d = gaf_##FUNCTION##_##SUFFIX(scale * (C)LOAD(g[i]), p);                                            \
            d = decays ? GAF_FMA(decay, weight, d) : d;                                                           \
            C mean = LOAD(m[i]);                                                                                  \
            mean = GAF_FMA(rate, d - mean, near ? mean : d); /* from the nearer end, as torch's lerp */           \
            C square = GAF_FMA(beta2, (C)LOAD(v[i]), one_minus_beta2 * (d * d));                                  \
            m[i] = STORE(mean);                                                                                   \
            v[i] = STORE(square);                                                                                 \
            if (AMSGRAD) {                                                                                        \
                C old = LOAD(top[i]);                                                                             \
                square = square > old || square != square ? square : old;                                         \
                top[i] = STORE(square);                                                                           \
            }                                                                                                     \
            w[i] = STORE(weight - size * mean / (SQRT(square) * inverse_root + eps));                             \
        }                                                                                                         \
    }                                                                                                             \
    static void NAME(const gaf_adam_args *restrict s, void *restrict w, const void *restrict g, void *restrict m, \
                     void *restrict v, void *restrict top, double step_size, double root_correction, ptrdiff_t n) {\
        for (; n >= GAF_STRIP; n -= GAF_STRIP) {                                                                  \
            gaf_prefetch(w, GAF_STRIP * sizeof(E)), gaf_prefetch(g, GAF_STRIP * sizeof(E));                       \
            gaf_prefetch(m, GAF_STRIP * sizeof(E)), gaf_prefetch(v, GAF_STRIP * sizeof(E));                       \
            if (AMSGRAD) gaf_prefetch(top, GAF_STRIP * sizeof(E));                                                \
            NAME##_strip(s, w, g, m, v, top, step_size, root_correction, GAF_STRIP);                              \
            w = (E *)w + GAF_STRIP, g = (const E *)g + GAF_STRIP;                                                 \
            m = (E *)m + GAF_STRIP, v = (E *)v + GAF_STRIP;                                                       \
            if (AMSGRAD) top = (E *)top + GAF_STRIP;                                                              \
        }                                                                                                         \
        NAME##_strip(s, w, g, m, v, top, step_size, root_correction, n);                                          \
    }

/* f in place; returns the bits of the largest absolute value seen, which order as the values do, NaN above inf. */
#define GAF_ACTIVATE(NAME, FUNCTION, TYPE, E, C, LOAD, STORE, SUFFIX, BITS, MASK)                                 \
    GAF_INLINE BITS NAME##_strip(const gaf_factors *restrict factors, void *restrict g_, ptrdiff_t n) {           \
        E *restrict g = g_;                                                                                       \
        const gaf_factors p = *factors;                                                                           \
        BITS largest = 0;                                                                                         \
        for (ptrdiff_t i = 0; i < n; i++) {                                                                       \
            C x = LOAD(g[i]);                                                                                     \
            BITS bits;                                                                                            \
            memcpy(&bits, &x, sizeof bits);                                                                       \
            bits &= MASK;                                                                                         \
            largest = bits > largest ? bits : largest;                                                            \
            g[i] = STORE(gaf_##FUNCTION##_##SUFFIX(x, p));                                                        \
        }                                                                                                         \
        return largest;                                                                                           \
    }                                                                                                             \
    static int64_t NAME(const gaf_factors *restrict factors, void *restrict g, ptrdiff_t n) {                     \
        BITS largest = 0, bits;                                                                                   \
        for (; n >= GAF_STRIP; n -= GAF_STRIP, g = (E *)g + GAF_STRIP) {                                          \
            gaf_prefetch(g, GAF_STRIP * sizeof(E));                                                               \
            bits = NAME##_strip(factors, g, GAF_STRIP);                                                           \
            largest = bits > largest ? bits : largest;                                                            \
        }                                                                                                         \
        bits = NAME##_strip(factors, g, n);                                                                       \
        return (int64_t)(bits > largest ? bits : largest);                                                        \
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
