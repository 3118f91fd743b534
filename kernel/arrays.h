/* Arrays at the boundary: every one is checked for type, dimensions and contiguity before it is read. */
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
} Form;

/* Take the arguments of a call as C-contiguous, aligned arrays of these forms; one that is written to overlaps no other.
   Dimensions below zero: the argument may be None, which leaves its view zeroed (`obj` is NULL). On failure an exception is set, nothing is held, and -1 is returned. */
int take(PyObject *const *objects, Py_buffer *views, const Form *forms, int count);

/* Check extents of arrays that were taken: triples of view, axis, length, ended by a view below zero. */
typedef struct {
    int view;
    int axis;
    Py_ssize_t length;
} Extent;
int have_extents(const Py_buffer *views, const Form *forms, const Extent *extents);

/* Release the arrays that were taken. */
void release(Py_buffer *views, int count);

/* The functions of the module. */
PyObject *kernel_dots(PyObject *, PyObject *);
PyObject *kernel_slot_dots(PyObject *, PyObject *);
PyObject *kernel_attend(PyObject *, PyObject *);
PyObject *kernel_mix(PyObject *, PyObject *);
PyObject *kernel_softmax(PyObject *, PyObject *);
PyObject *kernel_look(PyObject *, PyObject *);
PyObject *kernel_fuse(PyObject *, PyObject *);
PyObject *kernel_learn(PyObject *, PyObject *);
PyObject *kernel_vote(PyObject *, PyObject *);
PyObject *kernel_doubt(PyObject *, PyObject *);
PyObject *kernel_acquaint(PyObject *, PyObject *);
PyObject *kernel_compose(PyObject *, PyObject *);
PyObject *kernel_refresh(PyObject *, PyObject *);
PyObject *kernel_products(PyObject *, PyObject *);
PyObject *kernel_collect(PyObject *, PyObject *);
PyObject *kernel_degree_threshold(PyObject *, PyObject *);
PyObject *kernel_degeneracy_threshold(PyObject *, PyObject *);
PyObject *kernel_connect(PyObject *, PyObject *);
PyObject *kernel_connect_above(PyObject *, PyObject *);
PyObject *kernel_second_order(PyObject *, PyObject *);
PyObject *kernel_cliques(PyObject *, PyObject *);
PyObject *kernel_build(PyObject *, PyObject *);
PyObject *kernel_lengths(PyObject *, PyObject *);
PyObject *kernel_select(PyObject *, PyObject *);
PyObject *kernel_advance_attending(PyObject *, PyObject *);
PyObject *kernel_advance_mean(PyObject *, PyObject *);
PyObject *kernel_absorb(PyObject *, PyObject *);
PyObject *kernel_compare(PyObject *, PyObject *);
PyObject *kernel_measure(PyObject *, PyObject *);
PyObject *kernel_heaviest(PyObject *, PyObject *);

#endif
