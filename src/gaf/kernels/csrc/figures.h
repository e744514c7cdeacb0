/* What gaf.Monitor knows exactly of a gradient, in one pass; compiled once per instruction set (isa_*.c).
 *
 * Of the finite elements the sum of squares (in double: no square overflows, and no digit of a long sum is lost) and
 * the largest magnitude; how many are inf or NaN, and how many are 0. Sums are kept in lanes, which the compiler turns
 * into vectors: without -ffast-math it may not reorder a sum by itself.
 */
#include "elements.h"
#include "gaf.h"

#define GAF_LANES 16
#define GAF_AHEAD 16384 /* bytes: one stream that is only read needs more on the way than a step's several */

GAF_INLINE int64_t gaf_bits_f64(double x) {
    int64_t i;
    memcpy(&i, &x, sizeof i);
    return i;
}

GAF_INLINE double gaf_float_f64(int64_t i) {
    double x;
    memcpy(&x, &i, sizeof x);
    return x;
}

#define GAF_READ(x) (x)

#define GAF_FIGURE_LOOP(NAME, E, C, LOAD, BITS, TO_BITS, TO_FLOAT, MAGNITUDE, INF)                      \
    static gaf_figures NAME##_strips(const E *restrict g, ptrdiff_t n) {                                \
        double squares[GAF_LANES] = {0};                                                                \
        BITS largest[GAF_LANES] = {0}, finite[GAF_LANES] = {0}, zeros[GAF_LANES] = {0};                 \
        for (ptrdiff_t i = 0; i < n; i += GAF_LANES) {                                                  \
            __builtin_prefetch((const void *)((uintptr_t)(g + i) + GAF_AHEAD));                         \
            for (int l = 0; l < GAF_LANES; l++) {                                                       \
                BITS b = TO_BITS((C)LOAD(g[i + l])) & MAGNITUDE;                                        \
                BITS all = -(BITS)(b < INF), kept = b & all;                                            \
                double x = (double)TO_FLOAT(kept);                                                      \
                squares[l] += x * x;                                                                    \
                largest[l] = kept > largest[l] ? kept : largest[l];                                     \
                finite[l] += all;                                                                       \
                zeros[l] += b == 0;                                                                     \
            }                                                                                           \
        }                                                                                               \
        gaf_figures sum = {.nonfinite = (double)n};                                                     \
        BITS top = 0;                                                                                   \
        for (int l = 0; l < GAF_LANES; l++) {                                                           \
            sum.squares += squares[l];                                                                  \
            top = largest[l] > top ? largest[l] : top;                                                  \
            sum.nonfinite += (double)finite[l];                                                         \
            sum.zeros += (double)zeros[l];                                                              \
        }                                                                                               \
        sum.largest = (double)TO_FLOAT(top);                                                            \
        return sum;                                                                                     \
    }                                                                                                   \
    static gaf_figures NAME(const void *g, ptrdiff_t n) {                                               \
        ptrdiff_t whole = n - n % GAF_LANES;                                                            \
        gaf_figures sum = NAME##_strips(g, whole);                                                      \
        if (whole < n) {                                                                                \
            E rest[GAF_LANES] = {0};                                                                    \
            memcpy(rest, (const E *)g + whole, (size_t)(n - whole) * sizeof(E));                        \
            gaf_figures_add(&sum, NAME##_strips(rest, GAF_LANES));                                      \
            sum.zeros -= (double)(whole + GAF_LANES - n); /* those that fill it up */                   \
        }                                                                                               \
        return sum;                                                                                     \
    }

GAF_FIGURE_LOOP(figures_f32, float, float, GAF_READ, int32_t, gaf_bits, gaf_float, 0x7fffffff, 0x7f800000)
GAF_FIGURE_LOOP(figures_f64, double, double, GAF_READ, int64_t, gaf_bits_f64, gaf_float_f64, 0x7fffffffffffffff,
                0x7ff0000000000000)
GAF_FIGURE_LOOP(figures_bf16, uint16_t, float, gaf_load_bf16, int32_t, gaf_bits, gaf_float, 0x7fffffff, 0x7f800000)
GAF_FIGURE_LOOP(figures_f16, uint16_t, float, gaf_load_f16, int32_t, gaf_bits, gaf_float, 0x7fffffff, 0x7f800000)

const gaf_figures_loop GAF_FIGURES[GAF_TYPES_COUNT] = {figures_f32, figures_f64, figures_bf16, figures_f16};
