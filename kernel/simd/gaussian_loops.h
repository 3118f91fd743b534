/* Loops over class sums. Included by loops.h, once per processor kind.

   A tile is six classes by sixteen numbers, in twelve named vector sums: an array of them would not stay in
   registers. At a thousand classes the sums exceed every cache, and the loops wait for memory. So they access it in
   order, or prefetch the next part. */

#define ROW(sum_low, sum_high, factor) \
    do { SPREAD(scale, (factor)); ADD_PRODUCT(sum_low, scale, low); ADD_PRODUCT(sum_high, scale, high); } while (0)
#define ADD_ROW(to, sum_low, sum_high) \
    do { ADD_TO((to), sum_low); ADD_TO((to) + LANES, sum_high); } while (0)

/* out[r · room][0 ... 15] += Σ_s left[s · step + r · stride] · right[s][0 ... 15]; the
   next part is prefetched from `ahead` on, unless that is NULL */
static inline void NAME(outer_6x16)(const float *left, ptrdiff_t step, ptrdiff_t stride, const float *right,
                                    ptrdiff_t steps, float *out, ptrdiff_t room, const float *ahead)
{
    Lanes a0 = {0}, a1 = {0}, b0 = {0}, b1 = {0}, c0 = {0}, c1 = {0}, d0 = {0}, d1 = {0}, e0 = {0}, e1 = {0};
    Lanes f0 = {0}, f1 = {0}, low, high, scale;
    const float *later = left + 3 * stride;
    for (ptrdiff_t s = 0; s < steps; s++, left += step, later += step, right += WIDE) {
        if (ahead) FETCH(ahead + s * HIGH);
        LOAD(low, right);
        LOAD(high, right + LANES);
        ROW(a0, a1, left[0]); ROW(b0, b1, left[stride]); ROW(c0, c1, left[2 * stride]);
        ROW(d0, d1, later[0]); ROW(e0, e1, later[stride]); ROW(f0, f1, later[2 * stride]);
    }
    ADD_ROW(out, a0, a1); ADD_ROW(out + room, b0, b1); ADD_ROW(out + 2 * room, c0, c1);
    out += 3 * room;
    ADD_ROW(out, d0, d1); ADD_ROW(out + room, e0, e1); ADD_ROW(out + 2 * room, f0, f1);
}

/* The same for one class. */
static inline void NAME(outer_1x16)(const float *left, ptrdiff_t step, const float *right, ptrdiff_t steps, float *out)
{
    Lanes a0 = {0}, a1 = {0}, low, high, scale;
    for (ptrdiff_t s = 0; s < steps; s++, left += step, right += WIDE) {
        LOAD(low, right);
        LOAD(high, right + LANES);
        ROW(a0, a1, left[0]);
    }
    ADD_ROW(out, a0, a1);
}
#undef ROW
#undef ADD_ROW

static void NAME(add_outer)(float *sums, ptrdiff_t classes, ptrdiff_t width, const float *labels, const float *rows,
                            ptrdiff_t number, float *workspace)
{
    if (number == 1) {
        for (ptrdiff_t k = 0; k < classes; k++, sums += width)
            for (ptrdiff_t d = 0; d < width; d++) sums[d] += labels[k] * rows[d];
        return;
    }
    ptrdiff_t whole = width - width % WIDE;
    float weights[BATCH * HIGH];
    /* Tiles of the samples lie one after the other: [D / 16, B, 16]. */
    for (ptrdiff_t b = 0; b < number; b++)
        for (ptrdiff_t d = 0; d < whole; d += WIDE)
            memcpy(workspace + d * number + b * WIDE, rows + b * width + d, WIDE * sizeof(float));
    for (ptrdiff_t from = 0; from < whole; from += NEAR) {
        ptrdiff_t to = from + NEAR < whole ? from + NEAR : whole;
        for (ptrdiff_t k = 0; k < classes; k += HIGH) {
            ptrdiff_t high = classes - k < HIGH ? classes - k : HIGH;
            for (ptrdiff_t b = 0; b < number; b++)
                for (ptrdiff_t r = 0; r < high; r++) weights[b * HIGH + r] = labels[b * classes + k + r];
            for (ptrdiff_t d = from; d < to; d += WIDE) {
                const float *near = workspace + d * number;
                float *out = sums + k * width + d;
                for (ptrdiff_t r = HIGH; r < 2 * HIGH && k + r < classes; r++) FETCH_TO_WRITE(out + r * width);
                if (high == HIGH) NAME(outer_6x16)(weights, HIGH, 1, near, number, out, width, NULL);
                else
                    for (ptrdiff_t r = 0; r < high; r++)
                        NAME(outer_1x16)(weights + r, HIGH, near, number, out + r * width);
            }
        }
    }
    if (whole == width) return;
    for (ptrdiff_t k = 0; k < classes; k++)
        for (ptrdiff_t d = whole; d < width; d++) {
            float sum = 0;
            for (ptrdiff_t b = 0; b < number; b++) sum += labels[b * classes + k] * rows[b * width + d];
            sums[k * width + d] += sum;
        }
}

