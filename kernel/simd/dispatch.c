#include "dispatch.h"
#include "../gaussian_classes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LANES 8
#define FEW_WORDS 2 /* words per row up to which a graph is searched as it is */

#if VECTORS
typedef float Lanes __attribute__((vector_size(32)));
#define LOAD(lanes, from) memcpy(&(lanes), (from), sizeof(Lanes))
#define JOIN(sum, other) ((sum) += (other))
#define FETCH(from) __builtin_prefetch(from)
#define FETCH_TO_WRITE(from) __builtin_prefetch((from), 1)
#define SPREAD(lanes, value) ((lanes) = (value) - (Lanes){0})
#define ADD_TO(to, sum) \
    do { Lanes there_; LOAD(there_, (to)); there_ += (sum); memcpy((to), &there_, sizeof there_); } while (0)
#define ADD_PRODUCT(sum, a, b) ((sum) += (a) * (b))
#define ADD_SCALED(sum, a, b) ((sum) += (a) * (b))
#else
typedef struct { float at[LANES]; } Lanes;
#define LOAD(lanes, from) memcpy((lanes).at, (from), sizeof(Lanes))
#define SPREAD(lanes, value) \
    do { for (int lane_ = 0; lane_ < LANES; lane_++) (lanes).at[lane_] = (value); } while (0)
#define JOIN(sum, other) \
    do { for (int lane_ = 0; lane_ < LANES; lane_++) (sum).at[lane_] += (other).at[lane_]; } while (0)
#define FETCH(from) ((void)(from))
#define FETCH_TO_WRITE(from) ((void)(from))
#define ADD_TO(to, sum) \
    do { for (int lane_ = 0; lane_ < LANES; lane_++) (to)[lane_] += (sum).at[lane_]; } while (0)
#define ADD_PRODUCT(sum, a, b) \
    do { for (int lane_ = 0; lane_ < LANES; lane_++) (sum).at[lane_] += (a).at[lane_] * (b).at[lane_]; } while (0)
#define ADD_SCALED(sum, a, b) \
    do { for (int lane_ = 0; lane_ < LANES; lane_++) (sum).at[lane_] += (a) * (b).at[lane_]; } while (0)
#endif

/* The depth of the next panel of a product, as in OpenBLAS on x86-64. */
static inline ptrdiff_t depth(ptrdiff_t left) { return left >= 640 ? 320 : left > 320 ? (left + 1) / 2 : left; }

#define BINS 256

/* Keep only the values that can have the rank `*keep`, and make it the rank among them. One pass counts values in
   bins of equal width, a second one picks a bin; neither has branches that depend on the values. */
static ptrdiff_t keep_bin_of_rank(float *values, ptrdiff_t count, ptrdiff_t *keep)
{
    float lowest = values[0], highest = values[0];
    for (ptrdiff_t at = 1; at < count; at++) {
        lowest = values[at] < lowest ? values[at] : lowest;
        highest = values[at] > highest ? values[at] : highest;
    }
    float bins = (BINS - 1) / (highest - lowest);
    if (!(bins > 0 && bins < INFINITY && highest - lowest < INFINITY)) return count;
    int32_t number[BINS] = {0};
    for (ptrdiff_t at = 0; at < count; at++) number[(int)((values[at] - lowest) * bins)]++;
    int bin = BINS - 1;
    for (; *keep > number[bin]; bin--) *keep -= number[bin];
    ptrdiff_t left = 0;
    for (ptrdiff_t at = 0; at < count; at++) {
        int belongs = (int)((values[at] - lowest) * bins) == bin;
        values[left] = values[at];
        left += belongs;
    }
    return left;
}

float nth_largest(float *values, ptrdiff_t count, ptrdiff_t keep)
{
    for (ptrdiff_t before = 0; count > 16 && count != before;) {
        before = count;
        count = keep_bin_of_rank(values, count, &keep);
    }
    ptrdiff_t low = 0, high = count - 1, place = keep - 1;
    while (low < high) {
        float pivot = values[low + (high - low) / 2];
        ptrdiff_t i = low, j = high;
        while (i <= j) {
            while (values[i] > pivot) i++;
            while (values[j] < pivot) j--;
            if (i <= j) {
                float value = values[i];
                values[i++] = values[j];
                values[j--] = value;
            }
        }
        if (place <= j) high = j;
        else if (place >= i) low = i;
        else break;
    }
    return values[place];
}

void keep_largest(Pairs *pairs)
{
    memcpy(pairs->scratch, pairs->values, (size_t)pairs->filled * sizeof(float));
    float least = nth_largest(pairs->scratch, pairs->filled, pairs->keep);
    ptrdiff_t equals = pairs->keep, left = 0;
    for (ptrdiff_t at = 0; at < pairs->filled; at++) equals -= pairs->values[at] > least;
    for (ptrdiff_t at = 0; at < pairs->filled; at++) {
        if (!(pairs->values[at] > least || (pairs->values[at] == least && equals-- > 0))) continue;
        pairs->values[left] = pairs->values[at];
        pairs->left[left] = pairs->left[at];
        pairs->right[left++] = pairs->right[at];
    }
    pairs->filled = left;
    pairs->cut = least;
}

static int grow_buffer(void **block, ptrdiff_t *room, ptrdiff_t needed, size_t item)
{
    if (needed <= *room) return 0;
    ptrdiff_t more = *room * 2 > needed ? *room * 2 : needed + 64;
    void *larger = realloc(*block, (size_t)more * item);
    if (!larger) return -1;
    *block = larger;
    *room = more;
    return 0;
}

int add_clique(Cliques *found, const int32_t *nodes, ptrdiff_t size)
{
    if (grow_buffer((void **)&found->nodes, &found->room, found->filled + size, sizeof(int32_t)) ||
        grow_buffer((void **)&found->starts, &found->starts_room, found->count + 2, sizeof(ptrdiff_t)))
        return -1;
    if (size) memcpy(found->nodes + found->filled, nodes, (size_t)size * sizeof(int32_t));
    found->starts[found->count] = found->filled;
    found->filled += size;
    found->starts[++found->count] = found->filled;
    return 0;
}

#if VECTORS
/* One bit per lane whose mask is set. */
static inline uint32_t lanes_set(const void *masks)
{
    int32_t at[LANES];
    uint32_t set = 0;
    memcpy(at, masks, sizeof at);
    for (int lane = 0; lane < LANES; lane++) set |= (uint32_t)(at[lane] & 1) << lane;
    return set;
}
#endif

#define NAME(name) name##_any
#define SET(masks) lanes_set(&(masks))
#include "loops.h"
#undef NAME
#undef SET

#if VECTORS && defined(__x86_64__) && !defined(ANY_PROCESSOR)
#define HAS_AVX2
#include <immintrin.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,bmi,bmi2,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,bmi,bmi2,popcnt")
#endif
#define NAME(name) name##_avx2
#define SET(masks) (uint32_t)_mm256_movemask_ps((__m256)(masks))
#include "loops.h"
#undef NAME
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

const SimdLoops *simd = &simd_any;
const GaussianLoops *gaussian_loops = &gaussian_loops_any;

void choose_simd_loops(void)
{
#ifdef HAS_AVX2
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") &&
        __builtin_cpu_supports("popcnt")) {
        simd = &simd_avx2;
        gaussian_loops = &gaussian_loops_avx2;
    }
#endif
}
