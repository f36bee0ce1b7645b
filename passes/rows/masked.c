/* masked.c: the pass `masks`: shapes and branches that depend on data. For an If, both branches are computed
 * (compiler/inline/inline.h). The number of elements that a mask picks depends on data, but every shape must be known
 * before a run. So NonZero gives a position for each element of its operand, and ops on these positions and on elements
 * looked up there compute all of them (rows.h). The graph is walked once, in order. Each node that reads such rows is
 * changed by the handler of its op (masked_ops.c, masked_sums.c). Computed sizes become sizes of all rows if they are
 * shapes, and counts elsewhere (masked_values.c). The pass works on a copy first. If it fails, the graph stays as it
 * is, with a note of the reason: another runtime may run it. Our runtime does if small inputs decide which rows are
 * picked, because it knows their elements when it plans; then there is no note. */
#include "rows.h"
#include "compiler/shape/shape.h"
#include "compiler/inline/inline.h"
#include "passes/canonical/canonical.h"
#include <string.h>

tc_status tc_masked_refuse(tc_masked *w, const tc_node *node, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    const char *why = tc_arena_vprintf(w->arena, fmt, args);
    va_end(args);
    tc_error(w->env->ctx, TC_UNSUPPORTED, node,
             "it reads rows picked by %s \"%s\", whose number depends on the data: %s", w->origin->op_type,
             tc_quote(w->env->ctx, tc_node_label(w->origin)), why);
    tc_hint(w->env->ctx, "compute all rows, and exclude some by torch.where or by multiplying with the mask");
    return TC_UNSUPPORTED;
}

static bool has_nested_use(const tc_masked *w, const tc_value *value) {
    TC_FOR_USES(use, value)
        if (use->user->graph != w->graph)
            return true;
    return false;
}

void tc_mask_set(tc_masked *w, tc_value *value, int axis, const tc_mask *mask) {
    if (!mask)
        return;
    tc_masks *masks = tc_map_get_ptr(w->masks, value);
    if (!masks) {
        masks = TC_NEW(w->arena, tc_masks);
        *masks = (tc_masks){{NULL}};
        tc_map_set_ptr(w->masks, value, masks);
    }
    masks->axis[axis] = mask;
}

tc_node *tc_masked_after(tc_masked *w, tc_node *node, const char *op, uint32_t n_inputs, tc_value **out_result) {
    tc_node *inserted = w->inserted = tc_node_create(w->graph, "", op, n_inputs, 1);
    tc_value *result = tc_node_take_output(node, 0);
    inserted->name = node->name;
    tc_node_set_output(inserted, 0, result);
    *out_result = tc_node_add_output(node, 0, tc_arena_printf(w->model->arena, "%s_all", result->name), NULL);
    return inserted;
}

tc_status tc_masked_infer(tc_masked *w, tc_node *node) {
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->outputs[i]) {
            node->outputs[i]->type = NULL;
            node->outputs[i]->contents = NULL;
            tc_map_set_ptr(w->changed, node->outputs[i], node->outputs[i]);
        }
    return node->op ? tc_infer_node(w->env->ctx, node) : TC_OK;
}

/* --- nodes that pick ---------------------------------------------------------------------------- */

static bool picks(const tc_node *node) { return tc_node_is(node, "", "NonZero") || tc_node_is(node, "", "Compress"); }

typedef struct search {
    tc_arena *arena;
    tc_map *seen;
    bool data;      /* it depends on elements of inputs or weights */
    bool evaluated; /* and the runtime can compute it during planning, if the inputs are small */
} search;

static void follow(search *s, tc_value *value, int depth) {
    enum { MAX_DEPTH = 1000 };
    bool decided = s->data && !s->evaluated;
    if (!value || decided || tc_map_get_ptr(s->seen, value))
        return;
    tc_map_set_ptr(s->seen, value, value);
    const tc_node *node = value->producer;
    if (!node) {
        s->data = s->data || value->is_input || tc_may_be_trained(value);
        s->evaluated = s->evaluated && !tc_may_be_trained(value);
        return;
    }
    if (tc_node_has(node, TC_SHAPE_ONLY))
        return;
    s->evaluated = s->evaluated && node->op && node->op->has_contents && depth < MAX_DEPTH;
    s->data = s->data || tc_has_nested(node);
    for (uint32_t i = 0; depth < MAX_DEPTH && i < node->n_inputs; i++)
        follow(s, tc_input(node, i), depth + 1);
}

