/* One learning step of a feature space in one call: the sample enters the cache, the space is queried, its graph is
   built anew, and the nearest cliques score their nodes. The CSS step first selects the views; the AFV step finally
   fuses the branches. Each part is also a function of its own; here they only follow each other. */
#include "fused_step.h"

#include <math.h>
#include <stdlib.h>

/* → floor, nodes, sizes, shares, complete, affinities, keep, inliers */
static PyObject *query_graph(const float *similarity, Py_ssize_t nodes, const GraphQuery *query, float floor,
                             const float *cosine, float *scores)
{
    PyObject *listed = cliques_of_similarity(similarity, nodes, NULL, &query->search, &floor);
    PyObject *affinities, *inliers, *result = NULL;
    if (!listed) return NULL;
    const void *members = PyBytes_AS_STRING(PyTuple_GET_ITEM(listed, 0));
    const void *sizes = PyBytes_AS_STRING(PyTuple_GET_ITEM(listed, 1));
    const void *shares = PyBytes_AS_STRING(PyTuple_GET_ITEM(listed, 2));
    Py_ssize_t cliques = PyBytes_GET_SIZE(PyTuple_GET_ITEM(listed, 1)) / 8;
    double share = query->ratio * (double)cliques;
    Py_ssize_t keep = (Py_ssize_t)(query->round_up ? ceil(share - 1e-9) : share);
    keep = keep < 1 ? 1 : keep > cliques ? cliques : keep;
    affinities = PyBytes_FromStringAndSize(NULL, cliques * 4);
    inliers = PyBytes_FromStringAndSize(NULL, nodes);
    if (affinities && inliers) {
        uint8_t *inside = (uint8_t *)PyBytes_AS_STRING(inliers);
        if (select_nearest_cliques(cosine, nodes, members, sizes, cliques, shares, keep,
                                   (float *)(void *)PyBytes_AS_STRING(affinities), inside) < 0)
            PyErr_NoMemory();
        else {
            score_inliers(cosine, inside, nodes, query->factor, query->sharpness, scores);
            result = Py_BuildValue("fOOOOOnO", floor, PyTuple_GET_ITEM(listed, 0), PyTuple_GET_ITEM(listed, 1),
                                   PyTuple_GET_ITEM(listed, 2), PyTuple_GET_ITEM(listed, 3), affinities, keep, inliers);
        }
    }
    Py_XDECREF(affinities);
    Py_XDECREF(inliers);
    Py_DECREF(listed);
    return result;
}

/* Everything is checked before anything changes. */
static int check_step(const PrototypeMemory *memory, const Py_buffer *count, Py_ssize_t nodes)
{
    if (check_counts(count, memory->shots) < 0 || check_node_count(nodes) < 0) return -1;
    if (memory->classes > 0 && memory->shots > 0) return 0;
    PyErr_Format(PyExc_ValueError, "classes and slots must be at least 1; given %zd slots in each of %zd classes",
                 memory->shots, memory->classes);
    return -1;
}

/* The pseudo-label of an image, its entropy, and the feature to cache. */
typedef struct {
    ptrdiff_t label;
    float entropy;
    float *feature; /* [width] */
} Candidate;

/* Select the confident views of [number, width]. `work` has room for number · classes + number + classes + width
   values. */
static Candidate select_views(const float *views, ptrdiff_t number, ptrdiff_t keep, int store_plain, const float *text,
                              ptrdiff_t classes, ptrdiff_t width, float scale, float *text_dots, float *zero_shot,
                              int64_t *kept, float *work)
{
    Candidate candidate = {0};
    float *probabilities = work, *rest = work + number * classes;
    simd->rows_by_queries(text, classes, views, number, width, text_dots, classes);
    candidate.label = confident_views(text_dots, number, classes, scale, keep, probabilities, rest, kept,
                                      &candidate.entropy);
    memcpy(zero_shot, probabilities, (size_t)classes * sizeof(float));
    candidate.feature = rest + number + classes;
    if (store_plain) memcpy(candidate.feature, views, (size_t)width * sizeof(float));
    else unit_mean(views, kept, keep, width, candidate.feature);
    return candidate;
}

