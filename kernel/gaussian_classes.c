/* The Gaussian class model: compiled twin of methods/components/gaussian_classes.py, which explains it. */
#include "gaussian_classes.h"

#include "capi/module.h"

#include <math.h>
#include <string.h>

static ptrdiff_t block(Py_ssize_t from, Py_ssize_t number) { return number - from < BATCH ? number - from : BATCH; }

#define MIN_RELIABILITY 0.01
#define MAX_RELIABILITY 0.9
#define LABEL_NOISE 1.3
#define PRIOR_PAIRS 20.0
#define PRIOR_COSINE 0.3

static float dot(const float *one, const float *other, ptrdiff_t width)
{
    float total[8] = {0}, rest = 0;
    ptrdiff_t whole = width - width % 8;
    for (ptrdiff_t d = 0; d < whole; d += 8)
        for (int lane = 0; lane < 8; lane++) total[lane] += one[d + lane] * other[d + lane];
    for (ptrdiff_t d = whole; d < width; d++) rest += one[d] * other[d];
    return rest + (((total[0] + total[4]) + (total[2] + total[6])) + ((total[1] + total[5]) + (total[3] + total[7])));
}

/* The spaces of a row of `width` numbers: one, or two of which the first has `dim`. */
typedef struct {
    ptrdiff_t from, width;
} Space;

static int find_spaces(ptrdiff_t dim, ptrdiff_t width, Space *spaces)
{
    spaces[0] = (Space){0, dim};
    spaces[1] = (Space){dim, width - dim};
    return dim < width ? 2 : 1;
}

static void standardize(const float *row, const float *centre, const float *scale, const Space *spaces, int count,
                        float *out)
{
    for (int s = 0; s < count; s++) {
        ptrdiff_t from = spaces[s].from;
        gaussian_loops->standardize(row + from, centre + from, scale + from, spaces[s].width, out + from);
    }
}

/* level and slope [K] of one space from |S_k|² and S_k·g; returns the reliability */
static float coefficients(const float *soft_count, const float *square, const float *along, const float *squares,
                          ptrdiff_t classes, float gg, float sharpness, float *level, float *slope)
{
    float rest = 1 - gg > 1e-6f ? 1 - gg : 1e-6f;
    double within = PRIOR_PAIRS * PRIOR_COSINE, pairs = PRIOR_PAIRS;
    for (ptrdiff_t k = 0; k < classes; k++) {
        float n = soft_count[k];
        level[k] = (squares[k] - 2 * n * along[k] + n * n * gg) / rest; /* |c_k|² */
        within += level[k] - square[k];
        pairs += n * n - square[k];
    }
    double ratio = LABEL_NOISE * within / pairs;
    if (!(ratio > MIN_RELIABILITY)) ratio = MIN_RELIABILITY;
    float reliability = (float)(ratio < MAX_RELIABILITY ? ratio : MAX_RELIABILITY);
    for (ptrdiff_t k = 0; k < classes; k++) {
        float precision = soft_count[k] * reliability + 1 - reliability, gain = reliability / precision;
        float spread = 1 - reliability + reliability * (1 - reliability) / precision;
        slope[k] = sharpness * gain / (spread * sqrtf(rest));
        level[k] = -sharpness / 2 * (logf(spread) + (1 + gain * gain * level[k]) / spread);
    }
    return reliability;
}

static int check_dim(Py_ssize_t dim, Py_ssize_t width, Py_ssize_t classes)
{
    if (dim >= 1 && dim <= width && classes >= 1) return 0;
    PyErr_Format(PyExc_ValueError, "dim must be from 1 to %zd, and classes at least 1; given %zd and %zd", width, dim,
                 classes);
    return -1;
}

/* gaussian_score(row [W], centre [W], scale [W], sums [K, W], total [W], soft_count [K], square [K], number, dim,
   sharpness, mean_prior, out [S, K], reliability [S]): the log-likelihoods of a sample, and the reliabilities */
