/* What graph.c, cliques.c and hyper.c do for one another. */
#ifndef COSMIC_GRAPH_H
#define COSMIC_GRAPH_H

#include "arrays.h"
#include "hot.h"

/* The threshold of a mean degree, and of a degeneracy; -1 if there is no memory. */
int degree_cut(const float *values, ptrdiff_t count, ptrdiff_t nodes, double degree, double low, double high, double *cut);
int degeneracy_cut(const float *values, const int32_t *left, const int32_t *right, ptrdiff_t count, ptrdiff_t nodes,
                   int64_t degeneracy, int all, double *cut);

/* Join the listed pairs above a threshold, or all pairs of a lower triangle's rows. */
void connect_pairs(const Pairs *pairs, float threshold, uint64_t *graph, ptrdiff_t words);
void connect_rows(const float *similarity, ptrdiff_t start, ptrdiff_t rows, ptrdiff_t nodes, const uint8_t *present,
                  float threshold, uint64_t *graph, ptrdiff_t words);

/* Whether a bit matrix has as many words a row as its nodes need; -1 and an exception if not. */
int graph_fits(Py_ssize_t nodes, Py_ssize_t words);

/* All maximal cliques, or one grown greedily from every node. */
Outcome find_cliques(const uint64_t *graph, ptrdiff_t nodes, ptrdiff_t words, int64_t most_cliques, int64_t most_looks,
                     Cliques *found);

/* Sort, drop twins, and give back: all nodes and all sizes as byte strings of int64, what one node counts for in the mean
   of each clique as one of float32, and whether that is all. */
PyObject *as_bytes(Cliques *found, ptrdiff_t nodes, int complete);

#endif
