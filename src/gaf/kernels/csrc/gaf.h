/* What the loops, the threads and the Python module share. */
#ifndef GAF_H
#define GAF_H

#include <stddef.h>
#include <stdint.h>

#include "functions.h"

#define GAF_NUMBER(FUNCTION, TYPE) GAF_NUMBER_##FUNCTION,
enum { GAF_EACH_FUNCTION(GAF_NUMBER, ) GAF_FUNCTIONS };
enum { GAF_F32, GAF_F64, GAF_BF16, GAF_F16, GAF_TYPES_COUNT };

typedef struct {
    gaf_factors factors;
    double sign;          /* -1 for maximize */
    double inverse_scale; /* of the loss */
    double weight_decay;
    double shrink;       /* 1 - lr * decay where it is decoupled */
    double inner, outer; /* before and after f: (1, -lr), or (-lr, 1) for "update" */
    double momentum, gain; /* gain = 1 - dampening */
} gaf_sgd_args;

typedef struct {
    gaf_factors factors;
    double sign, inverse_scale;
    double shrink;       /* 1 - lr * decay where it is decoupled */
    double weight_decay; /* L2 */
    double outer;        /* after f, where that stands after the ratio: -lr, or 1 for "update" */
    double one_minus_beta1, beta2, one_minus_beta2, eps;
    int eps_hat; /* eps is added before the bias correction of the second moment */
} gaf_adam_args;

typedef void (*gaf_sgd_loop)(const gaf_sgd_args *, void *w, const void *g, void *v, ptrdiff_t n);
typedef void (*gaf_adam_loop)(const gaf_adam_args *, void *w, const void *g, void *m, void *v, void *top,
                              double step_size, double root_correction, ptrdiff_t n);
typedef int64_t (*gaf_activate_loop)(const gaf_factors *, void *g, ptrdiff_t n);

typedef struct {
    gaf_sgd_loop sgd[2][3];   /* f before or after the velocity; without one, with one, with Nesterov's */
    gaf_adam_loop adam[2][3]; /* f before or after the moments; the usual, any, with amsgrad */
    gaf_activate_loop activate;
} gaf_loops;

/* Of the finite elements the sum of squares and the largest magnitude; how many are not finite, and 0. */
typedef struct {
    double squares, largest, nonfinite, zeros;
} gaf_figures;

GAF_INLINE void gaf_figures_add(gaf_figures *sum, gaf_figures piece) {
    sum->squares += piece.squares;
    sum->largest = piece.largest > sum->largest ? piece.largest : sum->largest;
    sum->nonfinite += piece.nonfinite;
    sum->zeros += piece.zeros;
}

typedef gaf_figures (*gaf_figures_loop)(const void *g, ptrdiff_t n);

/* `before`: f stands before the velocity, or the moments. */
GAF_INLINE gaf_sgd_loop gaf_sgd_loop_of(const gaf_loops *loops, int before, int carries, int nesterov) {
    return loops->sgd[!before][carries ? 1 + nesterov : 0];
}

GAF_INLINE gaf_adam_loop gaf_adam_loop_of(const gaf_loops *loops, int before, const gaf_adam_args *s, int amsgrad) {
    return loops->adam[!before][amsgrad ? 2 : s->weight_decay != 0 || s->one_minus_beta1 >= 0.5];
}

/* A velocity that was not there before begins as d: momentum * 0 + d, without the dampening. */
GAF_INLINE void gaf_sgd_begin(gaf_sgd_args *s, void *v, size_t bytes) {
    memset(v, 0, bytes);
    s->gain = 1.0;
}

/* What is compiled for each instruction set; float64 is compiled once. */
#define GAF_DECLARED(ISA)                                                                           \
    extern const gaf_loops gaf_##ISA##_f32[GAF_FUNCTIONS];                                          \
    extern const gaf_loops gaf_##ISA##_bf16[GAF_FUNCTIONS];                                         \
    extern const gaf_loops gaf_##ISA##_f16[GAF_FUNCTIONS];                                          \
    extern const gaf_figures_loop gaf_figures_##ISA[GAF_TYPES_COUNT];                               \
    void gaf_stream_##ISA(float *w, const float *g, float *v, float *m, float zero, ptrdiff_t n);
GAF_DECLARED(portable)
extern const gaf_loops gaf_portable_f64[GAF_FUNCTIONS];
#if defined(__x86_64__)
GAF_DECLARED(avx2)
GAF_DECLARED(avx512)
#endif

/* Every `step`-th element of a tensor, as many as there are, and NaN up to `width`. */
void gaf_sample(int type, const void *tensor, ptrdiff_t size, ptrdiff_t step, double *row, ptrdiff_t width);

/* The quantile of a row's magnitudes, without zeros and what is not finite; 0 if nothing is left. Reorders the row. */
double gaf_quantile(double *row, ptrdiff_t width, double quantile);

/* The sum of the squares of `n` elements. */
double gaf_squares(int type, const void *x, ptrdiff_t n);

/* Once, before any call: finds torch's threads, and learns of forks from then on. */
void gaf_parallel_begin(void);

/* Runs work(context, 0) ... work(context, count - 1) on up to `threads` threads, this one among them. */
void gaf_parallel(void (*work)(void *context, ptrdiff_t index), void *context, ptrdiff_t count, int threads);

#endif
