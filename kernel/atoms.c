/* Similarities of centres from products that are kept. A centre that attends to a query is another one for every query,
   but what it is made of stays: its class's text and samples, here the atoms. With the products of all atoms at hand, those
   of two centres are weighted sums of a few numbers each; while atoms are few, that is far less than the width. */
#include "parts.h"

#include <math.h>
#include <stdlib.h>

/* Whether every filled slot has a place among the atoms, behind the texts. */
int have_places(const Py_buffer *count, const Py_buffer *places, Py_ssize_t texts, Py_ssize_t atoms)
{
    Py_ssize_t shots = places->shape[1];
    const int64_t *filled = count->buf;
    const int32_t *place = places->buf;
    for (Py_ssize_t k = 0; k < places->shape[0]; k++, place += shots) {
        int sound = filled[k] >= 0 && filled[k] <= shots;
        for (int64_t slot = 0; sound && slot < filled[k]; slot++) sound = place[slot] >= texts && place[slot] < atoms;
        if (!sound) {
            PyErr_Format(PyExc_ValueError, "the slots of class %zd are none of %zd atoms", k, atoms);
            return -1;
        }
    }
    return 0;
}

int acquaint(const Made *made, const float *texts, const float *slots, ptrdiff_t width, ptrdiff_t label, ptrdiff_t slot)
{
    ptrdiff_t shots = made->shots, atoms = made->atoms, own = made->places[label * shots + slot];
    const float *feature = slots + (label * shots + slot) * width;
    float *row = made->products + own * atoms, *near = malloc((size_t)(made->classes * shots) * sizeof(float));
    if (!near) return -1;
    hot->rows_by_queries(texts, made->texts, feature, 1, width, row, made->texts);
    for (ptrdiff_t text = 0; text < made->texts; text++) made->products[text * atoms + own] = row[text];
    hot->slots_by_query(slots, made->filled, made->classes, shots, feature, width, near);
    for (ptrdiff_t k = 0; k < made->classes; k++)
        for (ptrdiff_t at = k * shots; at < k * shots + made->filled[k]; at++) {
            ptrdiff_t other = made->places[at];
            row[other] = made->products[other * atoms + own] = near[at];
        }
    free(near);
    return 0;
}

/* acquaint(texts [t, D], slots [K, L, D], count [K], places [K, L], label, slot, products [a, a]): bring the products of
   the atom that a slot holds with all the others up to date. */
PyObject *kernel_acquaint(PyObject *self UNUSED, PyObject *arguments)
{
    static const Form forms[] = {{"texts", FLOAT32, 2, 0}, {"slots", FLOAT32, 3, 0},    {"count", INT64, 1, 0},
                                 {"places", INT32, 2, 0},  {"products", FLOAT32, 2, 1}};
    PyObject *o[5], *result = NULL;
    Py_buffer views[5];
    Py_ssize_t label, slot;
    if (!PyArg_ParseTuple(arguments, "OOOOnnO:acquaint", &o[0], &o[1], &o[2], &o[3], &label, &slot, &o[4])) return NULL;
    if (take(o, views, forms, 5) < 0) return NULL;
    Py_ssize_t texts = views[0].shape[0], width = views[0].shape[1], atoms = views[4].shape[0];
    Py_ssize_t classes = views[1].shape[0], shots = views[1].shape[1];
    const int64_t *filled = views[2].buf;
    const Extent extents[] = {{1, 2, width}, {2, 0, classes}, {3, 0, classes}, {3, 1, shots}, {4, 1, atoms}, {-1, 0, 0}};
    if (have_extents(views, forms, extents) < 0 || have_places(&views[2], &views[3], texts, atoms) < 0) goto done;
    if (label < 0 || label >= classes || slot < 0 || slot >= filled[label]) {
        PyErr_Format(PyExc_ValueError, "slot %zd of class %zd is none of those filled", slot, label);
        goto done;
    }
    Made made = {.classes = classes, .shots = shots, .texts = texts, .atoms = atoms, .products = views[4].buf,
                 .places = views[3].buf, .filled = filled};
    result = acquaint(&made, views[0].buf, views[1].buf, width, label, slot) < 0 ? PyErr_NoMemory() : Py_NewRef(Py_None);
done:
    release(views, 5);
    return result;
}

