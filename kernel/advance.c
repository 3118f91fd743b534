/* A step of one feature space in one call: a sample enters the memory, the space answers it, its graph is built anew, and
   the nearest cliques score their nodes. Before the first space the views are looked at, behind the last one the branches
   are added up. Each part is a function of its own as well; here they only follow each other. */
#include "parts.h"

#include <math.h>
#include <stdlib.h>

/* What is said of an image, one row a class: [ROWS, K]. */
enum { ZERO_SHOT, CLIP_CACHE, TEXT_NODES, CENTRE_NODES, AUX_CACHE, AFV, CSS, SCORES, ROWS };

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

/* → floor, nodes, sizes, shares, complete, affinities, keep, inliers */
static PyObject *answered(const float *similarity, Py_ssize_t nodes, Wanted *wanted, const float *cosine, float *scores)
{
    PyObject *listed = cliques_of(similarity, nodes, NULL, &wanted->density), *affinities, *inliers, *result = NULL;
    if (!listed) return NULL;
    const void *members = PyBytes_AS_STRING(PyTuple_GET_ITEM(listed, 0));
    const void *sizes = PyBytes_AS_STRING(PyTuple_GET_ITEM(listed, 1));
    const void *shares = PyBytes_AS_STRING(PyTuple_GET_ITEM(listed, 2));
    Py_ssize_t cliques = PyBytes_GET_SIZE(PyTuple_GET_ITEM(listed, 1)) / 8;
    double share = wanted->ratio * (double)cliques;
    Py_ssize_t keep = (Py_ssize_t)(wanted->up ? ceil(share - 1e-9) : share);
    keep = keep < 1 ? 1 : keep > cliques ? cliques : keep;
    affinities = PyBytes_FromStringAndSize(NULL, cliques * 4);
    inliers = PyBytes_FromStringAndSize(NULL, nodes);
    if (affinities && inliers) {
        uint8_t *inside = (uint8_t *)PyBytes_AS_STRING(inliers);
        if (select_nearest(cosine, nodes, members, sizes, cliques, shares, keep,
                           (float *)(void *)PyBytes_AS_STRING(affinities), inside) < 0)
            PyErr_NoMemory();
        else {
            score_inliers(cosine, inside, nodes, wanted->factor, wanted->sharpness, scores);
            result = Py_BuildValue("fOOOOOnO", wanted->density.floor, PyTuple_GET_ITEM(listed, 0),
                                   PyTuple_GET_ITEM(listed, 1), PyTuple_GET_ITEM(listed, 2), PyTuple_GET_ITEM(listed, 3),
                                   affinities, keep, inliers);
        }
    }
    Py_XDECREF(affinities);
    Py_XDECREF(inliers);
    Py_DECREF(listed);
    return result;
}

/* All is refused before anything is changed. */
static int can_enter(const Memory *memory, const Py_buffer *count, const Wanted *wanted, Py_ssize_t nodes)
{
    if (counts_fit(count, memory->shots) < 0 || density_fits(&wanted->density, nodes) < 0) return -1;
    if (memory->classes > 0 && memory->shots > 0 && wanted->ratio >= 0 && wanted->ratio <= 1) return 0;
    PyErr_Format(PyExc_ValueError, "%zd slots of %zd classes cannot be", memory->shots, memory->classes);
    return -1;
}

/* What the views of an image say: its class, how sure that is, and the feature that is kept of it. */
typedef struct {
    ptrdiff_t label;
    float surprise;
    float *feature; /* [width] */
} Glance;

/* Look at the views [number, width]; `work` has room for them by classes twice, for both once more, and for a feature. */
static Glance glance(const float *views, ptrdiff_t number, ptrdiff_t keep, int plain, const float *text, ptrdiff_t classes,
                     ptrdiff_t width, float scale, float *text_dots, float *said, int64_t *surest, float *work)
{
    Glance seen = {0};
    float *probabilities = work, *rest = work + number * classes;
    hot->rows_by_queries(text, classes, views, number, width, text_dots, classes);
    seen.label = surest_views(text_dots, number, classes, scale, keep, probabilities, rest, surest, &seen.surprise);
    memcpy(said + ZERO_SHOT * classes, probabilities, (size_t)classes * sizeof(float));
    seen.feature = rest + number + classes;
    if (plain) memcpy(seen.feature, views, (size_t)width * sizeof(float));
    else unit_mean(views, surest, keep, width, seen.feature);
    return seen;
}

