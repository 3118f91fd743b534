/* The configuration of a fused step. Python holds it in a capsule, made once per method and class count. */
#ifndef COSMIC_FUSED_STEP_H
#define COSMIC_FUSED_STEP_H

#include "cosmic.h"

#define FUSED_STEP_CONFIG "cosmic_tta.FusedStepConfig" /* the capsule's name */

/* Rows of `outputs` [OUTPUT_ROWS, K]; the CSS nodes, texts then centres, are two of them. */
enum { ZERO_SHOT, CLIP_CACHE, TEXT_NODES, CENTRE_NODES, AUX_CACHE, AFV, CSS, SCORES, OUTPUT_ROWS };

/* How the graph of a space is built, and how its nearest cliques score. */
typedef struct {
    CliqueSearch search;
    double ratio;            /* share of the cliques that select the inliers */
    int round_up;            /* whether that share is rounded up to a number of cliques, or down */
    float factor, sharpness; /* of an inlier's score */
} GraphQuery;

typedef struct {
    double confident; /* share of the views */
    int store_plain;  /* cache the plain view, not the mean of the confident views */
    int joint_label;  /* zero-shot and the CLIP cache together label the sample for AFV */
    float attention_sharpness, weights[3];
    GraphQuery css, afv;
} FusedStepConfig;

#endif
