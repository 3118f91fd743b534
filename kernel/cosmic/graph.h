/* What the files share that build graphs and search cliques. */
#ifndef COSMIC_GRAPH_H
#define COSMIC_GRAPH_H

#include "../capi/arrays.h"
#include "../capi/module.h"
#include "../simd/dispatch.h"

/* The threshold of a mean degree, and of a degeneracy. Both return -1 without memory. */
int find_degree_threshold(const float *values, ptrdiff_t count, ptrdiff_t nodes, double degree, double low, double high,
                          double *threshold);
int find_degeneracy_threshold(const float *values, const int32_t *left, const int32_t *right, ptrdiff_t count,
                              ptrdiff_t nodes, int64_t degeneracy, int all, double *threshold);

/* Connect the listed pairs above a threshold, or all pairs of a lower triangle's rows. */
void connect_pairs(const Pairs *pairs, float threshold, uint64_t *graph, ptrdiff_t words);
void connect_rows(const float *similarity, ptrdiff_t start, ptrdiff_t rows, ptrdiff_t nodes, const uint8_t *present,
                  float threshold, uint64_t *graph, ptrdiff_t words);

/* Returns -1 and sets an exception unless a bit matrix has as many words per row as its nodes need. */
int check_graph_shape(Py_ssize_t nodes, Py_ssize_t words);

/* Returns -1 and sets an exception unless a bit matrix is symmetric, without self-loops and without bits beyond its
   nodes. */
int check_graph(const Py_buffer *graph);

/* All maximal cliques; past either limit, one per node, grown greedily. */
Outcome find_cliques(const uint64_t *graph, ptrdiff_t nodes, ptrdiff_t words, int64_t max_cliques, int64_t max_visits,
                     Cliques *found);

/* Sort the cliques, drop duplicates, and return a tuple: all nodes and all sizes as bytes of int64, one over each
   size as bytes of float32, and whether the cliques are all maximal cliques. */
PyObject *cliques_as_bytes(Cliques *found, ptrdiff_t nodes, int complete);

#endif
