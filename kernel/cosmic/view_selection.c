/* The confident views of an image, and pseudo-labels. */
#include "cosmic.h"

#include <math.h>
#include <stdlib.h>

static float entropy_of(const float *probabilities, Py_ssize_t classes, float epsilon)
{
    float sum = 0;
    for (Py_ssize_t k = 0; k < classes; k++) sum -= probabilities[k] * logf(probabilities[k] + epsilon);
    return sum;
}

void unit_mean(const float *rows, const int64_t *which, ptrdiff_t count, ptrdiff_t width, float *out)
{
    float length;
    memcpy(out, rows + which[0] * width, (size_t)width * sizeof(float));
    for (Py_ssize_t at = 1; at < count; at++)
        for (Py_ssize_t d = 0; d < width; d++) out[d] += rows[which[at] * width + d];
    if (count > 1)
        for (Py_ssize_t d = 0; d < width; d++) out[d] /= (float)count;
    simd->rows_by_queries(out, 1, out, 1, width, &length, 1);
    length = sqrtf(length);
    if (length > 0)
        for (Py_ssize_t d = 0; d < width; d++) out[d] /= length;
}

int check_view_count(Py_ssize_t keep, Py_ssize_t number, Py_ssize_t classes)
{
    if (classes >= 1 && keep >= 1 && keep <= number) return 0;
    PyErr_Format(PyExc_ValueError,
                 "kept views must be from 1 to the number of views, and classes at least 1; given %zd of %zd views, "
                 "%zd classes", keep,
                 number, classes);
    return -1;
}

ptrdiff_t confident_views(const float *dots, ptrdiff_t number, ptrdiff_t classes, float scale, ptrdiff_t keep,
                          float *probabilities, float *work, int64_t *kept, float *entropy)
{
    float *entropies = work, *mean = work + number;
    for (ptrdiff_t view = 0; view < number; view++) {
        float *row = probabilities + view * classes;
        softmax(dots + view * classes, scale, classes, row);
        entropies[view] = number > 1 ? entropy_of(row, classes, 1e-6f) : 0;
    }
    memset(mean, 0, (size_t)classes * sizeof(float));
    for (ptrdiff_t at = 0; at < keep; at++) {
        kept[at] = 0;
        for (ptrdiff_t view = 1; view < number; view++)
            if (entropies[view] < entropies[kept[at]]) kept[at] = view;
        entropies[kept[at]] = Py_HUGE_VAL;
        for (ptrdiff_t k = 0; k < classes; k++) mean[k] += probabilities[kept[at] * classes + k];
    }
    ptrdiff_t label = 0;
    for (ptrdiff_t k = 0; k < classes; k++) {
        mean[k] /= (float)keep;
        if (mean[k] > mean[label]) label = k;
    }
    *entropy = entropy_of(mean, classes, 1e-8f);
    return label;
}

/* select_confident_views(dots [V, K], scale, keep, probabilities [V, K], views [V, D] or None, feature [D])
   → label, entropy, kept: softmax of every view's scaled dots; the `keep` views of least entropy, in ascending order of
   entropy, as bytes of int64; the argmax of their mean probability, and the entropy of that mean. `feature` is the mean
   of the kept views at unit length; it has length 0 if no views are given. */
PyObject *kernel_select_confident_views(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {
        {"dots", FLOAT32, 2, 0}, {"probabilities", FLOAT32, 2, 1}, {"views", FLOAT32, -2, 0},
        {"feature", FLOAT32, 1, 1}};
    PyObject *objects[4], *result = NULL, *kept = NULL;
    Py_buffer views[4];
    float scale, entropy, *work = NULL;
    Py_ssize_t keep;
    if (!PyArg_ParseTuple(arguments, "OfnOOO:select_confident_views", &objects[0], &scale, &keep, &objects[1],
                          &objects[2], &objects[3]))
        return NULL;
    if (take_arrays(objects, views, specs, 4) < 0) return NULL;
    Py_ssize_t number = views[0].shape[0], classes = views[0].shape[1], width = views[2].obj ? views[2].shape[1] : 0;
    const Extent extents[] = {{1, 0, number}, {1, 1, classes}, {2, 0, number}, {3, 0, width}, {-1, 0, 0}};
    if (check_extents(views, specs, extents) < 0 || check_view_count(keep, number, classes) < 0) goto done;
    kept = PyBytes_FromStringAndSize(NULL, keep * 8);
    work = malloc((size_t)(number + classes) * sizeof(float));
    if (!kept || !work) {
        PyErr_NoMemory();
        goto done;
    }
    int64_t *views_kept = (int64_t *)(void *)PyBytes_AS_STRING(kept);
    Py_ssize_t label = confident_views(views[0].buf, number, classes, scale, keep, views[1].buf, work, views_kept,
                                       &entropy);
    if (views[2].obj) unit_mean(views[2].buf, views_kept, keep, width, views[3].buf);
    result = Py_BuildValue("nfO", label, entropy, kept);
done:
    Py_XDECREF(kept);
    free(work);
    release_arrays(views, 4);
    return result;
}

ptrdiff_t joint_pseudo_label(const float *one, const float *other, ptrdiff_t classes, float *entropy)
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
    *entropy = logf(total) - sum / total;
    return label;
}

/* joint_pseudo_label(one [K], other [K]) → label, entropy: the argmax of the sum, and the entropy of its softmax */
PyObject *kernel_joint_pseudo_label(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {{"one", FLOAT32, 1, 0}, {"other", FLOAT32, 1, 0}};
    PyObject *objects[2], *result = NULL;
    Py_buffer views[2];
    float entropy;
    if (!PyArg_ParseTuple(arguments, "OO:joint_pseudo_label", &objects[0], &objects[1])) return NULL;
    if (take_arrays(objects, views, specs, 2) < 0) return NULL;
    Py_ssize_t classes = views[0].shape[0], label = 0;
    const float *one = views[0].buf, *other = views[1].buf;
    const Extent extents[] = {{1, 0, classes}, {-1, 0, 0}};
    if (check_extents(views, specs, extents) < 0) goto done;
    if (classes < 1) {
        PyErr_SetString(PyExc_ValueError, "there must be at least one class");
        goto done;
    }
    label = joint_pseudo_label(one, other, classes, &entropy);
    result = Py_BuildValue("nf", label, entropy);
done:
    release_arrays(views, 2);
    return result;
}
