/* cosmic_tta.core._kernel: compiled versions of functions that also exist in Python, listed by the file of kernel/ that
   defines them. The comment above each definition gives its arguments; the calling Python function says what it is
   for. */
#include "module.h"
#include "../simd/dispatch.h"

static PyMethodDef functions[] = {
    /* dots.c */
    {"dots", kernel_dots, METH_VARARGS, "Dot products of rows with queries."},
    /* softmax.c */
    {"softmax", kernel_softmax, METH_VARARGS, "Softmax of scaled values."},
    /* gaussian_classes.c */
    {"gaussian_score", kernel_gaussian_score, METH_VARARGS, "The log-likelihoods of a sample under each class."},
    {"gaussian_relabel", kernel_gaussian_relabel, METH_VARARGS, "Label samples anew and add them to class sums."},
    /* cosmic/cache_insert.c */
    {"cache_insert", kernel_cache_insert, METH_VARARGS, "Offer a sample to a class cache."},
    /* cosmic/prototypes.c */
    {"slot_dots", kernel_slot_dots, METH_VARARGS, "Dot products of a cache's filled slots with queries."},
    {"attend", kernel_attend, METH_VARARGS, "Attention weights, and cosines of a query with the centres they make."},
    {"mix_centres", kernel_mix_centres, METH_VARARGS, "Centres from attention weights."},
    {"slot_votes", kernel_slot_votes, METH_VARARGS, "The sum of affinities of each class's slots."},
    /* cosmic/view_selection.c */
    {"select_confident_views", kernel_select_confident_views, METH_VARARGS,
     "The confident views of an image and their pseudo-label."},
    {"joint_pseudo_label", kernel_joint_pseudo_label, METH_VARARGS,
     "The pseudo-label of two predictions together, and its entropy."},
    /* cosmic/similarity.c */
    {"update_similarity", kernel_update_similarity, METH_VARARGS, "Update a similarity matrix where nodes changed."},
    {"similarity_rows", kernel_similarity_rows, METH_VARARGS, "Some rows of a similarity matrix."},
    {"collect_pairs", kernel_collect_pairs, METH_VARARGS, "List the most similar pairs."},
    /* cosmic/gram_cache.c */
    {"gram_add_row", kernel_gram_add_row, METH_VARARGS, "Products of one cached sample with all rows."},
    {"gram_fill_similarity", kernel_gram_fill_similarity, METH_VARARGS,
     "Similarities of centres from cached products."},
    /* cosmic/density.c */
    {"degree_threshold", kernel_degree_threshold, METH_VARARGS, "The threshold of a mean degree."},
    {"degeneracy_threshold", kernel_degeneracy_threshold, METH_VARARGS, "The threshold of a degeneracy."},
    /* cosmic/class_graph.c */
    {"connect_pairs", kernel_connect_pairs, METH_VARARGS, "The graph of listed pairs."},
    {"connect_above", kernel_connect_above, METH_VARARGS, "The graph of similarities."},
    {"second_order", kernel_second_order, METH_VARARGS, "Edges whose ends have common neighbours."},
    /* cosmic/cliques.c */
    {"maximal_cliques", kernel_maximal_cliques, METH_VARARGS, "Maximal cliques."},
    /* cosmic/hyperclasses.c */
    {"graph_cliques", kernel_graph_cliques, METH_VARARGS, "The cliques of the graph of a similarity matrix."},
    {"clique_lengths", kernel_clique_lengths, METH_VARARGS, "Lengths of the sums of the cliques' rows."},
    {"nearest_hyperclasses", kernel_nearest_hyperclasses, METH_VARARGS,
     "The nodes of the nearest cliques, and their scores."},
    /* cosmic/fusion.c */
    {"fuse_branches", kernel_fuse_branches, METH_VARARGS, "The weighted sum of the branches."},
    /* cosmic/fused_step_config.c */
    {"fused_step_config", kernel_fused_step_config, METH_VARARGS, "The configuration of fused steps, in a capsule."},
    /* cosmic/fused_step.c */
    {"fused_css_step", kernel_fused_css_step, METH_VARARGS, "A learning step of the CLIP space."},
    {"fused_afv_step", kernel_fused_afv_step, METH_VARARGS, "A learning step of the auxiliary space, and the fusion."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_kernel", "Compiled functions of the engine.", -1,
                                        functions,
                                        NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernel(void)
{
    choose_simd_loops();
    return PyModule_Create(&definition);
}
