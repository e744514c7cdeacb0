/* Parallel lists of tensors, looked at in one call: whether the loops can serve them, and where they lie. */
#include "look.h"
#include "gaf.h"

#define MOST_LISTS 5
#define MOST_DIMENSIONS 64

static dlpack_table *table_of(PyObject *capsule) {
    dlpack_table *table = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    if (!table) PyErr_Clear();
    return table && table->version.major == DLPACK_MAJOR && table->tensor_of ? table : NULL;
}

PyObject *gaf_can_look(PyObject *self, PyObject *capsule) {
    (void)self;
    return PyBool_FromLong(table_of(capsule) != NULL);
}

/* The number of the type as gaf.h has it, or -1. */
static int type_of(const dlpack_tensor *t) {
    if (t->dtype.lanes != 1) return -1;
    if (t->dtype.code == DLPACK_BFLOAT) return t->dtype.bits == 16 ? GAF_BF16 : -1;
    if (t->dtype.code != DLPACK_FLOAT) return -1;
    switch (t->dtype.bits) {
    case 16: return GAF_F16;
    case 32: return GAF_F32;
    case 64: return GAF_F64;
    default: return -1;
    }
}

static int64_t elements_of(const dlpack_tensor *t) {
    int64_t elements = 1;
    for (int32_t i = 0; i < t->dimensions; i++) elements *= t->shape[i];
    return elements;
}

static int is_contiguous(const dlpack_tensor *t) {
    int64_t expected = 1;
    for (int32_t i = t->dimensions - 1; i >= 0; i--) {
        if (t->shape[i] != 1 && t->strides[i] != expected) return 0;
        expected *= t->shape[i];
    }
    return 1;
}

/* Whether the elements fill a block of memory without gaps or overlaps, in any order of the dimensions. */
static int is_dense(const dlpack_tensor *t) {
    uint64_t done = 0;
    int64_t expected = 1;
    if (t->dimensions > MOST_DIMENSIONS) return 0;
    for (int32_t left = t->dimensions; left > 0; left--) {
        int32_t next = -1;
        for (int32_t i = 0; i < t->dimensions && next < 0; i++)
            if (!(done >> i & 1) && (t->shape[i] == 1 || t->strides[i] == expected)) next = i;
        if (next < 0) return 0;
        done |= (uint64_t)1 << next;
        expected *= t->shape[next];
    }
    return 1;
}

static int same_shape(const dlpack_tensor *t, const dlpack_tensor *other) {
    if (t->dimensions != other->dimensions) return 0;
    for (int32_t i = 0; i < t->dimensions; i++)
        if (t->shape[i] != other->shape[i]) return 0;
    return 1;
}

static int same_order(const dlpack_tensor *t, const dlpack_tensor *other) {
    for (int32_t i = 0; i < t->dimensions; i++)
        if (t->shape[i] != 1 && t->strides[i] != other->strides[i]) return 0;
    return 1;
}

/* Whether an object is one of torch's own tensors, and no lazy negation, whose sign is not in memory. */
static int is_plain(PyObject *plain, PyObject *is_neg, PyObject *object) {
    int own = 0;
    for (Py_ssize_t i = 0; object && i < PyTuple_Size(plain) && !own; i++)
        own = (PyObject *)Py_TYPE(object) == PyTuple_GetItem(plain, i);
    PyObject *negated = own ? PyObject_CallFunctionObjArgs(is_neg, object, NULL) : NULL;
    Py_XDECREF(negated);
    return negated == Py_False;
}

/* Whether a tensor lies on the CPU, and what DLPack says of it. Sparse tensors and those on "meta" have no memory. */
static int look_at(const dlpack_table *table, PyObject *object, dlpack_tensor *t) {
    if (!object || table->tensor_of(object, t) != 0 || t->device.type != DLPACK_CPU) return 0;
    if (t->data) t->data = (char *)t->data + t->offset;
    return 1;
}

/* The tensors of one parameter, first of all its own. */
static int alike(const dlpack_tensor *t, const dlpack_tensor *first, int64_t elements) {
    if (type_of(t) != type_of(first) || !same_shape(t, first)) return 0;
    if (!elements) return 1;
    return t->data && (is_contiguous(first) ? is_contiguous(t) : same_order(t, first)); /* NULL: zeros never computed */
}

