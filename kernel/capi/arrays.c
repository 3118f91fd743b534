#include "arrays.h"

static const char *const KINDS[] = {"float32", "int32", "int64", "uint64", "bool"};

static int is_kind(const Py_buffer *view, Kind kind)
{
    const char *format = view->format ? view->format : "B";
    if (*format == '@' || *format == '=') format++;
    if (!*format || format[1]) return 0;
    switch (kind) {
    case FLOAT32: return *format == 'f' && view->itemsize == 4;
    case INT32: return strchr("il", *format) && view->itemsize == 4;
    case INT64: return strchr("lq", *format) && view->itemsize == 8;
    case UINT64: return strchr("LQ", *format) && view->itemsize == 8;
    case BOOL: return *format == '?' && view->itemsize == 1;
    }
    return 0;
}

static int take_one(PyObject *object, Py_buffer *view, const ArraySpec *spec)
{
    int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (spec->writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object, view, flags) < 0) {
        memset(view, 0, sizeof *view);
        if (PyErr_ExceptionMatches(PyExc_MemoryError)) return -1;
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "%s must be a %sC-contiguous array of %s; given %s", spec->name,
                     spec->writable ? "writable, " : "", KINDS[spec->kind], Py_TYPE(object)->tp_name);
        return -1;
    }
    if (!is_kind(view, spec->kind)) {
        PyErr_Format(PyExc_TypeError, "%s must be of type %s; its format is '%s'", spec->name, KINDS[spec->kind],
                     view->format ? view->format : "B");
        return -1;
    }
    if ((uintptr_t)view->buf % (uintptr_t)view->itemsize) {
        PyErr_Format(PyExc_ValueError, "%s must be aligned to its items", spec->name);
        return -1;
    }
    if (view->ndim != spec->dimensions) {
        PyErr_Format(PyExc_ValueError, "%s must have %d dimensions; it has %d", spec->name, spec->dimensions,
                     view->ndim);
        return -1;
    }
    return 0;
}

/* Writing to one array must not change another one that was checked. */
static int check_overlap(const Py_buffer *views, const ArraySpec *specs, int count)
{
    for (int one = 0; one < count; one++)
        for (int other = 0; other < count; other++) {
            uintptr_t from = (uintptr_t)views[one].buf, start = (uintptr_t)views[other].buf;
            if (one == other || !specs[one].writable || !views[one].len || !views[other].len) continue;
            if (from >= start + (uintptr_t)views[other].len || start >= from + (uintptr_t)views[one].len) continue;
            PyErr_Format(PyExc_ValueError, "%s is written to, so it must not overlap %s", specs[one].name,
                         specs[other].name);
            return -1;
        }
    return 0;
}

int take_arrays(PyObject *const *objects, Py_buffer *views, const ArraySpec *specs, int count)
{
    memset(views, 0, (size_t)count * sizeof *views);
    for (int index = 0; index < count; index++) {
        int may_be_none = specs[index].dimensions < 0;
        if (may_be_none && objects[index] == Py_None) continue;
        ArraySpec spec = specs[index];
        if (may_be_none) spec.dimensions = -spec.dimensions;
        if (take_one(objects[index], &views[index], &spec) < 0) {
            release_arrays(views, count);
            return -1;
        }
    }
    if (check_overlap(views, specs, count) < 0) {
        release_arrays(views, count);
        return -1;
    }
    return 0;
}

int check_extents(const Py_buffer *views, const ArraySpec *specs, const Extent *extents)
{
    for (; extents->view >= 0; extents++) {
        const Py_buffer *view = &views[extents->view];
        if (!view->obj || view->shape[extents->axis] == extents->length) continue;
        PyErr_Format(PyExc_ValueError, "%s must be %zd long in dimension %d; it is %zd", specs[extents->view].name,
                     extents->length, extents->axis, view->shape[extents->axis]);
        return -1;
    }
    return 0;
}

void release_arrays(Py_buffer *views, int count)
{
    for (int index = 0; index < count; index++)
        if (views[index].obj) PyBuffer_Release(&views[index]);
}