/* advance_attending(slots [K, L, D], entropies [K, L], samples [K, L], count [K], text [K, D], gram [K, S, S],
   texts [K, D], places [K, L], products [a, a], shares [K], similarity [2K, 2K], lengths [K], views [V, D],
   text_dots [V, K], near [K, L], weights [K, S], said [8, K],
   keep, plain, joint, sample, used, attention, scale, floor, control, value, keep, common, most_cliques, most_looks, ratio, up, factor, sharpness)
   → label, entropy, used, (floor, nodes, sizes, shares, complete, affinities, keep, inliers); or None, where the memory
   does not take the sample: then only `text_dots` and `said` are changed. S is L + 1. A text's node has its class's text's
   direction and its own length. The first view is the query; what is stored is the same if `plain`, else the mean of the
   `keep` surest views. Label and entropy are those of these views, or if `joint`, of zero-shot and memory together. */
PyObject *kernel_advance_attending(PyObject *self UNUSED, PyObject *arguments)
{
    static const Form forms[] = {
        {"slots", FLOAT32, 3, 1},    {"entropies", FLOAT32, 2, 1}, {"samples", INT64, 2, 1},  {"count", INT64, 1, 1},
        {"text", FLOAT32, 2, 0},     {"gram", FLOAT32, 3, 1},      {"texts", FLOAT32, 2, 0},  {"places", INT32, 2, 1},
        {"products", FLOAT32, 2, 1}, {"shares", FLOAT32, 1, 0},    {"similarity", FLOAT32, 2, 1},
        {"lengths", FLOAT32, 1, 0},  {"views", FLOAT32, 2, 0},     {"text_dots", FLOAT32, 2, 1},
        {"near", FLOAT32, 2, 1},     {"weights", FLOAT32, 2, 1},   {"said", FLOAT32, 2, 1}};
    enum { ARRAYS = sizeof forms / sizeof *forms };
    PyObject *o[ARRAYS], *result = NULL, *told;
    Py_buffer views[ARRAYS];
    Py_ssize_t keep, used;
    int plain, joint;
    long long sample;
    float attention, scale, *work = NULL;
    Wanted wanted;
    if (!PyArg_ParseTuple(arguments, "OOOOOOOOOOOOOOOOOnppLnff" WANTED_FORMAT ":advance_attending", &o[0], &o[1], &o[2],
                          &o[3], &o[4], &o[5], &o[6], &o[7], &o[8], &o[9], &o[10], &o[11], &o[12], &o[13], &o[14], &o[15],
                          &o[16], &keep, &plain, &joint, &sample, &used, &attention, &scale, WANTED(wanted)))
        return NULL;
    if (take(o, views, forms, ARRAYS) < 0) return NULL;
    Py_ssize_t classes = views[0].shape[0], shots = views[0].shape[1], width = views[0].shape[2], all = shots + 1;
    Py_ssize_t atoms = views[8].shape[0], nodes = 2 * classes, number = views[12].shape[0];
    const Extent extents[] = {
        {1, 0, classes},  {1, 1, shots},   {2, 0, classes},  {2, 1, shots},    {3, 0, classes},  {4, 0, classes},
        {4, 1, width},    {5, 0, classes}, {5, 1, all},      {5, 2, all},      {6, 0, classes},  {6, 1, width},
        {7, 0, classes},  {7, 1, shots},   {8, 1, atoms},    {9, 0, classes},  {10, 0, nodes},   {10, 1, nodes},
        {11, 0, classes}, {12, 1, width},  {13, 0, number},  {13, 1, classes}, {14, 0, classes}, {14, 1, shots},
        {15, 0, classes}, {15, 1, all},    {16, 0, ROWS},    {16, 1, classes}, {-1, 0, 0}};
    if (have_extents(views, forms, extents) < 0) goto done;
    Memory memory = {classes,      shots,        width,        views[0].buf, views[1].buf,
                     views[2].buf, views[3].buf, views[4].buf, views[5].buf, NULL};
    if (can_enter(&memory, &views[3], &wanted, nodes) < 0 || views_fit(keep, number, classes) < 0 ||
        have_places(&views[3], &views[7], classes, used) < 0)
        goto done;
    if (used < classes || used >= atoms) {
        PyErr_Format(PyExc_ValueError, "%zd of %zd atoms cannot be", used, atoms);
        goto done;
    }
    work = malloc((size_t)(2 * keep + number * classes + number + classes + width + nodes) * sizeof(float));
    if (!work) {
        PyErr_NoMemory();
        goto done;
    }
    const float *query = views[12].buf, *text_dots = views[13].buf, *lengths = views[11].buf;
    float *near = views[14].buf, *weights = views[15].buf, *said = views[16].buf;
    Glance seen = glance(query, number, keep, plain, memory.text, classes, width, scale, views[13].buf, said,
                         (int64_t *)(void *)work, work + 2 * keep);
    Py_ssize_t slot = enter(&memory, seen.label, seen.feature, seen.surprise, sample);
    if (slot < 0) {
        result = Py_NewRef(Py_None);
        goto done;
    }
    int32_t *place = (int32_t *)views[7].buf + seen.label * shots + slot;
    if (slot == memory.filled[seen.label] - 1 && (*place < classes || *place >= used)) *place = (int32_t)used++;
    float *cosine = seen.feature + width; /* [nodes] */
    slots_near(&memory, query, near);
    attend(&memory, near, text_dots, attention, weights, cosine + classes);
    for (Py_ssize_t k = 0; k < classes; k++) cosine[k] = text_dots[k] * lengths[k];
    softmax(cosine + classes, scale, classes, said + CLIP_CACHE * classes);
    Made made = {classes,      shots,        classes,      atoms,   used,        nodes,
                 views[8].buf, views[7].buf, views[3].buf, weights, views[9].buf};
    if (acquaint(&made, views[6].buf, memory.slots, width, seen.label, slot) < 0 || compose(&made, views[10].buf) < 0) {
        PyErr_NoMemory();
        goto done;
    }
    told = answered(views[10].buf, nodes, &wanted, cosine, said + TEXT_NODES * classes);
    if (!told) goto done;
    if (joint) seen.label = favoured(said + ZERO_SHOT * classes, said + CLIP_CACHE * classes, classes, &seen.surprise);
    result = Py_BuildValue("nfnN", seen.label, seen.surprise, used, told);
done:
    free(work);
    release(views, ARRAYS);
    return result;
}

