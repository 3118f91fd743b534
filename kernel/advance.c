/* A step of one feature space in one call: a sample enters the memory, the space answers it, its graph is built anew, and
   the nearest cliques score their nodes. Each part is a function of its own as well; here they only follow each other. */
#include "parts.h"

#include <math.h>
#include <stdlib.h>

/* How a graph is built, and what its cliques are asked. */
typedef struct {
    Density density;
    double ratio; /* of the cliques that select inliers */
    int up;       /* whether that share is rounded up */
    float factor, sharpness;
} Wanted;

#define WANTED(w)                                                                                                          \
    &(w).density.floor, &(w).density.control, &(w).density.value, &(w).density.keep, &(w).density.common,                  \
        &(w).density.most_cliques, &(w).density.most_looks, &(w).ratio, &(w).up, &(w).factor, &(w).sharpness
#define WANTED_FORMAT "fidnLLLdpff"

/* → slot, used, floor, nodes, sizes, shares, complete, affinities, keep */
static PyObject *answered(const float *similarity, Py_ssize_t nodes, Wanted *wanted, const float *cosine, uint8_t *inliers,
                          float *scores, Py_ssize_t slot, Py_ssize_t used)
{
    PyObject *listed = cliques_of(similarity, nodes, NULL, &wanted->density), *affinities, *result = NULL;
    if (!listed) return NULL;
    const void *members = PyBytes_AS_STRING(PyTuple_GET_ITEM(listed, 0));
    const void *sizes = PyBytes_AS_STRING(PyTuple_GET_ITEM(listed, 1));
    const void *shares = PyBytes_AS_STRING(PyTuple_GET_ITEM(listed, 2));
    Py_ssize_t cliques = PyBytes_GET_SIZE(PyTuple_GET_ITEM(listed, 1)) / 8;
    double share = wanted->ratio * (double)cliques;
    Py_ssize_t keep = (Py_ssize_t)(wanted->up ? ceil(share - 1e-9) : share);
    keep = keep < 1 ? 1 : keep > cliques ? cliques : keep;
    affinities = PyBytes_FromStringAndSize(NULL, cliques * 4);
    if (affinities && select_nearest(cosine, nodes, members, sizes, cliques, shares, keep,
                                     (float *)(void *)PyBytes_AS_STRING(affinities), inliers) < 0)
        PyErr_NoMemory();
    else if (affinities) {
        score_inliers(cosine, inliers, nodes, wanted->factor, wanted->sharpness, scores);
        result = Py_BuildValue("nnfOOOOOn", slot, used, wanted->density.floor, PyTuple_GET_ITEM(listed, 0),
                               PyTuple_GET_ITEM(listed, 1), PyTuple_GET_ITEM(listed, 2), PyTuple_GET_ITEM(listed, 3),
                               affinities, keep);
    }
    Py_XDECREF(affinities);
    Py_DECREF(listed);
    return result;
}

/* All is refused before anything is changed. */
static int can_enter(const Memory *memory, const Py_buffer *count, Py_ssize_t label, const Wanted *wanted, Py_ssize_t nodes)
{
    if (counts_fit(count, memory->shots) < 0 || density_fits(&wanted->density, nodes) < 0) return -1;
    if (label >= 0 && label < memory->classes && memory->shots > 0 && wanted->ratio >= 0 && wanted->ratio <= 1) return 0;
    PyErr_Format(PyExc_ValueError, "class %zd is none of %zd, or their slots cannot be", label, memory->classes);
    return -1;
}

/* advance_attending(slots [K, L, D], entropies [K, L], samples [K, L], count [K], text [K, D], gram [K, S, S],
   texts [K, D], places [K, L], products [a, a], shares [K], similarity [2K, 2K], feature [D], query [D], text_dots [K],
   lengths [K], near [K, L], weights [K, S], cosine [2K], probabilities [K], inliers [2K], scores [2K],
   label, entropy, sample, used, attention, scale, floor, control, value, keep, common, most_cliques, most_looks, ratio, up, factor, sharpness)
   → slot, used, floor, nodes, sizes, shares, complete, affinities, keep; or None, where the memory does not take the
   sample: then nothing is changed. S is L + 1. A text's node has its class's text's direction and its own length. */