/* fused_css_step(config, (slots [K, L, D], entropy [K, L], sample [K, L], count [K]), (text [K, D], gram [K, S, S]),
   (texts [K, D], row_of_slot [K, L], products [a, a], text_scales [K], similarity [2K, 2K]),
   (views [V, D], text_length [K]), (text_dots [V, K], slot_products [K, L], weights [K, S], outputs [8, K]),
   number, used, scale, floor)
   → label, entropy, used, (floor, nodes, sizes, shares, complete, affinities, keep, inliers)

   The first view is the query. `number` is the sample's position in the stream, S is L + 1. Label and entropy are for
   AFV: those of the confident views, or of zero-shot and cache together with `joint_label`. Returns None if the cache
   does not take the sample; then only `text_dots` and `outputs` have changed. */
PyObject *kernel_fused_css_step(PyObject *self UNUSED, PyObject *arguments)
{
    enum { SLOTS, ENTROPY, SAMPLE, COUNT, TEXT, GRAM, TEXTS, ROW_OF_SLOT, PRODUCTS, TEXT_SCALES, SIMILARITY, VIEWS,
          TEXT_LENGTH, TEXT_DOTS, SLOT_PRODUCTS, WEIGHTS, OUTPUTS, ARRAYS };
    static const ArraySpec specs[ARRAYS] = {
        [SLOTS] = {"slots", FLOAT32, 3, 1}, [ENTROPY] = {"entropy", FLOAT32, 2, 1}, [SAMPLE] = {"sample", INT64, 2, 1},
        [COUNT] = {"count", INT64, 1, 1}, [TEXT] = {"text", FLOAT32, 2, 0}, [GRAM] = {"gram", FLOAT32, 3, 1},
        [TEXTS] = {"texts", FLOAT32, 2, 0}, [ROW_OF_SLOT] = {"row_of_slot", INT32, 2, 1},
        [PRODUCTS] = {"products", FLOAT32, 2, 1}, [TEXT_SCALES] = {"text_scales", FLOAT32, 1, 0},
        [SIMILARITY] = {"similarity", FLOAT32, 2, 1}, [VIEWS] = {"views", FLOAT32, 2, 0},
        [TEXT_LENGTH] = {"text_length", FLOAT32, 1, 0}, [TEXT_DOTS] = {"text_dots", FLOAT32, 2, 1},
        [SLOT_PRODUCTS] = {"slot_products", FLOAT32, 2, 1}, [WEIGHTS] = {"weights", FLOAT32, 2, 1},
        [OUTPUTS] = {"outputs", FLOAT32, 2, 1}};
    PyObject *capsule, *o[ARRAYS], *result = NULL, *graph;
    Py_buffer views[ARRAYS];
    Py_ssize_t used;
    long long sample;
    float scale, floor, *work = NULL;
    if (!PyArg_ParseTuple(arguments, "O(OOOO)(OO)(OOOOO)(OO)(OOOO)Lnff:fused_css_step", &capsule, &o[SLOTS],
                          &o[ENTROPY], &o[SAMPLE], &o[COUNT], &o[TEXT], &o[GRAM], &o[TEXTS], &o[ROW_OF_SLOT],
                          &o[PRODUCTS], &o[TEXT_SCALES], &o[SIMILARITY], &o[VIEWS], &o[TEXT_LENGTH], &o[TEXT_DOTS],
                          &o[SLOT_PRODUCTS], &o[WEIGHTS], &o[OUTPUTS], &sample, &used, &scale, &floor))
        return NULL;
    const FusedStepConfig *config = PyCapsule_GetPointer(capsule, FUSED_STEP_CONFIG);
    if (!config || take_arrays(o, views, specs, ARRAYS) < 0) return NULL;
    Py_ssize_t classes = views[SLOTS].shape[0], shots = views[SLOTS].shape[1], width = views[SLOTS].shape[2];
    Py_ssize_t all = shots + 1, rows = views[PRODUCTS].shape[0], nodes = 2 * classes, number = views[VIEWS].shape[0];
    const Extent extents[] = {
        {ENTROPY, 0, classes}, {ENTROPY, 1, shots}, {SAMPLE, 0, classes}, {SAMPLE, 1, shots}, {COUNT, 0, classes},
        {TEXT, 0, classes}, {TEXT, 1, width}, {GRAM, 0, classes}, {GRAM, 1, all}, {GRAM, 2, all}, {TEXTS, 0, classes},
        {TEXTS, 1, width}, {ROW_OF_SLOT, 0, classes}, {ROW_OF_SLOT, 1, shots}, {PRODUCTS, 1, rows},
        {TEXT_SCALES, 0, classes}, {SIMILARITY, 0, nodes}, {SIMILARITY, 1, nodes}, {VIEWS, 1, width},
        {TEXT_LENGTH, 0, classes}, {TEXT_DOTS, 0, number}, {TEXT_DOTS, 1, classes}, {SLOT_PRODUCTS, 0, classes},
        {SLOT_PRODUCTS, 1, shots}, {WEIGHTS, 0, classes}, {WEIGHTS, 1, all}, {OUTPUTS, 0, OUTPUT_ROWS},
        {OUTPUTS, 1, classes}, {-1, 0, 0}};
    if (check_extents(views, specs, extents) < 0) goto done;
    PrototypeMemory memory = {.classes = classes, .shots = shots, .width = width, .slots = views[SLOTS].buf,
                              .entropies = views[ENTROPY].buf, .samples = views[SAMPLE].buf,
                              .filled = views[COUNT].buf, .text = views[TEXT].buf, .gram = views[GRAM].buf};
    Py_ssize_t keep = (Py_ssize_t)(config->confident * (double)number);
    keep = keep < 1 ? 1 : keep;
    if (check_step(&memory, &views[COUNT], nodes) < 0 || check_view_count(keep, number, classes) < 0 ||
        check_gram_rows(&views[COUNT], &views[ROW_OF_SLOT], classes, used) < 0)
        goto done;
    if (used < classes || used >= rows) {
        PyErr_Format(PyExc_ValueError, "used must be from %zd to below %zd; given %zd", classes, rows, used);
        goto done;
    }
    work = malloc((size_t)(2 * keep + number * classes + number + classes + width + nodes) * sizeof(float));
    if (!work) {
        PyErr_NoMemory();
        goto done;
    }
    const float *query = views[VIEWS].buf, *text_dots = views[TEXT_DOTS].buf, *text_length = views[TEXT_LENGTH].buf;
    float *products = views[SLOT_PRODUCTS].buf, *weights = views[WEIGHTS].buf, *outputs = views[OUTPUTS].buf;
    float *zero_shot = outputs + ZERO_SHOT * classes, *clip_cache = outputs + CLIP_CACHE * classes;
    Candidate candidate = select_views(query, number, keep, config->store_plain, memory.text, classes, width, scale,
                                       views[TEXT_DOTS].buf, zero_shot, (int64_t *)(void *)work, work + 2 * keep);
    Py_ssize_t slot = cache_insert(&memory, candidate.label, candidate.feature, candidate.entropy, sample);
    if (slot < 0) {
        result = Py_NewRef(Py_None);
        goto done;
    }
    int32_t *row = (int32_t *)views[ROW_OF_SLOT].buf + candidate.label * shots + slot;
    if (slot == memory.filled[candidate.label] - 1 && (*row < classes || *row >= used)) *row = (int32_t)used++;
    float *cosine = candidate.feature + width; /* [nodes] */
    slot_products(&memory, query, products);
    attend_to_query(&memory, products, text_dots, config->attention_sharpness, weights, cosine + classes);
    for (Py_ssize_t k = 0; k < classes; k++) cosine[k] = text_dots[k] * text_length[k];
    softmax(cosine + classes, scale, classes, clip_cache);
    GramCache cache = {.classes = classes, .shots = shots, .texts = classes, .rows = rows, .used = used, .nodes = nodes,
                       .products = views[PRODUCTS].buf, .row_of_slot = views[ROW_OF_SLOT].buf,
                       .filled = views[COUNT].buf, .weights = weights, .text_scales = views[TEXT_SCALES].buf};
    if (gram_add_row(&cache, views[TEXTS].buf, memory.slots, width, candidate.label, slot) < 0 ||
        gram_fill_similarity(&cache, views[SIMILARITY].buf) < 0) {
        PyErr_NoMemory();
        goto done;
    }
    graph = query_graph(views[SIMILARITY].buf, nodes, &config->css, floor, cosine, outputs + TEXT_NODES * classes);
    if (!graph) goto done;
    if (config->joint_label) candidate.label = joint_pseudo_label(zero_shot, clip_cache, classes, &candidate.entropy);
    result = Py_BuildValue("nfnN", candidate.label, candidate.entropy, used, graph);
done:
    free(work);
    release_arrays(views, ARRAYS);
    return result;
}

