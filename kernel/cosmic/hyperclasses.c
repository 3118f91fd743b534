/* Hyper-classes: from similarities to cliques, and the cliques nearest to a query. */
#include "cosmic.h"

#include <math.h>
#include <stdlib.h>

typedef enum { THRESHOLD, DEGREE, DEGENERACY } Control;

/* A floor with a few more pairs above it than needed, so that the next list is likely to be just long enough. If many
   pairs have the similarity of the floor, too few lie above it: then the floor is minus infinity. */
static float next_floor(Pairs *pairs, ptrdiff_t needed)
{
    ptrdiff_t spare = needed + needed / 4 + 1, above = 0;
    float floor = pairs->cut;
    if (pairs->filled > spare + needed / 4) {
        memcpy(pairs->scratch, pairs->values, (size_t)pairs->filled * sizeof(float));
        floor = nth_largest(pairs->scratch, pairs->filled, spare);
    }
    for (ptrdiff_t index = 0; index < pairs->filled; index++) above += pairs->values[index] > floor;
    return above < needed ? -Py_HUGE_VAL : floor;
}

/* The graph's threshold, from the most similar pairs. Returns -1 without memory. */
static int find_threshold(const float *similarity, ptrdiff_t nodes, const uint8_t *present, const CliqueSearch *search,
                          float *floor, Pairs *pairs, double *threshold)
{
    ptrdiff_t present_nodes = nodes;
    if (present) {
        present_nodes = 0;
        for (ptrdiff_t node = 0; node < nodes; node++) present_nodes += present[node];
    }
    for (int again = 0; again < 2; again++) {
        pairs->filled = 0;
        pairs->cut = again ? -Py_HUGE_VAL : *floor;
        pairs->lowest = Py_HUGE_VAL;
        pairs->highest = -Py_HUGE_VAL;
        simd->collect(pairs, similarity, nodes, 0, nodes, present);
        if (pairs->filled >= search->pairs) break;
    }
    *floor = next_floor(pairs, search->pairs);
    if (search->control == DEGREE)
        return find_degree_threshold(pairs->values, pairs->filled, present_nodes, search->value, pairs->lowest,
                                     pairs->highest, threshold);
    return find_degeneracy_threshold(pairs->values, pairs->left, pairs->right, pairs->filled, nodes,
                                     (int64_t)search->value,
                                     pairs->filled == present_nodes * (present_nodes - 1) / 2, threshold);
}

/* From similarities to cliques. */
static Outcome build_graph(const float *similarity, ptrdiff_t nodes, const uint8_t *present, const CliqueSearch *search,
                           float *floor, Pairs *pairs, Cliques *found)
{
    ptrdiff_t words = (nodes + 63) / 64;
    uint64_t *graph = calloc((size_t)(2 * nodes * words + 1), sizeof(uint64_t)), *searched = graph;
    Outcome outcome = NO_MEMORY;
    double threshold = search->value;
    int listed = search->control != THRESHOLD;
    if (!graph || (listed && find_threshold(similarity, nodes, present, search, floor, pairs, &threshold) < 0))
        goto done;
    if (listed && (float)threshold >= pairs->cut) connect_pairs(pairs, (float)threshold, graph, words);
    else connect_rows(similarity, 0, nodes, nodes, present, (float)threshold, graph, words);
    if (search->common >= 0) {
        searched = graph + nodes * words;
        simd->second_order(graph, nodes, words, search->common, searched);
    }
    outcome = find_cliques(searched, nodes, words, search->max_cliques, search->max_visits, found);
done:
    free(graph);
    return outcome;
}

int check_clique_search(const CliqueSearch *search)
{
    if (search->pairs >= 1 && search->pairs <= INT32_MAX / 16 && search->control >= THRESHOLD &&
        search->control <= DEGENERACY && fabs(search->value) <= INT32_MAX)
        return 0;
    PyErr_Format(PyExc_ValueError,
                 "control must be 0, 1 or 2, with a finite value and at least one pair; given control "
                 "%d and %zd pairs", search->control, search->pairs);
    return -1;
}

int check_node_count(Py_ssize_t nodes)
{
    if (nodes <= INT32_MAX / 16) return 0;
    PyErr_Format(PyExc_ValueError, "a graph must be of at most %d nodes; given %zd", INT32_MAX / 16, nodes);
    return -1;
}

