/* Dot products of several rows at a time. Included by loops.h, once per processor kind.

   The order of additions is the same in every tile. So single queries and blocks of them give the same bits, and so
   do a new matrix and an updated one. Queries are summed in eight lanes. Similarities are summed in order, in
   panels, as BLAS libraries do: there the last bit can decide between two graphs. Sums are named variables, because
   an array of them would not stay in registers. */

static inline float NAME(total)(const Lanes *sum, const float *row, const float *column, ptrdiff_t whole,
                                ptrdiff_t width)
{
    float at[LANES];
    memcpy(at, sum, sizeof at);
    float total = ((at[0] + at[4]) + (at[2] + at[6])) + ((at[1] + at[5]) + (at[3] + at[7]));
    for (ptrdiff_t d = whole; d < width; d++) total += row[d] * column[d];
    return total;
}

static inline float NAME(dot)(const float *row, const float *column, ptrdiff_t width)
{
    Lanes sum = {0}, left, right;
    ptrdiff_t whole = width - width % LANES;
    for (ptrdiff_t d = 0; d < whole; d += LANES) {
        LOAD(left, row + d);
        LOAD(right, column + d);
        ADD_PRODUCT(sum, left, right);
    }
    return NAME(total)(&sum, row, column, whole, width);
}

/* Eight rows with one column. */
static inline void NAME(tile_8x1)(const float *const *rows, const float *column, ptrdiff_t width, float *out)
{
    Lanes s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, s4 = {0}, s5 = {0}, s6 = {0}, s7 = {0}, left, right;
    const float *r0 = rows[0], *r1 = rows[1], *r2 = rows[2], *r3 = rows[3];
    const float *r4 = rows[4], *r5 = rows[5], *r6 = rows[6], *r7 = rows[7];
    ptrdiff_t whole = width - width % LANES;
    for (ptrdiff_t d = 0; d < whole; d += LANES) {
        LOAD(right, column + d);
        LOAD(left, r0 + d); ADD_PRODUCT(s0, left, right);
        LOAD(left, r1 + d); ADD_PRODUCT(s1, left, right);
        LOAD(left, r2 + d); ADD_PRODUCT(s2, left, right);
        LOAD(left, r3 + d); ADD_PRODUCT(s3, left, right);
        LOAD(left, r4 + d); ADD_PRODUCT(s4, left, right);
        LOAD(left, r5 + d); ADD_PRODUCT(s5, left, right);
        LOAD(left, r6 + d); ADD_PRODUCT(s6, left, right);
        LOAD(left, r7 + d); ADD_PRODUCT(s7, left, right);
    }
    const Lanes sums[8] = {s0, s1, s2, s3, s4, s5, s6, s7};
    for (int r = 0; r < 8; r++) out[r] = NAME(total)(&sums[r], rows[r], column, whole, width);
}

/* Four rows with three columns, into out[row * 3 + column]. */
static inline void NAME(tile_4x3)(const float *const *rows, const float *const *columns, ptrdiff_t width, float *out)
{
    Lanes s00 = {0}, s01 = {0}, s02 = {0}, s10 = {0}, s11 = {0}, s12 = {0};
    Lanes s20 = {0}, s21 = {0}, s22 = {0}, s30 = {0}, s31 = {0}, s32 = {0}, left, c0, c1, c2;
    const float *r0 = rows[0], *r1 = rows[1], *r2 = rows[2], *r3 = rows[3];
    const float *k0 = columns[0], *k1 = columns[1], *k2 = columns[2];
    ptrdiff_t whole = width - width % LANES;
    for (ptrdiff_t d = 0; d < whole; d += LANES) {
        LOAD(c0, k0 + d); LOAD(c1, k1 + d); LOAD(c2, k2 + d);
        LOAD(left, r0 + d); ADD_PRODUCT(s00, left, c0); ADD_PRODUCT(s01, left, c1); ADD_PRODUCT(s02, left, c2);
        LOAD(left, r1 + d); ADD_PRODUCT(s10, left, c0); ADD_PRODUCT(s11, left, c1); ADD_PRODUCT(s12, left, c2);
        LOAD(left, r2 + d); ADD_PRODUCT(s20, left, c0); ADD_PRODUCT(s21, left, c1); ADD_PRODUCT(s22, left, c2);
        LOAD(left, r3 + d); ADD_PRODUCT(s30, left, c0); ADD_PRODUCT(s31, left, c1); ADD_PRODUCT(s32, left, c2);
    }
    const Lanes sums[12] = {s00, s01, s02, s10, s11, s12, s20, s21, s22, s30, s31, s32};
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 3; c++)
            out[r * 3 + c] = NAME(total)(&sums[r * 3 + c], rows[r], columns[c], whole, width);
}