/* The product of something, whose products with all atoms are known, with the sum that a class is made of. */
static float along(const Made *made, ptrdiff_t k, const float *known)
{
    const float *weights = made->weights + k * (made->shots + (made->shares != NULL));
    const int32_t *places = made->places + k * made->shots;
    float sum = made->shares ? weights[made->shots] * made->shares[k] * known[k] : 0;
    for (int64_t slot = 0; slot < made->filled[k]; slot++) sum += weights[slot] * known[places[slot]];
    return sum;
}

/* Every pair with the centre of a class that has samples, into the lower triangle of similarities. */
int compose(const Made *made, float *similarity)
{
    float *known = malloc((size_t)(made->used + made->classes + 1) * sizeof(float)), *scale = known + made->used;
    if (!known) return -1;
    for (ptrdiff_t k = 0; k < made->classes; k++) {
        if (!made->filled[k]) continue;
        const float *weights = made->weights + k * (made->shots + (made->shares != NULL));
        float text = made->shares ? weights[made->shots] * made->shares[k] : 0;
        hot->weigh(made->products, made->atoms, made->places + k * made->shots, weights, (ptrdiff_t)made->filled[k],
                   made->shares ? made->products + k * made->atoms : NULL, text, made->used, known);
        float square = along(made, k, known);
        scale[k] = square > 0 ? 1 / sqrtf(square) : 0;
        float *row = similarity + (made->texts + k) * made->nodes;
        for (ptrdiff_t node = 0; node < made->texts; node++) row[node] = known[node] * scale[k];
        for (ptrdiff_t other = 0; other < made->classes; other++) {
            float *to = other <= k ? row + made->texts + other
                                   : similarity + (made->texts + other) * made->nodes + made->texts + k;
            if (made->filled[other] && other > k) continue; /* when that one has its turn */
            if (made->filled[other]) *to = along(made, other, known) * scale[k] * scale[other];
            else *to = made->shares ? made->shares[other] * known[other] * scale[k] : 0;
        }
    }
    free(known);
    return 0;
}

/* compose(products [a, a], used, places [K, L], count [K], weights [K, S], shares [K] or None, similarity [n, n]): bring
   the similarities of centres up to date. The first n - K nodes are texts, the first atoms too, K of them or none; the
   text in a class's centre is its `share` of its atom. S is L, or L + 1 with shares. */
PyObject *kernel_compose(PyObject *self UNUSED, PyObject *arguments)
{
    static const Form forms[] = {{"products", FLOAT32, 2, 0}, {"places", INT32, 2, 0},   {"count", INT64, 1, 0},
                                 {"weights", FLOAT32, 2, 0},  {"shares", FLOAT32, -1, 0}, {"similarity", FLOAT32, 2, 1}};
    PyObject *o[6], *result = NULL;
    Py_buffer views[6];
    Py_ssize_t used;
    if (!PyArg_ParseTuple(arguments, "OnOOOOO:compose", &o[0], &used, &o[1], &o[2], &o[3], &o[4], &o[5])) return NULL;
    if (take(o, views, forms, 6) < 0) return NULL;
    Py_ssize_t atoms = views[0].shape[0], classes = views[1].shape[0], shots = views[1].shape[1];
    Py_ssize_t nodes = views[5].shape[0], texts = nodes - classes;
    const Extent extents[] = {{0, 1, atoms},   {2, 0, classes}, {3, 0, classes}, {3, 1, shots + (views[4].obj != NULL)},
                              {4, 0, classes}, {5, 1, nodes},   {-1, 0, 0}};
    if (have_extents(views, forms, extents) < 0) goto done;
    if ((texts && texts != classes) || (views[4].obj && !texts) || used < texts || used > atoms) {
        PyErr_Format(PyExc_ValueError, "%zd of %zd atoms in %zd nodes of %zd classes cannot be", used, atoms, nodes, classes);
        goto done;
    }
    if (have_places(&views[2], &views[1], texts, used) < 0) goto done;
    Made made = {classes,      shots,        texts,        atoms,        used,        nodes,
                 views[0].buf, views[1].buf, views[2].buf, views[3].buf, views[4].buf};
    result = compose(&made, views[5].buf) < 0 ? PyErr_NoMemory() : Py_NewRef(Py_None);
done:
    release(views, 6);
    return result;
}
