/* What gaf.Auto looks at: a few elements of each tensor, and a quantile of their magnitudes. */
#include "elements.h"
#include "gaf.h"

#define SAMPLE(E, READ)                                                                                \
    for (ptrdiff_t i = 0; i < size; i += step) row[n++] = (double)READ(((const E *)tensor)[i])

#define PLAIN(x) (x)

void gaf_sample(int type, const void *tensor, ptrdiff_t size, ptrdiff_t step, double *row, ptrdiff_t width) {
    ptrdiff_t n = 0;
    switch (type) {
    case GAF_F32: SAMPLE(float, PLAIN); break;
    case GAF_F64: SAMPLE(double, PLAIN); break;
    case GAF_BF16: SAMPLE(uint16_t, gaf_load_bf16); break;
    case GAF_F16: SAMPLE(uint16_t, gaf_load_f16); break;
    }
    while (n < width) row[n++] = NAN;
}

/* The element that would stand at `place` if the row were in order (Hoare's selection). */
static double select_at(double *row, ptrdiff_t n, ptrdiff_t place) {
    ptrdiff_t low = 0, high = n - 1;
    while (low < high) {
        double pivot = row[low + (high - low) / 2];
        ptrdiff_t i = low, j = high;
        while (i <= j) {
            while (row[i] < pivot) i++;
            while (row[j] > pivot) j--;
            if (i <= j) {
                double held = row[i];
                row[i++] = row[j];
                row[j--] = held;
            }
        }
        if (place <= j)
            high = j;
        else if (place >= i)
            low = i;
        else
            break;
    }
    return row[place];
}

double gaf_quantile(double *row, ptrdiff_t width, double quantile) {
    ptrdiff_t count = 0;
    for (ptrdiff_t i = 0; i < width; i++) {
        double magnitude = fabs(row[i]);
        if (magnitude > 0 && magnitude < INFINITY) row[count++] = magnitude;
    }
    return count ? select_at(row, count, (ptrdiff_t)(quantile * (double)(count - 1))) : 0.0;
}