/* fused_afv_step(config, (slots [K, L, D], entropy [K, L], sample [K, L], count [K]),
   (means [K, D], nodes [K, D], features [K, D], panels [ceil(K / 16), D, 16], similarity [K, K]), feature [D],
   (slot_products [K, L], outputs [8, K]), label, entropy, number, floor)
   → label, (floor, nodes, sizes, shares, complete, affinities, keep, inliers)

   The feature is both the query and the sample; `outputs` comes from the CSS step. `nodes` and `features` are copies of
   the means. The auxiliary cache alone predicts the softmax of each class's slot votes, times the factor. The returned
   label is the argmax of all branches. Returns None if the cache does not take the sample; then nothing has changed. */
PyObject *kernel_fused_afv_step(PyObject *self UNUSED, PyObject *arguments)
{
    enum { SLOTS, ENTROPY, SAMPLE, COUNT, MEANS, NODES, FEATURES, PANELS, SIMILARITY, FEATURE, SLOT_PRODUCTS, OUTPUTS,
          ARRAYS };
    static const ArraySpec specs[ARRAYS] = {
        [SLOTS] = {"slots", FLOAT32, 3, 1}, [ENTROPY] = {"entropy", FLOAT32, 2, 1}, [SAMPLE] = {"sample", INT64, 2, 1},
        [COUNT] = {"count", INT64, 1, 1}, [MEANS] = {"means", FLOAT32, 2, 1}, [NODES] = {"nodes", FLOAT32, 2, 1},
        [FEATURES] = {"features", FLOAT32, 2, 1}, [PANELS] = {"panels", FLOAT32, 3, 1},
        [SIMILARITY] = {"similarity", FLOAT32, 2, 1}, [FEATURE] = {"feature", FLOAT32, 1, 0},
        [SLOT_PRODUCTS] = {"slot_products", FLOAT32, 2, 1}, [OUTPUTS] = {"outputs", FLOAT32, 2, 1}};
    PyObject *capsule, *o[ARRAYS], *result = NULL, *graph;
    Py_buffer views[ARRAYS];
    Py_ssize_t label;
    long long sample;
    float entropy, floor;
    int64_t *some = NULL;
    if (!PyArg_ParseTuple(arguments, "O(OOOO)(OOOOO)O(OO)nfLf:fused_afv_step", &capsule, &o[SLOTS], &o[ENTROPY],
                          &o[SAMPLE], &o[COUNT], &o[MEANS], &o[NODES], &o[FEATURES], &o[PANELS], &o[SIMILARITY],
                          &o[FEATURE], &o[SLOT_PRODUCTS], &o[OUTPUTS], &label, &entropy, &sample, &floor))
        return NULL;
    const FusedStepConfig *config = PyCapsule_GetPointer(capsule, FUSED_STEP_CONFIG);
    if (!config || take_arrays(o, views, specs, ARRAYS) < 0) return NULL;
    Py_ssize_t classes = views[SLOTS].shape[0], shots = views[SLOTS].shape[1], width = views[SLOTS].shape[2];
    const Extent extents[] = {
        {ENTROPY, 0, classes}, {ENTROPY, 1, shots}, {SAMPLE, 0, classes}, {SAMPLE, 1, shots}, {COUNT, 0, classes},
        {MEANS, 0, classes}, {MEANS, 1, width}, {NODES, 0, classes}, {NODES, 1, width}, {FEATURES, 0, classes},
        {FEATURES, 1, width}, {PANELS, 0, (classes + 15) / 16}, {PANELS, 1, width}, {PANELS, 2, 16},
        {SIMILARITY, 0, classes}, {SIMILARITY, 1, classes}, {FEATURE, 0, width}, {SLOT_PRODUCTS, 0, classes},
        {SLOT_PRODUCTS, 1, shots}, {OUTPUTS, 0, OUTPUT_ROWS}, {OUTPUTS, 1, classes}, {-1, 0, 0}};
    if (check_extents(views, specs, extents) < 0) goto done;
    PrototypeMemory memory = {.classes = classes, .shots = shots, .width = width, .slots = views[SLOTS].buf,
                              .entropies = views[ENTROPY].buf, .samples = views[SAMPLE].buf,
                              .filled = views[COUNT].buf, .means = views[MEANS].buf};
    if (check_step(&memory, &views[COUNT], classes) < 0) goto done;
    if (label < 0 || label >= classes) {
        PyErr_Format(PyExc_ValueError, "label must be from 0 to below %zd; given %zd", classes, label);
        goto done;
    }
    some = malloc((size_t)classes * (sizeof(int64_t) + sizeof(float) + 1));
    if (!some) {
        PyErr_NoMemory();
        goto done;
    }
    Py_ssize_t slot = cache_insert(&memory, label, views[FEATURE].buf, entropy, sample);
    if (slot < 0) {
        result = Py_NewRef(Py_None);
        goto done;
    }
    float *mean = memory.means + label * width, *products = views[SLOT_PRODUCTS].buf, *outputs = views[OUTPUTS].buf;
    float *votes = outputs + AUX_CACHE * classes, *scores = outputs + AFV * classes,
    *cosine = (float *)(some + classes);
    memcpy((float *)views[NODES].buf + label * width, mean, (size_t)width * sizeof(float));
    memcpy((float *)views[FEATURES].buf + label * width, mean, (size_t)width * sizeof(float));
    slot_products(&memory, views[FEATURE].buf, products);
    slot_votes(products, memory.filled, classes, shots, config->afv.sharpness, votes);
    softmax(votes, config->afv.factor, classes, votes);
    /* A class without samples has a zero node, so its cosine is 0. */
    memset(cosine, 0, (size_t)classes * sizeof(float));
    for (Py_ssize_t k = 0; k < classes; k++) some[k] = memory.filled[k] > 0;
    simd->slots_by_query(views[NODES].buf, some, classes, 1, views[FEATURE].buf, width, cosine);
    uint8_t *changed = (uint8_t *)(cosine + classes);
    memset(changed, 0, (size_t)classes);
    changed[label] = 1;
    update_similarity(views[FEATURES].buf, classes, width, changed, views[PANELS].buf, views[SIMILARITY].buf);
    graph = query_graph(views[SIMILARITY].buf, classes, &config->afv, floor, cosine, scores);
    if (!graph) goto done;
    Py_ssize_t answer = fuse_branches(outputs + ZERO_SHOT * classes, outputs + TEXT_NODES * classes, scores, classes,
                                      config->weights, outputs + CSS * classes, outputs + SCORES * classes);
    result = Py_BuildValue("nN", answer, graph);
done:
    free(some);
    release_arrays(views, ARRAYS);
    return result;
}
