/* The class sums of a tally: samples enter them, and are compared with them. */
#include "tally.h"

#include "arrays.h"

static ptrdiff_t block(Py_ssize_t from, Py_ssize_t number) { return number - from < AT_ONCE ? number - from : AT_ONCE; }

/* absorb(sums [K, D], labels [B, K], rows [B, D]): sums += labels.T @ rows, in place */
PyObject *kernel_absorb(PyObject *self UNUSED, PyObject *arguments)
{
    static const Form forms[] = {{"sums", FLOAT32, 2, 1}, {"labels", FLOAT32, 2, 0}, {"rows", FLOAT32, 2, 0}};
    PyObject *objects[3], *result = NULL;
    Py_buffer views[3];
    if (!PyArg_ParseTuple(arguments, "OOO:absorb", &objects[0], &objects[1], &objects[2])) return NULL;
    if (take(objects, views, forms, 3) < 0) return NULL;
    Py_ssize_t classes = views[0].shape[0], width = views[0].shape[1], number = views[1].shape[0];
    float *sums = views[0].buf, *workspace = NULL;
    const float *labels = views[1].buf, *rows = views[2].buf;
    const Extent extents[] = {{1, 1, classes}, {2, 0, number}, {2, 1, width}, {-1, 0, 0}};
    if (have_extents(views, forms, extents) < 0) goto done;
    if (number > 1 && !(workspace = PyMem_New(float, AT_ONCE * (width ? width : 1)))) {
        PyErr_NoMemory();
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t at = 0; at < number; at += AT_ONCE)
        tally_loops->absorb(sums, classes, width, labels + at * classes, rows + at * width, block(at, number),
                            workspace);
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
done:
    PyMem_Free(workspace);
    release(views, 3);
    return result;
}

/* compare(sums [K, D], rows [B, D], along [B], level [K], slope [K], mass [K], out [B, K]):
   out += level + slope * (rows @ sums.T - outer(along, mass)) */
PyObject *kernel_compare(PyObject *self UNUSED, PyObject *arguments)
{
    static const Form forms[] = {{"sums", FLOAT32, 2, 0},  {"rows", FLOAT32, 2, 0},  {"along", FLOAT32, 1, 0},
                                 {"level", FLOAT32, 1, 0}, {"slope", FLOAT32, 1, 0}, {"mass", FLOAT32, 1, 0},
                                 {"out", FLOAT32, 2, 1}};
    PyObject *o[7], *result = NULL;
    Py_buffer views[7];
    if (!PyArg_ParseTuple(arguments, "OOOOOOO:compare", &o[0], &o[1], &o[2], &o[3], &o[4], &o[5], &o[6])) return NULL;
    if (take(o, views, forms, 7) < 0) return NULL;
    Py_ssize_t classes = views[0].shape[0], width = views[0].shape[1], number = views[1].shape[0];
    const float *rows = views[1].buf, *along = views[2].buf;
    float *out = views[6].buf, *workspace = NULL;
    const Extent extents[] = {{1, 1, width},   {2, 0, number}, {3, 0, classes}, {4, 0, classes},
                              {5, 0, classes}, {6, 0, number}, {6, 1, classes}, {-1, 0, 0}};
    if (have_extents(views, forms, extents) < 0) goto done;
    if (!(workspace = PyMem_New(float, AT_ONCE * (width + classes + 1)))) {
        PyErr_NoMemory();
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t at = 0; at < number; at += AT_ONCE)
        tally_loops->compare(views[0].buf, classes, width, rows + at * width, block(at, number), along + at,
                             views[3].buf, views[4].buf, views[5].buf, out + at * classes, workspace);
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
done:
    PyMem_Free(workspace);
    release(views, 7);
    return result;
}

/* measure(sums [K, D], x [D], g [D], out [3, K]): the products of every class's sum with x, with g and with itself */
PyObject *kernel_measure(PyObject *self UNUSED, PyObject *arguments)
{
    static const Form forms[] = {
        {"sums", FLOAT32, 2, 0}, {"x", FLOAT32, 1, 0}, {"g", FLOAT32, 1, 0}, {"out", FLOAT32, 2, 1}};
    PyObject *objects[4], *result = NULL;
    Py_buffer views[4];
    if (!PyArg_ParseTuple(arguments, "OOOO:measure", &objects[0], &objects[1], &objects[2], &objects[3])) return NULL;
    if (take(objects, views, forms, 4) < 0) return NULL;
    Py_ssize_t classes = views[0].shape[0], width = views[0].shape[1];
    const Extent extents[] = {{1, 0, width}, {2, 0, width}, {3, 0, 3}, {3, 1, classes}, {-1, 0, 0}};
    if (have_extents(views, forms, extents) < 0) goto done;
    Py_BEGIN_ALLOW_THREADS
    tally_loops->measure(views[0].buf, classes, width, views[1].buf, views[2].buf, views[3].buf);
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
done:
    release(views, 4);
    return result;
}

#define SCAN 32

/* The largest so far are kept in order, the first of equals first; what comes must exceed the last of them. */
static void list_heaviest(const float *weights, Py_ssize_t count, int64_t *slots, Py_ssize_t keep)
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

/* heaviest(weights [n], slots [m]): where the m largest weights are, the largest first, the first of equals first */
PyObject *kernel_heaviest(PyObject *self UNUSED, PyObject *arguments)
{
    static const Form forms[] = {{"weights", FLOAT32, 1, 0}, {"slots", INT64, 1, 1}};
    PyObject *objects[2], *result = NULL;
    Py_buffer views[2];
    if (!PyArg_ParseTuple(arguments, "OO:heaviest", &objects[0], &objects[1])) return NULL;
    if (take(objects, views, forms, 2) < 0) return NULL;
    Py_ssize_t count = views[0].shape[0], keep = views[1].shape[0];
    if (keep > count) PyErr_Format(PyExc_ValueError, "slots must be at most %zd long; it is %zd", count, keep);
    else {
        if (keep) list_heaviest(views[0].buf, count, views[1].buf, keep);
        result = Py_NewRef(Py_None);
    }
    release(views, 2);
    return result;
}