static int overlap(const char *a, const char *b, int64_t bytes) {
    return (uintptr_t)a < (uintptr_t)b + (size_t)bytes && (uintptr_t)b < (uintptr_t)a + (size_t)bytes;
}

static int all_none(PyObject *list) {
    for (Py_ssize_t i = 0; i < PyList_Size(list); i++)
        if (PyList_GetItem(list, i) != Py_None) return 0;
    return 1;
}

/* The type, the sizes, a list of the addresses of each list (None for one of None alone), and whether two tensors of
 * one parameter share memory. None where the tensors are not all plain, dense, of one type and laid out alike. */
PyObject *gaf_look(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule, *plain, *is_neg, *lists, *columns[MOST_LISTS] = {0}, *places[MOST_LISTS] = {0};
    if (!PyArg_ParseTuple(args, "OO!OO!", &capsule, &PyTuple_Type, &plain, &is_neg, &PyTuple_Type, &lists)) return NULL;
    const dlpack_table *table = table_of(capsule);
    Py_ssize_t count = PyTuple_Size(lists), rows = 0;
    if (!table || count < 1 || count > MOST_LISTS) return PyErr_SetString(PyExc_ValueError, "nothing to look by, or at"), NULL;
    for (Py_ssize_t k = 0; k < count; k++) {
        columns[k] = PyTuple_GetItem(lists, k);
        if (!PyList_Check(columns[k])) Py_RETURN_NONE;
        if (!k) rows = PyList_Size(columns[k]);
        if (PyList_Size(columns[k]) != rows) Py_RETURN_NONE;
    }
    int type = -1, tangled = 0, served = rows > 0;
    int64_t *sizes = NULL;
    char **address[MOST_LISTS] = {0};
    PyObject *numbers = PyBytes_FromStringAndSize(NULL, rows * (Py_ssize_t)sizeof *sizes), *result = NULL;
    if (!numbers) return NULL;
    sizes = (int64_t *)PyBytes_AsString(numbers);
    PyObject *found = PyList_New(count);
    for (Py_ssize_t k = 0; found && k < count; k++) {
        places[k] = k && all_none(columns[k]) ? Py_NewRef(Py_None)
                                              : PyBytes_FromStringAndSize(NULL, rows * (Py_ssize_t)sizeof(char *));
        if (!places[k]) {
            Py_CLEAR(found);
        } else {
            if (places[k] != Py_None) address[k] = (char **)PyBytes_AsString(places[k]);
            PyList_SetItem(found, k, places[k]); /* takes the reference */
        }
    }
    for (Py_ssize_t k = 0; found && k < count; k++)
        for (Py_ssize_t i = 0; served && address[k] && i < rows; i++)
            served = is_plain(plain, is_neg, PyList_GetItem(columns[k], i));
    for (Py_ssize_t i = 0; found && served && i < rows; i++) {
        dlpack_tensor first, other;
        served = look_at(table, PyList_GetItem(columns[0], i), &first);
        if (!served) break;
        if (!i) type = type_of(&first);
        sizes[i] = elements_of(&first);
        served = type >= 0 && type_of(&first) == type && alike(&first, &first, sizes[i]) &&
                 (is_contiguous(&first) || is_dense(&first) || !sizes[i]);
        address[0][i] = first.data;
        for (Py_ssize_t k = 1; served && k < count; k++) {
            if (!address[k]) continue;
            served = look_at(table, PyList_GetItem(columns[k], i), &other) && alike(&other, &first, sizes[i]);
            if (!served) break;
            address[k][i] = other.data;
            for (Py_ssize_t l = 0; l < k; l++)
                if (address[l]) tangled |= overlap(other.data, address[l][i], sizes[i] * first.dtype.bits / 8);
        }
    }
    if (found && served) result = Py_BuildValue("iOOO", type, numbers, found, tangled ? Py_True : Py_False);
    if (found && !served) {
        PyErr_Clear(); /* what torch said of a tensor without memory */
        result = Py_NewRef(Py_None);
    }
    Py_XDECREF(found);
    Py_DECREF(numbers);
    return result;
}
