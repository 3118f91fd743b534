/* Maximal cliques of a graph: the limits of the search, the greedy cliques past them, and the order of the result.
   The search itself is simd/clique_loops.h. */
#include "graph.h"

#include <stdlib.h>

/* A binary heap of numbers, the least on top. */
typedef struct {
    int64_t *items;
    ptrdiff_t size, room;
} Heap;

static int push(Heap *heap, int64_t item)
{
    if (heap->size == heap->room) {
        ptrdiff_t room = heap->room ? heap->room * 2 : 256;
        int64_t *items = realloc(heap->items, (size_t)room * sizeof(int64_t));
        if (!items) return -1;
        heap->items = items;
        heap->room = room;
    }
    ptrdiff_t at = heap->size++;
    for (; at && heap->items[(at - 1) / 2] > item; at = (at - 1) / 2) heap->items[at] = heap->items[(at - 1) / 2];
    heap->items[at] = item;
    return 0;
}

static int64_t pop(Heap *heap)
{
    int64_t top = heap->items[0], item = heap->items[--heap->size];
    ptrdiff_t at = 0, child;
    while ((child = 2 * at + 1) < heap->size) {
        if (child + 1 < heap->size && heap->items[child + 1] < heap->items[child]) child++;
        if (heap->items[child] >= item) break;
        heap->items[at] = heap->items[child];
        at = child;
    }
    heap->items[at] = item;
    return top;
}

static ptrdiff_t neighbours(const uint64_t *row, ptrdiff_t words, int32_t *out)
{
    ptrdiff_t size = 0;
    for (ptrdiff_t word = 0; word < words; word++)
        for (uint64_t rest = row[word]; rest; rest &= rest - 1) out[size++] = (int32_t)(word * 64 + LOWEST(rest));
    return size;
}

/* Grow one maximal clique from every node, trying its neighbours in descending order of degree, ties by index. */
static int greedy(const uint64_t *graph, ptrdiff_t nodes, ptrdiff_t words, int32_t *around, Cliques *found)
{
    int32_t *degree = malloc((size_t)nodes * sizeof(int32_t)), *inside = malloc((size_t)(nodes + 1) * sizeof(int32_t));
    Heap heap = {0};
    int done = -1;
    if (!degree || !inside) goto out;
    for (ptrdiff_t node = 0; node < nodes; node++)
        degree[node] = (int32_t)neighbours(graph + node * words, words, around);
    for (ptrdiff_t node = 0; node < nodes; node++) {
        ptrdiff_t size = neighbours(graph + node * words, words, around), members = 0;
        if (!size) continue;
        for (ptrdiff_t index = 0; index < size; index++)
            if (push(&heap, (nodes - (int64_t)degree[around[index]]) * nodes + around[index]) < 0) goto out;
        inside[members++] = (int32_t)node;
        while (heap.size) {
            ptrdiff_t other = (ptrdiff_t)(pop(&heap) % nodes);
            const uint64_t *row = graph + other * words;
            ptrdiff_t at = 1;
            while (at < members && row[inside[at] / 64] >> inside[at] % 64 & 1) at++;
            if (at == members) inside[members++] = (int32_t)other;
        }
        if (add_clique(found, inside, members) < 0) goto out;
    }
    done = 0;
out:
    free(degree), free(inside), free(heap.items);
    return done;
}

typedef struct {
    const int32_t *nodes;
    ptrdiff_t size;
} Clique;

static int by_node(const void *one, const void *other)
{
    int32_t a = *(const int32_t *)one, b = *(const int32_t *)other;
    return (a > b) - (a < b);
}

static int lexicographic(const void *one, const void *other)
{
    const Clique *a = one, *b = other;
    for (ptrdiff_t at = 0; at < a->size && at < b->size; at++)
        if (a->nodes[at] != b->nodes[at]) return a->nodes[at] < b->nodes[at] ? -1 : 1;
    return (a->size > b->size) - (a->size < b->size);
}

static void sort_nodes(int32_t *nodes, ptrdiff_t size)
{
    if (size > 24) {
        qsort(nodes, (size_t)size, sizeof(int32_t), by_node);
        return;
    }
    for (ptrdiff_t i = 1; i < size; i++) {
        int32_t node = nodes[i];
        ptrdiff_t j = i;
        for (; j && nodes[j - 1] > node; j--) nodes[j] = nodes[j - 1];
        nodes[j] = node;
    }
}

static void sort_cliques(Clique *cliques, ptrdiff_t count)
{
    if (count > 24) {
        qsort(cliques, (size_t)count, sizeof(Clique), lexicographic);
        return;
    }
    for (ptrdiff_t i = 1; i < count; i++) {
        Clique clique = cliques[i];
        ptrdiff_t j = i;
        for (; j && lexicographic(&cliques[j - 1], &clique) > 0; j--) cliques[j] = cliques[j - 1];
        cliques[j] = clique;
    }
}

