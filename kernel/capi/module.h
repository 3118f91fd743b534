#ifndef COSMIC_MODULE_H
#define COSMIC_MODULE_H

#include "arrays.h"

/* The functions of the module, by the file that defines them; module.c registers them. */

/* dots.c */
PyObject *kernel_dots(PyObject *, PyObject *);

/* softmax.c */
PyObject *kernel_softmax(PyObject *, PyObject *);

/* gaussian_classes.c */
PyObject *kernel_gaussian_score(PyObject *, PyObject *);
PyObject *kernel_gaussian_relabel(PyObject *, PyObject *);

/* cosmic/cache_insert.c */
PyObject *kernel_cache_insert(PyObject *, PyObject *);

/* cosmic/prototypes.c */
PyObject *kernel_slot_dots(PyObject *, PyObject *);
PyObject *kernel_attend(PyObject *, PyObject *);
PyObject *kernel_mix_centres(PyObject *, PyObject *);
PyObject *kernel_slot_votes(PyObject *, PyObject *);

/* cosmic/view_selection.c */
PyObject *kernel_select_confident_views(PyObject *, PyObject *);
PyObject *kernel_joint_pseudo_label(PyObject *, PyObject *);

/* cosmic/similarity.c */
PyObject *kernel_update_similarity(PyObject *, PyObject *);
PyObject *kernel_similarity_rows(PyObject *, PyObject *);
PyObject *kernel_collect_pairs(PyObject *, PyObject *);

/* cosmic/gram_cache.c */
PyObject *kernel_gram_add_row(PyObject *, PyObject *);
PyObject *kernel_gram_fill_similarity(PyObject *, PyObject *);

/* cosmic/density.c */
PyObject *kernel_degree_threshold(PyObject *, PyObject *);
PyObject *kernel_degeneracy_threshold(PyObject *, PyObject *);

/* cosmic/class_graph.c */
PyObject *kernel_connect_pairs(PyObject *, PyObject *);
PyObject *kernel_connect_above(PyObject *, PyObject *);
PyObject *kernel_second_order(PyObject *, PyObject *);

/* cosmic/cliques.c */
PyObject *kernel_maximal_cliques(PyObject *, PyObject *);

/* cosmic/hyperclasses.c */
PyObject *kernel_graph_cliques(PyObject *, PyObject *);
PyObject *kernel_clique_lengths(PyObject *, PyObject *);
PyObject *kernel_nearest_hyperclasses(PyObject *, PyObject *);

/* cosmic/fusion.c */
PyObject *kernel_fuse_branches(PyObject *, PyObject *);

/* cosmic/fused_step_config.c */
PyObject *kernel_fused_step_config(PyObject *, PyObject *);

/* cosmic/fused_step.c */
PyObject *kernel_fused_css_step(PyObject *, PyObject *);
PyObject *kernel_fused_afv_step(PyObject *, PyObject *);

#endif
