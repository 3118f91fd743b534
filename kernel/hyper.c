/* Hyper-classes: from similarities to cliques in one call, and the cliques nearest to a query. */
#include "parts.h"

#include <math.h>
#include <stdlib.h>

typedef enum { THRESHOLD, DEGREE, DEGENERACY } Control;

/* A floor that leaves a few more pairs than are needed, so that the next list is likely to be long enough and short. Where
   many are as similar as the floor, it would be too short: then there is none. */
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

/* From similarities to cliques. */
static Outcome build(const float *similarity, ptrdiff_t nodes, const uint8_t *present, Control control, double value,
                     ptrdiff_t needed, float *floor_next, int64_t common, int64_t most_cliques, int64_t most_looks, Pairs *pairs,
                     Cliques *found)
{
    ptrdiff_t words = (nodes + 63) / 64, there = nodes;
    uint64_t *graph = calloc((size_t)(2 * nodes * words + 1), sizeof(uint64_t)), *used = graph;
    Outcome outcome = NO_MEMORY;
    if (!graph) return outcome;
    if (present) {
        there = 0;
        for (ptrdiff_t node = 0; node < nodes; node++) there += present[node];
    }
    double threshold = value;
    if (control != THRESHOLD) {
        float floor = pairs->cut;
        for (int again = 0; again < 2; again++) {
            pairs->filled = 0;
            pairs->cut = again ? -Py_HUGE_VAL : floor;
            pairs->lowest = Py_HUGE_VAL;
            pairs->highest = -Py_HUGE_VAL;
            hot->collect(pairs, similarity, nodes, 0, nodes, present);
            if (pairs->filled >= needed) break;
        }
        *floor_next = next_floor(pairs, needed);
        if (control == DEGREE) {
            if (degree_cut(pairs->values, pairs->filled, there, value, pairs->lowest, pairs->highest, &threshold) < 0)
                goto done;
        } else if (degeneracy_cut(pairs->values, pairs->left, pairs->right, pairs->filled, nodes, (int64_t)value,
                                pairs->filled == there * (there - 1) / 2, &threshold) < 0)
            goto done;
    }
    if (control != THRESHOLD && (float)threshold >= pairs->cut) connect_pairs(pairs, (float)threshold, graph, words);
    else connect_rows(similarity, 0, nodes, nodes, present, (float)threshold, graph, words);
    if (common >= 0) {
        used = graph + nodes * words;
        hot->second_order(graph, nodes, words, common, used);
    }
    outcome = find_cliques(used, nodes, words, most_cliques, most_looks, found);
done:
    free(graph);
    return outcome;
}

int density_fits(const Density *density, Py_ssize_t nodes)
{
    if (density->keep >= 1 && density->keep <= INT32_MAX / 16 && nodes <= INT32_MAX / 16 &&
        density->control >= THRESHOLD && density->control <= DEGENERACY && fabs(density->value) <= INT32_MAX)
        return 0;
    PyErr_Format(PyExc_ValueError, "control %d with %zd pairs to keep cannot be", density->control, density->keep);
    return -1;
}

PyObject *cliques_of(const float *similarity, Py_ssize_t nodes, const uint8_t *present, Density *density)
{
    Py_ssize_t keep = density->keep;
    Cliques found = {0};
    Pairs pairs = {0};
    Outcome outcome = NO_MEMORY;
    Py_BEGIN_ALLOW_THREADS
    /* More are kept than needed, so that next time the same floor is likely to leave enough. */
    pairs.keep = keep + keep / 2;
    pairs.room = 2 * pairs.keep + 256;
    pairs.cut = density->floor;
    pairs.values = malloc((size_t)pairs.room * 4 * sizeof(float));
    if (pairs.values) {
        pairs.scratch = pairs.values + pairs.room;
        pairs.left = (int32_t *)(pairs.scratch + pairs.room);
        pairs.right = pairs.left + pairs.room;
        outcome = build(similarity, nodes, present, (Control)density->control, density->value, keep, &density->floor,
                        density->common, density->most_cliques, density->most_looks, &pairs, &found);
    }
    Py_END_ALLOW_THREADS
    PyObject *listed = outcome == NO_MEMORY ? PyErr_NoMemory() : as_bytes(&found, nodes, outcome == ALL_FOUND);
    free(found.nodes), free(found.starts), free(pairs.values);
    return listed;
}

