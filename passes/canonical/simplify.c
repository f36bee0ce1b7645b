/* simplify.c: simplifications that canonical.rules cannot express because they depend on shapes or permutations:
 * nodes without effect, chains of Transpose, of views and of Cast, targets of Reshape, Dropout outside of training.
 * One table row per op. */
#include "passes/draws/draws.h"
#include "compiler/ir/ops.h"
#include "compiler/shape/shape.h"
#include "canonical.h"
#include <math.h>
#include <string.h>

typedef struct simplifier {
    tc_pass_env *env;
    tc_model *model;
    bool warned; /* for Dropouts that drop nothing: once */
} simplifier;

/* --- helpers ---------------------------------------------------------------------------------- */

static void become_identity(tc_node *node) {
    while (node->n_attrs)
        tc_attr_remove(node, node->attrs[0].name);
    tc_node_resize_inputs(node, 1);
    tc_node_resize_outputs(node, 1);
    tc_node_set_op(node, "", "Identity");
}

/* Replaces the node's first result, the only one in use, by `to`. An output of the graph keeps its name: `to` takes
 * it, or an Identity stays. */
static bool alias(tc_node *node, tc_value *to) {
    tc_value *old = node->outputs[0];
    for (uint32_t i = 1; i < node->n_outputs; i++)
        if (node->outputs[i] && tc_value_is_used(node->outputs[i]))
            return false;
    const char *name = old->n_graph_outputs ? old->name : NULL;
    if (name && (!to->producer || to->graph != old->graph || to->n_graph_outputs)) {
        if (tc_node_is(node, "", "Identity"))
            return false;
        tc_node_set_input(node, 0, to);
        become_identity(node);
        return true;
    }
    if (name) {
        to->type = old->type ? old->type : to->type;
        to->origin = old->origin;
    }
    tc_value_replace(old, to);
    tc_node_erase(node);
    if (name)
        tc_value_rename(to, name);
    return true;
}

/* Whether an operand is known and holds nothing but `number`; an absent one counts, too. */
static bool holds_only(tc_model *model, tc_value *value, int64_t number) {
    const tc_tensor *tensor = value && !tc_may_be_trained(value) ? tc_value_constant(value) : NULL;
    const tc_contents *c = tensor ? tc_contents_of_tensor(model, tensor) : value ? value->contents : NULL;
    bool only = c && !tc_dtype_is_float(c->dtype);
    for (uint64_t i = 0; only && i < c->count; i++)
        only = tc_dim_is_const(c->items[i].i) && c->items[i].i.value == number;
    return !value || only;
}

static bool is_constant(const tc_value *value) { return value && tc_value_constant(value) != NULL; }

/* --- nodes without effect --------------------------------------------------------------------- */

static bool drop_same_shape(simplifier *s, tc_node *node) {
    (void)s;
    tc_value *from = tc_input(node, 0);
    return from && tc_same_shape(from, node->outputs[0]) && alias(node, from);
}

static bool known_number(const tc_contents *c, uint64_t i, int64_t *out_number) {
    if (!c || i >= c->count || !tc_dim_is_const(c->items[i].i))
        return false;
    *out_number = c->items[i].i.value;
    return true;
}

/* Whether no dim of more than one element is reversed. A step above 1 keeps the length of a dim only if it has one
 * element. */
static bool goes_forwards(simplifier *s, tc_node *node) {
    tc_value *from = tc_input(node, 0), *axes = tc_input(node, 3), *steps = tc_input(node, 4);
    const tc_contents *step = steps ? tc_value_contents(s->model, steps) : NULL,
                      *axis = axes ? tc_value_contents(s->model, axes) : NULL;
    int64_t rank = tc_value_rank(from), by, at;
    for (uint64_t i = 0; step && i < step->count; i++) {
        if (!known_number(step, i, &by))
            return false;
        if (by > 0)
            continue;
        at = (int64_t)i;
        if (axes && !known_number(axis, i, &at))
            return false;
        at += at < 0 ? rank : 0;
        if (at < 0 || at >= rank || !tc_dim_equal(from->type->dims[at], tc_dim_const(1)))
            return false;
    }
    return !steps || step;
}

