/* Insert a sample into a class cache, and update its class's products or mean. */
#include "cosmic.h"

/* The slot that a sample of this entropy takes in a class: a free one, or that of the highest entropy if it is
   higher; ties go to the latest sample. Returns -1 if there is none. */
static Py_ssize_t find_slot(const float *entropies, const int64_t *samples, Py_ssize_t filled, Py_ssize_t shots,
                            float entropy)
{
    if (filled < shots) return filled;
    Py_ssize_t highest = 0;
    for (Py_ssize_t slot = 1; slot < shots; slot++)
        if (entropies[slot] > entropies[highest] ||
            (entropies[slot] == entropies[highest] && samples[slot] > samples[highest]))
            highest = slot;
    return entropy < entropies[highest] ? highest : -1;
}

/* Update the products of one slot with the slots of its class and with its text: gram [S, S]. */
static void update_gram(const float *slots, Py_ssize_t filled, Py_ssize_t slot, Py_ssize_t width, const float *text,
                        Py_ssize_t all, float *gram)
{
    const float *feature = slots + slot * width;
    float *row = gram + slot * all;
    simd->rows_by_queries(slots, filled, feature, 1, width, row, filled);
    if (text) simd->rows_by_queries(text, 1, feature, 1, width, row + all - 1, 1);
    for (Py_ssize_t other = 0; other < all; other++) gram[other * all + slot] = row[other];
}

/* The mean of a class's filled slots. */
static void average(const float *slots, Py_ssize_t filled, Py_ssize_t width, float *out)
{
    memcpy(out, slots, (size_t)width * sizeof(float));
    for (Py_ssize_t slot = 1; slot < filled; slot++)
        for (Py_ssize_t d = 0; d < width; d++) out[d] += slots[slot * width + d];
    for (Py_ssize_t d = 0; d < width; d++) out[d] /= (float)filled;
}

ptrdiff_t cache_insert(const PrototypeMemory *memory, ptrdiff_t label, const float *feature, float entropy,
                       int64_t sample)
{
    ptrdiff_t shots = memory->shots, width = memory->width, all = shots + (memory->text != NULL);
    float *slots = memory->slots + label * shots * width, *entropies = memory->entropies + label * shots;
    int64_t *samples = memory->samples + label * shots, *filled = memory->filled + label;
    ptrdiff_t slot = find_slot(entropies, samples, (ptrdiff_t)*filled, shots, entropy);
    if (slot < 0) return slot;
    *filled += slot == *filled;
    memcpy(slots + slot * width, feature, (size_t)width * sizeof(float));
    entropies[slot] = entropy;
    samples[slot] = sample;
    if (memory->gram)
        update_gram(slots, (ptrdiff_t)*filled, slot, width, memory->text ? memory->text + label * width : NULL, all,
                    memory->gram + label * all * all);
    if (memory->means) average(slots, (ptrdiff_t)*filled, width, memory->means + label * width);
    return slot;
}

/* cache_insert(slots [K, L, D], entropies [K, L], samples [K, L], count [K], text [K, D] or None, gram [K, S, S] or
   None, means [K, D] or None, feature [D], label, entropy, sample) → slot: offer a sample to its class. Returns the
   slot it took, or -1. The class's products and its mean, where given, are updated. S is L, or L + 1 with texts. */
PyObject *kernel_cache_insert(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {
        {"slots", FLOAT32, 3, 1}, {"entropies", FLOAT32, 2, 1}, {"samples", INT64, 2, 1}, {"count", INT64, 1, 1},
        {"text", FLOAT32, -2, 0}, {"gram", FLOAT32, -3, 1}, {"means", FLOAT32, -2, 1}, {"feature", FLOAT32, 1, 0}};
    PyObject *o[8], *result = NULL;
    Py_buffer views[8];
    Py_ssize_t label;
    float entropy;
    long long sample;
    if (!PyArg_ParseTuple(arguments, "OOOOOOOOnfL:cache_insert", &o[0], &o[1], &o[2], &o[3], &o[4], &o[5], &o[6],
                          &o[7], &label, &entropy, &sample))
        return NULL;
    if (take_arrays(o, views, specs, 8) < 0) return NULL;
    Py_ssize_t classes = views[0].shape[0], shots = views[0].shape[1], width = views[0].shape[2];
    Py_ssize_t all = shots + (views[4].obj != NULL);
    const Extent extents[] = {
        {1, 0, classes}, {1, 1, shots}, {2, 0, classes}, {2, 1, shots}, {3, 0, classes}, {4, 0, classes}, {4, 1, width},
        {5, 0, classes}, {5, 1, all}, {5, 2, all}, {6, 0, classes}, {6, 1, width}, {7, 0, width}, {-1, 0, 0}};
    if (check_extents(views, specs, extents) < 0) goto done;
    PrototypeMemory memory = {classes,      shots,        width,        views[0].buf, views[1].buf,
                              views[2].buf, views[3].buf, views[4].buf, views[5].buf, views[6].buf};
    if (label < 0 || label >= classes || shots < 1 || memory.filled[label] < 0 || memory.filled[label] > shots) {
        PyErr_Format(PyExc_ValueError,
                     "label must be from 0 to below %zd, of a class with 0 to %zd filled slots; given %zd", classes,
                     shots, label);
        goto done;
    }
    result = PyLong_FromSsize_t(cache_insert(&memory, label, views[7].buf, entropy, sample));
done:
    release_arrays(views, 8);
    return result;
}