/* build(similarity [n, n], present [n] or None, control, value, keep, floor, common, most_cliques, most_looks)
   → nodes, sizes, shares, complete, floor: the cliques of the graph whose density the control says: 0 a threshold, 1 a mean
   degree, 2 a degeneracy. `keep` pairs are enough to find it, those above the `floor` usually so many. A `common` below
   zero asks for the graph of first order. */
PyObject *kernel_build(PyObject *self UNUSED, PyObject *arguments)
{
    static const Form forms[] = {{"similarity", FLOAT32, 2, 0}, {"present", BOOL, -1, 0}};
    PyObject *objects[2], *result = NULL, *listed;
    Py_buffer views[2];
    Density density;
    if (!PyArg_ParseTuple(arguments, "OOidnfLLL:build", &objects[0], &objects[1], &density.control, &density.value,
                          &density.keep, &density.floor, &density.common, &density.most_cliques, &density.most_looks))
        return NULL;
    if (take(objects, views, forms, 2) < 0) return NULL;
    Py_ssize_t nodes = views[0].shape[0];
    const Extent extents[] = {{0, 1, nodes}, {1, 0, nodes}, {-1, 0, 0}};
    if (have_extents(views, forms, extents) < 0 || density_fits(&density, nodes) < 0) goto done;
    listed = cliques_of(views[0].buf, nodes, views[1].buf, &density);
    if (listed) {
        result = Py_BuildValue("OOOOf", PyTuple_GET_ITEM(listed, 0), PyTuple_GET_ITEM(listed, 1),
                               PyTuple_GET_ITEM(listed, 2), PyTuple_GET_ITEM(listed, 3), density.floor);
        Py_DECREF(listed);
    }
done:
    release(views, 2);
    return result;
}

/* The cliques' nodes must be nodes, and their sizes add up. */
static int are_cliques(const Py_buffer *nodes, const Py_buffer *sizes, Py_ssize_t count)
{
    const int64_t *node = nodes->buf, *size = sizes->buf;
    Py_ssize_t left = nodes->shape[0];
    for (Py_ssize_t index = 0; index < sizes->shape[0]; index++) {
        if (size[index] < 0 || size[index] > left) {
            PyErr_SetString(PyExc_ValueError, "the sizes do not add up to the nodes");
            return -1;
        }
        left -= (Py_ssize_t)size[index];
    }
    for (Py_ssize_t at = 0; at < nodes->shape[0]; at++)
        if (node[at] < 0 || node[at] >= count) {
            PyErr_Format(PyExc_ValueError, "node %lld is none of %zd", (long long)node[at], count);
            return -1;
        }
    return 0;
}

/* lengths(rows [n, D], nodes [t], sizes [m], out [m]): the length of the sum of each clique's rows */
PyObject *kernel_lengths(PyObject *self UNUSED, PyObject *arguments)
{
    static const Form forms[] = {
        {"rows", FLOAT32, 2, 0}, {"nodes", INT64, 1, 0}, {"sizes", INT64, 1, 0}, {"out", FLOAT32, 1, 1}};
    PyObject *o[4], *result = NULL;
    Py_buffer views[4];
    float *sum = NULL;
    if (!PyArg_ParseTuple(arguments, "OOOO:lengths", &o[0], &o[1], &o[2], &o[3])) return NULL;
    if (take(o, views, forms, 4) < 0) return NULL;
    Py_ssize_t width = views[0].shape[1], cliques = views[2].shape[0], at = 0;
    const int64_t *nodes = views[1].buf, *sizes = views[2].buf;
    const Extent extents[] = {{3, 0, cliques}, {-1, 0, 0}};
    if (have_extents(views, forms, extents) < 0 || are_cliques(&views[1], &views[2], views[0].shape[0]) < 0) goto done;
    sum = malloc((size_t)(width + 1) * sizeof(float));
    if (!sum) {
        PyErr_NoMemory();
        goto done;
    }
    for (Py_ssize_t index = 0; index < cliques; at += (Py_ssize_t)sizes[index], index++)
        ((float *)views[3].buf)[index] = hot->length(views[0].buf, nodes + at, (ptrdiff_t)sizes[index], width, sum);
    result = Py_NewRef(Py_None);
done:
    free(sum);
    release(views, 4);
    return result;
}

