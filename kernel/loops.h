/* Included by hot.c once for every kind of processor. */
#include "tiles.h"

/* A few rows with one column. Most of a tile in vain takes less time than two rows one after the other. */
static inline void NAME(up_to_eight)(const float **rows, int high, const float *column, ptrdiff_t width, float *out)
{
    if (high == 1) out[0] = NAME(dot)(rows[0], column, width);
    if (high < 2) return;
    for (int r = high; r < 8; r++) rows[r] = rows[0];
    NAME(tile_8x1)(rows, column, width, out);
}

static void NAME(rows_by_queries)(const float *rows, ptrdiff_t count, const float *queries, ptrdiff_t number,
                                  ptrdiff_t width, float *out, ptrdiff_t stride)
{
    if (number == 1) {
        for (ptrdiff_t row = 0; row < count; row += 8) {
            const float *eight[8];
            float near[8];
            int high = count - row < 8 ? (int)(count - row) : 8;
            for (int r = 0; r < high; r++) eight[r] = rows + (row + r) * width;
            NAME(up_to_eight)(eight, high, queries, width, near);
            for (int r = 0; r < high; r++) out[row + r] = near[r];
        }
        return;
    }
    const float *left[4], *right[3];
    float tile[12];
    for (ptrdiff_t row = 0; row < count; row += 4) {
        int high = count - row < 4 ? (int)(count - row) : 4;
        for (int r = 0; r < high; r++) left[r] = rows + (row + r) * width;
        for (ptrdiff_t query = 0; query < number; query += 3) {
            int wide = number - query < 3 ? (int)(number - query) : 3;
            for (int c = 0; c < wide; c++) right[c] = queries + (query + c) * width;
            if (high == 4 && wide == 3) NAME(tile_4x3)(left, right, width, tile);
            for (int r = 0; r < high; r++)
                for (int c = 0; c < wide; c++)
                    out[(query + c) * stride + row + r] =
                        high == 4 && wide == 3 ? tile[r * 3 + c] : NAME(dot)(left[r], right[c], width);
        }
    }
}

static void NAME(slots_by_query)(const float *slots, const int64_t *filled, ptrdiff_t classes, ptrdiff_t shots,
                                 const float *query, ptrdiff_t width, float *out)
{
    const float *rows[8];
    float *to[8], near[8];
    int high = 0;
    for (ptrdiff_t k = 0; k < classes; k++)
        for (int64_t slot = 0; slot < filled[k]; slot++) {
            rows[high] = slots + (k * shots + slot) * width;
            to[high++] = out + k * shots + slot;
            if (high < 8) continue;
            NAME(tile_8x1)(rows, query, width, near);
            for (int r = 0; r < 8; r++) *to[r] = near[r];
            high = 0;
        }
    NAME(up_to_eight)(rows, high, query, width, near);
    for (int r = 0; r < high; r++) *to[r] = near[r];
}

static float NAME(square)(const float *weights, const float *gram, ptrdiff_t slots)
{
    float square = 0;
    for (ptrdiff_t slot = 0; slot < slots; slot++)
        if (weights[slot] > 0) square += weights[slot] * NAME(dot)(gram + slot * slots, weights, slots);
    return square;
}

static void NAME(mix)(const float *slots, const float *weights, ptrdiff_t filled, ptrdiff_t width, const float *text,
                      float text_weight, float *out)
{
    for (ptrdiff_t d = 0; d < width; d++) out[d] = text ? text_weight * text[d] : 0;
    ptrdiff_t slot = 0;
    for (; slot + 4 <= filled; slot += 4) {
        const float *a = slots + slot * width, *b = a + width, *c = b + width, *e = c + width;
        float w0 = weights[slot], w1 = weights[slot + 1], w2 = weights[slot + 2], w3 = weights[slot + 3];
        for (ptrdiff_t d = 0; d < width; d++) out[d] += (w0 * a[d] + w1 * b[d]) + (w2 * c[d] + w3 * e[d]);
    }
    for (; slot < filled; slot++)
        for (ptrdiff_t d = 0; d < width; d++) out[d] += weights[slot] * slots[slot * width + d];
    float length = sqrtf(NAME(dot)(out, out, width));
    if (length > 0)
        for (ptrdiff_t d = 0; d < width; d++) out[d] /= length;
}

