/* cosmic_tta._kernel: the compiled twin of the engine's plain path. What each function does is said where it is defined;
   what it means, by the Python function that calls it. */
#include "arrays.h"
#include "hot.h"

static PyMethodDef functions[] = {
    {"dots", kernel_dots, METH_VARARGS, "Dot products of rows with queries."},
    {"slot_dots", kernel_slot_dots, METH_VARARGS, "Dot products of a cache's filled slots with queries."},
    {"attend", kernel_attend, METH_VARARGS, "Cosines of a query with class centres that attend to it."},
    {"mix", kernel_mix, METH_VARARGS, "Those centres."},
    {"softmax", kernel_softmax, METH_VARARGS, "Softmax of scaled values."},
    {"look", kernel_look, METH_VARARGS, "What the confident views of an image say of it."},
    {"fuse", kernel_fuse, METH_VARARGS, "The weighted sum of the branches."},
    {"learn", kernel_learn, METH_VARARGS, "Let a memory take a sample in."},
    {"vote", kernel_vote, METH_VARARGS, "What the slots of each class add up to."},
    {"doubt", kernel_doubt, METH_VARARGS, "What two predictions favour together, and how sure they are."},
    {"acquaint", kernel_acquaint, METH_VARARGS, "Products of an atom with the others."},
    {"compose", kernel_compose, METH_VARARGS, "Similarities of centres from the products of their atoms."},
    {"refresh", kernel_refresh, METH_VARARGS, "Bring a similarity matrix up to date where nodes changed."},
    {"products", kernel_products, METH_VARARGS, "A few rows of a similarity matrix."},
    {"collect", kernel_collect, METH_VARARGS, "List the most similar pairs."},
    {"degree_threshold", kernel_degree_threshold, METH_VARARGS, "The threshold of a mean degree."},
    {"degeneracy_threshold", kernel_degeneracy_threshold, METH_VARARGS, "The threshold of a degeneracy."},
    {"connect", kernel_connect, METH_VARARGS, "The graph of listed pairs."},
    {"connect_above", kernel_connect_above, METH_VARARGS, "The graph of similarities."},
    {"second_order", kernel_second_order, METH_VARARGS, "Edges whose ends have common neighbours."},
    {"cliques", kernel_cliques, METH_VARARGS, "Maximal cliques."},
    {"build", kernel_build, METH_VARARGS, "From similarities to cliques."},
    {"lengths", kernel_lengths, METH_VARARGS, "Lengths of the sums of the cliques' rows."},
    {"select", kernel_select, METH_VARARGS, "Nodes of the nearest cliques, and their scores."},
    {"advance_attending", kernel_advance_attending, METH_VARARGS, "A step of a space whose centres attend."},
    {"advance_mean", kernel_advance_mean, METH_VARARGS, "A step of a space whose centres are means."},
    {"absorb", kernel_absorb, METH_VARARGS, "Let samples enter class sums."},
    {"compare", kernel_compare, METH_VARARGS, "What class sums say of samples."},
    {"measure", kernel_measure, METH_VARARGS, "Products of class sums with a sample, a mean and themselves."},
    {"heaviest", kernel_heaviest, METH_VARARGS, "Where the largest weights are."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_kernel", "The compiled hot path.", -1, functions,
                                        NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernel(void)
{
    choose_hot();
    return PyModule_Create(&definition);
}
