/* Similarities of centres from cached products. A centre that attends to a query differs for every query, but it is a
   weighted sum of its class's text and samples, which stay. Given the products of all texts and samples, those of two
   centres are weighted sums of a few numbers; while samples are few, these are far fewer than the width. */
#include "cosmic.h"

#include <math.h>
#include <stdlib.h>

int check_gram_rows(const Py_buffer *count, const Py_buffer *row_of_slot, Py_ssize_t texts, Py_ssize_t rows)
{
    Py_ssize_t shots = row_of_slot->shape[1];
    const int64_t *filled = count->buf;
    const int32_t *row = row_of_slot->buf;
    for (Py_ssize_t k = 0; k < row_of_slot->shape[0]; k++, row += shots) {
        int valid = filled[k] >= 0 && filled[k] <= shots;
        for (int64_t slot = 0; valid && slot < filled[k]; slot++) valid = row[slot] >= texts && row[slot] < rows;
        if (!valid) {
            PyErr_Format(PyExc_ValueError, "the filled slots of class %zd must have rows from %zd to below %zd", k,
                         texts, rows);
            return -1;
        }
    }
    return 0;
}

int gram_add_row(const GramCache *cache, const float *texts, const float *slots, ptrdiff_t width, ptrdiff_t label,
                 ptrdiff_t slot)
{
    ptrdiff_t shots = cache->shots, rows = cache->rows, own = cache->row_of_slot[label * shots + slot];
    const float *feature = slots + (label * shots + slot) * width;
    float *row = cache->products + own * rows, *products = malloc((size_t)(cache->classes * shots) * sizeof(float));
    if (!products) return -1;
    simd->rows_by_queries(texts, cache->texts, feature, 1, width, row, cache->texts);
    for (ptrdiff_t text = 0; text < cache->texts; text++) cache->products[text * rows + own] = row[text];
    simd->slots_by_query(slots, cache->filled, cache->classes, shots, feature, width, products);
    for (ptrdiff_t k = 0; k < cache->classes; k++)
        for (ptrdiff_t at = k * shots; at < k * shots + cache->filled[k]; at++) {
            ptrdiff_t other = cache->row_of_slot[at];
            row[other] = cache->products[other * rows + own] = products[at];
        }
    free(products);
    return 0;
}

/* gram_add_row(texts [t, D], slots [K, L, D], count [K], row_of_slot [K, L], label, slot, products [a, a]): update the
   products of one slot's sample with all rows. */
PyObject *kernel_gram_add_row(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {
        {"texts", FLOAT32, 2, 0}, {"slots", FLOAT32, 3, 0}, {"count", INT64, 1, 0}, {"row_of_slot", INT32, 2, 0},
        {"products", FLOAT32, 2, 1}};
    PyObject *o[5], *result = NULL;
    Py_buffer views[5];
    Py_ssize_t label, slot;
    if (!PyArg_ParseTuple(arguments, "OOOOnnO:gram_add_row", &o[0], &o[1], &o[2], &o[3], &label, &slot, &o[4]))
        return NULL;
    if (take_arrays(o, views, specs, 5) < 0) return NULL;
    Py_ssize_t texts = views[0].shape[0], width = views[0].shape[1], rows = views[4].shape[0];
    Py_ssize_t classes = views[1].shape[0], shots = views[1].shape[1];
    const int64_t *filled = views[2].buf;
    const Extent extents[] = {{1, 2, width}, {2, 0, classes}, {3, 0, classes}, {3, 1, shots}, {4, 1, rows}, {-1, 0, 0}};
    if (check_extents(views, specs, extents) < 0 || check_gram_rows(&views[2], &views[3], texts, rows) < 0) goto done;
    if (label < 0 || label >= classes || slot < 0 || slot >= filled[label]) {
        PyErr_Format(PyExc_ValueError, "slot %zd of class %zd must be a filled slot", slot, label);
        goto done;
    }
    GramCache cache = {.classes = classes, .shots = shots, .texts = texts, .rows = rows, .products = views[4].buf,
                       .row_of_slot = views[3].buf, .filled = filled};
    result = gram_add_row(&cache, views[0].buf, views[1].buf, width, label,
                          slot) < 0 ? PyErr_NoMemory() : Py_NewRef(Py_None);
done:
    release_arrays(views, 5);
    return result;
}