/* A Slice with the length of its operand, forwards, is all of it. */
static bool drop_slice(simplifier *s, tc_node *node) {
    return tc_input(node, 0) && tc_same_shape(node->inputs[0].value, node->outputs[0]) && goes_forwards(s, node) &&
           drop_same_shape(s, node);
}
static bool drop_pad(simplifier *s, tc_node *node) {
    return tc_input(node, 1) && holds_only(s->model, tc_input(node, 1), 0) && drop_same_shape(s, node);
}
static bool drop_tile(simplifier *s, tc_node *node) {
    return tc_input(node, 1) && holds_only(s->model, tc_input(node, 1), 1) && drop_same_shape(s, node);
}

/* Whether a Resize to the same shape moves no element. Sizes then mean a factor of 1. Factors may differ slightly
 * from 1 without adding a row, and they determine where elements are read. Linear and nearest do not change an axis
 * that keeps its length, whatever its factor; PyTorch and ONNX Runtime agree. */
static bool reads_in_place(simplifier *s, const tc_node *node) {
    static const char *const moved[] = {"tf_crop_and_resize", "tf_half_pixel_for_nn"};
    const char *places = tc_attr_string(node, "coordinate_transformation_mode", "half_pixel");
    for (size_t i = 0; i < TC_COUNT(moved); i++)
        if (!strcmp(places, moved[i]))
            return false;
    const tc_contents *sizes = tc_input(node, 3) ? tc_value_contents(s->model, tc_input(node, 3)) : NULL;
    if ((tc_input(node, 3) && !(sizes && sizes->count == 0)) ||
        (strcmp(tc_attr_string(node, "mode", "nearest"), "cubic") != 0 && tc_attr_int(node, "antialias", 0) == 0))
        return true;
    const tc_contents *factors = tc_input(node, 2) ? tc_value_contents(s->model, tc_input(node, 2)) : NULL;
    bool ones = factors && tc_dtype_is_float(factors->dtype);
    for (uint64_t i = 0; ones && i < factors->count; i++)
        ones = fabs(factors->items[i].f - 1) <= 0x1p-22;
    return ones;
}
static bool drop_resize(simplifier *s, tc_node *node) {
    return tc_input(node, 0) && tc_same_shape(node->inputs[0].value, node->outputs[0]) && reads_in_place(s, node) &&
           drop_same_shape(s, node);
}
static bool drop_concat(simplifier *s, tc_node *node) {
    (void)s;
    return node->n_inputs == 1 && alias(node, tc_input(node, 0));
}

static bool drop_dropout(simplifier *s, tc_node *node) {
    const tc_tensor *ratio = tc_input(node, 1) ? tc_value_constant(tc_input(node, 1)) : NULL;
    if (ratio && ratio->data && ratio->count == 1 && tc_tensor_get(ratio, 0) == 0) /* x / (1 - 0), nothing dropped */
        return alias(node, tc_input(node, 0));
    if (!holds_only(s->model, tc_input(node, 2), 0))
        return false;
    const char *label = tc_node_label(node);
    if (!alias(node, tc_input(node, 0)))
        return false;
    if (!s->warned) {
        s->warned = true;
        tc_warn(s->env->ctx, NULL, "Dropout \"%s\" has no training_mode and drops nothing, probably by mistake", label);
        tc_hint_dropout(s->env->ctx);
    }
    return true;
}

/* --- Cast ------------------------------------------------------------------------------------- */

static bool holds_every(tc_dtype wide, tc_dtype narrow) {
    static const struct {
        tc_dtype narrow, wide;
    } pairs[] = {
        {TC_FLOAT16, TC_FLOAT}, {TC_FLOAT16, TC_DOUBLE}, {TC_BFLOAT16, TC_FLOAT}, {TC_BFLOAT16, TC_DOUBLE},
        {TC_FLOAT, TC_DOUBLE},  {TC_INT32, TC_INT64},    {TC_INT32, TC_DOUBLE},   {TC_UINT8, TC_INT32},
        {TC_UINT8, TC_INT64},   {TC_UINT8, TC_FLOAT},    {TC_INT8, TC_INT32},     {TC_INT8, TC_INT64},
        {TC_INT8, TC_FLOAT},    {TC_INT16, TC_INT32},    {TC_INT16, TC_INT64},    {TC_BOOL, TC_INT32},
        {TC_BOOL, TC_INT64},    {TC_BOOL, TC_FLOAT},     {TC_BOOL, TC_DOUBLE},    {TC_BOOL, TC_UINT8},
        {TC_BOOL, TC_INT8},     {TC_BOOL, TC_FLOAT16},   {TC_BOOL, TC_BFLOAT16},
    };
    for (size_t i = 0; i < TC_COUNT(pairs); i++)
        if (pairs[i].narrow == narrow && pairs[i].wide == wide)
            return true;
    return false;
}

