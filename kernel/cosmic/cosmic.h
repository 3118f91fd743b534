/* What the files of this folder share. The arrays given to these functions have been checked before. */
#ifndef COSMIC_COSMIC_H
#define COSMIC_COSMIC_H

#include "../softmax.h"
#include "graph.h"

/* Prototypes: a class cache, and per class the products of its slots, or their mean. */
typedef struct {
    ptrdiff_t classes, shots, width;
    float *slots, *entropies;
    int64_t *samples, *filled;
    const float *text; /* [classes, width] or NULL */
    float *gram;       /* [classes, S, S] or NULL; S is shots, plus one with texts */
    float *means;      /* [classes, width] or NULL */
} PrototypeMemory;

/* Offer a sample to its class. Returns the slot it took, or -1. */
ptrdiff_t cache_insert(const PrototypeMemory *memory, ptrdiff_t label, const float *feature, float entropy,
                       int64_t sample);

/* Products of all slots with one query, [classes, shots]; 0 for empty slots. */
void slot_products(const PrototypeMemory *memory, const float *query, float *products);

/* The attention weight of each slot for a query, and the cosine of the query with each class's weighted sum. */
void attend_to_query(const PrototypeMemory *memory, const float *products, const float *text_dots, float sharpness,
                     float *weights, float *out);

/* Per class, the sum of its slots' affinities to a query. */
void slot_votes(const float *products, const int64_t *filled, ptrdiff_t classes, ptrdiff_t shots, float sharpness,
                float *out);

/* Returns -1 and sets an exception unless `keep` of so many views can be kept. */
int check_view_count(Py_ssize_t keep, Py_ssize_t number, Py_ssize_t classes);

/* The `keep` views of least entropy, in ascending order of entropy. Returns the argmax of their mean probability, and
   that mean's entropy. `work` has room for `number` + `classes` values. */
ptrdiff_t confident_views(const float *dots, ptrdiff_t number, ptrdiff_t classes, float scale, ptrdiff_t keep,
                          float *probabilities, float *work, int64_t *kept, float *entropy);

/* The mean of some rows at unit length; zero if the mean is zero. */
void unit_mean(const float *rows, const int64_t *which, ptrdiff_t count, ptrdiff_t width, float *out);

/* Returns the argmax of the sum of two predictions, and the entropy of that sum's softmax. */
ptrdiff_t joint_pseudo_label(const float *one, const float *other, ptrdiff_t classes, float *entropy);

/* The mean of each class's two CSS nodes, and the weighted sum of the branches, scaled to sum one. Returns its
   argmax. */
ptrdiff_t fuse_branches(const float *zero_shot, const float *css, const float *afv, ptrdiff_t classes,
                        const float *weights, float *mean, float *scores);

/* Returns -1 and sets an exception unless every count is between 0 and `shots`. */
int check_counts(const Py_buffer *counts, Py_ssize_t shots);

/* Products of all texts and cached samples with each other: the centres of all classes are weighted sums of them. */
typedef struct {
    ptrdiff_t classes, shots, texts, rows, used, nodes;
    float *products;            /* [rows, rows]; the first `used` rows and columns hold products */
    const int32_t *row_of_slot; /* [classes, shots] */
    const int64_t *filled;      /* [classes] */
    const float *weights;       /* [classes, shots], plus one column with texts in the centres */
    const float *text_scales;   /* [classes] length of a text in units of its row, or NULL: no text in centres */
} GramCache;

/* Update the products of one slot's row. Returns -1 without memory. */
int gram_add_row(const GramCache *cache, const float *texts, const float *slots, ptrdiff_t width, ptrdiff_t label,
                 ptrdiff_t slot);

/* Write the similarities of all pairs with the centre of a class that has samples. Returns -1 without memory. */
int gram_fill_similarity(const GramCache *cache, float *similarity);

/* Returns -1 and sets an exception unless every filled slot has a row of its own behind the texts. */
int check_gram_rows(const Py_buffer *count, const Py_buffer *row_of_slot, Py_ssize_t texts, Py_ssize_t rows);

/* Update similarities where nodes changed. */
void update_similarity(const float *features, ptrdiff_t nodes, ptrdiff_t width, const uint8_t *changed, float *panels,
                       float *matrix);

/* The density of a graph, and the limits of the clique search in it. */
typedef struct {
    int control; /* 0: threshold, 1: mean degree, 2: degeneracy */
    double value;
    Py_ssize_t pairs; /* so many of the most similar pairs determine the threshold */
    long long common; /* neighbours that the ends of an edge share in the second-order graph; below 0: first order */
    long long max_cliques, max_visits;
} CliqueSearch;

/* Returns -1 and sets an exception unless the values are in range. */
int check_clique_search(const CliqueSearch *search);

/* Returns -1 and sets an exception if a graph has too many nodes. */
int check_node_count(Py_ssize_t nodes);

/* From similarities to cliques, as `cliques_as_bytes` returns them. Usually enough pairs lie above `floor`; it is
   updated for the next graph. */
PyObject *cliques_of_similarity(const float *similarity, Py_ssize_t nodes, const uint8_t *present,
                                const CliqueSearch *search, float *floor);

/* The nodes of the `keep` cliques nearest to a query become inliers. Returns -1 without memory. */
int select_nearest_cliques(const float *products, ptrdiff_t count, const int64_t *nodes, const int64_t *sizes,
                           ptrdiff_t cliques, const float *scale, ptrdiff_t keep, float *affinities, uint8_t *inliers);

/* factor·exp(-sharpness·(1 - cosine)) for inliers, 0 for other nodes. */
void score_inliers(const float *cosine, const uint8_t *inliers, ptrdiff_t count, float factor, float sharpness,
                   float *scores);

#endif
