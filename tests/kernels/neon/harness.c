/* The portable loops without Python, to be run under an emulator: tests/kernels/test_neon.py is the only caller.
 *
 * On stdin one request after another, on stdout the answer to each. A request is the struct below and the arrays
 * that its operation takes, `n` elements each; the answer is the same arrays afterwards, and an int64 that only
 * ACTIVATE fills.
 */
#include <stdio.h>
#include <stdlib.h>

#include "isa_portable.c" /* included, not linked: the conversions are static */

enum { ACTIVATE, SGD, ADAM, LOAD, STORE };

typedef struct {
    int32_t operation, function, type;
    int32_t before, fresh, nesterov; /* the last two of SGD; Adam has eps_hat in the place of `fresh` */
    int64_t n, arrays;
    double numbers[13]; /* alpha, beta, then the doubles of gaf_sgd_args, or of gaf_adam_args, step size and root */
} request;

#define MOST_ARRAYS 5 /* Adam's w, g, m, v, top */

static const size_t WIDTHS[] = {4, 8, 2, 2};

/* a[0] = (wide) a[1], or the other way round: vectorised like the loops of the steps. */
static void convert(const request *r, void *const *a) {
    float *wide = a[r->operation == STORE];
    uint16_t *half = a[r->operation == LOAD];
    int bf16 = r->type == GAF_BF16;
    if (r->operation == LOAD)
        for (int64_t i = 0; i < r->n; i++) wide[i] = bf16 ? gaf_load_bf16(half[i]) : gaf_load_f16(half[i]);
    else
        for (int64_t i = 0; i < r->n; i++) half[i] = bf16 ? gaf_store_bf16(wide[i]) : gaf_store_f16(wide[i]);
}

static int64_t run(const request *r, void *const *a) {
    static const gaf_loops *const TABLES[] = {gaf_portable_f32, gaf_portable_f64, gaf_portable_bf16, gaf_portable_f16};
    const gaf_loops *loops = &TABLES[r->type][r->function];
    const double *x = r->numbers;
    gaf_factors factors = {x[0], x[1]};
    if (r->operation == ACTIVATE) return loops->activate(&factors, a[0], r->n);
    if (r->operation == SGD) {
        gaf_sgd_args s = {.factors = factors, .sign = x[2], .inverse_scale = x[3], .weight_decay = x[4], .shrink = x[5],
                          .inner = x[6], .outer = x[7], .momentum = x[8], .gain = x[9]};
        if (r->fresh) gaf_sgd_begin(&s, a[2], (size_t)r->n * WIDTHS[r->type]);
        gaf_sgd_loop_of(loops, r->before, a[2] != NULL, r->nesterov)(&s, a[0], a[1], a[2], r->n);
    } else if (r->operation == ADAM) {
        gaf_adam_args s = {.factors = factors, .sign = x[2], .inverse_scale = x[3], .shrink = x[4],
                           .weight_decay = x[5], .outer = x[6], .one_minus_beta1 = x[7], .beta2 = x[8],
                           .one_minus_beta2 = x[9], .eps = x[10], .eps_hat = r->fresh};
        gaf_adam_loop_of(loops, r->before, &s, a[4] != NULL)(&s, a[0], a[1], a[2], a[3], a[4], x[11], x[12], r->n);
    } else {
        convert(r, a);
    }
    return 0;
}

static void check(int fine, const char *what) {
    if (!fine) fprintf(stderr, "harness: %s\n", what), exit(2);
}

int main(void) {
    request r;
    while (fread(&r, sizeof r, 1, stdin) == 1) {
        check(r.function >= 0 && r.function < GAF_FUNCTIONS && r.type >= 0 && r.type < GAF_TYPES_COUNT &&
                  r.arrays >= 1 && r.arrays <= MOST_ARRAYS && r.n >= 0,
              "not a request");
        void *arrays[MOST_ARRAYS] = {NULL};
        size_t bytes[MOST_ARRAYS];
        for (int64_t i = 0; i < r.arrays; i++) {
            size_t width = i == (r.operation == STORE) && r.operation >= LOAD ? sizeof(float) : WIDTHS[r.type];
            bytes[i] = (size_t)r.n * width;
            arrays[i] = malloc(bytes[i] + 1);
            check(arrays[i] && fread(arrays[i], 1, bytes[i], stdin) == bytes[i], "the request is cut short");
        }
        int64_t largest = run(&r, arrays);
        for (int64_t i = 0; i < r.arrays; i++) {
            check(fwrite(arrays[i], 1, bytes[i], stdout) == bytes[i], "cannot answer");
            free(arrays[i]);
        }
        check(fwrite(&largest, sizeof largest, 1, stdout) == 1, "cannot answer");
    }
    check(feof(stdin) && fflush(stdout) == 0, "cannot answer");
    return 0;
}