static bool simplify_cast(simplifier *s, tc_node *node) {
    (void)s;
    tc_value *from = tc_input(node, 0);
    tc_dtype to = (tc_dtype)tc_attr_int(node, "to", TC_UNDEFINED), have = tc_value_dtype(from);
    if (have == to && have != TC_UNDEFINED)
        return alias(node, from);
    const tc_node *inner = from->producer;
    tc_value *first = inner && tc_node_is(inner, "", "Cast") ? tc_input(inner, 0) : NULL;
    if (!first || !holds_every(have, tc_value_dtype(first)))
        return false;
    tc_node_set_input(node, 0, first);
    return true;
}

static bool simplify_cast_like(simplifier *s, tc_node *node) {
    (void)s;
    tc_dtype to = tc_input(node, 1) ? tc_value_dtype(tc_input(node, 1)) : TC_UNDEFINED;
    if (to == TC_UNDEFINED)
        return false;
    tc_node_resize_inputs(node, 1);
    tc_node_set_op(node, "", "Cast");
    tc_attr_set_int(node, "to", to);
    return true;
}

/* --- Transpose -------------------------------------------------------------------------------- */

/* Of a matrix. */
static bool swaps_axes(const tc_node *node) {
    size_t n;
    const int64_t *perm = tc_node_is(node, "", "Transpose") ? tc_attr_ints(node, "perm", &n) : NULL;
    return perm && n == 2 && perm[0] == 1 && perm[1] == 0;
}

/* A Gemm reads operands in their stored order. */
static bool simplify_gemm(simplifier *s, tc_node *node) {
    static const char *const names[] = {"transA", "transB"};
    bool changed = false;
    (void)s;
    for (uint32_t i = 0; i < 2; i++) {
        const tc_node *turn = tc_input(node, i) ? tc_input(node, i)->producer : NULL;
        if (!turn || !swaps_axes(turn))
            continue;
        tc_node_set_input(node, i, tc_input(turn, 0));
        tc_attr_set_int(node, names[i], !tc_attr_int(node, names[i], 0));
        changed = true;
    }
    return changed;
}

/* The transpose of a product, such as the gradient of a weight that an exporter has transposed: (A B)^T = B^T A^T. */
static bool turn_product(tc_node *node) {
    tc_node *gemm = tc_input(node, 0)->producer;
    if (!swaps_axes(node) || !gemm || !tc_node_is(gemm, "", "Gemm") || tc_input(gemm, 2) ||
        tc_value_use_count(tc_input(node, 0)) != 1 || tc_input(node, 0)->n_graph_outputs)
        return false;
    bool ta = tc_attr_int(gemm, "transA", 0) != 0, tb = tc_attr_int(gemm, "transB", 0) != 0;
    float alpha = tc_attr_float(gemm, "alpha", 1);
    tc_attr_remove(node, "perm");
    tc_node_set_op(node, "", "Gemm");
    tc_attr_set_float(node, "alpha", alpha);
    tc_attr_set_int(node, "transA", !tb);
    tc_attr_set_int(node, "transB", !ta);
    tc_value *a = tc_input(gemm, 0), *b = tc_input(gemm, 1);
    tc_node_resize_inputs(node, 2);
    tc_node_set_input(node, 0, b);
    tc_node_set_input(node, 1, a);
    tc_node_erase(gemm);
    return true;
}

static bool simplify_transpose(simplifier *s, tc_node *node) {
    (void)s;
    size_t n, n_inner;
    const int64_t *perm = tc_attr_ints(node, "perm", &n);
    tc_value *from = tc_input(node, 0);
    int64_t order[TC_MAX_RANK];
    if (!perm) { /* the default reverses all axes */
        int rank = tc_value_rank(from);
        for (int i = 0; i < rank; i++)
            order[i] = rank - 1 - i;
        if (rank != TC_RANK_UNKNOWN)
            tc_attr_set_ints(node, "perm", order, (size_t)rank);
        return rank != TC_RANK_UNKNOWN;
    }
    bool is_identity = true;
    for (size_t i = 0; i < n; i++)
        is_identity &= perm[i] == (int64_t)i;
    if (is_identity)
        return alias(node, from);
    if (turn_product(node))
        return true;
    const tc_node *inner = from->producer;
    const int64_t *first = inner && tc_node_is(inner, "", "Transpose") ? tc_attr_ints(inner, "perm", &n_inner) : NULL;
    if (!first || n_inner != n || n > TC_MAX_RANK)
        return false;
    for (size_t i = 0; i < n; i++)
        order[i] = first[perm[i]];
    tc_attr_set_ints(node, "perm", order, n);
    tc_node_set_input(node, 0, tc_input(inner, 0));
    return true;
}