#define SCALED_ROW(r)                                                                                                  \
    left = row##r[d];                                                                                                  \
    ADD_SCALED(s##r##0, left, c0);                                                                                     \
    ADD_SCALED(s##r##1, left, c1);

/* Six rows, anywhere, with a panel of sixteen columns, interleaved as [width, 16], into out[row * 16 + column]. */
static void NAME(tile_6x16)(const float *const *rows, const float *panel, ptrdiff_t width, float *out)
{
    const float *row0 = rows[0], *row1 = rows[1], *row2 = rows[2], *row3 = rows[3], *row4 = rows[4], *row5 = rows[5];
    for (ptrdiff_t from = 0; from < width;) {
        Lanes s00 = {0}, s01 = {0}, s10 = {0}, s11 = {0}, s20 = {0}, s21 = {0};
        Lanes s30 = {0}, s31 = {0}, s40 = {0}, s41 = {0}, s50 = {0}, s51 = {0}, c0, c1;
        float left;
        ptrdiff_t to = from + depth(width - from);
        for (ptrdiff_t d = from; d < to; d++) {
            LOAD(c0, panel + d * 16);
            LOAD(c1, panel + d * 16 + LANES);
            SCALED_ROW(0) SCALED_ROW(1) SCALED_ROW(2) SCALED_ROW(3) SCALED_ROW(4) SCALED_ROW(5)
        }
        const Lanes sums[12] = {s00, s01, s10, s11, s20, s21, s30, s31, s40, s41, s50, s51};
        if (from == 0)
            memcpy(out, sums, sizeof sums);
        else {
            float more[96];
            memcpy(more, sums, sizeof sums);
            for (int at = 0; at < 96; at++) out[at] += more[at];
        }
        from = to;
    }
    if (width == 0) memset(out, 0, 96 * sizeof(float));
}
#undef SCALED_ROW

/* One row with four panels, anywhere, into out[column], 64 of them. */
static void NAME(tile_1x64)(const float *row, const float *const *panels, ptrdiff_t width, float *out)
{
    const float *p0 = panels[0], *p1 = panels[1], *p2 = panels[2], *p3 = panels[3];
    for (ptrdiff_t from = 0; from < width;) {
        Lanes s00 = {0}, s01 = {0}, s10 = {0}, s11 = {0}, s20 = {0}, s21 = {0}, s30 = {0}, s31 = {0}, c;
        float left;
        ptrdiff_t to = from + depth(width - from);
        for (ptrdiff_t d = from; d < to; d++) {
            left = row[d];
            LOAD(c, p0 + d * 16); ADD_SCALED(s00, left, c); LOAD(c, p0 + d * 16 + LANES); ADD_SCALED(s01, left, c);
            LOAD(c, p1 + d * 16); ADD_SCALED(s10, left, c); LOAD(c, p1 + d * 16 + LANES); ADD_SCALED(s11, left, c);
            LOAD(c, p2 + d * 16); ADD_SCALED(s20, left, c); LOAD(c, p2 + d * 16 + LANES); ADD_SCALED(s21, left, c);
            LOAD(c, p3 + d * 16); ADD_SCALED(s30, left, c); LOAD(c, p3 + d * 16 + LANES); ADD_SCALED(s31, left, c);
        }
        const Lanes sums[8] = {s00, s01, s10, s11, s20, s21, s30, s31};
        if (from == 0)
            memcpy(out, sums, sizeof sums);
        else {
            float more[64];
            memcpy(more, sums, sizeof sums);
            for (int at = 0; at < 64; at++) out[at] += more[at];
        }
        from = to;
    }
    if (width == 0) memset(out, 0, 64 * sizeof(float));
}
