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

/* A loop takes its elements in strips of a fixed length: the compiler unrolls a strip into independent vectors, and
 * before each strip one further ahead is fetched, so that the arithmetic of one overlaps with the loads of the next.
 * Each isa_*.c says how many elements its registers have room for: GAF_SGD_STRIP for SGD, GAF_STRIP for all else.
 * The factors of a step are converted once, before the strips: left to the compiler that would be done for each.
 * What is left of a tensor, less than a strip, is worked on in a copy filled up with zeros: a second loop for it would
 * double the work of the compiler. */
#define GAF_NOINLINE __attribute__((noinline))
#define GAF_FETCH 2048 /* bytes ahead; beyond the end of a tensor a prefetch does nothing */

GAF_INLINE void gaf_prefetch(const void *p, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch((const char *)p + GAF_FETCH + i);
}

/* The numbers of a type, whole ones as wide, and their bits without the sign. */
typedef float real_f32;
typedef double real_f64;
typedef int32_t bits_f32;
typedef int64_t bits_f64;
#define gaf_magnitude_f32 0x7fffffff
#define gaf_magnitude_f64 0x7fffffffffffffff
#define gaf_root_f32 sqrtf
#define gaf_root_f64 sqrt

#define GAF_SGD(NAME, FUNCTION, SUFFIX, BEFORE, CARRY, NESTEROV)                                                       \
    typedef struct {                                                                                                   \
        gaf_factors factors;                                                                                           \
        real_##SUFFIX scale, decay, momentum, gain, shrink, outer;                                                     \
        int32_t decays; /* -1 or 0, for gaf_keep */                                                                    \
    } NAME##_constants;                                                                                                \
    GAF_INLINE void NAME##_strip(NAME##_constants k, real_##SUFFIX *restrict w, const real_##SUFFIX *restrict g,       \
                                 real_##SUFFIX *restrict v, ptrdiff_t n) {                                             \
        for (ptrdiff_t i = 0; i < n; i++) {                                                                            \
            real_##SUFFIX weight = w[i];                                                                               \
            real_##SUFFIX d = g[i];                                                                                    \
            if (BEFORE) d = gaf_##FUNCTION##_##SUFFIX(d, k.factors);                                                   \
            d = GAF_FMA(k.scale, d, k.decay * gaf_keep_##SUFFIX(weight, k.decays));                                    \
            real_##SUFFIX u = d;                                                                                       \
            if (CARRY) {                                                                                               \
                real_##SUFFIX carried = GAF_FMA(k.momentum, v[i], NESTEROV ? k.gain * d : d);                          \
                v[i] = carried;                                                                                        \
                u = NESTEROV ? GAF_FMA(k.momentum, carried, d) : carried;                                              \
            }                                                                                                          \
            if (!BEFORE) u = gaf_##FUNCTION##_##SUFFIX(u, k.factors);                                                  \
            w[i] = GAF_FMA(k.outer, u, k.shrink * weight);                                                             \
        }                                                                                                              \
    }                                                                                                                  \
    static GAF_NOINLINE void NAME##_strips(const NAME##_constants *restrict constants, real_##SUFFIX *restrict w,      \
                                           const real_##SUFFIX *restrict g, real_##SUFFIX *restrict v, ptrdiff_t n) {  \
        const NAME##_constants k = *constants;                                                                         \
        for (; n > 0; n -= GAF_SGD_STRIP) {                                                                            \
            gaf_prefetch(w, GAF_SGD_STRIP * sizeof *w), gaf_prefetch(g, GAF_SGD_STRIP * sizeof *g);                    \
            if (CARRY) gaf_prefetch(v, GAF_SGD_STRIP * sizeof(real_##SUFFIX));                                         \
            NAME##_strip(k, w, g, v, GAF_SGD_STRIP);                                                                   \
            w += GAF_SGD_STRIP, g += GAF_SGD_STRIP;                                                                    \
            if (CARRY) v += GAF_SGD_STRIP;                                                                             \
        }                                                                                                              \
    }                                                                                                                  \
    static void NAME(const gaf_sgd_args *restrict s, void *restrict w, const void *restrict g, void *restrict v,       \
                     ptrdiff_t n) {                                                                                    \
        const double gain = CARRY && !NESTEROV ? s->gain : 1.0; /* Nesterov's d is used without it, too */             \
        const NAME##_constants k = {                                                                                   \
            .factors = BEFORE ? gaf_scaled(s->factors, s->inverse_scale) : s->factors,                                 \
            .scale = (real_##SUFFIX)(gain * s->sign * s->inner * (BEFORE ? 1.0 : s->inverse_scale)),                   \
            .decay = (real_##SUFFIX)(gain * s->inner * s->weight_decay),                                               \
            .momentum = (real_##SUFFIX)s->momentum,                                                                    \
            .gain = (real_##SUFFIX)s->gain,                                                                            \
            .shrink = (real_##SUFFIX)s->shrink,                                                                        \
            .outer = (real_##SUFFIX)s->outer,                                                                          \
            .decays = -(s->weight_decay != 0),                                                                         \
        };                                                                                                             \
        ptrdiff_t left = n % GAF_SGD_STRIP, whole = n - left;                                                          \
        NAME##_strips(&k, w, g, v, whole);                                                                             \
        if (left) {                                                                                                    \
            real_##SUFFIX rest[3][GAF_SGD_STRIP] = {{0}};                                                              \
            size_t bytes = (size_t)left * sizeof(real_##SUFFIX);                                                       \
            memcpy(rest[0], (real_##SUFFIX *)w + whole, bytes), memcpy(rest[1], (const real_##SUFFIX *)g + whole, bytes); \
            if (CARRY) memcpy(rest[2], (real_##SUFFIX *)v + whole, bytes);                                             \
            NAME##_strips(&k, rest[0], rest[1], rest[2], GAF_SGD_STRIP);                                               \
            memcpy((real_##SUFFIX *)w + whole, rest[0], bytes);                                                        \
            if (CARRY) memcpy((real_##SUFFIX *)v + whole, rest[2], bytes);                                             \
        }                                                                                                              \
    }

#define GAF_ADAM(NAME, FUNCTION, SUFFIX, BEFORE, AMSGRAD, USUAL)                                                       \
    typedef struct {                                                                                                   \
        gaf_factors factors;                                                                                           \
        real_##SUFFIX sign, shrink, decay, rate, beta2, one_minus_beta2, eps, size, outer, inverse_root;               \
        int32_t decays; /* -1 or 0, for gaf_keep */                                                                    \
        int near;                                                                                                      \
    } NAME##_constants;                                                                                                \
    GAF_INLINE void NAME##_strip(NAME##_constants k, real_##SUFFIX *restrict w, const real_##SUFFIX *restrict g,       \
                                 real_##SUFFIX *restrict m, real_##SUFFIX *restrict v,                                 \
                                 real_##SUFFIX *restrict top, ptrdiff_t n) {                                           \
        for (ptrdiff_t i = 0; i < n; i++) {                                                                            \
            real_##SUFFIX weight = w[i];                                                                               \
            real_##SUFFIX d = g[i];                                                                                    \
            if (BEFORE) d = gaf_##FUNCTION##_##SUFFIX(d, k.factors);                                                   \
            if (!USUAL)                                                                                                \
                d = GAF_FMA(k.sign, d, k.decay * gaf_keep_##SUFFIX(weight, k.decays));                                 \
            else if (!BEFORE)                                                                                          \
                d = k.sign * d;                                                                                        \
            real_##SUFFIX mean = m[i], way = USUAL && BEFORE ? GAF_FMA(k.sign, d, -mean) : d - mean;                   \
            mean = GAF_FMA(k.rate, way, USUAL || k.near ? mean : d); /* from the nearer end, as torch's lerp */        \
            real_##SUFFIX square = GAF_FMA(k.one_minus_beta2 * d, d, k.beta2 * v[i]);                                  \
            m[i] = mean;                                                                                               \
            v[i] = square;                                                                                             \
            if (AMSGRAD) {                                                                                             \
                real_##SUFFIX old = top[i];                                                                            \
                square = square > old || square != square ? square : old;                                              \
                top[i] = square;                                                                                       \
            }                                                                                                          \
            real_##SUFFIX above = k.size * mean, below = GAF_FMA(gaf_root_##SUFFIX(square), k.inverse_root, k.eps);    \
            real_##SUFFIX step = BEFORE ? above / below : k.outer * gaf_##FUNCTION##_ratio_##SUFFIX(above, below, k.factors.alpha); \
            w[i] = GAF_FMA(k.shrink, weight, step);                                                                    \
        }                                                                                                              \
    }                                                                                                                  \
    static GAF_NOINLINE void NAME##_strips(const NAME##_constants *restrict constants, real_##SUFFIX *restrict w,      \
                                           const real_##SUFFIX *restrict g, real_##SUFFIX *restrict m, real_##SUFFIX *restrict v, real_##SUFFIX *restrict top, \
                                           ptrdiff_t n) {                                                              \
        const NAME##_constants k = *constants;                                                                         \
        for (; n > 0; n -= GAF_STRIP) {                                                                                \
            gaf_prefetch(w, GAF_STRIP * sizeof(real_##SUFFIX)), gaf_prefetch(g, GAF_STRIP * sizeof(real_##SUFFIX));    \
            gaf_prefetch(m, GAF_STRIP * sizeof(real_##SUFFIX)), gaf_prefetch(v, GAF_STRIP * sizeof(real_##SUFFIX));    \
            if (AMSGRAD) gaf_prefetch(top, GAF_STRIP * sizeof(real_##SUFFIX));                                         \
            NAME##_strip(k, w, g, m, v, top, GAF_STRIP);                                                               \
            w += GAF_STRIP, g += GAF_STRIP, m += GAF_STRIP, v += GAF_STRIP;                                            \
            if (AMSGRAD) top += GAF_STRIP;                                                                             \
        }                                                                                                              \
    }                                                                                                                  \
    static void NAME(const gaf_adam_args *restrict s, void *restrict w, const void *restrict g, void *restrict m,      \
                     void *restrict v, void *restrict top, double step_size, double root_correction, ptrdiff_t n) {    \
        /* behind the moments beta goes to the side of the ratio that it makes larger: nothing underflows */           \
        const double above = !BEFORE && s->factors.beta > 1.0 ? s->factors.beta : 1.0;                                 \
        const double below = !BEFORE && s->factors.beta < 1.0 ? 1.0 / s->factors.beta : 1.0;                           \
        const NAME##_constants k = {                                                                                   \
            .factors = BEFORE ? gaf_scaled(s->factors, s->inverse_scale) : s->factors,                                 \
            .sign = (real_##SUFFIX)(s->sign * (BEFORE ? 1.0 : s->inverse_scale)),                                      \
            .shrink = (real_##SUFFIX)s->shrink,                                                                        \
            .decay = (real_##SUFFIX)s->weight_decay,                                                                   \
            .rate = (real_##SUFFIX)(s->one_minus_beta1 < 0.5 ? s->one_minus_beta1 : s->one_minus_beta1 - 1.0),         \
            .beta2 = (real_##SUFFIX)s->beta2,                                                                          \
            .one_minus_beta2 = (real_##SUFFIX)s->one_minus_beta2,                                                      \
            .eps = (real_##SUFFIX)(below * (s->eps_hat ? s->eps / root_correction : s->eps)),                          \
            .size = (real_##SUFFIX)(above * step_size),                                                                \
            .outer = (real_##SUFFIX)s->outer,                                                                          \
            .inverse_root = (real_##SUFFIX)(below / root_correction),                                                  \
            .decays = -(s->weight_decay != 0),                                                                         \
            .near = s->one_minus_beta1 < 0.5,                                                                          \
        };                                                                                                             \
        ptrdiff_t left = n % GAF_STRIP, whole = n - left;                                                              \
        NAME##_strips(&k, w, g, m, v, top, whole);                                                                     \
        if (left) {                                                                                                    \
            real_##SUFFIX rest[5][GAF_STRIP] = {{0}};                                                                  \
            void *written[] = {w, m, v, AMSGRAD ? top : NULL};                                                         \
            size_t at = (size_t)whole * sizeof(real_##SUFFIX), bytes = (size_t)left * sizeof(real_##SUFFIX);           \
            for (int i = 0; i < 4; i++)                                                                                \
                if (written[i]) memcpy(rest[i], (char *)written[i] + at, bytes);                                       \
            memcpy(rest[4], (const char *)g + at, bytes);                                                              \
            NAME##_strips(&k, rest[0], rest[4], rest[1], rest[2], rest[3], GAF_STRIP);                                 \
            for (int i = 0; i < 4; i++)                                                                                \
                if (written[i]) memcpy((char *)written[i] + at, rest[i], bytes);                                       \
        }                                                                                                              \
    }

/* f in place; returns the bits of the largest absolute value seen, which order as the values do, NaN above inf. */
#define GAF_ACTIVATE(NAME, FUNCTION, SUFFIX)                                                                           \
    GAF_INLINE bits_##SUFFIX NAME##_strip(const gaf_factors *restrict factors, void *restrict g_, ptrdiff_t n) {       \
        real_##SUFFIX *restrict g = g_;                                                                                \
        const gaf_factors p = *factors;                                                                                \
        bits_##SUFFIX largest = 0;                                                                                     \
        for (ptrdiff_t i = 0; i < n; i++) {                                                                            \
            real_##SUFFIX x = g[i];                                                                                    \
            bits_##SUFFIX bits;                                                                                        \
            memcpy(&bits, &x, sizeof bits);                                                                            \
            bits &= gaf_magnitude_##SUFFIX;                                                                            \
            largest = bits > largest ? bits : largest;                                                                 \
            g[i] = gaf_##FUNCTION##_##SUFFIX(x, p);                                                                    \
        }                                                                                                              \
        return largest;                                                                                                \
    }                                                                                                                  \
    static GAF_NOINLINE bits_##SUFFIX NAME##_strips(const gaf_factors *restrict factors, real_##SUFFIX *restrict g, ptrdiff_t n) { \
        bits_##SUFFIX largest = 0, bits;                                                                               \
        for (; n > 0; n -= GAF_STRIP, g += GAF_STRIP) {                                                                \
            gaf_prefetch(g, GAF_STRIP * sizeof(real_##SUFFIX));                                                        \
            bits = NAME##_strip(factors, g, GAF_STRIP);                                                                \
            largest = bits > largest ? bits : largest;                                                                 \
        }                                                                                                              \
        return largest;                                                                                                \
    }                                                                                                                  \
    static int64_t NAME(const gaf_factors *restrict factors, void *restrict g, ptrdiff_t n) {                          \
        ptrdiff_t left = n % GAF_STRIP, whole = n - left;                                                              \
        bits_##SUFFIX largest = NAME##_strips(factors, g, whole);                                                      \
        if (left) {                                                                                                    \
            real_##SUFFIX rest[GAF_STRIP] = {0};                                                                       \
            memcpy(rest, (real_##SUFFIX *)g + whole, (size_t)left * sizeof(real_##SUFFIX));                            \
            bits_##SUFFIX bits = NAME##_strips(factors, rest, GAF_STRIP);                                              \
            memcpy((real_##SUFFIX *)g + whole, rest, (size_t)left * sizeof(real_##SUFFIX));                            \
            largest = bits > largest ? bits : largest;                                                                 \
        }                                                                                                              \
        return (int64_t)largest;                                                                                       \
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

/* Half precision: a block is widened to float32, worked on by the loop for that, and rounded once on its way back. */
#define GAF_BLOCK 512 /* elements: what a loop works on stays in the nearest cache */
#define GAF_ROOM (GAF_BLOCK + 32) /* apart by no power of 2: loads would wait for stores to the same place of a page */

#define GAF_CONVERSIONS(TYPE)                                                                                          \
    static GAF_NOINLINE void widen_##TYPE(float *restrict x, const void *restrict half, ptrdiff_t n) {                 \
        gaf_prefetch(half, GAF_BLOCK * sizeof(uint16_t));                                                              \
        for (ptrdiff_t i = 0; i < n; i++) x[i] = gaf_load_##TYPE(((const uint16_t *)half)[i]);                         \
    }                                                                                                                  \
    static GAF_NOINLINE void narrow_##TYPE(void *restrict half, const float *restrict x, ptrdiff_t n) {                \
        for (ptrdiff_t i = 0; i < n; i++) ((uint16_t *)half)[i] = gaf_store_##TYPE(x[i]);                              \
    }
GAF_CONVERSIONS(bf16)
GAF_CONVERSIONS(f16)

/* What is given, for each block: `at` its byte offset, `m` its length. */
#define GAF_BLOCKS(...)                                                                                                \
    for (ptrdiff_t from = 0; from < n; from += GAF_BLOCK) {                                                            \
        ptrdiff_t m = n - from < GAF_BLOCK ? n - from : GAF_BLOCK, at = from * (ptrdiff_t)sizeof(uint16_t);            \
        __VA_ARGS__                                                                                                    \
    }

#define GAF_HALF_SGD(NAME, LOOP, TYPE, CARRY)                                                                          \
    static void NAME(const gaf_sgd_args *restrict s, void *restrict w, const void *restrict g, void *restrict v,       \
                     ptrdiff_t n) {                                                                                    \
        float x[3][GAF_ROOM];                                                                                          \
        GAF_BLOCKS({                                                                                                   \
            widen_##TYPE(x[0], (char *)w + at, m), widen_##TYPE(x[1], (const char *)g + at, m);                        \
            if (CARRY) widen_##TYPE(x[2], (char *)v + at, m);                                                          \
            LOOP(s, x[0], x[1], x[2], m);                                                                              \
            narrow_##TYPE((char *)w + at, x[0], m);                                                                    \
            if (CARRY) narrow_##TYPE((char *)v + at, x[2], m);                                                         \
        })                                                                                                             \
    }
#define GAF_HALF_ADAM(NAME, LOOP, TYPE, AMSGRAD)                                                                       \
    static void NAME(const gaf_adam_args *restrict s, void *restrict w, const void *restrict g, void *restrict m_,     \
                     void *restrict v, void *restrict top, double step_size, double root_correction, ptrdiff_t n) {    \
        float x[5][GAF_ROOM];                                                                                          \
        void *written[] = {w, m_, v, AMSGRAD ? top : NULL};                                                            \
        GAF_BLOCKS({                                                                                                   \
            for (int i = 0; i < 3 + AMSGRAD; i++) widen_##TYPE(x[i], (char *)written[i] + at, m);                      \
            widen_##TYPE(x[4], (const char *)g + at, m);                                                               \
            LOOP(s, x[0], x[4], x[1], x[2], x[3], step_size, root_correction, m);                                      \
            for (int i = 0; i < 3 + AMSGRAD; i++) narrow_##TYPE((char *)written[i] + at, x[i], m);                     \
        })                                                                                                             \
    }
#define GAF_HALF_ACTIVATE(NAME, LOOP, TYPE)                                                                            \
    static int64_t NAME(const gaf_factors *restrict factors, void *restrict g, ptrdiff_t n) {                          \
        float x[GAF_BLOCK];                                                                                            \
        int64_t largest = 0, bits;                                                                                     \
        GAF_BLOCKS({                                                                                                   \
            widen_##TYPE(x, (char *)g + at, m);                                                                        \
            bits = LOOP(factors, x, m);                                                                                \
            largest = bits > largest ? bits : largest;                                                                 \
            narrow_##TYPE((char *)g + at, x, m);                                                                       \
        })                                                                                                             \
        return largest;                                                                                                \
    }

/* Every loop of a function and a type. A loop of half precision has the one of float32 that does its work. */
#define GAF_LOOPS(FUNCTION, TYPE)                                                                                      \
    GAF_SGD(sgd_before_##FUNCTION##_##TYPE, FUNCTION, TYPE, 1, 0, 0)                                                   \
    GAF_SGD(sgdm_before_##FUNCTION##_##TYPE, FUNCTION, TYPE, 1, 1, 0)                                                  \
    GAF_SGD(nesterov_before_##FUNCTION##_##TYPE, FUNCTION, TYPE, 1, 1, 1)                                              \
    GAF_SGD(sgd_after_##FUNCTION##_##TYPE, FUNCTION, TYPE, 0, 0, 0)                                                    \
    GAF_SGD(sgdm_after_##FUNCTION##_##TYPE, FUNCTION, TYPE, 0, 1, 0)                                                   \
    GAF_SGD(nesterov_after_##FUNCTION##_##TYPE, FUNCTION, TYPE, 0, 1, 1)                                               \
    GAF_ADAM(usual_adam_before_##FUNCTION##_##TYPE, FUNCTION, TYPE, 1, 0, 1)                                           \
    GAF_ADAM(adam_before_##FUNCTION##_##TYPE, FUNCTION, TYPE, 1, 0, 0)                                                 \
    GAF_ADAM(amsgrad_before_##FUNCTION##_##TYPE, FUNCTION, TYPE, 1, 1, 0)                                              \
    GAF_ADAM(usual_adam_after_##FUNCTION##_##TYPE, FUNCTION, TYPE, 0, 0, 1)                                            \
    GAF_ADAM(adam_after_##FUNCTION##_##TYPE, FUNCTION, TYPE, 0, 0, 0)                                                  \
    GAF_ADAM(amsgrad_after_##FUNCTION##_##TYPE, FUNCTION, TYPE, 0, 1, 0)                                               \
    GAF_ACTIVATE(activate_##FUNCTION##_##TYPE, FUNCTION, TYPE)
#define GAF_HALF_LOOPS(FUNCTION, TYPE)                                                                                 \
    GAF_HALF_SGD(sgd_before_##FUNCTION##_##TYPE, sgd_before_##FUNCTION##_f32, TYPE, 0)                                 \
    GAF_HALF_SGD(sgdm_before_##FUNCTION##_##TYPE, sgdm_before_##FUNCTION##_f32, TYPE, 1)                               \
    GAF_HALF_SGD(nesterov_before_##FUNCTION##_##TYPE, nesterov_before_##FUNCTION##_f32, TYPE, 1)                       \
    GAF_HALF_SGD(sgd_after_##FUNCTION##_##TYPE, sgd_after_##FUNCTION##_f32, TYPE, 0)                                   \
    GAF_HALF_SGD(sgdm_after_##FUNCTION##_##TYPE, sgdm_after_##FUNCTION##_f32, TYPE, 1)                                 \
    GAF_HALF_SGD(nesterov_after_##FUNCTION##_##TYPE, nesterov_after_##FUNCTION##_f32, TYPE, 1)                         \
    GAF_HALF_ADAM(usual_adam_before_##FUNCTION##_##TYPE, usual_adam_before_##FUNCTION##_f32, TYPE, 0)                  \
    GAF_HALF_ADAM(adam_before_##FUNCTION##_##TYPE, adam_before_##FUNCTION##_f32, TYPE, 0)                              \
    GAF_HALF_ADAM(amsgrad_before_##FUNCTION##_##TYPE, amsgrad_before_##FUNCTION##_f32, TYPE, 1)                        \
    GAF_HALF_ADAM(usual_adam_after_##FUNCTION##_##TYPE, usual_adam_after_##FUNCTION##_f32, TYPE, 0)                    \
    GAF_HALF_ADAM(adam_after_##FUNCTION##_##TYPE, adam_after_##FUNCTION##_f32, TYPE, 0)                                \
    GAF_HALF_ADAM(amsgrad_after_##FUNCTION##_##TYPE, amsgrad_after_##FUNCTION##_f32, TYPE, 1)                          \
    GAF_HALF_ACTIVATE(activate_##FUNCTION##_##TYPE, activate_##FUNCTION##_f32, TYPE)

#define GAF_ENTRY(FUNCTION, TYPE)                                                                                      \
    {                                                                                                                  \
        {{sgd_before_##FUNCTION##_##TYPE, sgdm_before_##FUNCTION##_##TYPE, nesterov_before_##FUNCTION##_##TYPE},       \
         {sgd_after_##FUNCTION##_##TYPE, sgdm_after_##FUNCTION##_##TYPE, nesterov_after_##FUNCTION##_##TYPE}},         \
            {{usual_adam_before_##FUNCTION##_##TYPE, adam_before_##FUNCTION##_##TYPE, amsgrad_before_##FUNCTION##_##TYPE}, \
             {usual_adam_after_##FUNCTION##_##TYPE, adam_after_##FUNCTION##_##TYPE, amsgrad_after_##FUNCTION##_##TYPE}}, \
            activate_##FUNCTION##_##TYPE                                                                               \
    }

/* The loops of a type, for all functions. */
#define GAF_ROW(FUNCTION, TYPE) GAF_ENTRY(FUNCTION, TYPE),
#define GAF_TYPE(LOOPS, TYPE)                                                                                          \
    GAF_EACH_FUNCTION(LOOPS, TYPE)                                                                                     \
    const gaf_loops GAF_TABLE(TYPE)[GAF_FUNCTIONS] = {GAF_EACH_FUNCTION(GAF_ROW, TYPE)};

GAF_TYPE(GAF_LOOPS, f32)
GAF_TYPE(GAF_HALF_LOOPS, bf16)
GAF_TYPE(GAF_HALF_LOOPS, f16)
#ifdef GAF_WITH_F64
GAF_TYPE(GAF_LOOPS, f64)
#endif