/* The affinity of each clique: its nodes' products with a query added up and scaled. The nodes of the `keep` greatest
   become inliers, among equals the first cliques. */
int select_nearest(const float *products, ptrdiff_t count, const int64_t *nodes, const int64_t *sizes, ptrdiff_t cliques,
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

void score_inliers(const float *cosine, const uint8_t *inliers, ptrdiff_t count, float factor, float sharpness, float *scores)
{
    for (ptrdiff_t node = 0; node < count; node++)
        scores[node] = inliers[node] ? factor * expf(-sharpness * (1 - cosine[node])) : 0;
}

/* select(then [n], nodes [t], sizes [m], scale [m], keep, affinities [m], inliers [n], cosine [n] or None, factor,
   sharpness, scores [n] or None): the inliers that the cliques nearest to a query select, by its products with the nodes
   as the cliques know them; and, if asked for, the scores by those of today: factor·exp(-sharpness·(1 - cosine)) of
   inliers, 0 of the others */
PyObject *kernel_select(PyObject *self UNUSED, PyObject *arguments)
{
    static const Form forms[] = {{"then", FLOAT32, 1, 0},       {"nodes", INT64, 1, 0},    {"sizes", INT64, 1, 0},
                                 {"scale", FLOAT32, 1, 0},      {"affinities", FLOAT32, 1, 1}, {"inliers", BOOL, 1, 1},
                                 {"cosine", FLOAT32, -1, 0},    {"scores", FLOAT32, -1, 1}};
    PyObject *o[8], *result = NULL;
    Py_buffer views[8];
    Py_ssize_t keep;
    float factor, sharpness;
    if (!PyArg_ParseTuple(arguments, "OOOOnOOOffO:select", &o[0], &o[1], &o[2], &o[3], &keep, &o[4], &o[5], &o[6], &factor,
                          &sharpness, &o[7]))
        return NULL;
    if (take(o, views, forms, 8) < 0) return NULL;
    Py_ssize_t count = views[0].shape[0], cliques = views[2].shape[0];
    const float *cosine = views[6].buf;
    const uint8_t *inliers = views[5].buf;
    float *scores = views[7].buf;
    const Extent extents[] = {{3, 0, cliques}, {4, 0, cliques}, {5, 0, count}, {6, 0, count}, {7, 0, count}, {-1, 0, 0}};
    if (have_extents(views, forms, extents) < 0) goto done;
    if (!cosine != !scores) {
        PyErr_SetString(PyExc_ValueError, "scores must be asked for with cosines, or neither");
        goto done;
    }
    if (are_cliques(&views[1], &views[2], count) < 0) goto done;
    if (keep < 1 || keep > cliques) {
        PyErr_Format(PyExc_ValueError, "%zd of %zd cliques cannot be selected", keep, cliques);
        goto done;
    }
    if (select_nearest(views[0].buf, count, views[1].buf, views[2].buf, cliques, views[3].buf, keep, views[4].buf,
                       views[5].buf) < 0) {
        PyErr_NoMemory();
        goto done;
    }
    if (scores) score_inliers(cosine, inliers, count, factor, sharpness, scores);
    result = Py_NewRef(Py_None);
done:
    release(views, 8);
    return result;
}