static void NAME(weigh)(const float *rows, ptrdiff_t stride, const int32_t *which, const float *weights, ptrdiff_t count,
                        const float *first, float first_weight, ptrdiff_t width, float *out)
{
    for (ptrdiff_t d = 0; d < width; d++) out[d] = first ? first_weight * first[d] : 0;
    for (ptrdiff_t at = 0; at < count; at++) {
        const float *row = rows + which[at] * stride;
        for (ptrdiff_t d = 0; d < width; d++) out[d] += weights[at] * row[d];
    }
}

static float NAME(length)(const float *rows, const int64_t *which, ptrdiff_t count, ptrdiff_t width, float *sum)
{
    memset(sum, 0, (size_t)width * sizeof(float));
    for (ptrdiff_t at = 0; at < count; at++) {
        const float *row = rows + which[at] * width;
        for (ptrdiff_t d = 0; d < width; d++) sum[d] += row[d];
    }
    return sqrtf(NAME(dot)(sum, sum, width));
}

static inline void NAME(list)(Pairs *pairs, float value, ptrdiff_t node, ptrdiff_t other)
{
    if (pairs->filled == pairs->room) {
        keep_largest(pairs);
        if (!(value > pairs->cut)) return;
    }
    pairs->values[pairs->filled] = value;
    pairs->left[pairs->filled] = (int32_t)other;
    pairs->right[pairs->filled++] = (int32_t)node;
    if (value > pairs->highest) pairs->highest = value;
}

#if VECTORS
typedef int32_t NAME(Masks) __attribute__((vector_size(32)));

/* Note the least of sixteen values in each lane; one bit for each value above the cut. */
static inline uint32_t NAME(sixteen)(const float *values, float cut, Lanes *least)
{
    Lanes value, next, highest = (Lanes){0} + cut;
    LOAD(value, values);
    LOAD(next, values + LANES);
    NAME(Masks) here = value > highest, there = next > highest, below = value < *least;
    *least = (Lanes)(((NAME(Masks))value & below) | ((NAME(Masks))*least & ~below));
    below = next < *least;
    *least = (Lanes)(((NAME(Masks))next & below) | ((NAME(Masks))*least & ~below));
    return SET(here) | SET(there) << LANES;
}
#endif

/* List the pairs of one stretch of a row that lie above the cut; the lowest value goes into `least`, lane by lane, or at
   once into the list. */
static inline void NAME(stretch)(Pairs *pairs, const float *row, ptrdiff_t node, ptrdiff_t from, ptrdiff_t to, Lanes *least)
{
    ptrdiff_t other = from;
    (void)least;
#if VECTORS
    /* The last sixteen begin among those before them: their bits are taken away. */
    for (; to - from >= 2 * LANES && other < to; other += 2 * LANES) {
        ptrdiff_t first = other + 2 * LANES <= to ? other : to - 2 * LANES;
        uint32_t above = NAME(sixteen)(row + first, pairs->cut, least) >> (other - first) << (other - first);
        for (; above; above &= above - 1) {
            ptrdiff_t at = first + LOWEST(above);
            /* The cut rises when the list is full. */
            if (row[at] > pairs->cut) NAME(list)(pairs, row[at], node, at);
        }
    }
#endif
    for (; other < to; other++) {
        if (row[other] < pairs->lowest) pairs->lowest = row[other];
        if (row[other] > pairs->cut) NAME(list)(pairs, row[other], node, other);
    }
}

static void NAME(collect)(Pairs *pairs, const float *rows, ptrdiff_t nodes, ptrdiff_t start, ptrdiff_t count,
                          const uint8_t *present)
{
    Lanes least;
    float low[LANES];
    for (int lane = 0; lane < LANES; lane++) low[lane] = pairs->lowest;
    LOAD(least, low);
    for (ptrdiff_t node = start; node < start + count; node++, rows += nodes) {
        if (present && !present[node]) continue;
        float self = rows[node];
        if (self < pairs->lowest) pairs->lowest = self;
        if (self > pairs->highest) pairs->highest = self;
        if (!present) NAME(stretch)(pairs, rows, node, 0, node, &least);
        for (ptrdiff_t from = 0, to; present && from < node; from = to + 1) {
            for (to = from; to < node && present[to]; to++);
            if (to > from) NAME(stretch)(pairs, rows, node, from, to, &least);
        }
    }
    memcpy(low, &least, sizeof low);
    for (int lane = 0; lane < LANES; lane++)
        if (low[lane] < pairs->lowest) pairs->lowest = low[lane];
}

