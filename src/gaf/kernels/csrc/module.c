/* gaf.kernels._native: the loops, for lists of addresses.
 *
 * The caller guarantees what the addresses point to; gaf/kernels/native.py is the only one.
 */
#include "look.h" /* Python.h comes before all others */

#include <stdlib.h>
#include <string.h>

#include "gaf.h"

/* Elements a thread takes at a time: a few hundred kilobytes over all tensors of a step. */
#define CHUNK 32768

/* Chunks that one thread finishes before another has woken up. */
#define FEW 4

typedef void (*gaf_stream_loop)(float *w, const float *g, float *v, float *m, float zero, ptrdiff_t n);

typedef struct {
    const char *name;
    const gaf_loops *tables[GAF_TYPES_COUNT]; /* by type, then by function */
    gaf_stream_loop stream;
    const gaf_figures_loop *figures;
} instruction_set;

#define MADE_FOR(ISA) \
    {#ISA, {gaf_##ISA##_f32, gaf_portable_f64, gaf_##ISA##_bf16, gaf_##ISA##_f16}, gaf_stream_##ISA, gaf_figures_##ISA}

static const instruction_set ISAS[] = { /* best first */
#if defined(__x86_64__)
    MADE_FOR(avx512),
    MADE_FOR(avx2),
#endif
    MADE_FOR(portable),
};
#define ISAS_COUNT (sizeof ISAS / sizeof *ISAS)

static int cpu_has(const char *isa) {
    if (strcmp(isa, "portable") == 0) return 1;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (strcmp(isa, "avx2") == 0) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (strcmp(isa, "avx512") == 0)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
    return 0;
}

static const instruction_set *isa_of(const char *name) {
    for (size_t i = 0; i < ISAS_COUNT; i++)
        if (strcmp(ISAS[i].name, name) == 0 && cpu_has(name)) return &ISAS[i];
    PyErr_Format(PyExc_ValueError, "this CPU has no instruction set %s", name);
    return NULL;
}

static PyObject *instruction_sets(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    PyObject *names = PyList_New(0);
    for (size_t i = 0; names && i < ISAS_COUNT; i++) {
        if (!cpu_has(ISAS[i].name)) continue;
        PyObject *name = PyUnicode_FromString(ISAS[i].name);
        if (!name || PyList_Append(names, name) < 0) Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

#define GAF_NAME(FUNCTION, TYPE) #FUNCTION,
static PyObject *functions(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    static const char *const names[] = {GAF_EACH_FUNCTION(GAF_NAME, )};
    PyObject *numbers = PyDict_New();
    for (long i = 0; numbers && i < GAF_FUNCTIONS; i++) {
        PyObject *number = PyLong_FromLong(i);
        if (!number || PyDict_SetItemString(numbers, names[i], number) < 0) Py_CLEAR(numbers);
        Py_XDECREF(number);
    }
    return numbers;
}

/* Lists of tensors as one long row of elements: tensor i begins at starts[i]. */
typedef struct {
    ptrdiff_t tensors, elements;
    ptrdiff_t *starts; /* tensors + 1 of them */
    size_t width;      /* bytes of an element */
} row;

/* The memory of a bytes object that holds `width` bytes for each of `count` entries; NULL for None where that may be. */
static int column(PyObject *bytes, ptrdiff_t count, size_t width, int optional, void *out) {
    *(void **)out = NULL;
    if (bytes == Py_None && optional) return 1;
    if (!PyBytes_Check(bytes) || PyBytes_Size(bytes) != count * (ptrdiff_t)width) {
        PyErr_SetString(PyExc_ValueError, "addresses, sizes and numbers are bytes with one entry a tensor, of factors two");
        return 0;
    }
    *(void **)out = PyBytes_AsString(bytes);
    return 1;
}

static int addresses(PyObject *bytes, ptrdiff_t count, char ***out, int optional) {
    return column(bytes, count, sizeof(char *), optional, out);
}

static int doubles(PyObject *bytes, ptrdiff_t count, double **out, int optional) {
    return column(bytes, count, sizeof(double), optional, out);
}

/* How many tensors the sizes are of, and the sizes; -1 with an exception where they are none. */
static ptrdiff_t sizes_in(PyObject *bytes, int64_t **out) {
    ptrdiff_t count = PyBytes_Check(bytes) ? PyBytes_Size(bytes) / (ptrdiff_t)sizeof **out : 0;
    return column(bytes, count, sizeof **out, 0, out) ? count : -1;
}

static int make_row(PyObject *sizes, int type, row *r) {
    static const size_t WIDTHS[] = {4, 8, 2, 2};
    int64_t *size;
    if (type < 0 || type >= GAF_TYPES_COUNT) return PyErr_SetString(PyExc_ValueError, "no such type"), 0;
    if ((r->tensors = sizes_in(sizes, &size)) < 0) return 0;
    r->width = WIDTHS[type];
    r->starts = malloc((size_t)(r->tensors + 1) * sizeof(ptrdiff_t));
    if (!r->starts) return PyErr_NoMemory(), 0;
    r->elements = 0;
    for (ptrdiff_t i = 0; i < r->tensors; i++) {
        r->starts[i] = r->elements;
        if (size[i] < 0) return PyErr_SetString(PyExc_ValueError, "a size is negative"), 0;
        r->elements += size[i];
    }
    r->starts[r->tensors] = r->elements;
    return 1;
}

/* The tensor that holds the element at `position`. */
static ptrdiff_t tensor_at(const row *r, ptrdiff_t position) {
    ptrdiff_t low = 0, high = r->tensors;
    while (high - low > 1) {
        ptrdiff_t middle = low + (high - low) / 2;
        if (r->starts[middle] <= position)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Runs BODY for each piece of a tensor in chunk `index`: `t` its tensor, `at` its byte offset, `n` its length. */
#define FOR_PIECES(R, INDEX, BODY)                                                               \
    do {                                                                                         \
        ptrdiff_t from = (INDEX)*CHUNK, to = from + CHUNK;                                       \
        if (to > (R)->elements) to = (R)->elements;                                              \
        for (ptrdiff_t t = tensor_at(R, from); from < to; t++) {                                 \
            ptrdiff_t end = (R)->starts[t + 1] < to ? (R)->starts[t + 1] : to, n = end - from;   \
            size_t at = (size_t)(from - (R)->starts[t]) * (R)->width;                            \
            if (n > 0) BODY;                                                                     \
            from = end;                                                                          \
        }                                                                                        \
    } while (0)

/* The tensors of a step, as parallel lists of addresses: those it writes to first. A list may be NULL. */
typedef struct {
    char **lists[5];
    int written, count;
} operands;

typedef struct {
    uintptr_t begin, end;
    int written;
} range;

static range range_of(const row *r, char *const *list, ptrdiff_t i) {
    uintptr_t begin = (uintptr_t)list[i];
    return (range){begin, begin + (size_t)(r->starts[i + 1] - r->starts[i]) * r->width, 0};
}

/* Sorts by the beginning, in `spare`'s memory and their own; returns the one that is sorted. */
static range *sorted(range *ranges, range *spare, ptrdiff_t count) {
    for (ptrdiff_t width = 1; width < count; width *= 2) {
        for (ptrdiff_t from = 0; from < count; from += 2 * width) {
            ptrdiff_t middle = from + width < count ? from + width : count;
            ptrdiff_t to = middle + width < count ? middle + width : count, i = from, j = middle;
            for (ptrdiff_t k = from; k < to; k++) {
                int left = i < middle && (j == to || ranges[i].begin <= ranges[j].begin);
                spare[k] = left ? ranges[i++] : ranges[j++];
            }
        }
        range *merged = spare;
        spare = ranges;
        ranges = merged;
    }
    return ranges;
}

/* Whether a tensor that is written to shares memory with any other. Then they must be served one after the other. */
static int overlap(const row *r, const operands *all) {
    size_t most = (size_t)r->tensors * (size_t)all->count;
    range *memory = malloc((2 * most + 1) * sizeof *memory);
    if (!memory) return 1;
    ptrdiff_t count = 0;
    for (int k = 0; k < all->count; k++) {
        for (ptrdiff_t i = 0; all->lists[k] && i < r->tensors; i++) {
            memory[count] = range_of(r, all->lists[k], i);
            memory[count].written = k < all->written;
            if (memory[count].begin < memory[count].end) count++;
        }
    }
    const range *ranges = sorted(memory, memory + most, count);
    uintptr_t reached = 0, reached_written = 0;
    int found = 0;
    for (ptrdiff_t i = 0; i < count && !found; i++) {
        found = ranges[i].begin < (ranges[i].written ? reached : reached_written);
        if (ranges[i].end > reached) reached = ranges[i].end;
        if (ranges[i].written && ranges[i].end > reached_written) reached_written = ranges[i].end;
    }
    free(memory);
    return found;
}

static void run(const row *r, const operands *all, void (*work)(void *, ptrdiff_t), void *context, int threads) {
    ptrdiff_t chunks = (r->elements + CHUNK - 1) / CHUNK;
    if (chunks < FEW || (threads > 1 && overlap(r, all))) threads = 1;
    Py_BEGIN_ALLOW_THREADS
    gaf_parallel(work, context, chunks, threads);
    Py_END_ALLOW_THREADS
}

static const gaf_loops *loops_of(const char *name, int function, int type) {
    const instruction_set *isa = isa_of(name);
    if (!isa) return NULL;
    if (function < 0 || function >= GAF_FUNCTIONS || type < 0 || type >= GAF_TYPES_COUNT) {
        PyErr_Format(PyExc_ValueError, "no kernel for function %d, type %d", function, type);
        return NULL;
    }
    return &isa->tables[type][function];
}

/* Alpha and beta of tensor t: its own where `each` holds them, else those of all. */
static gaf_factors factors_of(const double *each, ptrdiff_t t, gaf_factors all) {
    return each ? (gaf_factors){each[2 * t], each[2 * t + 1]} : all;
}

typedef struct {
    row r;
    gaf_sgd_args args;
    gaf_sgd_loop loop;
    char **w, **g, **v, *fresh;
    double *each;
} sgd_job;

static void sgd_work(void *context, ptrdiff_t index) {
    sgd_job *j = context;
    gaf_sgd_args args;
    FOR_PIECES(&j->r, index, {
        args = j->args;
        args.factors = factors_of(j->each, t, args.factors);
        if (j->fresh && j->fresh[t]) gaf_sgd_begin(&args, j->v[t] + at, (size_t)n * j->r.width);
        j->loop(&args, j->w[t] + at, j->g[t] + at, j->v ? j->v[t] + at : NULL, n);
    });
}

static PyObject *sgd(PyObject *self, PyObject *args) {
    (void)self;
    const char *isa;
    int function, type, before, nesterov, threads;
    PyObject *each, *sizes, *w, *g, *v, *fresh, *result = NULL;
    sgd_job j = {0};
    gaf_sgd_args *s = &j.args;
    if (!PyArg_ParseTuple(args, "siip(dd)OOOOOO(ddddddddp)i", &isa, &function, &type, &before, &s->factors.alpha,
                          &s->factors.beta, &each, &sizes, &w, &g, &v, &fresh, &s->sign, &s->inverse_scale,
                          &s->weight_decay, &s->shrink, &s->inner, &s->outer, &s->momentum, &s->gain, &nesterov, &threads))
        return NULL;
    const gaf_loops *loops = loops_of(isa, function, type);
    if (loops && make_row(sizes, type, &j.r) && addresses(w, j.r.tensors, &j.w, 0) && addresses(g, j.r.tensors, &j.g, 0) &&
        addresses(v, j.r.tensors, &j.v, 1) && column(fresh, j.r.tensors, 1, 1, &j.fresh) &&
        doubles(each, 2 * j.r.tensors, &j.each, 1)) {
        j.loop = gaf_sgd_loop_of(loops, before, j.v != NULL, nesterov);
        run(&j.r, &(operands){{j.w, j.v, j.g}, 2, 3}, sgd_work, &j, threads);
        result = Py_NewRef(Py_None);
    }
    free(j.r.starts);
    return result;
}

typedef struct {
    row r;
    gaf_adam_args args;
    gaf_adam_loop loop;
    char **w, **g, **m, **v, **top;
    double *step_sizes, *root_corrections, *each;
} adam_job;

static void adam_work(void *context, ptrdiff_t index) {
    adam_job *j = context;
    gaf_adam_args args = j->args;
    FOR_PIECES(&j->r, index, {
        args.factors = factors_of(j->each, t, j->args.factors);
        j->loop(&args, j->w[t] + at, j->g[t] + at, j->m[t] + at, j->v[t] + at, j->top ? j->top[t] + at : NULL,
                j->step_sizes[t], j->root_corrections[t], n);
    });
}

static PyObject *adam(PyObject *self, PyObject *args) {
    (void)self;
    const char *isa;
    int function, type, before, threads;
    PyObject *each, *sizes, *w, *g, *m, *v, *top, *steps, *roots, *result = NULL;
    adam_job j = {0};
    gaf_adam_args *s = &j.args;
    if (!PyArg_ParseTuple(args, "siip(dd)OOOOOOOOO(dddddddddp)i", &isa, &function, &type, &before,
                          &s->factors.alpha, &s->factors.beta, &each, &sizes, &w, &g, &m, &v, &top, &steps, &roots, &s->sign, &s->inverse_scale,
                          &s->shrink, &s->weight_decay, &s->outer, &s->one_minus_beta1, &s->beta2, &s->one_minus_beta2, &s->eps, &s->eps_hat,
                          &threads))
        return NULL;
    const gaf_loops *loops = loops_of(isa, function, type);
    if (loops && make_row(sizes, type, &j.r) && addresses(w, j.r.tensors, &j.w, 0) && addresses(g, j.r.tensors, &j.g, 0) &&
        addresses(m, j.r.tensors, &j.m, 0) && addresses(v, j.r.tensors, &j.v, 0) && addresses(top, j.r.tensors, &j.top, 1) &&
        doubles(steps, j.r.tensors, &j.step_sizes, 0) && doubles(roots, j.r.tensors, &j.root_corrections, 0) &&
        doubles(each, 2 * j.r.tensors, &j.each, 1)) {
        j.loop = gaf_adam_loop_of(loops, before, s, j.top != NULL);
        run(&j.r, &(operands){{j.w, j.m, j.v, j.top, j.g}, 4, 5}, adam_work, &j, threads);
        result = Py_NewRef(Py_None);
    }
    free(j.r.starts);
    return result;
}

static PyObject *count(PyObject *self, PyObject *steps) {
    (void)self;
    float **step;
    ptrdiff_t n = PyBytes_Check(steps) ? PyBytes_Size(steps) / (ptrdiff_t)sizeof *step : 0;
    if (!column(steps, n, sizeof *step, 0, &step)) return NULL;
    PyObject *counts = PyBytes_FromStringAndSize(NULL, n * (ptrdiff_t)sizeof(double));
    double *out = counts ? (double *)PyBytes_AsString(counts) : NULL;
    for (ptrdiff_t i = 0; out && i < n; i++) out[i] = *step[i] += 1.0f;
    return counts;
}

/* What the bias correction of the moments makes of the number of each tensor's step. */
static PyObject *corrections(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *counts;
    double inner, beta1, beta2, *number, *step_size, *root;
    if (!PyArg_ParseTuple(args, "Oddd", &counts, &inner, &beta1, &beta2)) return NULL;
    ptrdiff_t n = PyBytes_Check(counts) ? PyBytes_Size(counts) / (ptrdiff_t)sizeof *number : 0;
    if (!doubles(counts, n, &number, 0)) return NULL;
    PyObject *step_sizes = PyBytes_FromStringAndSize(NULL, n * (ptrdiff_t)sizeof *number);
    PyObject *roots = PyBytes_FromStringAndSize(NULL, n * (ptrdiff_t)sizeof *number), *result = NULL;
    if (step_sizes && roots) {
        step_size = (double *)PyBytes_AsString(step_sizes), root = (double *)PyBytes_AsString(roots);
        for (ptrdiff_t i = 0; i < n; i++) {
            int again = i && number[i] == number[i - 1];
            step_size[i] = again ? step_size[i - 1] : inner / (1 - pow(beta1, number[i]));
            root[i] = again ? root[i - 1] : pow(1 - pow(beta2, number[i]), 0.5);
        }
        result = PyTuple_Pack(2, step_sizes, roots);
    }
    Py_XDECREF(step_sizes), Py_XDECREF(roots);
    return result;
}

typedef struct {
    row r;
    gaf_factors factors;
    gaf_activate_loop loop;
    char **g;
    int64_t *largest; /* one for each chunk */
} activate_job;

static void activate_work(void *context, ptrdiff_t index) {
    activate_job *j = context;
    int64_t largest = 0, bits;
    FOR_PIECES(&j->r, index, {
        bits = j->loop(&j->factors, j->g[t] + at, n);
        largest = bits > largest ? bits : largest;
    });
    j->largest[index] = largest;
}

static PyObject *activate(PyObject *self, PyObject *args) {
    (void)self;
    const char *isa;
    int function, type, threads;
    PyObject *sizes, *g, *result = NULL;
    activate_job j = {0};
    if (!PyArg_ParseTuple(args, "sii(dd)OOi", &isa, &function, &type, &j.factors.alpha, &j.factors.beta, &sizes, &g,
                          &threads))
        return NULL;
    const gaf_loops *loops = loops_of(isa, function, type);
    if (loops && make_row(sizes, type, &j.r) && addresses(g, j.r.tensors, &j.g, 0)) {
        ptrdiff_t chunks = (j.r.elements + CHUNK - 1) / CHUNK;
        j.loop = loops->activate;
        j.largest = calloc((size_t)chunks + 1, sizeof *j.largest);
        if (!j.largest) {
            PyErr_NoMemory();
        } else {
            run(&j.r, &(operands){{j.g}, 1, 1}, activate_work, &j, threads);
            int64_t largest = 0;
            for (ptrdiff_t i = 0; i < chunks; i++) largest = j.largest[i] > largest ? j.largest[i] : largest;
            double value;
            if (type == GAF_F64)
                memcpy(&value, &largest, sizeof value);
            else
                value = gaf_float((int32_t)largest);
            result = PyFloat_FromDouble(value);
        }
    }
    free(j.r.starts), free(j.largest);
    return result;
}

typedef struct {
    row r;
    int type;
    char **g;
    double *sums; /* of each chunk */
} squares_job;

static void squares_work(void *context, ptrdiff_t index) {
    squares_job *j = context;
    double sum = 0.0;
    FOR_PIECES(&j->r, index, sum += gaf_squares(j->type, j->g[t] + at, n));
    j->sums[index] = sum;
}

static PyObject *squares(PyObject *self, PyObject *args) {
    (void)self;
    int threads;
    PyObject *sizes, *g, *result = NULL;
    squares_job j = {0};
    if (!PyArg_ParseTuple(args, "iOOi", &j.type, &sizes, &g, &threads)) return NULL;
    if (make_row(sizes, j.type, &j.r) && addresses(g, j.r.tensors, &j.g, 0)) {
        ptrdiff_t chunks = (j.r.elements + CHUNK - 1) / CHUNK;
        j.sums = calloc((size_t)chunks + 1, sizeof *j.sums);
        if (!j.sums) {
            PyErr_NoMemory();
        } else {
            run(&j.r, &(operands){{j.g}, 0, 1}, squares_work, &j, threads);
            double total = 0.0;
            for (ptrdiff_t i = 0; i < chunks; i++) total += j.sums[i];
            result = PyFloat_FromDouble(total);
        }
    }
    free(j.r.starts), free(j.sums);
    return result;
}

/* Tensors to be sampled, with the distance between the elements that are taken of each. */
typedef struct {
    ptrdiff_t tensors;
    char *type, **tensor;
    int64_t *size, *step;
} samples;

static int make_samples(PyObject *types, PyObject *sizes, PyObject *steps, PyObject *tensors, samples *s) {
    if ((s->tensors = sizes_in(sizes, &s->size)) < 0) return 0;
    return column(types, s->tensors, 1, 0, &s->type) && column(steps, s->tensors, sizeof *s->step, 0, &s->step) &&
           addresses(tensors, s->tensors, &s->tensor, 0);
}

static PyObject *sample(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *types, *sizes, *steps, *tensors, *out;
    ptrdiff_t width;
    samples s;
    if (!PyArg_ParseTuple(args, "OOOOOn", &types, &sizes, &steps, &tensors, &out, &width)) return NULL;
    double *rows = PyLong_AsVoidPtr(out);
    if (PyErr_Occurred() || !make_samples(types, sizes, steps, tensors, &s)) return NULL;
    for (ptrdiff_t i = 0; i < s.tensors; i++)
        gaf_sample(s.type[i], s.tensor[i], s.size[i], s.step[i], rows + i * width, width);
    return Py_NewRef(Py_None);
}

/* The same without rows: one tensor's elements after the other's. */
static PyObject *gather(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *types, *sizes, *steps, *tensors, *out;
    samples s;
    if (!PyArg_ParseTuple(args, "OOOOO", &types, &sizes, &steps, &tensors, &out)) return NULL;
    double *row = PyLong_AsVoidPtr(out);
    if (PyErr_Occurred() || !make_samples(types, sizes, steps, tensors, &s)) return NULL;
    for (ptrdiff_t i = 0; i < s.tensors; i++) {
        ptrdiff_t width = (s.size[i] + s.step[i] - 1) / s.step[i];
        gaf_sample(s.type[i], s.tensor[i], s.size[i], s.step[i], row, width);
        row += width;
    }
    return Py_NewRef(Py_None);
}

/* Tensors that a thread takes at a time, and elements that it has room for of each. */
#define TENSORS 16
#define ROOM 1024

typedef struct {
    samples of;
    int type;
    double quantile, scale, *out;
} sampled_job;

static void sampled_work(void *context, ptrdiff_t index) {
    sampled_job *j = context;
    const samples *s = &j->of;
    double row[ROOM];
    ptrdiff_t to = (index + 1) * TENSORS < s->tensors ? (index + 1) * TENSORS : s->tensors;
    for (ptrdiff_t i = index * TENSORS; i < to; i++) {
        ptrdiff_t width = (s->size[i] + s->step[i] - 1) / s->step[i];
        gaf_sample(j->type, s->tensor[i], s->size[i], s->step[i], row, width);
        for (ptrdiff_t k = 0; k < width; k++) row[k] /= j->scale;
        j->out[i] = gaf_quantile(row, width, j->quantile);
    }
}

/* What `sample` and `quantiles` do, in one pass, for tensors of one type. */
static PyObject *sampled_quantiles(PyObject *self, PyObject *args) {
    (void)self;
    int threads;
    PyObject *sizes, *steps, *tensors, *out;
    sampled_job j = {0};
    samples *s = &j.of;
    if (!PyArg_ParseTuple(args, "iOOOddOi", &j.type, &sizes, &steps, &tensors, &j.quantile, &j.scale, &out, &threads))
        return NULL;
    j.out = PyLong_AsVoidPtr(out);
    if (PyErr_Occurred() || (s->tensors = sizes_in(sizes, &s->size)) < 0 ||
        !column(steps, s->tensors, sizeof *s->step, 0, &s->step) || !addresses(tensors, s->tensors, &s->tensor, 0))
        return NULL;
    ptrdiff_t elements = 0;
    for (ptrdiff_t i = 0; i < s->tensors; i++) {
        ptrdiff_t width = s->step[i] > 0 ? (s->size[i] + s->step[i] - 1) / s->step[i] : ROOM + 1;
        if (width > ROOM) return PyErr_Format(PyExc_ValueError, "at most %d elements of a tensor are sampled", ROOM);
        elements += width;
    }
    Py_BEGIN_ALLOW_THREADS
    gaf_parallel(sampled_work, &j, (s->tensors + TENSORS - 1) / TENSORS, elements < FEW * ROOM ? 1 : threads);
    Py_END_ALLOW_THREADS
    return Py_NewRef(Py_None);
}

static PyObject *quantiles(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *in, *out;
    ptrdiff_t n, width;
    double quantile;
    if (!PyArg_ParseTuple(args, "OnndO", &in, &n, &width, &quantile, &out)) return NULL;
    double *rows = PyLong_AsVoidPtr(in), *found = PyLong_AsVoidPtr(out);
    if (PyErr_Occurred()) return NULL;
    for (ptrdiff_t i = 0; i < n; i++) found[i] = gaf_quantile(rows + i * width, width, quantile);
    return Py_NewRef(Py_None);
}

typedef struct {
    row r;
    gaf_figures_loop loop;
    char **g;
    gaf_figures *pieces; /* index + t of FOR_PIECES is another number for each piece */
} figures_job;

static void figures_work(void *context, ptrdiff_t index) {
    figures_job *j = context;
    FOR_PIECES(&j->r, index, j->pieces[index + t] = j->loop(j->g[t] + at, n));
}

static PyObject *figures(PyObject *self, PyObject *args) {
    (void)self;
    const char *name;
    int type, threads;
    PyObject *sizes, *g, *out, *result = NULL;
    figures_job j = {0};
    if (!PyArg_ParseTuple(args, "siOOOi", &name, &type, &sizes, &g, &out, &threads)) return NULL;
    const instruction_set *isa = isa_of(name);
    if (isa && (type < 0 || type >= GAF_TYPES_COUNT)) PyErr_SetString(PyExc_ValueError, "no such type");
    gaf_figures *rows = PyErr_Occurred() ? NULL : PyLong_AsVoidPtr(out);
    if (rows && make_row(sizes, type, &j.r) && addresses(g, j.r.tensors, &j.g, 0)) {
        ptrdiff_t chunks = (j.r.elements + CHUNK - 1) / CHUNK;
        j.loop = isa->figures[type];
        j.pieces = calloc((size_t)(chunks + j.r.tensors + 1), sizeof *j.pieces);
        if (!j.pieces) {
            PyErr_NoMemory();
        } else {
            run(&j.r, &(operands){{j.g}, 0, 1}, figures_work, &j, threads);
            memset(rows, 0, (size_t)j.r.tensors * sizeof *rows);
            for (ptrdiff_t index = 0; index < chunks; index++)
                FOR_PIECES(&j.r, index, ((void)n, (void)at, gaf_figures_add(&rows[t], j.pieces[index + t])));
            result = Py_NewRef(Py_None);
        }
    }
    free(j.r.starts), free(j.pieces);
    return result;
}

typedef struct {
    row r;
    gaf_stream_loop loop;
    char **w, **g, **v, **m;
    float zero;
} stream_job;

static void stream_work(void *context, ptrdiff_t index) {
    stream_job *j = context;
    FOR_PIECES(&j->r, index,
               j->loop((float *)(j->w[t] + at), (const float *)(j->g[t] + at), (float *)(j->v[t] + at),
                       j->m ? (float *)(j->m[t] + at) : NULL, j->zero, n));
}

static PyObject *stream(PyObject *self, PyObject *args) {
    (void)self;
    const char *name;
    int threads;
    PyObject *sizes, *w, *g, *v, *m, *result = NULL;
    stream_job j = {0};
    if (!PyArg_ParseTuple(args, "sOOOOOi", &name, &sizes, &w, &g, &v, &m, &threads)) return NULL;
    const instruction_set *isa = isa_of(name);
    if (isa && make_row(sizes, GAF_F32, &j.r) && addresses(w, j.r.tensors, &j.w, 0) &&
        addresses(g, j.r.tensors, &j.g, 0) && addresses(v, j.r.tensors, &j.v, 0) && addresses(m, j.r.tensors, &j.m, 1)) {
        j.loop = isa->stream;
        run(&j.r, &(operands){{j.w, j.v, j.m, j.g}, 3, 4}, stream_work, &j, threads);
        result = Py_NewRef(Py_None);
    }
    free(j.r.starts);
    return result;
}

static PyMethodDef METHODS[] = {
    {"instruction_sets", instruction_sets, METH_NOARGS, "What this CPU can run, best first."},
    {"functions", functions, METH_NOARGS, "The number of each function by its name."},
    {"sgd", sgd, METH_VARARGS, "One step of SGD for tensors of one type."},
    {"adam", adam, METH_VARARGS, "One step of Adam for tensors of one type."},
    {"can_look", gaf_can_look, METH_O, "Whether a capsule holds DLPack's table, of a version that is known here."},
    {"look", gaf_look, METH_VARARGS, "Type, sizes, addresses of parallel lists, whether a row shares memory; or None."},
    {"count", count, METH_O, "Add 1 to the float32 at each address; returns them as doubles."},
    {"corrections", corrections, METH_VARARGS, "Step sizes and roots of Adam for the numbers of its steps."},
    {"activate", activate, METH_VARARGS, "f in place; returns the largest absolute value before."},
    {"squares", squares, METH_VARARGS, "The sum of the squares of tensors of one type."},
    {"sample", sample, METH_VARARGS, "Evenly spaced elements of each tensor, a row of doubles each."},
    {"gather", gather, METH_VARARGS, "Evenly spaced elements of each tensor, one tensor after the other."},
    {"sampled_quantiles", sampled_quantiles, METH_VARARGS, "A quantile of each tensor's sampled magnitudes."},
    {"quantiles", quantiles, METH_VARARGS, "A quantile of the magnitudes in each row, which it reorders."},
    {"figures", figures, METH_VARARGS, "Of each tensor: squares, largest, nonfinite, zeros."},
    {"stream", stream, METH_VARARGS, "The memory traffic of a step in float32, and nothing else."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_native", NULL, -1, METHODS, NULL, NULL, NULL, NULL};

/* Which sources and which compiler made this; setup.py knows the first. */
#ifndef GAF_SOURCES
#define GAF_SOURCES "unknown"
#endif
#if defined(__clang__)
#define GAF_COMPILER __VERSION__
#else
#define GAF_COMPILER "GCC " __VERSION__
#endif

PyMODINIT_FUNC PyInit__native(void) {
    gaf_parallel_begin();
    PyObject *module = PyModule_Create(&MODULE);
    if (module && (PyModule_AddStringConstant(module, "SOURCES", GAF_SOURCES) < 0 ||
                   PyModule_AddStringConstant(module, "COMPILER", GAF_COMPILER) < 0))
        Py_CLEAR(module);
    return module;
}
