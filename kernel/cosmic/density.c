/* The threshold of a mean degree, or of a degeneracy. */
#include "cosmic.h"

#include <math.h>
#include <stdlib.h>

/* Compare the mean degree of a graph with the target: -1 below, 0 close enough, 1 above. */
static int compare_degree(ptrdiff_t edges, ptrdiff_t nodes, double degree)
{
    double mean = 2.0 * (double)edges / (double)nodes;
    return fabs(mean - degree) < 0.01 ? 0 : mean < degree ? -1 : 1;
}

/* The `rank`-th largest value; minus infinity beyond the last, infinity before the first. NaN counts as the least. */
static float ranked(const float *values, ptrdiff_t count, ptrdiff_t rank, float *work)
{
    if (rank < 1 || rank > count) return rank < 1 ? INFINITY : -INFINITY;
    for (ptrdiff_t at = 0; at < count; at++) work[at] = values[at] == values[at] ? values[at] : -INFINITY;
    return nth_largest(work, count, rank);
}

int find_degree_threshold(const float *values, ptrdiff_t count, ptrdiff_t nodes, double degree, double low,
                          double high, double *cut)
{
    float *work = malloc((size_t)(count + 1) * sizeof(float));
    if (!work) return -1;
    /* Fewer edges than `enough` are below the target, more than `most` above it. So two of the values decide. */
    ptrdiff_t enough = count + 1, most;
    for (ptrdiff_t from = 0; from < enough;) {
        ptrdiff_t middle = from + (enough - from) / 2;
        if (compare_degree(middle, nodes, degree) < 0) from = middle + 1;
        else enough = middle;
    }
    for (most = enough - 1; most < count && !compare_degree(most + 1, nodes, degree);) most++;
    float last = ranked(values, count, enough, work), next = last, below = -INFINITY;
    ptrdiff_t as_large = 0;
    for (ptrdiff_t at = 0; at < count; at++) {
        float lower = values[at] < last ? values[at] : -INFINITY; /* without a branch */
        as_large += values[at] >= last;
        below = lower > below ? lower : below;
    }
    if (most >= as_large) next = most == as_large ? below : ranked(values, count, most + 1, work);
    free(work);
    for (int round = 0; round < 500; round++) {
        *cut = (low + high) / 2;
        int falls = !(last > (float)*cut);
        if (!falls && !(next > (float)*cut)) break;
        double *end = falls ? &high : &low;
        if (*end == *cut) break; /* no number lies between: later rounds repeat this one */
        *end = *cut;
    }
    return 0;
}

/* degree_threshold(values [m], nodes, degree, lowest, highest): the published bisection over the values of the listed
   pairs. The interval is halved in double and compared in float32. */
PyObject *kernel_degree_threshold(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {{"values", FLOAT32, 1, 0}};
    PyObject *object;
    Py_buffer view;
    Py_ssize_t nodes;
    double degree, low, high;
    if (!PyArg_ParseTuple(arguments, "Onddd:degree_threshold", &object, &nodes, &degree, &low, &high)) return NULL;
    if (take_arrays(&object, &view, specs, 1) < 0) return NULL;
    double middle = (low + high) / 2;
    int done = find_degree_threshold(view.buf, view.shape[0], nodes, degree, low, high, &middle);
    release_arrays(&view, 1);
    return done < 0 ? PyErr_NoMemory() : PyFloat_FromDouble(middle);
}

typedef struct {
    float value;
    int32_t left, right;
} Pair;

static int by_falling_value(const void *one, const void *other)
{
    float a = ((const Pair *)one)->value, b = ((const Pair *)other)->value;
    return (a < b) - (a > b);
}

/* Whether repeatedly removing nodes of at most `degeneracy` neighbours removes all nodes. `neighbour` lists the
   neighbours of each node from its `offset` on. */