static void NAME(second_order)(const uint64_t *graph, ptrdiff_t nodes, ptrdiff_t words, int64_t common, uint64_t *out)
{
    for (ptrdiff_t node = 0; node < nodes; node++) {
        const uint64_t *row = graph + node * words;
        for (ptrdiff_t word = node / 64; word < words; word++)
            for (uint64_t rest = row[word]; rest; rest &= rest - 1) {
                ptrdiff_t other = word * 64 + LOWEST(rest);
                if (other <= node) continue;
                const uint64_t *line = graph + other * words;
                int64_t shared = 0;
                for (ptrdiff_t w = 0; w < words; w++) {
                    shared += BITS(row[w] & line[w]);
                    if (words > FEW_WORDS && shared >= common) break;
                }
                uint64_t stays = shared >= common; /* nobody can foretell it, so it is no branch */
                out[node * words + word] |= stays << other % 64;
                out[other * words + node / 64] |= stays << node % 64;
            }
    }
}

static int NAME(order)(const uint64_t *graph, ptrdiff_t nodes, ptrdiff_t words, int32_t *degree, int32_t *order)
{
    ptrdiff_t highest = 0, lowest = 0;
    for (ptrdiff_t node = 0; node < nodes; node++) {
        degree[node] = 0;
        for (ptrdiff_t word = 0; word < words; word++) degree[node] += BITS(graph[node * words + word]);
        if (degree[node] > highest) highest = degree[node];
    }
    /* For every degree a bitset of the nodes that have it, and how many they are. */
    uint64_t *having = calloc((size_t)((highest + 1) * (words + 1)), sizeof(uint64_t)), *number;
    if (!having) return -1;
    number = having + (highest + 1) * words;
    for (ptrdiff_t node = 0; node < nodes; node++) {
        having[degree[node] * words + node / 64] |= (uint64_t)1 << node % 64;
        number[degree[node]]++;
    }
    for (ptrdiff_t taken = 0; taken < nodes; taken++) {
        while (!number[lowest]) lowest++;
        uint64_t *least = having + lowest * words;
        while (!*least) least++;
        ptrdiff_t node = (least - (having + lowest * words)) * 64 + LOWEST(*least);
        order[taken] = (int32_t)node;
        *least &= *least - 1;
        number[lowest]--;
        degree[node] = -1;
        for (ptrdiff_t word = 0; word < words; word++)
            for (uint64_t rest = graph[node * words + word]; rest; rest &= rest - 1) {
                uint64_t bit = rest & -rest;
                ptrdiff_t other = word * 64 + LOWEST(rest), d = degree[other];
                if (d < 0) continue;
                having[d * words + word] &= ~bit;
                having[(d - 1) * words + word] |= bit;
                number[d]--;
                number[d - 1]++;
                degree[other]--;
            }
        if (lowest) lowest--;
    }
    free(having);
    return 0;
}

/* The neighbourhood of one node, its nodes numbered anew in the same order, and the search in it: Bron–Kerbosch with
   pivoting, on a stack of its own. An entry of the stack is two bitsets, candidates and excluded; the nodes of the
   clique so far are in `inside`. */
typedef struct {
    int32_t *names;     /* [size] the nodes' numbers in the graph */
    uint64_t *rows;     /* [size, words] who is next to whom */
    uint64_t *stack;    /* [entries, 2, words] */
    int32_t *depths;    /* [entries] how many nodes the clique had before this entry's */
    int32_t *entered;   /* [entries] the node that the entry adds, in the new numbers */
    int32_t *inside;    /* [size + 1] */
    ptrdiff_t rows_room, stack_room, depths_room, entered_room;
} NAME(Search);

