/* What the functions of the module do for one another: each on arrays that were checked. */
#ifndef COSMIC_PARTS_H
#define COSMIC_PARTS_H

#include "graph.h"

/* A cache of samples, and what is kept of its classes: products of slots with each other, or means. */
typedef struct {
    ptrdiff_t classes, shots, width;
    float *slots, *entropies;
    int64_t *samples, *filled;
    const float *text; /* [classes, width] or NULL */
    float *gram;       /* [classes, S, S] or NULL; S is shots, or one more with texts */
    float *means;      /* [classes, width] or NULL */
} Memory;

/* Offer a sample to its class; the slot it took, or -1. */
ptrdiff_t enter(const Memory *memory, ptrdiff_t label, const float *feature, float entropy, int64_t sample);

/* Products of the filled slots with one query; those of empty ones are 0. */
void slots_near(const Memory *memory, const float *query, float *near);

/* What each slot weighs for a query, and the cosine of the query with each class's weighted sum. */
void attend(const Memory *memory, const float *near, const float *text_dots, float sharpness, float *weights, float *out);

/* Softmax of scaled values; what each class's slots add up to. */
void softmax(const float *values, float scale, ptrdiff_t count, float *out);
void vote(const float *near, const int64_t *filled, ptrdiff_t classes, ptrdiff_t shots, float sharpness, float *out);

/* Whether so many of the views can be kept; -1 and an exception if not. */
int views_fit(Py_ssize_t keep, Py_ssize_t number, Py_ssize_t classes);

/* The `keep` views of least entropy, the surest first; the class that their mean favours, and that mean's entropy. `work`
   has room for the views and the classes. */
ptrdiff_t surest_views(const float *dots, ptrdiff_t number, ptrdiff_t classes, float scale, ptrdiff_t keep,
                       float *probabilities, float *work, int64_t *surest, float *surprise);

/* The mean of some rows at unit length; zero if they cancel out. */
void unit_mean(const float *rows, const int64_t *which, ptrdiff_t count, ptrdiff_t width, float *out);

/* The class that the sum of two predictions favours, and the entropy of that sum's softmax. */
ptrdiff_t favoured(const float *one, const float *other, ptrdiff_t classes, float *surprise);

/* The mean of each class's two nodes, the weighted sum of the branches as shares of one, and its highest class. */
ptrdiff_t fuse(const float *zero_shot, const float *css, const float *afv, ptrdiff_t classes, const float *weights, float *mean,
               float *scores);

/* Whether all counts are among the slots; -1 and an exception if not. */
int counts_fit(const Py_buffer *counts, Py_ssize_t shots);

/* What the centres of all classes are made of: texts and samples, the atoms. */
typedef struct {
    ptrdiff_t classes, shots, texts, atoms, used, nodes;
    float *products;       /* [atoms, atoms], `used` of them */
    const int32_t *places; /* [classes, shots] */
    const int64_t *filled; /* [classes] */
    const float *weights;  /* [classes, shots], or one more for the text's */
    const float *shares;   /* [classes] of a text's atom in a class's text, or NULL: texts are in no centre */
} Made;

/* Bring the products of one slot's atom up to date, and the similarities of centres; -1 if there is no memory. */
int acquaint(const Made *made, const float *texts, const float *slots, ptrdiff_t width, ptrdiff_t label, ptrdiff_t slot);
int compose(const Made *made, float *similarity);
int have_places(const Py_buffer *count, const Py_buffer *places, Py_ssize_t texts, Py_ssize_t atoms);

/* Bring similarities up to date where nodes changed. */
void refresh(const float *features, ptrdiff_t nodes, ptrdiff_t width, const uint8_t *changed, float *panels, float *matrix);

/* How dense a graph shall be, and how far its cliques are sought. */
typedef struct {
    int control; /* 0 a threshold, 1 a mean degree, 2 a degeneracy */
    double value;
    Py_ssize_t keep; /* pairs that are enough to find the threshold */
    float floor;     /* pairs above it are usually so many; then the same for the next graph */
    long long common, most_cliques, most_looks;
} Density;

/* Whether such a graph of so many nodes can be; -1 and an exception if not. */
int density_fits(const Density *density, Py_ssize_t nodes);

/* From similarities to cliques, as `as_bytes` gives them back. */
PyObject *cliques_of(const float *similarity, Py_ssize_t nodes, const uint8_t *present, Density *density);

/* The nodes of the `keep` cliques nearest to a query become inliers; -1 if there is no memory. */
int select_nearest(const float *products, ptrdiff_t count, const int64_t *nodes, const int64_t *sizes, ptrdiff_t cliques,
                   const float *scale, ptrdiff_t keep, float *affinities, uint8_t *inliers);
void score_inliers(const float *cosine, const uint8_t *inliers, ptrdiff_t count, float factor, float sharpness, float *scores);

#endif
