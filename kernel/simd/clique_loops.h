/* Degeneracy order and maximal cliques. Included by loops.h, once per processor kind. */

static int NAME(order)(const uint64_t *graph, ptrdiff_t nodes, ptrdiff_t words, int32_t *degree, int32_t *order)
{
    ptrdiff_t highest = 0, lowest = 0;
    for (ptrdiff_t node = 0; node < nodes; node++) {
        degree[node] = 0;
        for (ptrdiff_t word = 0; word < words; word++) degree[node] += BITS(graph[node * words + word]);
        if (degree[node] > highest) highest = degree[node];
    }
    /* For every degree, a bitset of the nodes that have it, and their number. */
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

/* The neighbourhood of one node, with nodes renumbered in the same order, and the search in it: Bron–Kerbosch with
   pivoting and an explicit stack. An entry of the stack is two bitsets, candidates and excluded; `inside` holds the
   nodes of the current clique. */
typedef struct {
    int32_t *names;     /* [size] the nodes' numbers in the graph */
    uint64_t *rows;     /* [size, words] adjacency */
    uint64_t *stack;    /* [entries, 2, words] */
    int32_t *depths;    /* [entries] how many nodes the clique had before this entry's */
    int32_t *entered;   /* [entries] the node that the entry adds, in the new numbers */
    int32_t *inside;    /* [size + 1] */
    ptrdiff_t rows_room, stack_room, depths_room, entered_room;
} NAME(Search);

static inline Outcome NAME(search)(NAME(Search) *search, const uint64_t *rows, int32_t start, ptrdiff_t words,
                                   int64_t max_cliques, int64_t max_visits, int64_t *visits, Cliques *found)
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
            if (found->count > max_cliques) return TOO_MANY;
            continue;
        }
        /* The pivot: the candidate or excluded node with the most candidates as neighbours, ties by index. */
        ptrdiff_t pivot = 0;
        int most = -1;
        for (ptrdiff_t w = 0; w < words; w++)
            for (uint64_t rest = candidates[w] | excluded[w]; rest; rest &= rest - 1) {
                ptrdiff_t node = w * 64 + LOWEST(rest);
                const uint64_t *row = rows + node * words;
                int next = 0;
                for (ptrdiff_t v = 0; v < words; v++) next += BITS(candidates[v] & row[v]);
                if (next > most) most = next, pivot = node;
                ++*visits;
            }
        if (*visits > max_visits) return TOO_MANY;
        /* The branches take the place of this entry, so its sets move up first. */
        ptrdiff_t branches = 0;
        const uint64_t *pivot_row = rows + pivot * words;
        for (ptrdiff_t w = 0; w < words; w++) branches += BITS(candidates[w] & ~pivot_row[w]);
        if (grow_buffer((void **)&search->stack, &search->stack_room, (entries + branches + 1) * 2 * words,
                        sizeof(uint64_t)) ||
            grow_buffer((void **)&search->depths, &search->depths_room, entries + branches + 1, sizeof(int32_t)) ||
            grow_buffer((void **)&search->entered, &search->entered_room, entries + branches + 1, sizeof(int32_t)))
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

/* The same in a graph of few words per row: nodes keep their numbers, and no adjacency is copied. */
static Outcome NAME(small_cliques)(NAME(Search) *search, const uint64_t *graph, ptrdiff_t nodes, ptrdiff_t words,
                                   const int32_t *order, int64_t max_cliques, int64_t max_visits, uint64_t *later,
                                   Cliques *found)
{
    int64_t visits = 0;
    for (ptrdiff_t node = 0; node < nodes; node++) search->names[node] = (int32_t)node;
    for (ptrdiff_t place = 0; place < nodes; place++) {
        ptrdiff_t node = order[place];
        uint64_t to_come = 0;
        later[node / 64] &= ~((uint64_t)1 << node % 64);
        for (ptrdiff_t w = 0; w < words; w++) to_come |= graph[node * words + w] & later[w];
        if (!to_come) continue;
        if (grow_buffer((void **)&search->stack, &search->stack_room, 2 * words, sizeof(uint64_t)) ||
            grow_buffer((void **)&search->depths, &search->depths_room, 1, sizeof(int32_t)) ||
            grow_buffer((void **)&search->entered, &search->entered_room, 1, sizeof(int32_t)))
            return NO_MEMORY;
        for (ptrdiff_t w = 0; w < words; w++) {
            search->stack[w] = graph[node * words + w] & later[w];
            search->stack[words + w] = graph[node * words + w] & ~later[w];
        }
        Outcome outcome =
            words == 1 ? NAME(search)(search, graph, (int32_t)node, 1, max_cliques, max_visits, &visits, found)
                       : NAME(search)(search, graph, (int32_t)node, FEW_WORDS, max_cliques, max_visits, &visits, found);
        if (outcome != ALL_FOUND) return outcome;
    }
    return ALL_FOUND;
}

static Outcome NAME(cliques)(const uint64_t *graph, ptrdiff_t nodes, ptrdiff_t words, const int32_t *order,
                             int64_t max_cliques, int64_t max_visits, Cliques *found)
{
    NAME(Search) search = {0};
    Outcome outcome = NO_MEMORY;
    int64_t visits = 0;
    uint64_t *later = malloc((size_t)(words ? words : 1) * sizeof(uint64_t)); /* nodes that have not been a start yet */
    search.names = malloc((size_t)(nodes ? nodes : 1) * sizeof(int32_t));
    search.inside = malloc((size_t)(nodes + 1) * sizeof(int32_t));
    if (!later || !search.names || !search.inside) goto done;
    memset(later, 0xff, (size_t)words * sizeof(uint64_t));
    if (words <= FEW_WORDS) {
        outcome = NAME(small_cliques)(&search, graph, nodes, words, order, max_cliques, max_visits, later, found);
        goto done;
    }
    for (ptrdiff_t place = 0; place < nodes; place++) {
        ptrdiff_t node = order[place], size = 0;
        uint64_t to_come = 0;
        later[node / 64] &= ~((uint64_t)1 << node % 64);
        for (ptrdiff_t w = 0; w < words; w++) to_come |= graph[node * words + w] & later[w];
        if (!to_come) continue; /* its cliques were listed before, from its neighbours */
        for (ptrdiff_t w = 0; w < words; w++)
            for (uint64_t rest = graph[node * words + w]; rest; rest &= rest - 1)
                search.names[size++] = (int32_t)(w * 64 + LOWEST(rest));
        ptrdiff_t inner = (size + 63) / 64;
        if (grow_buffer((void **)&search.rows, &search.rows_room, size * inner, sizeof(uint64_t)) ||
            grow_buffer((void **)&search.stack, &search.stack_room, 2 * inner, sizeof(uint64_t)) ||
            grow_buffer((void **)&search.depths, &search.depths_room, 1, sizeof(int32_t)) ||
            grow_buffer((void **)&search.entered, &search.entered_room, 1, sizeof(int32_t)))
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
        /* Few nodes have more than 64 neighbours. With the constant 1 the compiler removes the loops over words. */
        outcome = inner == 1 ? NAME(search)(&search, search.rows, (int32_t)node, 1, max_cliques, max_visits, &visits,
                                            found)
                             : NAME(search)(&search, search.rows, (int32_t)node, inner, max_cliques, max_visits,
                                            &visits, found);
        if (outcome != ALL_FOUND) goto done;
    }
    outcome = ALL_FOUND;
done:
    free(later), free(search.names), free(search.inside), free(search.rows);
    free(search.stack), free(search.depths), free(search.entered);
    return outcome;
}