static inline Outcome NAME(search)(NAME(Search) *search, const uint64_t *rows, int32_t start, ptrdiff_t words,
                                   int64_t most_cliques, int64_t most_looks, int64_t *looks, Cliques *found)
{
    ptrdiff_t entries = 1;
    search->depths[0] = 0;
    search->entered[0] = -1;
    while (entries) {
        entries--;
        uint64_t *candidates = search->stack + entries * 2 * words, *excluded = candidates + words;
        int32_t depth = search->depths[entries];
        search->inside[depth] = search->entered[entries] < 0 ? start : search->names[search->entered[entries]];
        depth++;
        int any = 0, left_out = 0;
        for (ptrdiff_t w = 0; w < words; w++) any |= candidates[w] != 0, left_out |= excluded[w] != 0;
        if (!any) {
            if (left_out) continue;
            if (add_clique(found, search->inside, depth) < 0) return NO_MEMORY;
            if (found->count > most_cliques) return TOO_MANY;
            continue;
        }
        /* The pivot: the candidate or excluded node next to the most candidates, the first of them among equals. */
        ptrdiff_t pivot = 0;
        int most = -1;
        for (ptrdiff_t w = 0; w < words; w++)
            for (uint64_t rest = candidates[w] | excluded[w]; rest; rest &= rest - 1) {
                ptrdiff_t node = w * 64 + LOWEST(rest);
                const uint64_t *row = rows + node * words;
                int next = 0;
                for (ptrdiff_t v = 0; v < words; v++) next += BITS(candidates[v] & row[v]);
                if (next > most) most = next, pivot = node;
                ++*looks;
            }
        if (*looks > most_looks) return TOO_MANY;
        /* This entry's sets move up as the branches, which take their place, are made from them. */
        ptrdiff_t branches = 0;
        const uint64_t *pivot_row = rows + pivot * words;
        for (ptrdiff_t w = 0; w < words; w++) branches += BITS(candidates[w] & ~pivot_row[w]);
        if (grow((void **)&search->stack, &search->stack_room, (entries + branches + 1) * 2 * words, sizeof(uint64_t)) ||
            grow((void **)&search->depths, &search->depths_room, entries + branches + 1, sizeof(int32_t)) ||
            grow((void **)&search->entered, &search->entered_room, entries + branches + 1, sizeof(int32_t)))
            return NO_MEMORY;
        candidates = search->stack + (entries + branches) * 2 * words;
        excluded = candidates + words;
        memmove(candidates, search->stack + entries * 2 * words, 2 * (size_t)words * sizeof(uint64_t));
        for (ptrdiff_t w = 0; w < words; w++)
            for (uint64_t rest = candidates[w] & ~pivot_row[w]; rest; rest &= rest - 1) {
                uint64_t bit = rest & -rest;
                ptrdiff_t node = w * 64 + LOWEST(rest);
                const uint64_t *row = rows + node * words;
                uint64_t *branch = search->stack + entries * 2 * words;
                for (ptrdiff_t v = 0; v < words; v++) {
                    branch[v] = candidates[v] & row[v];
                    branch[words + v] = excluded[v] & row[v];
                }
                search->depths[entries] = depth;
                search->entered[entries++] = (int32_t)node;
                candidates[w] &= ~bit;
                excluded[w] |= bit;
            }
    }
    return ALL_FOUND;
}

/* The same in a graph of few words, whose nodes keep their numbers: so nothing is made for the search. */
static Outcome NAME(small_cliques)(NAME(Search) *search, const uint64_t *graph, ptrdiff_t nodes, ptrdiff_t words,
                                   const int32_t *order, int64_t most_cliques, int64_t most_looks, uint64_t *later,
                                   Cliques *found)
{
    int64_t looks = 0;
    for (ptrdiff_t node = 0; node < nodes; node++) search->names[node] = (int32_t)node;
    for (ptrdiff_t place = 0; place < nodes; place++) {
        ptrdiff_t node = order[place];
        uint64_t to_come = 0;
        later[node / 64] &= ~((uint64_t)1 << node % 64);
        for (ptrdiff_t w = 0; w < words; w++) to_come |= graph[node * words + w] & later[w];
        if (!to_come) continue;
        if (grow((void **)&search->stack, &search->stack_room, 2 * words, sizeof(uint64_t)) ||
            grow((void **)&search->depths, &search->depths_room, 1, sizeof(int32_t)) ||
            grow((void **)&search->entered, &search->entered_room, 1, sizeof(int32_t)))
            return NO_MEMORY;
        for (ptrdiff_t w = 0; w < words; w++) {
            search->stack[w] = graph[node * words + w] & later[w];
            search->stack[words + w] = graph[node * words + w] & ~later[w];
        }
        Outcome outcome =
            words == 1 ? NAME(search)(search, graph, (int32_t)node, 1, most_cliques, most_looks, &looks, found)
                       : NAME(search)(search, graph, (int32_t)node, FEW_WORDS, most_cliques, most_looks, &looks, found);
        if (outcome != ALL_FOUND) return outcome;
    }
    return ALL_FOUND;
}

