/* restore_corners.c: aligned corners of resizes by a factor. Between the first and the last place, which are aligned,
 * PyTorch counts the places that a size in whole numbers has; ONNX's Resize by scales counts the part of a place that
 * rounding left over, too. The same Resize by sizes, floor(size * factor), reads where PyTorch does. */
#include "restore.h"
#include <math.h>
#include <string.h>

enum { SCALES = 2, SIZES = 3 };

typedef struct corners {
    tc_graph *graph;
    tc_node *resize;
    const char *name;
} corners;

/* A new node before the resize. */
static tc_value *add(const corners *c, const char *op_type, tc_value *const *operands, uint32_t n) {
    tc_node *node = tc_node_create(c->graph, "", op_type, n, 1);
    for (uint32_t i = 0; i < n; i++)
        tc_node_set_input(node, i, operands[i]);
    tc_node_insert_before(node, c->resize);
    return tc_node_add_output(node, 0, c->name, NULL);
}

static tc_value *add_cast(const corners *c, tc_value *x, tc_dtype to) {
    tc_value *cast = add(c, "Cast", &x, 1);
    tc_attr_set_int(cast->producer, "to", to);
    return cast;
}

static tc_value *ints(const corners *c, int64_t value) {
    return tc_constant(c->graph, c->name, tc_tensor_ints(c->graph->model, &value, 1));
}

static tc_value *add_slice(const corners *c, tc_value *x, int64_t from, int64_t to) {
    tc_value *operands[] = {x, ints(c, from), ints(c, to)};
    return add(c, "Slice", operands, TC_COUNT(operands));
}

/* The axes in front, of factor 1, stay as long as they are, also where that is a symbol. */
static void go_by_sizes(const corners *c, int64_t kept, int64_t rank) {
    tc_value *x = tc_input(c->resize, 0), *shape = add(c, "Shape", &x, 1);
    tc_value *product[] = {add_cast(c, add_slice(c, shape, kept, rank), TC_FLOAT),
                           add_slice(c, tc_input(c->resize, SCALES), kept, rank)};
    tc_value *longer = add(c, "Mul", product, TC_COUNT(product)), *whole = add(c, "Floor", &longer, 1);
    tc_value *parts[] = {add_slice(c, shape, 0, kept), add_cast(c, whole, TC_INT64)};
    tc_value *sizes = add(c, "Concat", parts, TC_COUNT(parts));
    tc_attr_set_int(sizes->producer, "axis", 0);
    tc_node_set_input(c->resize, SIZES, sizes);
    tc_node_set_input(c->resize, SCALES, NULL);
}

/* The factors, which TorchScript puts together by a Concat; 0: they are not known. */
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
        const corners c = {r->graph, node, tc_arena_printf(r->arena, "%s_size", node->outputs[0]->name)};
        if (!whole)
            go_by_sizes(&c, (int64_t)kept, (int64_t)rank);
    }
    return TC_OK;
}