static void NAME(add_log_likelihood)(const float *sums, ptrdiff_t classes, ptrdiff_t width, ptrdiff_t stride,
                                     const float *rows, ptrdiff_t number, const float *along, const float *level,
                                     const float *slope, const float *soft_count, float *out, float *workspace)
{
    /* Samples interleaved and padded with zeros, [D, 16], and their products with the classes, [K, 16]. */
    float *products = workspace + width * BATCH;
    for (ptrdiff_t d = 0; d < width; d++)
        for (ptrdiff_t b = 0; b < BATCH; b++) workspace[d * BATCH + b] = b < number ? rows[b * stride + d] : 0;
    memset(products, 0, (size_t)(classes * BATCH) * sizeof(float));
    for (ptrdiff_t from = 0; from < width; from += NEAR) {
        ptrdiff_t steps = width - from < NEAR ? width - from : NEAR;
        const float *near = workspace + from * BATCH;
        for (ptrdiff_t k = 0; k < classes; k += HIGH) {
            ptrdiff_t high = classes - k < HIGH ? classes - k : HIGH;
            const float *sum = sums + k * stride + from;
            float *product = products + k * BATCH;
            const float *ahead = k + 2 * HIGH <= classes ? sum + HIGH * stride : NULL;
            if (high == HIGH) NAME(outer_6x16)(sum, 1, stride, near, steps, product, BATCH, ahead);
            else
                for (ptrdiff_t r = 0; r < high; r++)
                    NAME(outer_1x16)(sum + r * stride, 1, near, steps, product + r * BATCH);
        }
    }
    for (ptrdiff_t b = 0; b < number; b++, out += classes)
        for (ptrdiff_t k = 0; k < classes; k++)
            out[k] += level[k] + slope[k] * (products[k * BATCH + b] - along[b] * soft_count[k]);
}

static void NAME(class_products)(const float *sums, ptrdiff_t classes, ptrdiff_t width, ptrdiff_t stride,
                                 const float *x, const float *g, float *out)
{
    ptrdiff_t whole = width - width % WIDE;
    for (ptrdiff_t k = 0; k < classes; k++, sums += stride) {
        Lanes x0 = {0}, x1 = {0}, g0 = {0}, g1 = {0}, s0 = {0}, s1 = {0}, left, right, query;
        for (ptrdiff_t d = 0; d < whole; d += WIDE) {
            LOAD(left, sums + d); LOAD(right, sums + d + LANES);
            ADD_PRODUCT(s0, left, left); ADD_PRODUCT(s1, right, right);
            LOAD(query, x + d); ADD_PRODUCT(x0, left, query);
            LOAD(query, x + d + LANES); ADD_PRODUCT(x1, right, query);
            LOAD(query, g + d); ADD_PRODUCT(g0, left, query);
            LOAD(query, g + d + LANES); ADD_PRODUCT(g1, right, query);
        }
        JOIN(x0, x1); JOIN(g0, g1); JOIN(s0, s1);
        out[k] = NAME(total)(&x0, sums, x, whole, width);
        out[classes + k] = NAME(total)(&g0, sums, g, whole, width);
        out[2 * classes + k] = NAME(total)(&s0, sums, sums, whole, width);
    }
}

static void NAME(make_unit)(float *row, ptrdiff_t width)
{
    float length = sqrtf(NAME(dot)(row, row, width));
    if (!(length > 0)) return;
    length = 1 / length;
    for (ptrdiff_t d = 0; d < width; d++) row[d] *= length;
}

static void NAME(standardize)(const float *row, const float *centre, const float *scale, ptrdiff_t width, float *out)
{
    for (ptrdiff_t d = 0; d < width; d++) out[d] = (row[d] - centre[d]) * scale[d];
    NAME(make_unit)(out, width);
}

static float NAME(centre)(const float *row, const float *mean, ptrdiff_t width, float *out)
{
    for (ptrdiff_t d = 0; d < width; d++) out[d] = row[d] - mean[d];
    NAME(make_unit)(out, width);
    return NAME(dot)(out, mean, width);
}