PyObject *cliques_of_similarity(const float *similarity, Py_ssize_t nodes, const uint8_t *present,
                                const CliqueSearch *search, float *floor)
{
    Cliques found = {0};
    Pairs pairs = {0};
    Outcome outcome = NO_MEMORY;
    Py_BEGIN_ALLOW_THREADS
    /* More pairs are kept than needed, so that next time enough pairs are likely to lie above the same floor. */
    pairs.keep = search->pairs + search->pairs / 2;
    pairs.room = 2 * pairs.keep + 256;
    pairs.values = malloc((size_t)pairs.room * 4 * sizeof(float));
    if (pairs.values) {
        pairs.scratch = pairs.values + pairs.room;
        pairs.left = (int32_t *)(pairs.scratch + pairs.room);
        pairs.right = pairs.left + pairs.room;
        outcome = build_graph(similarity, nodes, present, search, floor, &pairs, &found);
    }
    Py_END_ALLOW_THREADS
    PyObject *listed = outcome == NO_MEMORY ? PyErr_NoMemory() : cliques_as_bytes(&found, nodes, outcome == ALL_FOUND);
    free(found.nodes), free(found.starts), free(pairs.values);
    return listed;
}

/* graph_cliques(similarity [n, n], present [n] or None, control, value, pairs, common, max_cliques, max_visits, floor)
   → nodes, sizes, shares, complete, floor: the cliques of a graph, as `CliqueSearch` describes it. */
PyObject *kernel_graph_cliques(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {{"similarity", FLOAT32, 2, 0}, {"present", BOOL, -1, 0}};
    PyObject *objects[2], *result = NULL, *listed;
    Py_buffer views[2];
    CliqueSearch search;
    float floor;
    if (!PyArg_ParseTuple(arguments, "OOidnLLLf:graph_cliques", &objects[0], &objects[1], &search.control,
                          &search.value, &search.pairs, &search.common, &search.max_cliques, &search.max_visits,
                          &floor))
        return NULL;
    if (take_arrays(objects, views, specs, 2) < 0) return NULL;
    Py_ssize_t nodes = views[0].shape[0];
    const Extent extents[] = {{0, 1, nodes}, {1, 0, nodes}, {-1, 0, 0}};
    if (check_extents(views, specs, extents) < 0 || check_clique_search(&search) < 0 || check_node_count(nodes) < 0)
        goto done;
    listed = cliques_of_similarity(views[0].buf, nodes, views[1].buf, &search, &floor);
    if (listed) {
        result = Py_BuildValue("OOOOf", PyTuple_GET_ITEM(listed, 0), PyTuple_GET_ITEM(listed, 1),
                               PyTuple_GET_ITEM(listed, 2), PyTuple_GET_ITEM(listed, 3), floor);
        Py_DECREF(listed);
    }
done:
    release_arrays(views, 2);
    return result;
}

/* The cliques must consist of nodes, and their sizes must be those of the list. */
static int check_cliques(const Py_buffer *nodes, const Py_buffer *sizes, Py_ssize_t count)
{
    const int64_t *node = nodes->buf, *size = sizes->buf;
    Py_ssize_t left = nodes->shape[0];
    for (Py_ssize_t index = 0; index < sizes->shape[0]; index++) {
        if (size[index] < 0 || size[index] > left) {
            PyErr_SetString(PyExc_ValueError, "the sum of the sizes must be the number of listed nodes");
            return -1;
        }
        left -= (Py_ssize_t)size[index];
    }
    for (Py_ssize_t at = 0; at < nodes->shape[0]; at++)
        if (node[at] < 0 || node[at] >= count) {
            PyErr_Format(PyExc_ValueError, "node %lld must be from 0 to below %zd", (long long)node[at], count);
            return -1;
        }
    return 0;
}

/* clique_lengths(rows [n, D], nodes [t], sizes [m], out [m]): the length of the sum of each clique's rows */
PyObject *kernel_clique_lengths(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {
        {"rows", FLOAT32, 2, 0}, {"nodes", INT64, 1, 0}, {"sizes", INT64, 1, 0}, {"out", FLOAT32, 1, 1}};
    PyObject *o[4], *result = NULL;
    Py_buffer views[4];
    float *sum = NULL;
    if (!PyArg_ParseTuple(arguments, "OOOO:clique_lengths", &o[0], &o[1], &o[2], &o[3])) return NULL;
    if (take_arrays(o, views, specs, 4) < 0) return NULL;
    Py_ssize_t width = views[0].shape[1], cliques = views[2].shape[0], at = 0;
    const int64_t *nodes = views[1].buf, *sizes = views[2].buf;
    const Extent extents[] = {{3, 0, cliques}, {-1, 0, 0}};
    if (check_extents(views, specs, extents) < 0 || check_cliques(&views[1], &views[2],
                                                                  views[0].shape[0]) < 0) goto done;
    sum = malloc((size_t)(width + 1) * sizeof(float));
    if (!sum) {
        PyErr_NoMemory();
        goto done;
    }
    for (Py_ssize_t index = 0; index < cliques; at += (Py_ssize_t)sizes[index], index++)
        ((float *)views[3].buf)[index] = simd->length(views[0].buf, nodes + at, (ptrdiff_t)sizes[index], width, sum);
    result = Py_NewRef(Py_None);
done:
    free(sum);
    release_arrays(views, 4);
    return result;
}