static int peels(const Pair *pairs, Py_ssize_t count, Py_ssize_t nodes, int64_t degeneracy, int32_t *degree,
                 int32_t *offset,
                 int32_t *neighbour, int32_t *queue)
{
    memset(degree, 0, (size_t)nodes * sizeof(int32_t));
    for (Py_ssize_t index = 0; index < count; index++) degree[pairs[index].left]++, degree[pairs[index].right]++;
    offset[0] = 0;
    for (Py_ssize_t node = 0; node < nodes; node++) offset[node + 1] = offset[node] + degree[node];
    for (Py_ssize_t index = 0; index < count; index++) {
        neighbour[--offset[pairs[index].left + 1]] = pairs[index].right;
        neighbour[--offset[pairs[index].right + 1]] = pairs[index].left;
    }
    /* Now the node's degree[node] neighbours begin at offset[node + 1]. */
    Py_ssize_t first = 0, last = 0;
    for (Py_ssize_t node = 0; node < nodes; node++)
        if (degree[node] <= degeneracy) queue[last++] = (int32_t)node, degree[node] = -degree[node] - 1;
    while (first < last) {
        int32_t node = queue[first++];
        int32_t begin = offset[node + 1], end = node + 1 < nodes ? offset[node + 2] : (int32_t)(2 * count);
        for (int32_t at = begin; at < end; at++) {
            int32_t other = neighbour[at];
            if (degree[other] < 0) continue;
            if (--degree[other] <= degeneracy) queue[last++] = other, degree[other] = -1;
        }
    }
    return last == nodes;
}

int find_degeneracy_threshold(const float *values, const int32_t *left, const int32_t *right, ptrdiff_t count,
                              ptrdiff_t nodes,
                              int64_t degeneracy, int all, double *cut)
{
    Pair *pairs = malloc((size_t)(count + 1) * sizeof(Pair));
    int32_t *work = malloc((size_t)(3 * nodes + 2 + 2 * count) * sizeof(int32_t));
    int done = -1;
    if (!pairs || !work) goto out;
    int32_t *degree = work, *queue = degree + nodes, *offset = queue + nodes, *neighbour = offset + nodes + 2;
    for (ptrdiff_t index = 0; index < count; index++) pairs[index] = (Pair){values[index], left[index], right[index]};
    qsort(pairs, (size_t)count, sizeof(Pair), by_falling_value);
    done = 0;
    *cut = -INFINITY;
    if (!count || (all && peels(pairs, count, nodes, degeneracy, degree, offset, neighbour, queue))) goto out;
    /* The graph of the `fits` largest pairs has at most this degeneracy, that of `fails` has more. */
    ptrdiff_t fits = 0, fails = count;
    while (fails - fits > 1) {
        ptrdiff_t middle = fits + (fails - fits) / 2;
        if (peels(pairs, middle, nodes, degeneracy, degree, offset, neighbour, queue)) fits = middle;
        else fails = middle;
    }
    *cut = pairs[fits].value; /* the first pair that is too many is left out, and so are pairs of the same similarity */
out:
    free(pairs), free(work);
    return done;
}

/* degeneracy_threshold(values [m], left [m], right [m], nodes, degeneracy, all): the lowest threshold whose graph
   has at most this degeneracy; minus infinity if `all` pairs are listed and may stay */
PyObject *kernel_degeneracy_threshold(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {{"values", FLOAT32, 1, 0}, {"left", INT32, 1, 0}, {"right", INT32, 1, 0}};
    PyObject *objects[3], *result = NULL;
    Py_buffer views[3];
    Py_ssize_t nodes;
    long long degeneracy;
    int all;
    double cut;
    if (!PyArg_ParseTuple(arguments, "OOOnLp:degeneracy_threshold", &objects[0], &objects[1], &objects[2], &nodes,
                          &degeneracy, &all))
        return NULL;
    if (take_arrays(objects, views, specs, 3) < 0) return NULL;
    Py_ssize_t count = views[0].shape[0];
    const float *values = views[0].buf;
    const int32_t *left = views[1].buf, *right = views[2].buf;
    const Extent extents[] = {{1, 0, count}, {2, 0, count}, {-1, 0, 0}};
    if (check_extents(views, specs, extents) < 0) goto done;
    if (count > INT32_MAX / 2 || nodes < 0 || nodes > INT32_MAX / 2) {
        PyErr_SetString(PyExc_ValueError, "too many nodes or pairs");
        goto done;
    }
    for (Py_ssize_t index = 0; index < count; index++)
        if (left[index] < 0 || left[index] >= nodes || right[index] < 0 || right[index] >= nodes ||
            left[index] == right[index] || values[index] != values[index]) {
            PyErr_Format(PyExc_ValueError, "pair %zd must be of two of the %zd nodes, with a number as similarity",
                         index, nodes);
            goto done;
        }
    if (find_degeneracy_threshold(values, left, right, count, nodes, degeneracy, all, &cut) < 0) PyErr_NoMemory();
    else result = PyFloat_FromDouble(cut);
done:
    release_arrays(views, 3);
    return result;
}
