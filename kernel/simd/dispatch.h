/* The loops that take most of the time, compiled once for any processor, and on x86-64 once more for AVX2. */
#ifndef COSMIC_DISPATCH_H
#define COSMIC_DISPATCH_H

#include <stddef.h>
#include <stdint.h>

/* Whether the compiler has vector extensions and built-in bit operations; -DPLAIN_C turns them off. */
#if defined(__GNUC__) && !defined(PLAIN_C)
#define VECTORS 1
#else
#define VECTORS 0
#endif

/* The number of set bits, and the index of the lowest one of a word that is not zero. */
#if VECTORS
#define BITS(word) __builtin_popcountll(word)
#define LOWEST(word) __builtin_ctzll(word)
#else
static inline int BITS(uint64_t word)
{
    int count = 0;
    for (; word; word &= word - 1) count++;
    return count;
}
static inline int LOWEST(uint64_t word)
{
    int place = 0;
    for (; !(word & 1); word >>= 1) place++;
    return place;
}
#endif

/* A list of the most similar pairs of nodes. Every pair above `cut` is in it; `lowest` and `highest` are those of all
   similarities visited, including the diagonal. */
typedef struct {
    float *values, *scratch;
    int32_t *left, *right;
    ptrdiff_t room, keep, filled;
    float cut, lowest, highest;
} Pairs;

/* Cliques in the order of their discovery: the nodes of one after those of another, and where each begins. */
typedef struct {
    int32_t *nodes;
    ptrdiff_t *starts; /* [count + 1] */
    ptrdiff_t filled, room, count, starts_room;
} Cliques;

typedef enum { ALL_FOUND, TOO_MANY, NO_MEMORY } Outcome;

typedef struct {
    /* out[q * stride + r] = rows[r] · queries[q]; both are contiguous. */
    void (*rows_by_queries)(const float *rows, ptrdiff_t count, const float *queries, ptrdiff_t number, ptrdiff_t width,
                            float *out, ptrdiff_t stride);
    /* out[k * shots + s] = slot s of class k · query, for the filled slots. */
    void (*slots_by_query)(const float *slots, const int64_t *filled, ptrdiff_t classes, ptrdiff_t shots,
                           const float *query,
                           ptrdiff_t width, float *out);
    /* out[r * 16 + c] = rows[r] · column c, for six rows and a panel of sixteen columns [width, 16]. */
    void (*tile)(const float *const *rows, const float *panel, ptrdiff_t width, float *out);
    /* out[c] = row · column c, for the columns of four panels. */
    void (*line)(const float *row, const float *const *panels, ptrdiff_t width, float *out);
    /* The squared length of a weighted sum of slots, from their products with each other. */
    float (*square)(const float *weights, const float *gram, ptrdiff_t slots);
    /* The weighted sum of slots, and of a text unless NULL, at unit length. */
    void (*mix)(const float *slots, const float *weights, ptrdiff_t filled, ptrdiff_t width, const float *text,
                float text_weight, float *out);
    /* The weighted sum of the listed rows, which are `stride` apart, and of `first` unless NULL. */
    void (*weigh)(const float *rows, ptrdiff_t stride, const int32_t *which, const float *weights, ptrdiff_t count,
                  const float *first, float first_weight, ptrdiff_t width, float *out);
    /* The length of the sum of the listed rows; `sum` is work space. */
    float (*length)(const float *rows, const int64_t *which, ptrdiff_t count, ptrdiff_t width, float *sum);
    /* List the pairs (node, 0 ... node - 1) of `count` rows of similarities, `nodes` long, beginning with the node
       `start`. Absent nodes are skipped. */
    void (*collect)(Pairs *pairs, const float *rows, ptrdiff_t nodes, ptrdiff_t start, ptrdiff_t count,
                    const uint8_t *present);
    /* Keep the edges whose ends share so many neighbours. Graphs are bit matrices of `words` words per row. */
    void (*second_order)(const uint64_t *graph, ptrdiff_t nodes, ptrdiff_t words, int64_t common, uint64_t *out);
    /* Degeneracy order: repeatedly remove the node of least degree, ties by index. Returns -1 without memory. */
    int (*order)(const uint64_t *graph, ptrdiff_t nodes, ptrdiff_t words, int32_t *degree, int32_t *order);
    /* All maximal cliques of more than one node, given a degeneracy order. */
    Outcome (*cliques)(const uint64_t *graph, ptrdiff_t nodes, ptrdiff_t words, const int32_t *order,
                       int64_t max_cliques, int64_t max_visits, Cliques *found);
} SimdLoops;

/* The fastest ones for this processor. */
extern const SimdLoops *simd;
void choose_simd_loops(void);

/* Append a clique. Returns -1 without memory. */
int add_clique(Cliques *found, const int32_t *nodes, ptrdiff_t size);

/* The `keep`-th largest value. No value may be NaN; the array is overwritten. */
float nth_largest(float *values, ptrdiff_t count, ptrdiff_t keep);

/* Cut a list down to its `keep` largest pairs. */
void keep_largest(Pairs *pairs);

#endif