/* The affinity of a clique is the scaled sum of its nodes' products with a query. Ties go to the first cliques. */
int select_nearest_cliques(const float *products, ptrdiff_t count, const int64_t *nodes, const int64_t *sizes,
                           ptrdiff_t cliques,
                           const float *scale, ptrdiff_t keep, float *affinities, uint8_t *inliers)
{
    float *sorted = malloc((size_t)cliques * sizeof(float));
    ptrdiff_t at = 0;
    if (!sorted) return -1;
    for (ptrdiff_t index = 0; index < cliques; index++) {
        float sum = 0;
        for (ptrdiff_t end = at + (ptrdiff_t)sizes[index]; at < end; at++) sum += products[nodes[at]];
        affinities[index] = sum * scale[index];
        sorted[index] = affinities[index] == affinities[index] ? affinities[index] : -Py_HUGE_VAL;
    }
    float least = nth_largest(sorted, cliques, keep);
    free(sorted);
    ptrdiff_t equals = keep;
    for (ptrdiff_t index = 0; index < cliques; index++) equals -= affinities[index] > least;
    memset(inliers, 0, (size_t)count);
    at = 0;
    for (ptrdiff_t index = 0; index < cliques; index++) {
        int chosen = affinities[index] > least || (affinities[index] == least && equals-- > 0);
        for (ptrdiff_t end = at + (ptrdiff_t)sizes[index]; at < end; at++)
            if (chosen) inliers[nodes[at]] = 1;
    }
    return 0;
}

void score_inliers(const float *cosine, const uint8_t *inliers, ptrdiff_t count, float factor, float sharpness,
                   float *scores)
{
    for (ptrdiff_t node = 0; node < count; node++)
        scores[node] = inliers[node] ? factor * expf(-sharpness * (1 - cosine[node])) : 0;
}

/* nearest_hyperclasses(products [n], nodes [t], sizes [m], scale [m], keep, affinities [m], inliers [n], cosine [n]
   or None, factor, sharpness, scores [n] or None): the affinities of all cliques, and the inliers: the nodes of the
   `keep` nearest. `products` are those of the query with the nodes of the graph. With `cosine`, of the query with
   the current nodes, inliers score factor·exp(-sharpness·(1 - cosine)), other nodes 0. */
PyObject *kernel_nearest_hyperclasses(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {
        {"products", FLOAT32, 1, 0}, {"nodes", INT64, 1, 0}, {"sizes", INT64, 1, 0}, {"scale", FLOAT32, 1, 0},
        {"affinities", FLOAT32, 1, 1}, {"inliers", BOOL, 1, 1}, {"cosine", FLOAT32, -1, 0}, {"scores", FLOAT32, -1, 1}};
    PyObject *o[8], *result = NULL;
    Py_buffer views[8];
    Py_ssize_t keep;
    float factor, sharpness;
    if (!PyArg_ParseTuple(arguments, "OOOOnOOOffO:nearest_hyperclasses", &o[0], &o[1], &o[2], &o[3], &keep, &o[4],
                          &o[5], &o[6], &factor, &sharpness, &o[7]))
        return NULL;
    if (take_arrays(o, views, specs, 8) < 0) return NULL;
    Py_ssize_t count = views[0].shape[0], cliques = views[2].shape[0];
    const float *cosine = views[6].buf;
    const uint8_t *inliers = views[5].buf;
    float *scores = views[7].buf;
    const Extent extents[] = {
        {3, 0, cliques}, {4, 0, cliques}, {5, 0, count}, {6, 0, count}, {7, 0, count}, {-1, 0, 0}};
    if (check_extents(views, specs, extents) < 0) goto done;
    if (!cosine != !scores) {
        PyErr_SetString(PyExc_ValueError, "cosine and scores must be given both, or neither");
        goto done;
    }
    if (check_cliques(&views[1], &views[2], count) < 0) goto done;
    if (keep < 1 || keep > cliques) {
        PyErr_Format(PyExc_ValueError, "keep must be from 1 to %zd; given %zd", cliques, keep);
        goto done;
    }
    if (select_nearest_cliques(views[0].buf, count, views[1].buf, views[2].buf, cliques, views[3].buf, keep,
                               views[4].buf,
                               views[5].buf) < 0) {
        PyErr_NoMemory();
        goto done;
    }
    if (scores) score_inliers(cosine, inliers, count, factor, sharpness, scores);
    result = Py_NewRef(Py_None);
done:
    release_arrays(views, 8);
    return result;
}
