/* Similarities of nodes, and the most similar pairs. */
#include "cosmic.h"

#include <stdlib.h>

#define GROUP 256 /* nodes whose panels stay in the second-level cache */

/* Interleave the features of up to sixteen nodes, [width, 16]; missing nodes are zero. */
static void pack_panel(const float *features, ptrdiff_t width, const int32_t *nodes, ptrdiff_t count, float *panel)
{
    const float *rows[16];
    for (ptrdiff_t c = 0; c < count; c++) rows[c] = features + nodes[c] * width;
    if (count < 16) memset(panel, 0, (size_t)(16 * width) * sizeof(float));
    for (ptrdiff_t d = 0; d < width; d++)
        for (ptrdiff_t c = 0; c < count; c++) panel[d * 16 + c] = rows[c][d];
}

/* Update the lower triangle of similarities where `moved` nodes, ascending, take part. Entry (i, j) is
   matrix[(i - start) * nodes + j]. Nodes from `stop` on are left out. */
static int fill_lower(const float *features, ptrdiff_t nodes, ptrdiff_t width, const int32_t *moved, ptrdiff_t number,
                      const uint8_t *changed, ptrdiff_t start, ptrdiff_t stop, float *matrix)
{
    float tile[96], *panels = malloc((size_t)(GROUP * width + 1) * sizeof(float));
    if (!panels) return -1;
    for (ptrdiff_t first = 0; first < number; first += GROUP) {
        ptrdiff_t size = number - first < GROUP ? number - first : GROUP;
        const int32_t *group = moved + first;
        for (ptrdiff_t c = 0; c < size; c += 16)
            pack_panel(features, width, group + c, size - c < 16 ? size - c : 16, panels + c * width);
        for (ptrdiff_t top = 0; top < stop; top += 6) {
            const float *rows[6];
            ptrdiff_t high = stop - top < 6 ? stop - top : 6;
            int any_fixed = 0;
            for (ptrdiff_t r = 0; r < 6; r++) rows[r] = features + (top + (r < high ? r : 0)) * width;
            for (ptrdiff_t r = 0; r < high; r++) any_fixed |= !changed[top + r];
            for (ptrdiff_t c = 0; c < size; c += 16) {
                ptrdiff_t wide = size - c < 16 ? size - c : 16;
                /* A pair of two moved nodes comes up twice; once is enough. */
                if (!any_fixed && group[c + wide - 1] < top) continue;
                simd->tile(rows, panels + c * width, width, tile);
                for (ptrdiff_t k = 0; k < wide; k++) {
                    ptrdiff_t other = group[c + k];
                    for (ptrdiff_t r = 0; r < high; r++) {
                        ptrdiff_t node = top + r, larger = node > other ? node : other;
                        matrix[(larger - start) * nodes + (node > other ? other : node)] = tile[r * 16 + k];
                    }
                }
            }
        }
    }
    free(panels);
    return 0;
}

/* similarity_rows(features [n, D], start, out [r, n]): out[i, j] = features[start + i] · features[j] for all j up to
   start + i */
