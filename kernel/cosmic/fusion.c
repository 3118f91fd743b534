/* The weighted sum of the branches. */
#include "cosmic.h"

ptrdiff_t fuse_branches(const float *zero_shot, const float *css, const float *afv, ptrdiff_t classes,
                        const float *weights, float *mean,
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

/* fuse_branches(zero_shot [K], css [2K], afv [K] or None, zero_shot_weight, css_weight, afv_weight, css_classes [K],
   scores [K]) → label: `css_classes` is the mean of the two nodes of each class. `scores` is the weighted sum of the
   branches, scaled to sum one; it is zero-shot if the sum is 0. The label is the argmax of the scores. */
PyObject *kernel_fuse_branches(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {
        {"zero_shot", FLOAT32, 1, 0}, {"css", FLOAT32, 1, 0}, {"afv", FLOAT32, -1, 0}, {"css_classes", FLOAT32, 1, 1},
        {"scores", FLOAT32, 1, 1}};
    PyObject *o[5], *result = NULL;
    Py_buffer views[5];
    float weights[3];
    if (!PyArg_ParseTuple(arguments, "OOOfffOO:fuse_branches", &o[0], &o[1], &o[2], &weights[0], &weights[1],
                          &weights[2], &o[3], &o[4]))
        return NULL;
    if (take_arrays(o, views, specs, 5) < 0) return NULL;
    Py_ssize_t classes = views[0].shape[0];
    const Extent extents[] = {{1, 0, 2 * classes}, {2, 0, classes}, {3, 0, classes}, {4, 0, classes}, {-1, 0, 0}};
    if (check_extents(views, specs, extents) < 0) goto done;
    if (classes < 1) {
        PyErr_SetString(PyExc_ValueError, "there must be at least one class");
        goto done;
    }
    result = PyLong_FromSsize_t(fuse_branches(views[0].buf, views[1].buf, views[2].buf, classes, weights, views[3].buf,
                                              views[4].buf));
done:
    release_arrays(views, 5);
    return result;
}
