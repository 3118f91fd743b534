/* Arrays at the boundary: each is checked for type, dimensions and contiguity before it is read. */
#ifndef COSMIC_ARRAYS_H
#define COSMIC_ARRAYS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#if defined(__GNUC__)
#define UNUSED __attribute__((unused))
#else
#define UNUSED
#endif

typedef enum { FLOAT32, INT32, INT64, UINT64, BOOL } Kind;

typedef struct {
    const char *name;
    Kind kind;
    int dimensions;
    int writable;
} ArraySpec;

/* Take the arguments of a call as C-contiguous, aligned arrays of these specs. An array that is written to must not
   overlap another. Negative dimensions: the argument may be None, which leaves its view zeroed (`obj` is NULL).
   Returns -1, sets an exception and holds no array on failure. */
int take_arrays(PyObject *const *objects, Py_buffer *views, const ArraySpec *specs, int count);

/* Check the extents of taken arrays: triples of view, axis and length, ended by a negative view. */
typedef struct {
    int view;
    int axis;
    Py_ssize_t length;
} Extent;
int check_extents(const Py_buffer *views, const ArraySpec *specs, const Extent *extents);

/* Release taken arrays. */
void release_arrays(Py_buffer *views, int count);

#endif
