/* Class sums: adding samples to them, and comparing samples with them. */
#include "class_statistics.h"

#include "capi/module.h"

static ptrdiff_t block(Py_ssize_t from, Py_ssize_t number) { return number - from < BATCH ? number - from : BATCH; }

/* add_outer(sums [K, D], labels [B, K], rows [B, D]): sums += labels.T @ rows, in place */
PyObject *kernel_add_outer(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {{"sums", FLOAT32, 2, 1}, {"labels", FLOAT32, 2, 0}, {"rows", FLOAT32, 2, 0}};
    PyObject *objects[3], *result = NULL;
    Py_buffer views[3];
    if (!PyArg_ParseTuple(arguments, "OOO:add_outer", &objects[0], &objects[1], &objects[2])) return NULL;
    if (take_arrays(objects, views, specs, 3) < 0) return NULL;
    Py_ssize_t classes = views[0].shape[0], width = views[0].shape[1], number = views[1].shape[0];
    float *sums = views[0].buf, *workspace = NULL;
    const float *labels = views[1].buf, *rows = views[2].buf;
    const Extent extents[] = {{1, 1, classes}, {2, 0, number}, {2, 1, width}, {-1, 0, 0}};
    if (check_extents(views, specs, extents) < 0) goto done;
    if (number > 1 && !(workspace = PyMem_New(float, BATCH * (width ? width : 1)))) {
        PyErr_NoMemory();
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t at = 0; at < number; at += BATCH)
        statistics_loops->add_outer(sums, classes, width, labels + at * classes, rows + at * width, block(at, number),
                                    workspace);
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
done:
    PyMem_Free(workspace);
    release_arrays(views, 3);
    return result;
}

/* add_log_likelihood(sums [K, D], rows [B, D], along [B], level [K], slope [K], soft_count [K], out [B, K]):
   out += level + slope * (rows @ sums.T - outer(along, soft_count)) */
PyObject *kernel_add_log_likelihood(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {
        {"sums", FLOAT32, 2, 0}, {"rows", FLOAT32, 2, 0}, {"along", FLOAT32, 1, 0}, {"level", FLOAT32, 1, 0},
        {"slope", FLOAT32, 1, 0}, {"soft_count", FLOAT32, 1, 0}, {"out", FLOAT32, 2, 1}};
    PyObject *o[7], *result = NULL;
    Py_buffer views[7];
    if (!PyArg_ParseTuple(arguments, "OOOOOOO:add_log_likelihood", &o[0], &o[1], &o[2], &o[3], &o[4], &o[5], &o[6]))
        return NULL;
    if (take_arrays(o, views, specs, 7) < 0) return NULL;
    Py_ssize_t classes = views[0].shape[0], width = views[0].shape[1], number = views[1].shape[0];
    const float *rows = views[1].buf, *along = views[2].buf;
    float *out = views[6].buf, *workspace = NULL;
    const Extent extents[] = {
        {1, 1, width}, {2, 0, number}, {3, 0, classes}, {4, 0, classes}, {5, 0, classes}, {6, 0, number},
        {6, 1, classes}, {-1, 0, 0}};
    if (check_extents(views, specs, extents) < 0) goto done;
    if (!(workspace = PyMem_New(float, BATCH * (width + classes + 1)))) {
        PyErr_NoMemory();
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t at = 0; at < number; at += BATCH)
        statistics_loops->add_log_likelihood(views[0].buf, classes, width, rows + at * width, block(at, number),
                                             along + at,
                                             views[3].buf, views[4].buf, views[5].buf, out + at * classes, workspace);
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
done:
    PyMem_Free(workspace);
    release_arrays(views, 7);
    return result;
}

/* class_products(sums [K, D], x [D], g [D], out [3, K]): the products of every class's sum with x, with g and with
   itself */
PyObject *kernel_class_products(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {
        {"sums", FLOAT32, 2, 0}, {"x", FLOAT32, 1, 0}, {"g", FLOAT32, 1, 0}, {"out", FLOAT32, 2, 1}};
    PyObject *objects[4], *result = NULL;
    Py_buffer views[4];
    if (!PyArg_ParseTuple(arguments, "OOOO:class_products", &objects[0], &objects[1], &objects[2], &objects[3]))
        return NULL;
    if (take_arrays(objects, views, specs, 4) < 0) return NULL;
    Py_ssize_t classes = views[0].shape[0], width = views[0].shape[1];
    const Extent extents[] = {{1, 0, width}, {2, 0, width}, {3, 0, 3}, {3, 1, classes}, {-1, 0, 0}};
    if (check_extents(views, specs, extents) < 0) goto done;
    Py_BEGIN_ALLOW_THREADS
    statistics_loops->class_products(views[0].buf, classes, width, views[1].buf, views[2].buf, views[3].buf);
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
done:
    release_arrays(views, 4);
    return result;
}

#define SCAN 32

/* `slots` holds the largest weights so far in descending order, ties by index. A new weight must exceed the last. */
static void list_top_indices(const float *weights, Py_ssize_t count, int64_t *slots, Py_ssize_t keep)
{
    Py_ssize_t filled = 0;
    for (Py_ssize_t at = 0; at < count; at++) {
        if (filled == keep) {
            float least = weights[slots[keep - 1]];
            for (; at + SCAN <= count; at += SCAN) {
                int any = 0;
                for (int next = 0; next < SCAN; next++) any |= weights[at + next] > least;
                if (any) break;
            }
            while (at < count && !(weights[at] > least)) at++;
            if (at == count) return;
        }
        Py_ssize_t place = filled < keep ? filled++ : keep - 1;
        for (; place > 0 && weights[at] > weights[slots[place - 1]]; place--) slots[place] = slots[place - 1];
        slots[place] = at;
    }
}

/* top_indices(weights [n], slots [m]): the indices of the m largest weights in descending order, ties by index */
PyObject *kernel_top_indices(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {{"weights", FLOAT32, 1, 0}, {"slots", INT64, 1, 1}};
    PyObject *objects[2], *result = NULL;
    Py_buffer views[2];
    if (!PyArg_ParseTuple(arguments, "OO:top_indices", &objects[0], &objects[1])) return NULL;
    if (take_arrays(objects, views, specs, 2) < 0) return NULL;
    Py_ssize_t count = views[0].shape[0], keep = views[1].shape[0];
    if (keep > count) PyErr_Format(PyExc_ValueError, "slots must be at most %zd long; it is %zd", count, keep);
    else {
        if (keep) list_top_indices(views[0].buf, count, views[1].buf, keep);
        result = Py_NewRef(Py_None);
    }
    release_arrays(views, 2);
    return result;
}