static Outcome NAME(cliques)(const uint64_t *graph, ptrdiff_t nodes, ptrdiff_t words, const int32_t *order,
                             int64_t most_cliques, int64_t most_looks, Cliques *found)
{
    NAME(Search) search = {0};
    Outcome outcome = NO_MEMORY;
    int64_t looks = 0;
    uint64_t *later = malloc((size_t)(words ? words : 1) * sizeof(uint64_t)); /* nodes not yet taken as a start */
    search.names = malloc((size_t)(nodes ? nodes : 1) * sizeof(int32_t));
    search.inside = malloc((size_t)(nodes + 1) * sizeof(int32_t));
    if (!later || !search.names || !search.inside) goto done;
    memset(later, 0xff, (size_t)words * sizeof(uint64_t));
    if (words <= FEW_WORDS) {
        outcome = NAME(small_cliques)(&search, graph, nodes, words, order, most_cliques, most_looks, later, found);
        goto done;
    }
    for (ptrdiff_t place = 0; place < nodes; place++) {
        ptrdiff_t node = order[place], size = 0;
        uint64_t to_come = 0;
        later[node / 64] &= ~((uint64_t)1 << node % 64);
        for (ptrdiff_t w = 0; w < words; w++) to_come |= graph[node * words + w] & later[w];
        if (!to_come) continue; /* its cliques were listed before, with its neighbours */
        for (ptrdiff_t w = 0; w < words; w++)
            for (uint64_t rest = graph[node * words + w]; rest; rest &= rest - 1)
                search.names[size++] = (int32_t)(w * 64 + LOWEST(rest));
        ptrdiff_t inner = (size + 63) / 64;
        if (grow((void **)&search.rows, &search.rows_room, size * inner, sizeof(uint64_t)) ||
            grow((void **)&search.stack, &search.stack_room, 2 * inner, sizeof(uint64_t)) ||
            grow((void **)&search.depths, &search.depths_room, 1, sizeof(int32_t)) ||
            grow((void **)&search.entered, &search.entered_room, 1, sizeof(int32_t)))
            goto done;
        memset(search.rows, 0, (size_t)(size * inner) * sizeof(uint64_t));
        memset(search.stack, 0, 2 * (size_t)inner * sizeof(uint64_t));
        for (ptrdiff_t i = 0; i < size; i++) {
            const uint64_t *row = graph + search.names[i] * words;
            for (ptrdiff_t j = 0; j < size; j++) {
                ptrdiff_t other = search.names[j];
                search.rows[i * inner + j / 64] |= (row[other / 64] >> other % 64 & 1) << j % 64;
            }
            uint64_t is_later = later[search.names[i] / 64] >> search.names[i] % 64 & 1;
            search.stack[(is_later ? 0 : inner) + i / 64] |= (uint64_t)1 << i % 64;
        }
        /* Few nodes have more than 64 neighbours: with one word told beforehand its loops fall away. */
        outcome = inner == 1 ? NAME(search)(&search, search.rows, (int32_t)node, 1, most_cliques, most_looks, &looks, found)
                             : NAME(search)(&search, search.rows, (int32_t)node, inner, most_cliques, most_looks, &looks, found);
        if (outcome != ALL_FOUND) goto done;
    }
    outcome = ALL_FOUND;
done:
    free(later), free(search.names), free(search.inside), free(search.rows);
    free(search.stack), free(search.depths), free(search.entered);
    return outcome;
}

static const Hot NAME(hot) = {NAME(rows_by_queries), NAME(slots_by_query), NAME(tile_6x16), NAME(tile_1x64), NAME(square),
                              NAME(mix),             NAME(weigh),          NAME(length),    NAME(collect),
                              NAME(second_order),    NAME(order),          NAME(cliques)};