/* Whether data decides how many elements the node picks; *out_evaluated: only elements of inputs do, through ops
 * that are evaluated before a run. */
static bool depends_on_data(tc_arena *arena, const tc_node *node, bool *out_evaluated) {
    search s = {.arena = arena, .seen = tc_map_create(arena), .evaluated = true};
    const tc_type *type = tc_output(node, 0) ? node->outputs[0]->type : NULL;
    if (!type || type->kind != TC_TENSOR || tc_type_is_static(type))
        return false;
    follow(&s, tc_input(node, tc_node_is(node, "", "Compress") ? 1 : 0), 0);
    *out_evaluated = s.evaluated;
    return s.data;
}

/* --- NonZero, Compress -------------------------------------------------------------------------- */

static tc_status pick(tc_masked *w, tc_node *node) {
    tc_build *g = w->g;
    tc_value *x = tc_input(node, 0), *rows = tc_mask_for(w, x, NULL), *result = node->outputs[0];
    if (rows) /* copies of rows pick nothing */
        x = TC_OP(g, "And", tc_build_cast(g, x, TC_BOOL), rows);
    tc_mask *mask = tc_mask_of(w, x);
    tc_picked *picked = TC_NEW(w->arena, tc_picked);
    *picked = (tc_picked){mask, x};
    tc_value *all = tc_mask_coordinates(w, x, tc_mask_places(w, mask));
    if (g->status != TC_OK)
        return g->status;
    tc_mask_set(w, all, 1, mask);
    tc_map_set_ptr(w->picked, all, picked);
    tc_map_set_ptr(w->changed, all, all);
    if (result->n_graph_outputs > 0 || has_nested_use(w, result))
        return tc_masked_refuse(w, node, "they are results, or read in a nested graph");
    tc_value_replace(result, all);
    return TC_OK;
}

/* Compress(x, c) is x at the positions where c holds. */
static tc_status compress(tc_masked *w, tc_node *node) {
    tc_build *g = w->g;
    tc_value *x = tc_input(node, 0);
    bool flat = tc_attr_find(node, "axis") == NULL;
    tc_value *places = TC_OP(g, "NonZero", tc_input(node, 1));
    tc_node_set_input(node, 0, flat ? TC_OP(g, "Reshape", x, tc_build_int(g, -1)) : x);
    tc_node_set_input(node, 1, TC_OP(g, "Squeeze", places, tc_build_int(g, 0)));
    if (flat)
        tc_attr_set_int(node, "axis", 0);
    tc_node_set_op(node, "", "Gather");
    return g->status;
}

/* --- sizes -------------------------------------------------------------------------------------- */

/* An integer that counts the true elements of a mask. */
static void note_count(tc_masked *w, const tc_node *node) {
    if (!tc_node_is(node, "", "ReduceSum") || !tc_output(node, 0) ||
        tc_dtype_is_float(tc_value_dtype(node->outputs[0])))
        return;
    int64_t axes[TC_MAX_RANK];
    size_t n = 0;
    tc_value *cast = tc_input(node, 0);
    while (cast->producer && tc_node_has(cast->producer, TC_VIEW))
        cast = tc_input(cast->producer, 0);
    if (!cast->producer || !tc_node_is(cast->producer, "", "Cast") ||
        tc_value_dtype(tc_input(cast->producer, 0)) != TC_BOOL)
        return;
    bool all = !tc_input(node, 1) || (tc_build_known_ints(tc_input(node, 1), axes, TC_MAX_RANK, &n) &&
                                      (int)n == tc_value_rank(tc_input(node, 0)));
    if (!all || tc_type_elements(node->outputs[0]->type) != 1 || !tc_type_is_static(node->outputs[0]->type))
        return;
    tc_map_set_ptr(w->counts, node->outputs[0], tc_input(cast->producer, 0));
    tc_map_set_ptr(w->sizes, node->outputs[0], node->outputs[0]);
}

