/* lora_nodes.c: y + s dropout(x) A^T B^T; under DoRA (x W + s x A^T B^T) magnitude / N, where N [out] are the norms of
 * the columns of W + s (B A)^T, through which no gradient passes. N comes from its square without a tensor of W's
 * shape: |w|^2 + 2 s b (A w) + s^2 b (A A^T) b, for each column w and row b of B. Under dropout, as in PEFT, the
 * adapter's part of DoRA multiplies the dropped x by W once more, and x itself passes W unscaled. */
#include "lora_nodes.h"
#include "compiler/build/build.h"
#include "compiler/ir/ops.h"

tc_dtype tc_lora_dtype(const tc_product *product) {
    return tc_value_dtype(product->x) == TC_DOUBLE ? TC_DOUBLE : TC_FLOAT;
}

typedef struct site {
    tc_build *g;
    const tc_product *p;
    const tc_lora *lora;
    const tc_lora_weights *w;
    tc_dtype dtype;
} site;

static tc_value *turn(const site *s, tc_value *matrix) {
    return tc_build_transpose(s->g, matrix, (int64_t[]){1, 0}, 2);
}

static tc_value *scale(const site *s, tc_value *value, double factor) {
    return factor == 1 ? value : TC_OP(s->g, "Mul", value, tc_build_like(s->g, value, factor));
}

static tc_value *drop(const site *s, tc_value *x) {
    if (s->lora->dropout == 0)
        return x;
    bool yes = true;
    const tc_tensor *training = tc_tensor_create(s->g->model, TC_BOOL, 0, NULL, &yes);
    return TC_OP(s->g, "Dropout", x, tc_build_scalar(s->g, TC_FLOAT, s->lora->dropout),
                 tc_constant(s->g->graph, "training", training));
}

/* The scale goes to the narrow side. */
static tc_value *low_rank(const site *s, tc_value *x) {
    tc_value *narrow = scale(s, TC_OP(s->g, "MatMul", x, turn(s, s->w->a)), tc_lora_scale(s->lora));
    return TC_OP(s->g, "MatMul", narrow, turn(s, s->w->b));
}

/* magnitude / N */
static tc_value *column_factors(const site *s, tc_pass_env *env) {
    tc_build *g = s->g;
    double f = tc_lora_scale(s->lora);
    tc_value *w = tc_build_cast(g, s->p->factor, s->dtype), *b = turn(s, s->w->b), *a = s->w->a;
    tc_value *wide = TC_OP(g, "MatMul", a, s->p->flipped ? turn(s, w) : w);
    tc_value *square = TC_OP(g, "MatMul", TC_OP(g, "MatMul", a, turn(s, a)), b);
    tc_value *mixed = TC_OP(g, "Mul", b, TC_OP(g, "Add", scale(s, wide, 2 * f), scale(s, square, f * f)));
    tc_value *sums[] = {tc_build_reduce(g, "ReduceSumSquare", w, (int64_t[]){s->p->flipped ? 1 : 0}, 1, false),
                        tc_build_reduce(g, "ReduceSum", mixed, (int64_t[]){0}, 1, false)};
    tc_value *norm = TC_OP(g, "Sqrt", tc_build_sum(g, 2, sums));
    if (tc_pipeline_has(env->options, "autodiff")) {
        norm = tc_build_finish(g, tc_build_node(g, TC_TEMPO_DOMAIN, "StopGradient", 1, &norm, 1));
        env->summary->stops++;
    }
    return TC_OP(g, "Div", s->w->magnitude, norm);
}

/* The last node: its result is the value that was the module's. */
static void end_with(const site *s, const char *op, tc_value *left, tc_value *right, tc_value *y) {
    tc_build *g = s->g;
    tc_dtype wanted = tc_value_dtype(y);
    tc_value *before = NULL;
    if (wanted != s->dtype)
        before = TC_OP(g, op, left, right);
    tc_node *node = tc_node_create(g->graph, "", before ? "Cast" : op, before ? 1 : 2, 1);
    tc_node_set_input(node, 0, before ? before : left);
    if (before)
        tc_attr_set_int(node, "to", wanted);
    else
        tc_node_set_input(node, 1, right);
    tc_node_append(node);
    tc_node_set_output(node, 0, y);
    node->name = y->name;
    tc_build_finish(g, node);
}

static void add_nodes(const site *s, tc_pass_env *env, tc_value *base, tc_value *y, bool whole) {
    tc_build *g = s->g;
    const tc_product *p = s->p;
    tc_value *x = drop(s, tc_build_cast(g, p->x, s->dtype)), *delta = low_rank(s, x);
    base = tc_build_cast(g, base, s->dtype);
    if (!s->w->magnitude)
        return end_with(s, "Add", base, delta, y);
    tc_value *factors = column_factors(s, env), *product = base;
    if (!whole) {
        tc_value *w = tc_build_cast(g, p->factor, s->dtype);
        product = TC_OP(g, "MatMul", x, p->flipped ? turn(s, w) : w);
    }
    tc_value *sum = TC_OP(g, "Add", product, delta);
    tc_value *bias = p->end == p->node ? p->bias : NULL; /* that the product would add */
    if (whole && !bias)
        return end_with(s, "Mul", sum, factors, y);
    tc_value *scaled = TC_OP(g, "Mul", sum, factors);
    if (whole)
        return end_with(s, "Add", scaled, tc_build_cast(g, bias, s->dtype), y);
    end_with(s, "Add", base, TC_OP(g, "Sub", scaled, product), y);
}

tc_status tc_lora_insert(tc_pass_env *env, const tc_product *p, const tc_lora *lora, const tc_lora_weights *w) {
    bool whole = w->magnitude && lora->dropout == 0; /* the factors multiply all but the bias */
    tc_node *end = whole ? p->node : p->end;
    tc_arena *scratch = tc_arena_create();
    tc_insert insert;
    tc_insert_begin(&insert, env->ctx, scratch, end);
    const site s = {&insert.g, p, lora, w, tc_lora_dtype(p)};
    tc_value *y = tc_node_take_output(end, 0);
    tc_value *base = tc_node_add_output(end, 0, tc_arena_printf(scratch, "%s_base", y->name), y->type);
    if (whole)
        tc_node_resize_inputs(end, 2); /* a bias comes after */
    add_nodes(&s, env, base, y, whole);
    tc_node *first = insert.last->next;
    tc_status status = tc_insert_end(&insert);
    if (status == TC_OK)
        tc_node_move_before(end, first);
    tc_arena_destroy(scratch);
    return status;
}
