/* The configuration of a fused step, checked once and held in a capsule. */
#include "fused_step.h"

static void free_config(PyObject *capsule) { PyMem_Free(PyCapsule_GetPointer(capsule, FUSED_STEP_CONFIG)); }

static int check_graph_query(const GraphQuery *query)
{
    if (check_clique_search(&query->search) < 0) return -1;
    if (query->ratio >= 0 && query->ratio <= 1) return 0;
    PyErr_SetString(PyExc_ValueError, "ratio must be from 0 to 1");
    return -1;
}

#define GRAPH_QUERY(q)                                                                                               \
    &(q).search.control, &(q).search.value, &(q).search.pairs, &(q).search.common, &(q).search.max_cliques,          \
        &(q).search.max_visits, &(q).ratio, &(q).round_up, &(q).factor, &(q).sharpness

/* fused_step_config(confident, store_plain, joint_label, attention_sharpness, (zero_shot_weight, css_weight,
   afv_weight), css, afv) → capsule. `css` and `afv` are tuples: control, value, pairs, common, max_cliques,
   max_visits, ratio, round_up, factor, sharpness. */
PyObject *kernel_fused_step_config(PyObject *self UNUSED, PyObject *arguments)
{
    FusedStepConfig given, *config;
    if (!PyArg_ParseTuple(arguments, "dppf(fff)(idnLLLdpff)(idnLLLdpff):fused_step_config", &given.confident,
                          &given.store_plain, &given.joint_label, &given.attention_sharpness, &given.weights[0],
                          &given.weights[1], &given.weights[2], GRAPH_QUERY(given.css), GRAPH_QUERY(given.afv)))
        return NULL;
    if (!(given.confident >= 0 && given.confident <= 1)) {
        PyErr_SetString(PyExc_ValueError, "confident must be from 0 to 1");
        return NULL;
    }
    if (check_graph_query(&given.css) < 0 || check_graph_query(&given.afv) < 0) return NULL;
    config = PyMem_Malloc(sizeof *config);
    if (!config) return PyErr_NoMemory();
    *config = given;
    PyObject *capsule = PyCapsule_New(config, FUSED_STEP_CONFIG, free_config);
    if (!capsule) PyMem_Free(config);
    return capsule;
}
