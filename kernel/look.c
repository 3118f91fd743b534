/* What predictions say: softmax, the confident views of an image, entropies. */
#include "parts.h"

#include <math.h>
#include <stdlib.h>

void softmax(const float *dots, float scale, ptrdiff_t classes, float *out)
{
    float highest = dots[0] * scale, total = 0;
    for (Py_ssize_t k = 1; k < classes; k++)
        if (dots[k] * scale > highest) highest = dots[k] * scale;
    for (Py_ssize_t k = 0; k < classes; k++) total += out[k] = expf(dots[k] * scale - highest);
    for (Py_ssize_t k = 0; k < classes; k++) out[k] /= total;
}

static float entropy(const float *probabilities, Py_ssize_t classes, float epsilon)
{
    float sum = 0;
    for (Py_ssize_t k = 0; k < classes; k++) sum -= probabilities[k] * logf(probabilities[k] + epsilon);
    return sum;
}

/* softmax(values [K], scale, out [K]): softmax of the scaled values */
PyObject *kernel_softmax(PyObject *self UNUSED, PyObject *arguments)
{
    static const Form forms[] = {{"values", FLOAT32, 1, 0}, {"out", FLOAT32, 1, 1}};
    PyObject *objects[2], *result = NULL;
    Py_buffer views[2];
    float scale;
    if (!PyArg_ParseTuple(arguments, "OfO:softmax", &objects[0], &scale, &objects[1])) return NULL;
    if (take(objects, views, forms, 2) < 0) return NULL;
    const Extent extents[] = {{1, 0, views[0].shape[0]}, {-1, 0, 0}};
    if (have_extents(views, forms, extents) < 0) goto done;
    if (views[0].shape[0]) softmax(views[0].buf, scale, views[0].shape[0], views[1].buf);
    result = Py_NewRef(Py_None);
done:
    release(views, 2);
    return result;
}

void unit_mean(const float *rows, const int64_t *which, ptrdiff_t count, ptrdiff_t width, float *out)
{
    float length;
    memcpy(out, rows + which[0] * width, (size_t)width * sizeof(float));
    for (Py_ssize_t at = 1; at < count; at++)
        for (Py_ssize_t d = 0; d < width; d++) out[d] += rows[which[at] * width + d];
    if (count > 1)
        for (Py_ssize_t d = 0; d < width; d++) out[d] /= (float)count;
    hot->rows_by_queries(out, 1, out, 1, width, &length, 1);
    length = sqrtf(length);
    if (length > 0)
        for (Py_ssize_t d = 0; d < width; d++) out[d] /= length;
}

int views_fit(Py_ssize_t keep, Py_ssize_t number, Py_ssize_t classes)
{
    if (classes >= 1 && keep >= 1 && keep <= number) return 0;
    PyErr_Format(PyExc_ValueError, "%zd of %zd views of %zd classes cannot be kept", keep, number, classes);
    return -1;
}

ptrdiff_t surest_views(const float *dots, ptrdiff_t number, ptrdiff_t classes, float scale, ptrdiff_t keep,
                       float *probabilities, float *work, int64_t *surest, float *surprise)
{
    float *entropies = work, *mean = work + number;
    for (ptrdiff_t view = 0; view < number; view++) {
        float *row = probabilities + view * classes;
        softmax(dots + view * classes, scale, classes, row);
        entropies[view] = number > 1 ? entropy(row, classes, 1e-6f) : 0;
    }
    memset(mean, 0, (size_t)classes * sizeof(float));
    for (ptrdiff_t at = 0; at < keep; at++) {
        surest[at] = 0;
        for (ptrdiff_t view = 1; view < number; view++)
            if (entropies[view] < entropies[surest[at]]) surest[at] = view;
        entropies[surest[at]] = Py_HUGE_VAL;
        for (ptrdiff_t k = 0; k < classes; k++) mean[k] += probabilities[surest[at] * classes + k];
    }
    ptrdiff_t label = 0;
    for (ptrdiff_t k = 0; k < classes; k++) {
        mean[k] /= (float)keep;
        if (mean[k] > mean[label]) label = k;
    }
    *surprise = entropy(mean, classes, 1e-8f);
    return label;
}

/* look(dots [V, K], scale, keep, probabilities [V, K], views [V, D] or None, feature [D]) → label, entropy, kept:
   softmax of every view's scaled dots; the `keep` views of least entropy, the surest first, as bytes of int64; the class
   that their mean favours, and that mean's entropy; `feature` is the mean of those views at unit length,
   [0] if there are none */
