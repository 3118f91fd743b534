/* Products of rows with queries. */
#include "capi/module.h"
#include "simd/dispatch.h"

#define BLOCK 48 /* queries per pass over the rows */

/* dots(rows [n, D], queries [b, D], out [b, n]) */
PyObject *kernel_dots(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {{"rows", FLOAT32, 2, 0}, {"queries", FLOAT32, 2, 0}, {"out", FLOAT32, 2, 1}};
    PyObject *objects[3], *result = NULL;
    Py_buffer views[3];
    if (!PyArg_ParseTuple(arguments, "OOO:dots", &objects[0], &objects[1], &objects[2])) return NULL;
    if (take_arrays(objects, views, specs, 3) < 0) return NULL;
    Py_ssize_t count = views[0].shape[0], width = views[0].shape[1], number = views[1].shape[0];
    const float *queries = views[1].buf;
    float *out = views[2].buf;
    const Extent extents[] = {{1, 1, width}, {2, 0, number}, {2, 1, count}, {-1, 0, 0}};
    if (check_extents(views, specs, extents) < 0) goto done;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t at = 0; at < number; at += BLOCK)
        simd->rows_by_queries(views[0].buf, count, queries + at * width, number - at < BLOCK ? number - at : BLOCK,
                              width, out + at * count, count);
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
done:
    release_arrays(views, 3);
    return result;
}
