/* Softmax of scaled values. */
#include "softmax.h"

#include "capi/module.h"

#include <math.h>

void softmax(const float *values, float scale, ptrdiff_t count, float *out)
{
    float highest = values[0] * scale, total = 0;
    for (ptrdiff_t i = 1; i < count; i++)
        if (values[i] * scale > highest) highest = values[i] * scale;
    for (ptrdiff_t i = 0; i < count; i++) total += out[i] = expf(values[i] * scale - highest);
    for (ptrdiff_t i = 0; i < count; i++) out[i] /= total;
}

/* softmax(values [K], scale, out [K]): softmax of the scaled values */
PyObject *kernel_softmax(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {{"values", FLOAT32, 1, 0}, {"out", FLOAT32, 1, 1}};
    PyObject *objects[2], *result = NULL;
    Py_buffer views[2];
    float scale;
    if (!PyArg_ParseTuple(arguments, "OfO:softmax", &objects[0], &scale, &objects[1])) return NULL;
    if (take_arrays(objects, views, specs, 2) < 0) return NULL;
    const Extent extents[] = {{1, 0, views[0].shape[0]}, {-1, 0, 0}};
    if (check_extents(views, specs, extents) < 0) goto done;
    if (views[0].shape[0]) softmax(views[0].buf, scale, views[0].shape[0], views[1].buf);
    result = Py_NewRef(Py_None);
done:
    release_arrays(views, 2);
    return result;
}