/* advance_mean(slots [K, L, D], entropies [K, L], samples [K, L], count [K], means [K, D], rows [K, D], features [K, D],
   panels [ceil(K / 16), D, 16], similarity [K, K], feature [D], near [K, L], said [8, K],
   label, entropy, sample, weight, css_weight, afv_weight, floor … as there, ratio, up, factor, sharpness)
   → answer, (floor … as there); or None, where the memory does not take the sample: then nothing is changed. Both `rows`
   and `features` are the means, the latter as the last graph knew them; the sample is the query. The memory alone says the
   softmax of what each class's slots add up to, times the factor, at the same sharpness. The answer is the class that all
   branches favour, those of `said` before and this one. */
PyObject *kernel_advance_mean(PyObject *self UNUSED, PyObject *arguments)
{
    static const Form forms[] = {
        {"slots", FLOAT32, 3, 1},      {"entropies", FLOAT32, 2, 1}, {"samples", INT64, 2, 1},    {"count", INT64, 1, 1},
        {"means", FLOAT32, 2, 1},      {"rows", FLOAT32, 2, 1},      {"features", FLOAT32, 2, 1}, {"panels", FLOAT32, 3, 1},
        {"similarity", FLOAT32, 2, 1}, {"feature", FLOAT32, 1, 0},   {"near", FLOAT32, 2, 1},     {"said", FLOAT32, 2, 1}};
    enum { ARRAYS = sizeof forms / sizeof *forms };
    PyObject *o[ARRAYS], *result = NULL, *told;
    Py_buffer views[ARRAYS];
    Py_ssize_t label;
    long long sample;
    float entropy, weights[3];
    int64_t *some = NULL;
    Wanted wanted;
    if (!PyArg_ParseTuple(arguments, "OOOOOOOOOOOOnfLfff" WANTED_FORMAT ":advance_mean", &o[0], &o[1], &o[2], &o[3], &o[4],
                          &o[5], &o[6], &o[7], &o[8], &o[9], &o[10], &o[11], &label, &entropy, &sample, &weights[0],
                          &weights[1], &weights[2], WANTED(wanted)))
        return NULL;
    if (take(o, views, forms, ARRAYS) < 0) return NULL;
    Py_ssize_t classes = views[0].shape[0], shots = views[0].shape[1], width = views[0].shape[2];
    const Extent extents[] = {
        {1, 0, classes},  {1, 1, shots},  {2, 0, classes}, {2, 1, shots},   {3, 0, classes},  {4, 0, classes},
        {4, 1, width},    {5, 0, classes}, {5, 1, width},  {6, 0, classes}, {6, 1, width},    {7, 0, (classes + 15) / 16},
        {7, 1, width},    {7, 2, 16},     {8, 0, classes}, {8, 1, classes}, {9, 0, width},    {10, 0, classes},
        {10, 1, shots},   {11, 0, ROWS},  {11, 1, classes}, {-1, 0, 0}};
    if (have_extents(views, forms, extents) < 0) goto done;
    Memory memory = {classes,      shots,        width, views[0].buf, views[1].buf,
                     views[2].buf, views[3].buf, NULL,  NULL,         views[4].buf};
    if (can_enter(&memory, &views[3], &wanted, classes) < 0) goto done;
    if (label < 0 || label >= classes) {
        PyErr_Format(PyExc_ValueError, "class %zd is none of %zd", label, classes);
        goto done;
    }
    some = malloc((size_t)classes * (sizeof(int64_t) + sizeof(float) + 1));
    if (!some) {
        PyErr_NoMemory();
        goto done;
    }
    Py_ssize_t slot = enter(&memory, label, views[9].buf, entropy, sample);
    if (slot < 0) {
        result = Py_NewRef(Py_None);
        goto done;
    }
    float *mean = memory.means + label * width, *near = views[10].buf, *said = views[11].buf;
    float *votes = said + AUX_CACHE * classes, *scores = said + AFV * classes, *cosine = (float *)(some + classes);
    memcpy((float *)views[5].buf + label * width, mean, (size_t)width * sizeof(float));
    memcpy((float *)views[6].buf + label * width, mean, (size_t)width * sizeof(float));
    slots_near(&memory, views[9].buf, near);
    vote(near, memory.filled, classes, shots, wanted.sharpness, votes);
    softmax(votes, wanted.factor, classes, votes);
    /* A class without samples is a zero row, and so are its products. */
    memset(cosine, 0, (size_t)classes * sizeof(float));
    for (Py_ssize_t k = 0; k < classes; k++) some[k] = memory.filled[k] > 0;
    hot->slots_by_query(views[5].buf, some, classes, 1, views[9].buf, width, cosine);
    uint8_t *changed = (uint8_t *)(cosine + classes);
    memset(changed, 0, (size_t)classes);
    changed[label] = 1;
    refresh(views[6].buf, classes, width, changed, views[7].buf, views[8].buf);
    told = answered(views[8].buf, classes, &wanted, cosine, scores);
    if (!told) goto done;
    Py_ssize_t answer = fuse(said + ZERO_SHOT * classes, said + TEXT_NODES * classes, scores, classes, weights,
                             said + CSS * classes, said + SCORES * classes);
    result = Py_BuildValue("nN", answer, told);
done:
    free(some);
    release(views, ARRAYS);
    return result;
}
