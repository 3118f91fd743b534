/* All loops for one processor kind: dispatch.c includes this file once per kind, with NAME() set to its suffix. */
#include "tiles.h"
#include "dot_loops.h"
#include "pair_loops.h"
#include "clique_loops.h"
#include "gaussian_loops.h"

static const SimdLoops NAME(simd) = {
    NAME(rows_by_queries), NAME(slots_by_query), NAME(tile_6x16), NAME(tile_1x64), NAME(square), NAME(mix),
    NAME(weigh), NAME(length), NAME(collect), NAME(second_order), NAME(order), NAME(cliques)};
static const GaussianLoops NAME(gaussian_loops) = {
    NAME(add_outer), NAME(add_log_likelihood), NAME(class_products), NAME(standardize), NAME(centre)};
