/* Products of a class cache's slots with queries, and class centres that attend to a query. */
#include "cosmic.h"

#include <math.h>

#define BLOCK 48 /* queries per pass over the rows */

static ptrdiff_t block(Py_ssize_t from, Py_ssize_t number) { return number - from < BLOCK ? number - from : BLOCK; }

int check_counts(const Py_buffer *counts, Py_ssize_t shots)
{
    const int64_t *filled = counts->buf;
    for (Py_ssize_t k = 0; k < counts->shape[0]; k++)
        if (filled[k] < 0 || filled[k] > shots) {
            PyErr_Format(PyExc_ValueError, "count must be from 0 to %zd; it is %lld", shots, (long long)filled[k]);
            return -1;
        }
    return 0;
}

/* slot_dots(slots [K, L, D], count [K], queries [b, D], out [b, K, L]): filled slots; the others are not written */
PyObject *kernel_slot_dots(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {
        {"slots", FLOAT32, 3, 0}, {"count", INT64, 1, 0}, {"queries", FLOAT32, 2, 0}, {"out", FLOAT32, 3, 1}};
    PyObject *objects[4], *result = NULL;
    Py_buffer views[4];
    if (!PyArg_ParseTuple(arguments, "OOOO:slot_dots", &objects[0], &objects[1], &objects[2], &objects[3])) return NULL;
    if (take_arrays(objects, views, specs, 4) < 0) return NULL;
    Py_ssize_t classes = views[0].shape[0], shots = views[0].shape[1], width = views[0].shape[2];
    Py_ssize_t number = views[2].shape[0];
    const float *slots = views[0].buf, *queries = views[2].buf;
    const int64_t *filled = views[1].buf;
    float *out = views[3].buf;
    const Extent extents[] = {
        {1, 0, classes}, {2, 1, width}, {3, 0, number}, {3, 1, classes}, {3, 2, shots}, {-1, 0, 0}};
    if (check_extents(views, specs, extents) < 0 || check_counts(&views[1], shots) < 0) goto done;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t at = 0; at < number; at += BLOCK)
        for (Py_ssize_t k = 0; k < classes; k++)
            simd->rows_by_queries(slots + k * shots * width, (ptrdiff_t)filled[k], queries + at * width, block(at,
                                                                                                               number),
                                  width, out + (at * classes + k) * shots, classes * shots);
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
done:
    release_arrays(views, 4);
    return result;
}

void slot_products(const PrototypeMemory *memory, const float *query, float *products)
{
    memset(products, 0, (size_t)(memory->classes * memory->shots) * sizeof(float));
    simd->slots_by_query(memory->slots, memory->filled, memory->classes, memory->shots, query, memory->width, products);
}

void attend_to_query(const PrototypeMemory *memory, const float *products, const float *text_dots, float sharpness,
                     float *weights, float *out)
{
    ptrdiff_t classes = memory->classes, shots = memory->shots, slots = shots + (text_dots != NULL);
    const float *gram = memory->gram;
    memset(weights, 0, (size_t)(classes * slots) * sizeof(float));
    for (ptrdiff_t k = 0; k < classes; k++, products += shots, weights += slots, gram += slots * slots) {
        float along = 0, square;
        for (int64_t slot = 0; slot < memory->filled[k]; slot++) {
            weights[slot] = expf(-sharpness * (1 - products[slot]));
            along += weights[slot] * products[slot];
        }
        if (text_dots) {
            weights[shots] = expf(-sharpness * (1 - text_dots[k]));
            along += weights[shots] * text_dots[k];
        }
        /* A short cut for classes without samples, which are many early in a stream. */
        if (!memory->filled[k]) square = text_dots ? weights[shots] * (weights[shots] * gram[slots * slots - 1]) : 0;
        else square = simd->square(weights, gram, slots);
        out[k] = square > 0 ? along / sqrtf(square) : 0;
    }
}

void slot_votes(const float *products, const int64_t *filled, ptrdiff_t classes, ptrdiff_t shots, float sharpness,
                float *out)
{
    for (ptrdiff_t k = 0; k < classes; k++, products += shots) {
        out[k] = 0;
        for (int64_t slot = 0; slot < filled[k]; slot++) out[k] += expf(-sharpness * (1 - products[slot]));
    }
}

/* attend(slot_products [K, L], text [K] or None, count [K], gram [K, S, S], sharpness, weights [K, S], out [K]):
   each slot, and the text behind the slots, has the weight exp(-sharpness·(1 - its product with the query)). `out`
   is the cosine of the query with each class's weighted sum; 0 for a class without weights. S is L, or L + 1 with
   texts. */