static bool computes_sizes(const tc_node *node) {
    static const char *const ops[] = {"Add", "Cast",       "Concat",  "Div",   "Gather",  "Identity", "Max",      "Min",
                                      "Mul", "ReduceProd", "Reshape", "Slice", "Squeeze", "Sub",      "Unsqueeze"};
    const tc_value *result = tc_output(node, 0);
    if (!result || (tc_value_dtype(result) != TC_INT64 && tc_value_dtype(result) != TC_INT32))
        return false;
    for (size_t i = 0; i < TC_COUNT(ops); i++)
        if (tc_node_is(node, "", ops[i]))
            return true;
    return false;
}

static bool is_shape_operand(const tc_node *node, uint32_t index) {
    static const struct {
        const char *op;
        uint32_t first, last;
    } operands[] = {{"Expand", 1, 1}, {"Reshape", 1, 1}, {"Slice", 1, 4}, {"Split", 1, 1}, {"Tile", 1, 1}};
    for (size_t i = 0; i < TC_COUNT(operands); i++)
        if (tc_node_is(node, "", operands[i].op))
            return index >= operands[i].first && index <= operands[i].last;
    return false;
}

/* Sizes among the node's operands: for shapes the sizes that values have, for numbers counts. */
static void read_sizes(tc_masked *w, tc_node *node) {
    bool has_rows = false, has_sizes = false;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        has_rows = has_rows || tc_masks_of(w, tc_input(node, i));
        has_sizes = has_sizes || (tc_input(node, i) && tc_map_get_ptr(w->sizes, tc_input(node, i)));
    }
    if (!has_sizes)
        return;
    if (computes_sizes(node) && !has_rows) {
        for (uint32_t i = 0; i < node->n_outputs; i++)
            if (node->outputs[i])
                tc_map_set_ptr(w->sizes, node->outputs[i], node->outputs[i]);
        return;
    }
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        tc_value *x = tc_input(node, i);
        if (!x || !tc_map_get_ptr(w->sizes, x))
            continue;
        if (!is_shape_operand(node, i))
            tc_node_set_input(node, i, tc_masked_counted(w, x));
        else if (!tc_node_is(node, "", "Expand")) /* whose handler looks at the counts first */
            tc_node_set_input(node, i, tc_masked_bound(w, x));
    }
}

/* --- the walk ----------------------------------------------------------------------------------- */

static bool reads_changed(const tc_masked *w, const tc_node *node) {
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (tc_input(node, i) && tc_map_get_ptr(w->changed, tc_input(node, i)))
            return true;
    return false;
}

static bool reads_rows(const tc_masked *w, const tc_node *node) {
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (tc_masks_of(w, tc_input(node, i)))
            return true;
    return false;
}

/* An Expand to a count has picked rows even if its operand has none. */
static bool makes_rows(const tc_masked *w, const tc_node *node) {
    return tc_node_is(node, "", "Expand") && tc_map_get_ptr(w->sizes, tc_input(node, 1)) != NULL;
}

static tc_status change(tc_masked *w, tc_node *node) {
    bool evaluated;
    if (picks(node) && (reads_changed(w, node) || depends_on_data(w->arena, node, &evaluated))) {
        if (tc_value_rank(tc_input(node, 0)) < 1)
            return tc_masked_refuse(w, node, "the rank of its operand is not known");
        return tc_node_is(node, "", "NonZero") ? pick(w, node) : compress(w, node);
    }
    read_sizes(w, node);
    if (!reads_rows(w, node) && !(w->origin && makes_rows(w, node)))
        return reads_changed(w, node) ? tc_masked_infer(w, node) : TC_OK;
    tc_masked_fn handle = tc_masked_handler(node);
    if (!handle)
        return tc_masked_refuse(w, node, "it is not known to treat rows one by one");
    TC_TRY(handle(w, node));
    if (tc_node_has(node, TC_SHAPE_ONLY))
        tc_map_set_ptr(w->sizes, node->outputs[0], node->outputs[0]);
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (tc_masks_of(w, tc_output(node, i)) && has_nested_use(w, node->outputs[i]))
            return tc_masked_refuse(w, node, "they are read in a nested graph");
    return TC_OK;
}