/* The product of a vector with the weighted sum of a class; `known` are its products with all rows. */
static float along(const GramCache *cache, ptrdiff_t k, const float *known)
{
    const float *weights = cache->weights + k * (cache->shots + (cache->text_scales != NULL));
    const int32_t *row_of_slot = cache->row_of_slot + k * cache->shots;
    float sum = cache->text_scales ? weights[cache->shots] * cache->text_scales[k] * known[k] : 0;
    for (int64_t slot = 0; slot < cache->filled[k]; slot++) sum += weights[slot] * known[row_of_slot[slot]];
    return sum;
}

/* Every pair with the centre of a class that has samples, into the lower triangle of similarities. */
int gram_fill_similarity(const GramCache *cache, float *similarity)
{
    float *known = malloc((size_t)(cache->used + cache->classes + 1) * sizeof(float)), *scale = known + cache->used;
    if (!known) return -1;
    for (ptrdiff_t k = 0; k < cache->classes; k++) {
        if (!cache->filled[k]) continue;
        const float *weights = cache->weights + k * (cache->shots + (cache->text_scales != NULL));
        float text = cache->text_scales ? weights[cache->shots] * cache->text_scales[k] : 0;
        simd->weigh(cache->products, cache->rows, cache->row_of_slot + k * cache->shots, weights,
                    (ptrdiff_t)cache->filled[k],
                    cache->text_scales ? cache->products + k * cache->rows : NULL, text, cache->used, known);
        float square = along(cache, k, known);
        scale[k] = square > 0 ? 1 / sqrtf(square) : 0;
        float *row = similarity + (cache->texts + k) * cache->nodes;
        for (ptrdiff_t node = 0; node < cache->texts; node++) row[node] = known[node] * scale[k];
        for (ptrdiff_t other = 0; other < cache->classes; other++) {
            float *to = other <= k ? row + cache->texts + other
                                   : similarity + (cache->texts + other) * cache->nodes + cache->texts + k;
            if (cache->filled[other] && other > k) continue; /* written with the other class */
            if (cache->filled[other]) *to = along(cache, other, known) * scale[k] * scale[other];
            else *to = cache->text_scales ? cache->text_scales[other] * known[other] * scale[k] : 0;
        }
    }
    free(known);
    return 0;
}

/* gram_fill_similarity(products [a, a], used, row_of_slot [K, L], count [K], weights [K, S], text_scales [K] or None,
   similarity [n, n]): update the similarities of centres. The first n - K nodes are texts, K or none; the first rows
   hold their products. Texts take part in the centres if `text_scales` is given; then S is L + 1, else L. */
PyObject *kernel_gram_fill_similarity(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {
        {"products", FLOAT32, 2, 0}, {"row_of_slot", INT32, 2, 0}, {"count", INT64, 1, 0}, {"weights", FLOAT32, 2, 0},
        {"text_scales", FLOAT32, -1, 0}, {"similarity", FLOAT32, 2, 1}};
    PyObject *o[6], *result = NULL;
    Py_buffer views[6];
    Py_ssize_t used;
    if (!PyArg_ParseTuple(arguments, "OnOOOOO:gram_fill_similarity", &o[0], &used, &o[1], &o[2], &o[3], &o[4], &o[5]))
        return NULL;
    if (take_arrays(o, views, specs, 6) < 0) return NULL;
    Py_ssize_t rows = views[0].shape[0], classes = views[1].shape[0], shots = views[1].shape[1];
    Py_ssize_t nodes = views[5].shape[0], texts = nodes - classes;
    const Extent extents[] = {
        {0, 1, rows}, {2, 0, classes}, {3, 0, classes}, {3, 1, shots + (views[4].obj != NULL)}, {4, 0, classes},
        {5, 1, nodes}, {-1, 0, 0}};
    if (check_extents(views, specs, extents) < 0) goto done;
    if ((texts && texts != classes) || (views[4].obj && !texts) || used < texts || used > rows) {
        PyErr_Format(PyExc_ValueError,
                     "nodes must be K or 2K, and used from the texts to %zd; given %zd nodes of %zd classes, used %zd",
                     rows, nodes, classes, used);
        goto done;
    }
    if (check_gram_rows(&views[2], &views[1], texts, used) < 0) goto done;
    GramCache cache = {classes,      shots,        texts,        rows,        used,        nodes,
                       views[0].buf, views[1].buf, views[2].buf, views[3].buf, views[4].buf};
    result = gram_fill_similarity(&cache, views[5].buf) < 0 ? PyErr_NoMemory() : Py_NewRef(Py_None);
done:
    release_arrays(views, 6);
    return result;
}
