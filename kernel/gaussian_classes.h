/* Loops over class sums; simd/gaussian_loops.h defines them for each processor kind. */
#ifndef COSMIC_GAUSSIAN_CLASSES_H
#define COSMIC_GAUSSIAN_CLASSES_H

#include <stddef.h>

#define HIGH 6     /* classes in a tile */
#define WIDE 16    /* numbers in a tile, two lanes' worth */
#define BATCH 16   /* samples in one pass over the class sums */
#define NEAR 1024  /* numbers of each sample in one pass */

typedef struct {
    /* sums[k] += Σ_b labels[b][k]·rows[b], at most BATCH samples; more than one need a workspace of
       BATCH · width numbers */
    void (*add_outer)(float *sums, ptrdiff_t classes, ptrdiff_t width, const float *labels, const float *rows,
                      ptrdiff_t number, float *workspace);
    /* out[b][k] += level[k] + slope[k]·(rows[b]·sums[k] - along[b]·soft_count[k]), at most BATCH samples; sums and
       rows are `width` wide and `stride` apart; the workspace takes BATCH · (width + classes) numbers */
    void (*add_log_likelihood)(const float *sums, ptrdiff_t classes, ptrdiff_t width, ptrdiff_t stride,
                               const float *rows, ptrdiff_t number, const float *along, const float *level, const float *slope,
                               const float *soft_count, float *out, float *workspace);
    /* out[0][k] = sums[k]·x, out[1][k] = sums[k]·g, out[2][k] = sums[k]·sums[k] */
    void (*class_products)(const float *sums, ptrdiff_t classes, ptrdiff_t width, ptrdiff_t stride, const float *x,
                           const float *g, float *out);
    /* out = (row - centre)·scale at length one */
    void (*standardize)(const float *row, const float *centre, const float *scale, ptrdiff_t width, float *out);
    /* out = row - mean at length one; returns out·mean */
    float (*centre)(const float *row, const float *mean, ptrdiff_t width, float *out);
} GaussianLoops;

/* The fastest ones for this processor. */
extern const GaussianLoops *gaussian_loops;

#endif
