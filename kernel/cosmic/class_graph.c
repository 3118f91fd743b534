/* Class graphs as bit matrices: edges from similarities, and the second-order graph. */
#include "graph.h"

static inline void connect(uint64_t *graph, ptrdiff_t words, ptrdiff_t one, ptrdiff_t other)
{
    graph[one * words + other / 64] |= (uint64_t)1 << other % 64;
    graph[other * words + one / 64] |= (uint64_t)1 << one % 64;
}

void connect_pairs(const Pairs *pairs, float threshold, uint64_t *graph, ptrdiff_t words)
{
    /* No branch: which of the most similar pairs lie above is not predictable. */
    for (ptrdiff_t index = 0; index < pairs->filled; index++) {
        uint64_t edge = pairs->values[index] > threshold;
        ptrdiff_t one = pairs->left[index], other = pairs->right[index];
        graph[one * words + other / 64] |= edge << other % 64;
        graph[other * words + one / 64] |= edge << one % 64;
    }
}

void connect_rows(const float *similarity, ptrdiff_t start, ptrdiff_t rows, ptrdiff_t nodes, const uint8_t *present,
                  float threshold, uint64_t *graph, ptrdiff_t words)
{
    for (ptrdiff_t node = start; node < start + rows; node++) {
        if (present && !present[node]) continue;
        const float *row = similarity + (node - start) * nodes;
        for (ptrdiff_t other = 0; other < node; other++)
            if (row[other] > threshold && (!present || present[other])) connect(graph, words, node, other);
    }
}

int check_graph_shape(Py_ssize_t nodes, Py_ssize_t words)
{
    if (words == (nodes + 63) / 64 && nodes <= INT32_MAX / 2) return 0;
    PyErr_Format(PyExc_ValueError, "a graph of %zd nodes must have %zd words per row; given %zd", nodes,
                 (nodes + 63) / 64, words);
    return -1;
}

/* connect_pairs(values [m], left [m], right [m], threshold, graph [n, words]): connect the listed pairs above the
   threshold */
PyObject *kernel_connect_pairs(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {
        {"values", FLOAT32, 1, 0}, {"left", INT32, 1, 0}, {"right", INT32, 1, 0}, {"graph", UINT64, 2, 1}};
    PyObject *o[4], *result = NULL;
    Py_buffer views[4];
    float threshold;
    if (!PyArg_ParseTuple(arguments, "OOOfO:connect_pairs", &o[0], &o[1], &o[2], &threshold, &o[3])) return NULL;
    if (take_arrays(o, views, specs, 4) < 0) return NULL;
    Py_ssize_t count = views[0].shape[0], nodes = views[3].shape[0], words = views[3].shape[1];
    const int32_t *left = views[1].buf, *right = views[2].buf;
    const Extent extents[] = {{1, 0, count}, {2, 0, count}, {-1, 0, 0}};
    if (check_extents(views, specs, extents) < 0 || check_graph_shape(nodes, words) < 0) goto done;
    for (Py_ssize_t index = 0; index < count; index++)
        if (left[index] < 0 || left[index] >= nodes || right[index] < 0 || right[index] >= nodes ||
            left[index] == right[index]) {
            PyErr_Format(PyExc_ValueError, "pair %zd must be of two of the %zd nodes", index, nodes);
            goto done;
        }
    Pairs pairs = {.values = views[0].buf, .left = views[1].buf, .right = views[2].buf, .filled = count};
    connect_pairs(&pairs, threshold, views[3].buf, words);
    result = Py_NewRef(Py_None);
done:
    release_arrays(views, 4);
    return result;
}

/* connect_above(similarity [r, n], start, present [n] or None, threshold, graph [n, words]): connect every pair of a
   lower triangle's rows above the threshold */
PyObject *kernel_connect_above(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {{"similarity", FLOAT32, 2, 0}, {"present", BOOL, -1, 0}, {"graph", UINT64, 2, 1}};
    PyObject *o[3], *result = NULL;
    Py_buffer views[3];
    Py_ssize_t start;
    float threshold;
    if (!PyArg_ParseTuple(arguments, "OnOfO:connect_above", &o[0], &start, &o[1], &threshold, &o[2])) return NULL;
    if (take_arrays(o, views, specs, 3) < 0) return NULL;
    Py_ssize_t rows = views[0].shape[0], nodes = views[0].shape[1], words = views[2].shape[1];
    const float *similarity = views[0].buf;
    const uint8_t *present = views[1].buf;
    const Extent extents[] = {{1, 0, nodes}, {2, 0, nodes}, {-1, 0, 0}};
    if (check_extents(views, specs, extents) < 0 || check_graph_shape(nodes, words) < 0) goto done;
    if (start < 0 || start > nodes || rows > nodes - start) {
        PyErr_Format(PyExc_ValueError, "the rows must be among %zd nodes; given %zd from %zd on", nodes, rows, start);
        goto done;
    }
    connect_rows(similarity, start, rows, nodes, present, threshold, views[2].buf, words);
    result = Py_NewRef(Py_None);
done:
    release_arrays(views, 3);
    return result;
}

int check_graph(const Py_buffer *view)
{
    Py_ssize_t nodes = view->shape[0], words = view->shape[1];
    const uint64_t *graph = view->buf;
    if (check_graph_shape(nodes, words) < 0) return -1;
    for (Py_ssize_t node = 0; node < nodes; node++)
        for (Py_ssize_t word = 0; word < words; word++)
            for (uint64_t rest = graph[node * words + word]; rest; rest &= rest - 1) {
                Py_ssize_t other = word * 64 + LOWEST(rest);
                if (other >= nodes || other == node || !(graph[other * words + node / 64] >> node % 64 & 1)) {
                    PyErr_Format(PyExc_ValueError, "node %zd has the neighbour %zd: this is not a graph", node, other);
                    return -1;
                }
            }
    return 0;
}

/* second_order(graph [n, words], common, out [n, words]); out must be empty */
PyObject *kernel_second_order(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {{"graph", UINT64, 2, 0}, {"out", UINT64, 2, 1}};
    PyObject *objects[2], *result = NULL;
    Py_buffer views[2];
    long long common;
    if (!PyArg_ParseTuple(arguments, "OLO:second_order", &objects[0], &common, &objects[1])) return NULL;
    if (take_arrays(objects, views, specs, 2) < 0) return NULL;
    const Extent extents[] = {{1, 0, views[0].shape[0]}, {1, 1, views[0].shape[1]}, {-1, 0, 0}};
    if (check_extents(views, specs, extents) < 0 || check_graph(&views[0]) < 0) goto done;
    simd->second_order(views[0].buf, views[0].shape[0], views[0].shape[1], common, views[1].buf);
    result = Py_NewRef(Py_None);
done:
    release_arrays(views, 2);
    return result;
}