PyObject *kernel_similarity_rows(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {{"features", FLOAT32, 2, 0}, {"out", FLOAT32, 2, 1}};
    PyObject *objects[2], *result = NULL;
    Py_buffer views[2];
    Py_ssize_t start;
    if (!PyArg_ParseTuple(arguments, "OnO:similarity_rows", &objects[0], &start, &objects[1])) return NULL;
    if (take_arrays(objects, views, specs, 2) < 0) return NULL;
    Py_ssize_t nodes = views[0].shape[0], rows = views[1].shape[0];
    int32_t *moved = NULL;
    uint8_t *changed = NULL;
    int done = -1;
    const Extent extents[] = {{1, 1, nodes}, {-1, 0, 0}};
    if (check_extents(views, specs, extents) < 0) goto done;
    if (start < 0 || start > nodes || rows > nodes - start || nodes > INT32_MAX) {
        PyErr_Format(PyExc_ValueError, "the rows must be among %zd nodes; given %zd from %zd on", nodes, rows, start);
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    moved = malloc((size_t)(rows + 1) * sizeof(int32_t));
    changed = calloc((size_t)(nodes + 1), 1);
    if (moved && changed) {
        for (Py_ssize_t row = 0; row < rows; row++) moved[row] = (int32_t)(start + row), changed[start + row] = 1;
        done = fill_lower(views[0].buf, nodes, views[0].shape[1], moved, rows, changed, start, start + rows,
                          views[1].buf);
    }
    Py_END_ALLOW_THREADS
    result = done < 0 ? PyErr_NoMemory() : Py_NewRef(Py_None);
done:
    free(moved), free(changed);
    release_arrays(views, 2);
    return result;
}

/* Write a product into the lower triangle. */
static inline void write_lower(float *matrix, ptrdiff_t nodes, ptrdiff_t one, ptrdiff_t other, float value)
{
    if (other < nodes) matrix[one > other ? one * nodes + other : other * nodes + one] = value;
}

/* Every pair with a changed node. `panels` holds the features of all nodes, interleaved by sixteen. */
void update_similarity(const float *features, ptrdiff_t nodes, ptrdiff_t width, const uint8_t *changed, float *panels,
                       float *matrix)
{
    ptrdiff_t stride = 16 * width, count = (nodes + 15) / 16, moved[6], high = 0;
    for (ptrdiff_t node = 0; node < nodes; node++) {
        if (!changed[node]) continue;
        float *panel = panels + node / 16 * stride + node % 16;
        for (ptrdiff_t d = 0; d < width; d++) panel[d * 16] = features[node * width + d];
    }
    for (ptrdiff_t node = 0; node <= nodes; node++) {
        if (node < nodes && changed[node]) moved[high++] = node;
        if (high == 0 || (high < 6 && node < nodes)) continue;
        /* Changed columns behind the last of these nodes are computed later, as rows. */
        float out[96];
        const float *rows[6];
        for (ptrdiff_t r = 0; r < 6; r++) rows[r] = features + moved[r < high ? r : 0] * width;
        for (ptrdiff_t p = 0; p < count;) {
            int alone = 1;
            for (ptrdiff_t c = p * 16; c < nodes && c < p * 16 + 16; c++) alone &= c > moved[high - 1] && changed[c];
            if (alone) {
                p++;
                continue;
            }
            if (high > 2) {
                simd->tile(rows, panels + p * stride, width, out);
                for (ptrdiff_t r = 0; r < high; r++)
                    for (ptrdiff_t c = 0; c < 16; c++) write_lower(matrix, nodes, moved[r], p * 16 + c,
                                                                   out[r * 16 + c]);
                p++;
                continue;
            }
            const float *four[4];
            ptrdiff_t wide = count - p < 4 ? count - p : 4;
            for (ptrdiff_t panel = 0; panel < 4; panel++)
                four[panel] = panels + (p + (panel < wide ? panel : 0)) * stride;
            for (ptrdiff_t r = 0; r < high; r++) {
                simd->line(rows[r], four, width, out);
                for (ptrdiff_t c = 0; c < 16 * wide; c++) write_lower(matrix, nodes, moved[r], p * 16 + c, out[c]);
            }
            p += wide;
        }
        high = 0;
    }
}

/* update_similarity(features [n, D], changed [n], panels [ceil(n / 16), D, 16], similarity [n, n]) */
PyObject *kernel_update_similarity(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {
        {"features", FLOAT32, 2, 0}, {"changed", BOOL, 1, 0}, {"panels", FLOAT32, 3, 1}, {"similarity", FLOAT32, 2, 1}};
    PyObject *o[4], *result = NULL;
    Py_buffer views[4];
    if (!PyArg_ParseTuple(arguments, "OOOO:update_similarity", &o[0], &o[1], &o[2], &o[3])) return NULL;
    if (take_arrays(o, views, specs, 4) < 0) return NULL;
    Py_ssize_t nodes = views[0].shape[0], width = views[0].shape[1];
    const Extent extents[] = {
        {1, 0, nodes}, {2, 0, (nodes + 15) / 16}, {2, 1, width}, {2, 2, 16}, {3, 0, nodes}, {3, 1, nodes}, {-1, 0, 0}};
    if (check_extents(views, specs, extents) < 0) goto done;
    Py_BEGIN_ALLOW_THREADS
    update_similarity(views[0].buf, nodes, width, views[1].buf, views[2].buf, views[3].buf);
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
done:
    release_arrays(views, 4);
    return result;
}

/* collect_pairs(similarity [r, n], start, present [n] or None, keep, values [m], left [m], right [m], filled, cut,
   lowest, highest) → filled, cut, lowest, highest: add the rows start … start + r - 1 of a lower triangle to the
   list */
PyObject *kernel_collect_pairs(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {
        {"similarity", FLOAT32, 2, 0}, {"present", BOOL, -1, 0}, {"values", FLOAT32, 1, 1}, {"left", INT32, 1, 1},
        {"right", INT32, 1, 1}};
    PyObject *o[5], *result = NULL;
    Py_buffer views[5];
    Py_ssize_t start, keep, filled;
    float cut, lowest, highest;
    if (!PyArg_ParseTuple(arguments, "OnOnOOOnfff:collect_pairs", &o[0], &start, &o[1], &keep, &o[2], &o[3], &o[4],
                          &filled, &cut, &lowest, &highest))
        return NULL;
    if (take_arrays(o, views, specs, 5) < 0) return NULL;
    Py_ssize_t rows = views[0].shape[0], nodes = views[0].shape[1], room = views[2].shape[0];
    const Extent extents[] = {{1, 0, nodes}, {3, 0, room}, {4, 0, room}, {-1, 0, 0}};
    if (check_extents(views, specs, extents) < 0) goto done;
    if (start < 0 || start > nodes || rows > nodes - start || keep < 1 || keep >= room || filled < 0 || filled > room ||
        nodes > INT32_MAX) {
        PyErr_Format(PyExc_ValueError,
                     "rows must be nodes and pairs must fit; given %zd rows from %zd of %zd nodes, %zd pairs of %zd, "
                     "%zd to keep", rows,
                     start, nodes, filled, room, keep);
        goto done;
    }
    float *scratch = malloc((size_t)room * sizeof(float));
    if (!scratch) {
        PyErr_NoMemory();
        goto done;
    }
    Pairs pairs = {views[2].buf, scratch, views[3].buf, views[4].buf, room, keep, filled, cut, lowest, highest};
    const float *similarity = views[0].buf;
    Py_BEGIN_ALLOW_THREADS
    simd->collect(&pairs, similarity, nodes, start, rows, views[1].buf);
    Py_END_ALLOW_THREADS
    free(scratch);
    result = Py_BuildValue("nfff", pairs.filled, pairs.cut, pairs.lowest, pairs.highest);
done:
    release_arrays(views, 5);
    return result;
}
