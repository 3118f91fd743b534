/* Products of rows with queries, and weighted sums of rows. Included by loops.h, once per processor kind. */

/* Up to eight rows with one column. A tile with unused rows is faster than two single rows. */
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

static void NAME(weigh)(const float *rows, ptrdiff_t stride, const int32_t *which, const float *weights,
                        ptrdiff_t count,
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
