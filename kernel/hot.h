/* The loops that take the time: compiled once for any processor, and on x86-64 once more for AVX2. */
#ifndef COSMIC_HOT_H
#define COSMIC_HOT_H

#include <stddef.h>
#include <stdint.h>

/* Whether the compiler knows vectors and the like; -DPLAIN_C does without. */
#if defined(__GNUC__) && !defined(PLAIN_C)
#define VECTORS 1
#else
#define VECTORS 0
#endif

/* How many bits a word has, and where its lowest is; the word is not zero. */
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

/* A list of pairs of nodes that keeps the most similar. Every pair above `cut` is in it; `lowest` and `highest` are
   those of all similarities that were looked at, a node's with itself included. */
typedef struct {
    float *values, *scratch;
    int32_t *left, *right;
    ptrdiff_t room, keep, filled;
    float cut, lowest, highest;
} Pairs;

/* Cliques as they are found: their nodes one after the other, and where each begins. */
typedef struct {
    int32_t *nodes;
    ptrdiff_t *starts; /* [count + 1] */
    ptrdiff_t filled, room, count, starts_room;
} Cliques;

typedef enum { ALL_FOUND, TOO_MANY, NO_MEMORY } Outcome;

typedef struct {
    /* out[q * stride + r] = rows[r] · queries[q]; both lie one after the other. */
    void (*rows_by_queries)(const float *rows, ptrdiff_t count, const float *queries, ptrdiff_t number, ptrdiff_t width,
                            float *out, ptrdiff_t stride);
    /* out[k * shots + s] = slot s of class k · query, for the filled slots; eight of them at a time, of whatever class. */
    void (*slots_by_query)(const float *slots, const int64_t *filled, ptrdiff_t classes, ptrdiff_t shots, const float *query,
                           ptrdiff_t width, float *out);
    /* out[r * 16 + c] = rows[r] · column c, for six rows anywhere and a panel of sixteen columns [width, 16]. */
    void (*tile)(const float *const *rows, const float *panel, ptrdiff_t width, float *out);
    /* out[c] = row · column c of four panels, anywhere. */
    void (*line)(const float *row, const float *const *panels, ptrdiff_t width, float *out);
    /* The squared length of a weighted sum of slots, from their dots with each other. */
    float (*square)(const float *weights, const float *gram, ptrdiff_t slots);
    /* The weighted sum of slots, and of a text if there is one, at unit length. */
    void (*mix)(const float *slots, const float *weights, ptrdiff_t filled, ptrdiff_t width, const float *text,
                float text_weight, float *out);
    /* The weighted sum of some of the rows, `stride` apart, and of a first one that lies elsewhere, if there is one. */
    void (*weigh)(const float *rows, ptrdiff_t stride, const int32_t *which, const float *weights, ptrdiff_t count,
                  const float *first, float first_weight, ptrdiff_t width, float *out);
    /* The length of the sum of rows, which takes place in `sum`. */
    float (*length)(const float *rows, const int64_t *which, ptrdiff_t count, ptrdiff_t width, float *sum);
    /* List the pairs (node, 0 ... node - 1) of `count` rows of similarities, `nodes` long, from the node `start` on; absent
       nodes are passed over. */
    void (*collect)(Pairs *pairs, const float *rows, ptrdiff_t nodes, ptrdiff_t start, ptrdiff_t count,
                    const uint8_t *present);
    /* Keep the edges whose ends have so many common neighbours; graphs are bit matrices of `words` words a row. */
    void (*second_order)(const uint64_t *graph, ptrdiff_t nodes, ptrdiff_t words, int64_t common, uint64_t *out);
    /* Take the node of least degree among those left, the first of them among equals, again and again; -1 if there is no
       memory. */
    int (*order)(const uint64_t *graph, ptrdiff_t nodes, ptrdiff_t words, int32_t *degree, int32_t *order);
    /* All maximal cliques of more than one node, from a degeneracy order on. */
    Outcome (*cliques)(const uint64_t *graph, ptrdiff_t nodes, ptrdiff_t words, const int32_t *order,
                       int64_t most_cliques, int64_t most_looks, Cliques *found);
} Hot;

/* The best of them for this processor. */
extern const Hot *hot;
void choose_hot(void);

int add_clique(Cliques *found, const int32_t *nodes, ptrdiff_t size);

/* The `keep`-th largest of the values, none of them NaN, which are used up; and a list cut down to its `keep` largest. */
float nth_largest(float *values, ptrdiff_t count, ptrdiff_t keep);
void keep_largest(Pairs *pairs);

#endif