PyObject *kernel_gaussian_score(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {
        {"row", FLOAT32, 1, 0}, {"centre", FLOAT32, 1, 0}, {"scale", FLOAT32, 1, 0}, {"sums", FLOAT32, 2, 0},
        {"total", FLOAT32, 1, 0}, {"soft_count", FLOAT32, 1, 0}, {"square", FLOAT32, 1, 0}, {"out", FLOAT32, 2, 1},
        {"reliability", FLOAT32, 1, 1}};
    enum { ROW, CENTRE, SCALE, SUMS, TOTAL, COUNT, SQUARE, OUT, RELIABILITY, ALL };
    PyObject *o[ALL], *result = NULL;
    Py_buffer v[ALL];
    Py_ssize_t dim;
    double number;
    float sharpness, mean_prior, *workspace = NULL;
    if (!PyArg_ParseTuple(arguments, "OOOOOOOdnffOO:gaussian_score", &o[ROW], &o[CENTRE], &o[SCALE], &o[SUMS],
                          &o[TOTAL], &o[COUNT], &o[SQUARE], &number, &dim, &sharpness, &mean_prior, &o[OUT],
                          &o[RELIABILITY]))
        return NULL;
    if (take_arrays(o, v, specs, ALL) < 0) return NULL;
    Py_ssize_t classes = v[SUMS].shape[0], width = v[SUMS].shape[1];
    Space spaces[2];
    if (check_dim(dim, width, classes) < 0) goto done;
    int count = find_spaces(dim, width, spaces);
    const Extent extents[] = {
        {ROW, 0, width}, {CENTRE, 0, width}, {SCALE, 0, width}, {TOTAL, 0, width}, {COUNT, 0, classes},
        {SQUARE, 0, classes}, {OUT, 0, count}, {OUT, 1, classes}, {RELIABILITY, 0, count}, {-1, 0, 0}};
    if (check_extents(v, specs, extents) < 0) goto done;
    if (!(workspace = PyMem_New(float, 3 * width + 5 * classes))) {
        PyErr_NoMemory();
        goto done;
    }
    const float *sums = v[SUMS].buf, *total = v[TOTAL].buf, *soft_count = v[COUNT].buf;
    float *x = workspace, *g = x + width, *centred = g + width, *products = centred + width;
    float *level = products + 3 * classes, *slope = level + classes, weight = (float)(number + 1) + mean_prior;
    Py_BEGIN_ALLOW_THREADS
    standardize(v[ROW].buf, v[CENTRE].buf, v[SCALE].buf, spaces, count, x);
    for (int s = 0; s < count; s++) {
        ptrdiff_t from = spaces[s].from, wide = spaces[s].width;
        float *out = (float *)v[OUT].buf + s * classes;
        for (ptrdiff_t d = 0; d < wide; d++) g[d] = (total[from + d] + x[from + d]) / weight;
        float gg = dot(g, g, wide), ahead = gaussian_loops->centre(x + from, g, wide, centred);
        gaussian_loops->class_products(sums + from, classes, wide, width, centred, g, products);
        ((float *)v[RELIABILITY].buf)[s] = coefficients(soft_count, v[SQUARE].buf, products + classes,
                                                        products + 2 * classes, classes, gg, sharpness, level, slope);
        for (ptrdiff_t k = 0; k < classes; k++)
            out[k] = level[k] + slope[k] * (products[k] - ahead * soft_count[k]);
    }
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
done:
    PyMem_Free(workspace);
    release_arrays(v, ALL);
    return result;
}

/* logits [K] += log-likelihoods, mixed with that of a novel class of prior share `novel`; then their softmax */
static void finish_labels(float *logits, const float *found, ptrdiff_t classes, float trust, float novel,
                          float novel_level)
{
    float highest = -INFINITY, total = 0, stay = log1pf(-novel);
    for (ptrdiff_t k = 0; k < classes; k++) {
        if (found) {
            float value = trust * found[k];
            if (novel > 0) {
                float one = stay + value, other = logf(novel) + novel_level;
                float most = one > other ? one : other, least = one > other ? other : one;
                value = most + log1pf(expf(least - most));
            }
            logits[k] += value;
        }
        if (logits[k] > highest) highest = logits[k];
    }
    for (ptrdiff_t k = 0; k < classes; k++) total += logits[k] = expf(logits[k] - highest);
    for (ptrdiff_t k = 0; k < classes; k++) logits[k] /= total;
}

/* gaussian_relabel(rows [B, W], logits [B, K], mean [W], level [S, K], slope [S, K], reference_sums [K, W],
   reference_count [K], trust, novel, sharpness, dim, centre [W], scale [W], sums [K, W], total [W], soft_count [K],
   square [K]): logits become soft labels, and the samples are added to the last four. Mean, level, slope and
   reference_… are None where no class model is asked. */
