/* Class sums, and the samples that enter them or are compared with them. The loops of tally_loops.h are compiled as
   those of loops.h are: once for any processor, and on x86-64 once more for AVX2. */
#ifndef COSMIC_TALLY_H
#define COSMIC_TALLY_H

#include <stddef.h>

#define HIGH 6     /* classes in a tile */
#define WIDE 16    /* numbers in a tile, two lanes' worth */
#define AT_ONCE 16 /* samples that pass over the class sums together */
#define NEAR 1024  /* numbers of each of them that do so */

typedef struct {
    /* sums[k] += Σ_b labels[b][k]·rows[b], at most AT_ONCE samples; more than one need a workspace of
       AT_ONCE · width numbers */
    void (*absorb)(float *sums, ptrdiff_t classes, ptrdiff_t width, const float *labels, const float *rows,
                   ptrdiff_t number, float *workspace);
    /* out[b][k] += level[k] + slope[k]·(rows[b]·sums[k] - along[b]·mass[k]), at most AT_ONCE samples; the workspace
       takes AT_ONCE · (width + classes) numbers */
    void (*compare)(const float *sums, ptrdiff_t classes, ptrdiff_t width, const float *rows, ptrdiff_t number,
                    const float *along, const float *level, const float *slope, const float *mass, float *out,
                    float *workspace);
    /* out[0][k] = sums[k]·x, out[1][k] = sums[k]·g, out[2][k] = sums[k]·sums[k] */
    void (*measure)(const float *sums, ptrdiff_t classes, ptrdiff_t width, const float *x, const float *g, float *out);
} TallyLoops;

/* The best of them for this processor. */
extern const TallyLoops *tally_loops;

#endif