PyObject *kernel_attend(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {
        {"slot_products", FLOAT32, 2, 0}, {"text", FLOAT32, -1, 0}, {"count", INT64, 1, 0}, {"gram", FLOAT32, 3, 0},
        {"weights", FLOAT32, 2, 1}, {"out", FLOAT32, 1, 1}};
    PyObject *o[6], *result = NULL;
    Py_buffer views[6];
    float sharpness;
    if (!PyArg_ParseTuple(arguments, "OOOOfOO:attend", &o[0], &o[1], &o[2], &o[3], &sharpness, &o[4], &o[5]))
        return NULL;
    if (take_arrays(o, views, specs, 6) < 0) return NULL;
    Py_ssize_t classes = views[0].shape[0], shots = views[0].shape[1], slots = shots + (views[1].obj != NULL);
    const Extent extents[] = {
        {1, 0, classes}, {2, 0, classes}, {3, 0, classes}, {3, 1, slots}, {3, 2, slots}, {4, 0, classes}, {4, 1, slots},
        {5, 0, classes}, {-1, 0, 0}};
    if (check_extents(views, specs, extents) < 0 || check_counts(&views[2], shots) < 0) goto done;
    PrototypeMemory memory = {.classes = classes, .shots = shots, .filled = views[2].buf, .gram = views[3].buf};
    attend_to_query(&memory, views[0].buf, views[1].buf, sharpness, views[4].buf, views[5].buf);
    result = Py_NewRef(Py_None);
done:
    release_arrays(views, 6);
    return result;
}

/* mix_centres(slots [K, L, D], count [K], weights [K, S], text [K, D] or None, out [K, D]): the weighted sum of
   slots and text at unit length, for every class that has samples. The text's weight is the last. S is L, or L + 1
   with texts. The rows of other classes are not written. */
PyObject *kernel_mix_centres(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {
        {"slots", FLOAT32, 3, 0}, {"count", INT64, 1, 0}, {"weights", FLOAT32, 2, 0}, {"text", FLOAT32, -2, 0},
        {"out", FLOAT32, 2, 1}};
    PyObject *o[5], *result = NULL;
    Py_buffer views[5];
    if (!PyArg_ParseTuple(arguments, "OOOOO:mix_centres", &o[0], &o[1], &o[2], &o[3], &o[4])) return NULL;
    if (take_arrays(o, views, specs, 5) < 0) return NULL;
    Py_ssize_t classes = views[0].shape[0], shots = views[0].shape[1], width = views[0].shape[2];
    Py_ssize_t all = shots + (views[3].obj != NULL);
    const float *slots = views[0].buf, *weights = views[2].buf, *text = views[3].buf;
    const int64_t *filled = views[1].buf;
    float *out = views[4].buf;
    const Extent extents[] = {
        {1, 0, classes}, {2, 0, classes}, {2, 1, all}, {3, 0, classes}, {3, 1, width}, {4, 0, classes}, {4, 1, width},
        {-1, 0, 0}};
    if (check_extents(views, specs, extents) < 0 || check_counts(&views[1], shots) < 0) goto done;
    for (Py_ssize_t k = 0; k < classes; k++)
        if (filled[k])
            simd->mix(slots + k * shots * width, weights + k * all, (ptrdiff_t)filled[k], width,
                      text ? text + k * width : NULL, text ? weights[k * all + shots] : 0, out + k * width);
    result = Py_NewRef(Py_None);
done:
    release_arrays(views, 5);
    return result;
}

/* slot_votes(slot_products [K, L], count [K], sharpness, out [K]): the sum over each class's filled slots of
   exp(-sharpness·(1 - product with the query)) */
PyObject *kernel_slot_votes(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {{"slot_products", FLOAT32, 2, 0}, {"count", INT64, 1, 0}, {"out", FLOAT32, 1, 1}};
    PyObject *o[3], *result = NULL;
    Py_buffer views[3];
    float sharpness;
    if (!PyArg_ParseTuple(arguments, "OOfO:slot_votes", &o[0], &o[1], &sharpness, &o[2])) return NULL;
    if (take_arrays(o, views, specs, 3) < 0) return NULL;
    Py_ssize_t classes = views[0].shape[0], shots = views[0].shape[1];
    const Extent extents[] = {{1, 0, classes}, {2, 0, classes}, {-1, 0, 0}};
    if (check_extents(views, specs, extents) < 0 || check_counts(&views[1], shots) < 0) goto done;
    slot_votes(views[0].buf, views[1].buf, classes, shots, sharpness, views[2].buf);
    result = Py_NewRef(Py_None);
done:
    release_arrays(views, 3);
    return result;
}