PyObject *kernel_gaussian_relabel(PyObject *self UNUSED, PyObject *arguments)
{
    static const ArraySpec specs[] = {
        {"rows", FLOAT32, 2, 0}, {"logits", FLOAT32, 2, 1}, {"mean", FLOAT32, -1, 0}, {"level", FLOAT32, -2, 0},
        {"slope", FLOAT32, -2, 0}, {"reference_sums", FLOAT32, -2, 0}, {"reference_count", FLOAT32, -1, 0},
        {"centre", FLOAT32, 1, 0}, {"scale", FLOAT32, 1, 0}, {"sums", FLOAT32, 2, 1}, {"total", FLOAT32, 1, 1},
        {"soft_count", FLOAT32, 1, 1}, {"square", FLOAT32, 1, 1}};
    enum { ROWS, LOGITS, MEAN, LEVEL, SLOPE, ASKED, ASKED_COUNT, CENTRE, SCALE, SUMS, TOTAL, COUNT, SQUARE, ALL };
    PyObject *o[ALL], *result = NULL;
    Py_buffer v[ALL];
    Py_ssize_t dim;
    float trust, novel, sharpness, *workspace = NULL;
    if (!PyArg_ParseTuple(arguments, "OOOOOOOfffnOOOOOO:gaussian_relabel", &o[ROWS], &o[LOGITS], &o[MEAN], &o[LEVEL],
                          &o[SLOPE], &o[ASKED], &o[ASKED_COUNT], &trust, &novel, &sharpness, &dim, &o[CENTRE],
                          &o[SCALE], &o[SUMS], &o[TOTAL], &o[COUNT], &o[SQUARE]))
        return NULL;
    if (take_arrays(o, v, specs, ALL) < 0) return NULL;
    Py_ssize_t classes = v[SUMS].shape[0], width = v[SUMS].shape[1], number = v[ROWS].shape[0];
    Space spaces[2];
    if (check_dim(dim, width, classes) < 0) goto done;
    int count = find_spaces(dim, width, spaces);
    const Extent extents[] = {
        {ROWS, 1, width}, {LOGITS, 0, number}, {LOGITS, 1, classes}, {MEAN, 0, width}, {LEVEL, 0, count},
        {LEVEL, 1, classes}, {SLOPE, 0, count}, {SLOPE, 1, classes}, {ASKED, 0, classes}, {ASKED, 1, width},
        {ASKED_COUNT, 0, classes}, {CENTRE, 0, width}, {SCALE, 0, width}, {TOTAL, 0, width}, {COUNT, 0, classes},
        {SQUARE, 0, classes}, {-1, 0, 0}};
    if (check_extents(v, specs, extents) < 0) goto done;
    int asked = 0;
    for (int view = MEAN; view <= ASKED_COUNT; view++) asked += v[view].obj != NULL;
    if (asked && asked != ASKED_COUNT - MEAN + 1) {
        PyErr_SetString(PyExc_ValueError, "mean, level, slope and the reference must be given together");
        goto done;
    }
    if (!(workspace = PyMem_New(float, BATCH * (4 * width + 2 * classes + 1)))) {
        PyErr_NoMemory();
        goto done;
    }
    float *x = workspace, *centred = x + BATCH * width, *found = centred + BATCH * width;
    float *along = found + BATCH * classes, *rest = along + BATCH, *total = v[TOTAL].buf;
    float *soft_count = v[COUNT].buf, *square = v[SQUARE].buf, novel_level = -0.5f * sharpness * trust * (float)count;
    const float *mean = v[MEAN].buf, *level = v[LEVEL].buf, *slope = v[SLOPE].buf, *sums = v[ASKED].buf;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t at = 0; at < number; at += BATCH) {
        ptrdiff_t rows = block(at, number);
        float *labels = (float *)v[LOGITS].buf + at * classes;
        for (ptrdiff_t b = 0; b < rows; b++)
            standardize((const float *)v[ROWS].buf + (at + b) * width, v[CENTRE].buf, v[SCALE].buf, spaces, count,
                        x + b * width);
        if (asked) memset(found, 0, (size_t)(rows * classes) * sizeof(float));
        for (int s = 0; asked && s < count; s++) {
            ptrdiff_t from = spaces[s].from, wide = spaces[s].width;
            for (ptrdiff_t b = 0; b < rows; b++)
                along[b] = gaussian_loops->centre(x + b * width + from, mean + from, wide, centred + b * width + from);
            gaussian_loops->add_log_likelihood(sums + from, classes, wide, width, centred + from, rows, along,
                                               level + s * classes, slope + s * classes, v[ASKED_COUNT].buf, found,
                                               rest);
        }
        for (ptrdiff_t b = 0; b < rows; b++) {
            finish_labels(labels + b * classes, asked ? found + b * classes : NULL, classes, trust, novel,
                          novel_level);
            for (ptrdiff_t k = 0; k < classes; k++) {
                soft_count[k] += labels[b * classes + k];
                square[k] += labels[b * classes + k] * labels[b * classes + k];
            }
            for (ptrdiff_t d = 0; d < width; d++) total[d] += x[b * width + d];
        }
        gaussian_loops->add_outer(v[SUMS].buf, classes, width, labels, x, rows, rest);
    }
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
done:
    PyMem_Free(workspace);
    release_arrays(v, ALL);
    return result;
}