PyObject *kernel_look(PyObject *self UNUSED, PyObject *arguments)
{
    static const Form forms[] = {{"dots", FLOAT32, 2, 0}, {"probabilities", FLOAT32, 2, 1}, {"views", FLOAT32, -2, 0},
                                 {"feature", FLOAT32, 1, 1}};
    PyObject *objects[4], *result = NULL, *kept = NULL;
    Py_buffer views[4];
    float scale, surprise, *work = NULL;
    Py_ssize_t keep;
    if (!PyArg_ParseTuple(arguments, "OfnOOO:look", &objects[0], &scale, &keep, &objects[1], &objects[2], &objects[3]))
        return NULL;
    if (take(objects, views, forms, 4) < 0) return NULL;
    Py_ssize_t number = views[0].shape[0], classes = views[0].shape[1], width = views[2].obj ? views[2].shape[1] : 0;
    const Extent extents[] = {{1, 0, number}, {1, 1, classes}, {2, 0, number}, {3, 0, width}, {-1, 0, 0}};
    if (have_extents(views, forms, extents) < 0 || views_fit(keep, number, classes) < 0) goto done;
    kept = PyBytes_FromStringAndSize(NULL, keep * 8);
    work = malloc((size_t)(number + classes) * sizeof(float));
    if (!kept || !work) {
        PyErr_NoMemory();
        goto done;
    }
    int64_t *surest = (int64_t *)(void *)PyBytes_AS_STRING(kept);
    Py_ssize_t label = surest_views(views[0].buf, number, classes, scale, keep, views[1].buf, work, surest, &surprise);
    if (views[2].obj) unit_mean(views[2].buf, surest, keep, width, views[3].buf);
    result = Py_BuildValue("nfO", label, surprise, kept);
done:
    Py_XDECREF(kept);
    free(work);
    release(views, 4);
    return result;
}

ptrdiff_t favoured(const float *one, const float *other, ptrdiff_t classes, float *surprise)
{
    ptrdiff_t label = 0;
    for (ptrdiff_t k = 1; k < classes; k++)
        if (one[k] + other[k] > one[label] + other[label]) label = k;
    float highest = one[label] + other[label], total = 0, sum = 0;
    for (ptrdiff_t k = 0; k < classes; k++) {
        float below = one[k] + other[k] - highest, share = expf(below);
        total += share;
        sum += share * below;
    }
    *surprise = logf(total) - sum / total;
    return label;
}

/* doubt(one [K], other [K]) → label, entropy: the class that the sum of both favours, and the entropy of its softmax */
PyObject *kernel_doubt(PyObject *self UNUSED, PyObject *arguments)
{
    static const Form forms[] = {{"one", FLOAT32, 1, 0}, {"other", FLOAT32, 1, 0}};
    PyObject *objects[2], *result = NULL;
    Py_buffer views[2];
    float surprise;
    if (!PyArg_ParseTuple(arguments, "OO:doubt", &objects[0], &objects[1])) return NULL;
    if (take(objects, views, forms, 2) < 0) return NULL;
    Py_ssize_t classes = views[0].shape[0], label = 0;
    const float *one = views[0].buf, *other = views[1].buf;
    const Extent extents[] = {{1, 0, classes}, {-1, 0, 0}};
    if (have_extents(views, forms, extents) < 0) goto done;
    if (classes < 1) {
        PyErr_SetString(PyExc_ValueError, "there must be a class");
        goto done;
    }
    label = favoured(one, other, classes, &surprise);
    result = Py_BuildValue("nf", label, surprise);
done:
    release(views, 2);
    return result;
}

ptrdiff_t fuse(const float *zero_shot, const float *css, const float *afv, ptrdiff_t classes, const float *weights, float *mean,
               float *scores)
{
    ptrdiff_t label = 0;
    float total = 0;
    for (ptrdiff_t k = 0; k < classes; k++) {
        mean[k] = (css[k] + css[classes + k]) / 2;
        scores[k] = weights[0] * zero_shot[k] + weights[1] * mean[k] + (afv ? weights[2] * afv[k] : 0);
        total += scores[k];
    }
    for (ptrdiff_t k = 0; k < classes; k++) {
        scores[k] = total == 0 ? zero_shot[k] : scores[k] / total;
        if (scores[k] > scores[label]) label = k;
    }
    return label;
}

/* fuse(zero_shot [K], css [2K], afv [K] or None, weight, css_weight, afv_weight, classes [K], scores [K]) → label:
   `classes` is the mean of a class's two nodes; `scores` the weighted sum of the branches, as shares of one, or
   zero-shot where nothing weighs; the label has the highest */
PyObject *kernel_fuse(PyObject *self UNUSED, PyObject *arguments)
{
    static const Form forms[] = {{"zero_shot", FLOAT32, 1, 0}, {"css", FLOAT32, 1, 0},    {"afv", FLOAT32, -1, 0},
                                 {"classes", FLOAT32, 1, 1},   {"scores", FLOAT32, 1, 1}};
    PyObject *o[5], *result = NULL;
    Py_buffer views[5];
    float weights[3];
    if (!PyArg_ParseTuple(arguments, "OOOfffOO:fuse", &o[0], &o[1], &o[2], &weights[0], &weights[1], &weights[2], &o[3], &o[4]))
        return NULL;
    if (take(o, views, forms, 5) < 0) return NULL;
    Py_ssize_t classes = views[0].shape[0];
    const Extent extents[] = {{1, 0, 2 * classes}, {2, 0, classes}, {3, 0, classes}, {4, 0, classes}, {-1, 0, 0}};
    if (have_extents(views, forms, extents) < 0) goto done;
    if (classes < 1) {
        PyErr_SetString(PyExc_ValueError, "there must be a class");
        goto done;
    }
    result = PyLong_FromSsize_t(fuse(views[0].buf, views[1].buf, views[2].buf, classes, weights, views[3].buf, views[4].buf));
done:
    release(views, 5);
    return result;
}
