/* restore_corners.c: aligned corners of resizes by a factor. Between the first and the last position, which are
 * aligned, PyTorch counts a whole number of positions. ONNX's Resize by scales also counts the fraction that
 * rounding removed. The same Resize by sizes, floor(size * factor), reads the same positions as PyTorch. */
#include "restore_nodes.h"
#include <math.h>
#include <string.h>

enum { SCALES = 2, SIZES = 3 };

static tc_value *add_cast(tc_restore_nodes *nodes, tc_value *x, tc_dtype to) {
    tc_value *cast = tc_restore_add(nodes, "Cast", x, NULL, NULL);
    tc_attr_set_int(cast->producer, "to", to);
    return cast;
}

static tc_value *add_slice(tc_restore_nodes *nodes, tc_value *x, int64_t from, int64_t to) {
    return tc_restore_add(nodes, "Slice", x, tc_restore_int(nodes, from), tc_restore_int(nodes, to));
}

/* The leading axes, with factor 1, keep their length, also if it is a symbol. */
static void go_by_sizes(tc_restore *r, tc_node *resize, int64_t kept, int64_t rank) {
    tc_restore_nodes nodes = tc_restore_before(r, resize, "size");
    tc_value *shape = tc_restore_add(&nodes, "Shape", tc_input(resize, 0), NULL, NULL);
    tc_value *size = add_cast(&nodes, add_slice(&nodes, shape, kept, rank), TC_FLOAT);
    tc_value *factors = add_slice(&nodes, tc_input(resize, SCALES), kept, rank);
    tc_value *longer = tc_restore_add(&nodes, "Mul", size, factors, NULL);
    tc_value *whole = tc_restore_add(&nodes, "Floor", longer, NULL, NULL);
    tc_value *head = add_slice(&nodes, shape, 0, kept), *tail = add_cast(&nodes, whole, TC_INT64);
    tc_value *sizes = tc_restore_add(&nodes, "Concat", head, tail, NULL);
    tc_attr_set_int(sizes->producer, "axis", 0);
    tc_node_set_input(resize, SIZES, sizes);
    tc_node_set_input(resize, SCALES, NULL);
}

/* The factors, which TorchScript combines by a Concat; 0: they are not known. */
static uint64_t read_factors(const tc_value *scales, double out_factors[TC_MAX_RANK]) {
    const tc_node *concat =
        scales && scales->producer && tc_node_is(scales->producer, "", "Concat") ? scales->producer : NULL;
    uint64_t n = 0;
    for (uint32_t i = 0; i < (concat ? concat->n_inputs : 1); i++) {
        const tc_value *part = concat ? tc_input(concat, i) : scales;
        const tc_tensor *factors = part ? tc_value_constant(part) : NULL;
        if (!factors || !factors->data || factors->dtype != TC_FLOAT || n + factors->count > TC_MAX_RANK)
            return 0;
        for (uint64_t k = 0; k < factors->count; k++)
            out_factors[n++] = tc_tensor_get(factors, k);
    }
    return n;
}

static bool by_factors(const tc_node *node) {
    return tc_node_is(node, "", "Resize") && !tc_input(node, SIZES) && tc_input(node, 0) && tc_output(node, 0) &&
           !tc_attr_find(node, "axes") &&
           strcmp(tc_attr_string(node, "coordinate_transformation_mode", ""), "align_corners") == 0;
}

tc_status tc_restore_corners(tc_restore *r) {
    const char *producer = r->graph->model->info.producer_name;
    if (!producer || strcmp(producer, "pytorch") != 0)
        return TC_OK;
    TC_FOR_NODES(node, r->graph) {
        double factors[TC_MAX_RANK];
        if (!by_factors(node))
            continue;
        uint64_t rank = read_factors(tc_input(node, SCALES), factors), kept = 0;
        bool whole = true;
        while (kept < rank && factors[kept] == 1)
            kept++;
        for (uint64_t i = kept; i < rank; i++)
            whole &= factors[i] == floor(factors[i]);
        if (!whole)
            go_by_sizes(r, node, (int64_t)kept, (int64_t)rank);
    }
    return TC_OK;
}