PyObject *kernel_advance_attending(PyObject *self UNUSED, PyObject *arguments)
{
    static const Form forms[] = {
        {"slots", FLOAT32, 3, 1},    {"entropies", FLOAT32, 2, 1},     {"samples", INT64, 2, 1},  {"count", INT64, 1, 1},
        {"text", FLOAT32, 2, 0},     {"gram", FLOAT32, 3, 1},          {"texts", FLOAT32, 2, 0},  {"places", INT32, 2, 1},
        {"products", FLOAT32, 2, 1}, {"shares", FLOAT32, 1, 0},        {"similarity", FLOAT32, 2, 1},
        {"feature", FLOAT32, 1, 0},  {"query", FLOAT32, 1, 0},         {"text_dots", FLOAT32, 1, 0},
        {"lengths", FLOAT32, 1, 0},  {"near", FLOAT32, 2, 1},          {"weights", FLOAT32, 2, 1},
        {"cosine", FLOAT32, 1, 1},   {"probabilities", FLOAT32, 1, 1}, {"inliers", BOOL, 1, 1},   {"scores", FLOAT32, 1, 1}};
    enum { ARRAYS = sizeof forms / sizeof *forms };
    PyObject *o[ARRAYS], *result = NULL;
    Py_buffer views[ARRAYS];
    Py_ssize_t label, used;
    long long sample;
    float entropy, attention, scale;
    Wanted wanted;
    if (!PyArg_ParseTuple(arguments, "OOOOOOOOOOOOOOOOOOOOOnfLnff" WANTED_FORMAT ":advance_attending", &o[0], &o[1], &o[2],
                          &o[3], &o[4], &o[5], &o[6], &o[7], &o[8], &o[9], &o[10], &o[11], &o[12], &o[13], &o[14], &o[15],
                          &o[16], &o[17], &o[18], &o[19], &o[20], &label, &entropy, &sample, &used, &attention, &scale,
                          WANTED(wanted)))
        return NULL;
    if (take(o, views, forms, ARRAYS) < 0) return NULL;
    Py_ssize_t classes = views[0].shape[0], shots = views[0].shape[1], width = views[0].shape[2], all = shots + 1;
    Py_ssize_t atoms = views[8].shape[0], nodes = 2 * classes;
    const Extent extents[] = {
        {1, 0, classes},  {1, 1, shots},   {2, 0, classes},  {2, 1, shots},    {3, 0, classes},  {4, 0, classes},
        {4, 1, width},    {5, 0, classes}, {5, 1, all},      {5, 2, all},      {6, 0, classes},  {6, 1, width},
        {7, 0, classes},  {7, 1, shots},   {8, 1, atoms},    {9, 0, classes},  {10, 0, nodes},   {10, 1, nodes},
        {11, 0, width},   {12, 0, width},  {13, 0, classes}, {14, 0, classes}, {15, 0, classes}, {15, 1, shots},
        {16, 0, classes}, {16, 1, all},    {17, 0, nodes},   {18, 0, classes}, {19, 0, nodes},   {20, 0, nodes},
        {-1, 0, 0}};
    if (have_extents(views, forms, extents) < 0) goto done;
    Memory memory = {classes,      shots,        width,        views[0].buf, views[1].buf,
                     views[2].buf, views[3].buf, views[4].buf, views[5].buf, NULL};
    if (can_enter(&memory, &views[3], label, &wanted, nodes) < 0 || have_places(&views[3], &views[7], classes, used) < 0) goto done;
    if (used < classes || used >= atoms) {
        PyErr_Format(PyExc_ValueError, "%zd of %zd atoms cannot be", used, atoms);
        goto done;
    }
    Py_ssize_t slot = enter(&memory, label, views[11].buf, entropy, sample);
    if (slot < 0) {
        result = Py_NewRef(Py_None);
        goto done;
    }
    int32_t *place = (int32_t *)views[7].buf + label * shots + slot;
    if (slot == memory.filled[label] - 1 && (*place < classes || *place >= used)) *place = (int32_t)used++;
    float *near = views[15].buf, *weights = views[16].buf, *cosine = views[17].buf;
    const float *text_dots = views[13].buf, *lengths = views[14].buf;
    slots_near(&memory, views[12].buf, near);
    attend(&memory, near, text_dots, attention, weights, cosine + classes);
    for (Py_ssize_t k = 0; k < classes; k++) cosine[k] = text_dots[k] * lengths[k];
    softmax(cosine + classes, scale, classes, views[18].buf);
    Made made = {classes,      shots,        classes,      atoms,   used,        nodes,
                 views[8].buf, views[7].buf, views[3].buf, weights, views[9].buf};
    if (acquaint(&made, views[6].buf, memory.slots, width, label, slot) < 0 || compose(&made, views[10].buf) < 0) {
        PyErr_NoMemory();
        goto done;
    }
    result = answered(views[10].buf, nodes, &wanted, cosine, views[19].buf, views[20].buf, slot, used);
done:
    release(views, ARRAYS);
    return result;
}