/* --- views ------------------------------------------------------------------------------------ */

/* A constant target that reshapes `from` to the type of `to`: numbers for known dims, 0 for a symbol in its own
 * position, at most one -1 for the rest. False if that does not express it. */
static bool reshape_target(const tc_value *from, const tc_value *to, int64_t *target) {
    int rank = tc_value_rank(to), rank_from = tc_value_rank(from);
    bool inferred = false;
    if (rank == TC_RANK_UNKNOWN || rank_from == TC_RANK_UNKNOWN)
        return false;
    for (int i = 0; i < rank; i++) {
        tc_dim dim = to->type->dims[i];
        if (tc_dim_is_const(dim)) {
            target[i] = dim.value;
            if (dim.value <= 0)
                return false;
        } else if (i < rank_from && tc_dim_equal(dim, from->type->dims[i])) {
            target[i] = 0;
        } else if (!inferred) {
            target[i] = -1;
            inferred = true;
        } else {
            return false;
        }
    }
    return true;
}

static bool is_view(const tc_node *node) {
    return node && (tc_node_is(node, "", "Reshape") || tc_node_is(node, "", "Squeeze") ||
                    tc_node_is(node, "", "Unsqueeze") || tc_node_is(node, "", "Flatten"));
}

static bool has_target(const tc_node *node, const int64_t *target, int rank) {
    const tc_tensor *have = tc_input(node, 1) ? tc_value_constant(tc_input(node, 1)) : NULL;
    bool same = have && have->data && have->dtype == TC_INT64 && have->count == (uint64_t)rank;
    for (int i = 0; same && i < rank; i++)
        same = tc_tensor_get_int(have, (uint64_t)i) == target[i];
    return same && tc_attr_int(node, "allowzero", 0) == 0;
}

static void become_reshape(simplifier *s, tc_node *node, tc_value *from, const int64_t *target, int rank) {
    tc_value *shape = tc_constant(node->graph, "shape", tc_tensor_ints(s->model, target, rank));
    while (node->n_attrs)
        tc_attr_remove(node, node->attrs[0].name);
    tc_node_set_op(node, "", "Reshape");
    tc_node_set_input(node, 0, from);
    tc_node_set_input(node, 1, shape);
}

static bool simplify_view(simplifier *s, tc_node *node) {
    tc_value *from = tc_input(node, 0), *to = node->outputs[0];
    int64_t target[TC_MAX_RANK];
    if (drop_same_shape(s, node))
        return true;
    tc_node *inner = from ? from->producer : NULL;
    bool chain = is_view(inner) && inner->graph == node->graph && tc_input(inner, 0);
    if (chain && tc_same_shape(tc_input(inner, 0), to))
        return alias(node, tc_input(inner, 0));
    if (chain && reshape_target(tc_input(inner, 0), to, target)) {
        become_reshape(s, node, tc_input(inner, 0), target, tc_value_rank(to));
        return true;
    }
    bool plain = tc_node_is(node, "", "Reshape") && from && reshape_target(from, to, target);
    if (!plain || has_target(node, target, tc_value_rank(to)))
        return false;
    become_reshape(s, node, from, target, tc_value_rank(to));
    return true;
}

/* The target may say 1 where the operand's own dim stays; if no symbol is left then, it becomes a constant. */
static bool simplify_expand(simplifier *s, tc_node *node) {
    tc_value *from = tc_input(node, 0), *to = node->outputs[0];
    int rank = tc_value_rank(to), rank_from = tc_value_rank(from);
    int64_t target[TC_MAX_RANK];
    if (drop_same_shape(s, node))
        return true;
    if (is_constant(tc_input(node, 1)) || rank == TC_RANK_UNKNOWN || rank_from == TC_RANK_UNKNOWN)
        return false;
    for (int i = 0; i < rank; i++) {
        tc_dim dim = to->type->dims[i];
        int own = i - (rank - rank_from);
        if (own >= 0 && tc_dim_equal(dim, from->type->dims[own]))
            target[i] = 1;
        else if (tc_dim_is_const(dim))
            target[i] = dim.value;
        else
            return false;
    }
    tc_node_set_input(node, 1, tc_constant(node->graph, "shape", tc_tensor_ints(s->model, target, rank)));
    return true;
}

