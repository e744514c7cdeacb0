/* What gaf.Guard looks at: the sum of squares of every element, inf or NaN where one of them is. */
#include "elements.h"
#include "gaf.h"

#define LANES 16   /* sums that a vector, or a few, hold */
#define BLOCK 1024 /* elements that a sum in float32 takes before it is added up in float64 */

/* Four places of memory are read at a time: one alone leaves the memory waiting. */
#define SQUARES(NAME, E, SUM, READ)                                                                    \
    static double NAME(const E *x, ptrdiff_t n) {                                                      \
        ptrdiff_t part = n / 4 / LANES * LANES;                                                        \
        const E *a = x, *b = a + part, *c = b + part, *d = c + part;                                   \
        double total = 0.0;                                                                            \
        for (ptrdiff_t i = 0; i < part;) {                                                             \
            ptrdiff_t end = part - i < BLOCK ? part : i + BLOCK;                                       \
            SUM s[4][LANES] = {{0}};                                                                   \
            for (; i < end; i += LANES)                                                                \
                for (int k = 0; k < LANES; k++) {                                                      \
                    SUM w = READ(a[i + k]), x1 = READ(b[i + k]), y = READ(c[i + k]), z = READ(d[i + k]); \
                    s[0][k] += w * w, s[1][k] += x1 * x1, s[2][k] += y * y, s[3][k] += z * z;          \
                }                                                                                      \
            for (int k = 0; k < LANES; k++)                                                            \
                total += ((double)s[0][k] + s[1][k]) + ((double)s[2][k] + s[3][k]);                    \
        }                                                                                              \
        for (ptrdiff_t i = 4 * part; i < n; i++) {                                                     \
            SUM w = READ(x[i]);                                                                        \
            total += w * w;                                                                            \
        }                                                                                              \
        return total;                                                                                  \
    }

#define PLAIN(x) (x)
SQUARES(squares_f32, float, float, PLAIN)
SQUARES(squares_f64, double, double, PLAIN)
SQUARES(squares_bf16, uint16_t, float, gaf_load_bf16)
SQUARES(squares_f16, uint16_t, float, gaf_load_f16)

double gaf_squares(int type, const void *x, ptrdiff_t n) {
    switch (type) {
    case GAF_F32: return squares_f32(x, n);
    case GAF_F64: return squares_f64(x, n);
    case GAF_BF16: return squares_bf16(x, n);
    default: return squares_f16(x, n);
    }
}