/* advance_mean(slots [K, L, D], entropies [K, L], samples [K, L], count [K], means [K, D], rows [K, D], features [K, D],
   panels [ceil(K / 16), D, 16], similarity [K, K], feature [D], near [K, L], votes [K], cosine [K], inliers [K],
   scores [K], label, entropy, sample, floor … as there, ratio, up, factor, sharpness)
   → as advance_attending. Both `rows` and `features` are the means, the latter as the last graph knew them; the sample is
   the query; `votes` is the softmax of what each class's slots add up to, times the factor, at the same sharpness. */
PyObject *kernel_advance_mean(PyObject *self UNUSED, PyObject *arguments)
{
    static const Form forms[] = {
        {"slots", FLOAT32, 3, 1},    {"entropies", FLOAT32, 2, 1}, {"samples", INT64, 2, 1},      {"count", INT64, 1, 1},
        {"means", FLOAT32, 2, 1},    {"rows", FLOAT32, 2, 1},      {"features", FLOAT32, 2, 1},   {"panels", FLOAT32, 3, 1},
        {"similarity", FLOAT32, 2, 1}, {"feature", FLOAT32, 1, 0}, {"near", FLOAT32, 2, 1},       {"votes", FLOAT32, 1, 1},
        {"cosine", FLOAT32, 1, 1},   {"inliers", BOOL, 1, 1},      {"scores", FLOAT32, 1, 1}};
    enum { ARRAYS = sizeof forms / sizeof *forms };
    PyObject *o[ARRAYS], *result = NULL;
    Py_buffer views[ARRAYS];
    Py_ssize_t label;
    long long sample;
    float entropy;
    int64_t *some = NULL;
    Wanted wanted;
    if (!PyArg_ParseTuple(arguments, "OOOOOOOOOOOOOOOnfL" WANTED_FORMAT ":advance_mean", &o[0], &o[1], &o[2], &o[3], &o[4],
                          &o[5], &o[6], &o[7], &o[8], &o[9], &o[10], &o[11], &o[12], &o[13], &o[14], &label, &entropy, &sample,
                          WANTED(wanted)))
        return NULL;
    if (take(o, views, forms, ARRAYS) < 0) return NULL;
    Py_ssize_t classes = views[0].shape[0], shots = views[0].shape[1], width = views[0].shape[2];
    const Extent extents[] = {
        {1, 0, classes},  {1, 1, shots},    {2, 0, classes}, {2, 1, shots}, {3, 0, classes},              {4, 0, classes},
        {4, 1, width},    {5, 0, classes},  {5, 1, width},   {6, 0, classes}, {6, 1, width},              {7, 0, (classes + 15) / 16},
        {7, 1, width},    {7, 2, 16},       {8, 0, classes}, {8, 1, classes}, {9, 0, width},              {10, 0, classes},
        {10, 1, shots},   {11, 0, classes}, {12, 0, classes}, {13, 0, classes}, {14, 0, classes},         {-1, 0, 0}};
    if (have_extents(views, forms, extents) < 0) goto done;
    Memory memory = {classes,      shots,        width, views[0].buf, views[1].buf,
                     views[2].buf, views[3].buf, NULL,  NULL,         views[4].buf};
    if (can_enter(&memory, &views[3], label, &wanted, classes) < 0) goto done;
    some = malloc((size_t)classes * (sizeof(int64_t) + 1));
    if (!some) {
        PyErr_NoMemory();
        goto done;
    }
    Py_ssize_t slot = enter(&memory, label, views[9].buf, entropy, sample);
    if (slot < 0) {
        result = Py_NewRef(Py_None);
        goto done;
    }
    float *mean = memory.means + label * width, *near = views[10].buf, *cosine = views[12].buf;
    memcpy((float *)views[5].buf + label * width, mean, (size_t)width * sizeof(float));
    memcpy((float *)views[6].buf + label * width, mean, (size_t)width * sizeof(float));
    slots_near(&memory, views[9].buf, near);
    vote(near, memory.filled, classes, shots, wanted.sharpness, views[11].buf);
    softmax(views[11].buf, wanted.factor, classes, views[11].buf);
    /* A class without samples is a zero row, and so are its products. */
    memset(cosine, 0, (size_t)classes * sizeof(float));
    for (Py_ssize_t k = 0; k < classes; k++) some[k] = memory.filled[k] > 0;
    hot->slots_by_query(views[5].buf, some, classes, 1, views[9].buf, width, cosine);
    uint8_t *changed = (uint8_t *)(some + classes);
    memset(changed, 0, (size_t)classes);
    changed[label] = 1;
    refresh(views[6].buf, classes, width, changed, views[7].buf, views[8].buf);
    result = answered(views[8].buf, classes, &wanted, cosine, views[13].buf, views[14].buf, slot, 0);
done:
    free(some);
    release(views, ARRAYS);
    return result;
}
