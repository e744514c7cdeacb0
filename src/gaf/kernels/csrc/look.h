/* What torch says of a tensor through DLPack's table of C functions, and what the loops need to know of lists of them.
 *
 * The structs are those of DLPack 1 (https://dmlc.github.io/dlpack), as far as they are read here.
 */
#ifndef GAF_LOOK_H
#define GAF_LOOK_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>
#include <stdint.h>

typedef struct {
    void *data;
    struct {
        int32_t type, index;
    } device;
    int32_t dimensions;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides; /* in elements */
    uint64_t offset;          /* in bytes, of the first element */
} dlpack_tensor;

typedef struct {
    struct {
        uint32_t major, minor;
    } version;
    void *previous;
    void (*unused[3])(void);
    int (*tensor_of)(void *object, dlpack_tensor *out); /* borrows; -1 and an exception where there is none */
} dlpack_table;

#define DLPACK_MAJOR 1
#define DLPACK_CPU 1
enum { DLPACK_FLOAT = 2, DLPACK_BFLOAT = 4 };

PyObject *gaf_can_look(PyObject *self, PyObject *capsule);
PyObject *gaf_look(PyObject *self, PyObject *args);

#endif