/* Sort the cliques: by their first node, then, among the few with the same first node, lexicographically. */
static Clique *in_order(Cliques *found, ptrdiff_t nodes)
{
    Clique *sorted = malloc((size_t)(found->count + 1) * sizeof(Clique));
    ptrdiff_t *ends = calloc((size_t)(nodes + 1), sizeof(ptrdiff_t));
    if (!sorted || !ends) {
        free(sorted), free(ends);
        return NULL;
    }
    for (ptrdiff_t index = 0; index < found->count; index++) {
        int32_t *begin = found->nodes + found->starts[index];
        sort_nodes(begin, found->starts[index + 1] - found->starts[index]);
        ends[*begin + 1]++;
    }
    for (ptrdiff_t node = 0; node < nodes; node++) ends[node + 1] += ends[node];
    for (ptrdiff_t index = 0; index < found->count; index++) {
        const int32_t *begin = found->nodes + found->starts[index];
        sorted[ends[*begin]++] = (Clique){begin, found->starts[index + 1] - found->starts[index]};
    }
    /* Now the cliques that begin with `node` end at ends[node]. */
    for (ptrdiff_t node = 0; node < nodes; node++) {
        ptrdiff_t from = node ? ends[node - 1] : 0;
        if (ends[node] - from > 1) sort_cliques(sorted + from, ends[node] - from);
    }
    free(ends);
    return sorted;
}

PyObject *cliques_as_bytes(Cliques *found, ptrdiff_t all, int complete)
{
    Clique *sorted = in_order(found, all);
    PyObject *result = NULL;
    if (!sorted) return PyErr_NoMemory();
    ptrdiff_t count = 0, total = 0;
    for (ptrdiff_t index = 0; index < found->count; index++)
        if (!count || lexicographic(&sorted[count - 1], &sorted[index])) {
            total += sorted[index].size;
            sorted[count++] = sorted[index];
        }
    PyObject *nodes = PyBytes_FromStringAndSize(NULL, total * 8), *sizes = PyBytes_FromStringAndSize(NULL, count * 8);
    PyObject *shares = PyBytes_FromStringAndSize(NULL, count * 4);
    if (nodes && sizes && shares) {
        char *node_at = PyBytes_AS_STRING(nodes), *size_at = PyBytes_AS_STRING(sizes),
        *share_at = PyBytes_AS_STRING(shares);
        for (ptrdiff_t index = 0; index < count; index++, size_at += 8, share_at += 4) {
            int64_t size = sorted[index].size;
            float share = 1 / (float)size;
            memcpy(size_at, &size, 8);
            memcpy(share_at, &share, 4);
            for (ptrdiff_t at = 0; at < size; at++, node_at += 8) {
                int64_t node = sorted[index].nodes[at];
                memcpy(node_at, &node, 8);
            }
        }
        result = Py_BuildValue("OOOO", nodes, sizes, shares, complete ? Py_True : Py_False);
    }
    Py_XDECREF(nodes);
    Py_XDECREF(sizes);
    Py_XDECREF(shares);
    free(sorted);
    return result;
}

Outcome find_cliques(const uint64_t *graph, ptrdiff_t nodes, ptrdiff_t words, int64_t max_cliques, int64_t max_visits,
                     Cliques *found)
{
    int32_t *work = malloc((size_t)(3 * nodes + 1) * sizeof(int32_t));
    Outcome outcome = NO_MEMORY;
    if (!work) return outcome;
    int32_t *degree = work, *around = work + nodes, *order = around + nodes;
    if (simd->order(graph, nodes, words, degree, order) < 0) goto done;
    outcome = simd->cliques(graph, nodes, words, order, max_cliques, max_visits, found);
    if (outcome == TOO_MANY) {
        found->count = found->filled = 0;
        if (greedy(graph, nodes, words, around, found) < 0) outcome = NO_MEMORY;
    }
    for (int32_t node = 0; node < nodes && outcome != NO_MEMORY; node++) {
        ptrdiff_t word = 0;
        while (word < words && !graph[node * words + word]) word++;
        if (word == words && add_clique(found, &node, 1) < 0) outcome = NO_MEMORY;
    }
done:
    free(work);
    return outcome;
}

/* maximal_cliques(graph [n, words], max_cliques, max_visits) → nodes, sizes, shares, complete: the maximal cliques in
   lexicographic order; past either limit, one per node, grown greedily */
PyObject *kernel_maximal_cliques(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {{"graph", UINT64, 2, 0}};
    PyObject *object, *result = NULL;
    Py_buffer view;
    long long max_cliques, max_visits;
    Cliques found = {0};
    Outcome outcome;
    if (!PyArg_ParseTuple(arguments, "OLL:maximal_cliques", &object, &max_cliques, &max_visits)) return NULL;
    if (take_arrays(&object, &view, specs, 1) < 0) return NULL;
    if (check_graph(&view) < 0) goto done;
    Py_BEGIN_ALLOW_THREADS
    outcome = find_cliques(view.buf, view.shape[0], view.shape[1], max_cliques, max_visits, &found);
    Py_END_ALLOW_THREADS
    result = outcome == NO_MEMORY ? PyErr_NoMemory() : cliques_as_bytes(&found, view.shape[0], outcome == ALL_FOUND);
done:
    free(found.nodes), free(found.starts);
    release_arrays(&view, 1);
    return result;
}
