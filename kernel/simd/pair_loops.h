/* The most similar pairs of nodes, and edges of the second order. Included by loops.h, once per processor kind. */

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

/* Update the least value per lane with sixteen values. Returns one bit per value above the cut. */
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

/* List the pairs of one stretch of a row that lie above the cut. The lowest value goes into `least`, per lane, or
   directly into the list. */
static inline void NAME(stretch)(Pairs *pairs, const float *row, ptrdiff_t node, ptrdiff_t from, ptrdiff_t to,
                                 Lanes *least)
{
    ptrdiff_t other = from;
    (void)least;
#if VECTORS
    /* The last sixteen values overlap those before; the bits of the overlap are cleared. */
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
                uint64_t stays = shared >= common; /* not predictable, so there is no branch */
                out[node * words + word] |= stays << other % 64;
                out[other * words + node / 64] |= stays << node % 64;
            }
    }
}