/* *out_next: where the walk continues. */
static tc_status visit(tc_masked *w, tc_node *node, tc_node **out_next) {
    tc_node *before = node->prev;
    tc_insert_begin(&w->insert, w->env->ctx, w->arena, node);
    w->insert.g.pool = &w->pool;
    w->g = &w->insert.g;
    if (!w->origin && picks(node))
        w->origin = node;
    bool was_compress = tc_node_is(node, "", "Compress");
    tc_status status = change(w, node);
    status = status == TC_OK ? tc_insert_end(&w->insert) : status;
    if (status == TC_OK && w->inserted) {
        tc_node_insert_after(w->inserted, node);
        status = tc_masked_infer(w, w->inserted);
    }
    w->inserted = NULL;
    bool again = was_compress && tc_node_is(node, "", "Gather"); /* the picking node is before it now */
    *out_next = !again ? node->next : before ? before->next : w->graph->first;
    if (status == TC_OK)
        note_count(w, node);
    return status;
}

static tc_status walk(tc_pass_env *env, tc_graph *graph) {
    tc_arena *arena = tc_arena_create();
    tc_masked w = {.env = env, .model = graph->model, .graph = graph, .arena = arena};
    w.pool = (tc_build_pool){arena, tc_map_create(arena)};
    tc_map **maps[] = {&w.masks, &w.picked, &w.counts, &w.sizes, &w.changed};
    for (size_t i = 0; i < TC_COUNT(maps); i++)
        *maps[i] = tc_map_create(arena);
    tc_status status = TC_OK;
    for (tc_node *node = graph->first; node && status == TC_OK;)
        status = visit(&w, node, &node);
    for (uint32_t i = 0; i < graph->n_outputs && status == TC_OK; i++)
        if (tc_masks_of(&w, graph->outputs[i]))
            status = tc_masked_refuse(&w, graph->outputs[i]->producer, "'%s' is a result of the graph",
                                      tc_quote(env->ctx, graph->outputs[i]->name));
    tc_arena_destroy(arena);
    if (status != TC_OK)
        return status;
    return tc_canonicalize(env, graph, true);
}

/* --- the pass ----------------------------------------------------------------------------------- */

/* Whether any shape may depend on data: rules out most graphs quickly. */
static bool may_decide(const tc_graph *graph) {
    TC_FOR_NODES(node, graph)
        if (picks(node) || tc_node_is(node, "", "If"))
            return true;
    return false;
}

/* Whether a node picks by data; *out_evaluated: all such nodes could stay. */
static bool is_needed(const tc_graph *graph, bool *out_evaluated) {
    tc_arena *arena = tc_arena_create();
    bool needed = false;
    *out_evaluated = true;
    TC_FOR_NODES(node, graph) {
        bool evaluated = true;
        if (!picks(node) || !depends_on_data(arena, node, &evaluated))
            continue;
        needed = true;
        *out_evaluated = *out_evaluated && evaluated;
    }
    tc_arena_destroy(arena);
    return needed;
}

static tc_status try_on_copy(tc_pass_env *env, tc_model *model, tc_ctx *scratch) {
    tc_pass_env copy = *env;
    tc_summary summary = *env->summary;
    copy.ctx = scratch;
    copy.summary = &summary;
    tc_model *clone = tc_model_clone(model);
    tc_status status = tc_infer_graph(scratch, clone->graph);
    if (status == TC_OK)
        status = walk(&copy, clone->graph);
    tc_model_destroy(clone);
    return status;
}

tc_status tc_pass_masks(tc_pass_env *env, tc_model *model) {
    bool evaluated, selected;
    if (!may_decide(model->graph))
        return TC_OK;
    TC_TRY(tc_infer_graph(env->ctx, model->graph));
    TC_TRY(tc_select_branches(env->ctx, model->graph, &selected));
    if (!is_needed(model->graph, &evaluated))
        return TC_OK;
    tc_ctx scratch;
    tc_ctx_init(&scratch, env->ctx->tool);
    scratch.pass = env->ctx->pass;
    tc_status status = try_on_copy(env, model, &scratch);
    for (size_t i = 0; i < scratch.n_diags && !evaluated; i++) {
        tc_diag why = scratch.diags[i];
        why.severity = why.severity == TC_ERROR ? TC_NOTE : why.severity;
        tc_diags_add(env->ctx, &why, 1);
    }
    tc_ctx_fini(&scratch);
    if (status != TC_OK)
        return TC_OK;
    return walk(env, model->graph);
}