/* --- Where ------------------------------------------------------------------------------------ */

/* A known condition picks one side; exporters test in this way whether a target of Expand holds -1. */
static bool simplify_where(simplifier *s, tc_node *node) {
    tc_value *condition = tc_input(node, 0);
    int side = holds_only(s->model, condition, 1) ? 1 : holds_only(s->model, condition, 0) ? 2 : 0;
    tc_value *from = condition && side ? tc_input(node, (uint32_t)side) : NULL;
    return from && tc_same_shape(from, node->outputs[0]) && alias(node, from);
}

/* --- ScatterND -------------------------------------------------------------------------------- */

/* Whether the value counts from 0, one by one, up to a dim. */
static bool counts_to(simplifier *s, tc_value *value, tc_dim end) {
    const tc_contents *known = tc_value_contents(s->model, value);
    const tc_node *range = value->producer;
    while (range && is_view(range))
        range = tc_input(range, 0)->producer;
    if (!known && range && tc_node_is(range, "", "Range")) {
        const tc_contents *limit = tc_value_contents(s->model, tc_input(range, 1));
        return holds_only(s->model, tc_input(range, 0), 0) && holds_only(s->model, tc_input(range, 2), 1) && limit &&
               limit->count == 1 && tc_dim_equal(limit->items[0].i, end);
    }
    int64_t number;
    for (uint64_t i = 0; known && i < known->count; i++)
        if (!known_number(known, i, &number) || number != (int64_t)i)
            return false;
    return known && tc_dim_is_const(end) && known->count == (uint64_t)end.value;
}

/* x[:] = y, as exporters write it: every row is replaced, in order. */
static bool drop_scatter(simplifier *s, tc_node *node) {
    tc_value *data = tc_input(node, 0), *indices = tc_input(node, 1), *updates = tc_input(node, 2);
    return tc_value_rank(data) > 0 && tc_value_rank(indices) == 2 && tc_value_rank(updates) > 0 &&
           tc_dim_equal(indices->type->dims[1], tc_dim_const(1)) &&
           strcmp(tc_attr_string(node, "reduction", "none"), "none") == 0 && tc_same_shape(updates, data) &&
           counts_to(s, indices, data->type->dims[0]) && alias(node, updates);
}

/* --- all nodes -------------------------------------------------------------------------------- */

static const struct {
    const char *op;
    bool (*run)(simplifier *s, tc_node *node);
} rows[] = {
    {"Cast", simplify_cast},           {"CastLike", simplify_cast_like},
    {"Concat", drop_concat},           {"Dropout", drop_dropout},
    {"Expand", simplify_expand},       {"Flatten", simplify_view},
    {"Gemm", simplify_gemm},           {"Pad", drop_pad},
    {"Reshape", simplify_view},        {"Resize", drop_resize},
    {"ScatterND", drop_scatter},       {"Slice", drop_slice},
    {"Squeeze", simplify_view},        {"Tile", drop_tile},
    {"Transpose", simplify_transpose}, {"Unsqueeze", simplify_view},
    {"Where", simplify_where},
};

/* Constants go right, so that a literal of a rule matches at the first try and equal nodes look equal. */
static bool order_operands(tc_node *node) {
    if (!tc_node_has(node, TC_COMMUTATIVE) || node->n_inputs != 2)
        return false;
    tc_value *a = tc_input(node, 0), *b = tc_input(node, 1);
    if (!is_constant(a) || !b || is_constant(b))
        return false;
    tc_node_set_input(node, 0, b);
    tc_node_set_input(node, 1, a);
    return true;
}

static uint32_t simplify_graph(simplifier *s, tc_graph *graph) {
    uint32_t changes = 0;
    TC_FOR_NODES_SAFE(node, graph) {
        TC_FOR_NESTED(nested, node)
            changes += simplify_graph(s, nested);
        if (*node->domain || !tc_output(node, 0))
            continue;
        changes += order_operands(node);
        for (size_t i = 0; i < TC_COUNT(rows); i++)
            if (!strcmp(rows[i].op, node->op_type)) {
                changes += rows[i].run(s, node);
                break;
            }
    }
    return changes;
}

uint32_t tc_simplify(tc_pass_env *env, tc_graph *graph) {
    simplifier s = {.env = env, .model = graph->model};
    return simplify_graph(&s, graph);
}
