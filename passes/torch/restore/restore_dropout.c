/* restore_dropout.c: Dropout of a model in training mode. The exporters write the dropout of PyTorch's fused attention
 * without training_mode, which means no dropout in ONNX, and the dynamo exporter's optimizer then removes it. Its call
 * still shows it: `scaled_dot_product_attention(%q, %k, %v, %mask, 0.1)` always drops in PyTorch. TorchScript files
 * have no calls. In these a Dropout without training_mode after a Softmax is attention's, because all others have the
 * mode. PyTorch's fused attention gives probabilities 0 for a row that the mask excludes, for masks of bools and of
 * floats. Exporters write that for bools, but not always. With dropout, opset 23 adds a mask of bools to the scores,
 * which ONNX does not allow; opset 18 adds the lowest finite number where it is false, while PyTorch means -inf.
 * TorchScript's attention is recognized by the root of its scale, a factor of both q and k. */
#include "compiler/ir/clone.h"
#include "restore.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ATTENTION_MASK = 3,
    ATTENTION_RATIO = 4,
    RATIO = 1,
    TRAIN = 2
}; /* arguments of calls; the last two are ONNX's operands, too */

typedef struct dropouts {
    tc_restore *r;
    const char **names; /* of calls, or of nodes */
    size_t n, cap;
    tc_value *on; /* true; made when needed */
} dropouts;

static tc_value *constant_true(dropouts *s) {
    bool yes = true;
    if (!s->on)
        s->on = tc_constant(s->r->graph, "training_mode", tc_tensor_create(s->r->graph->model, TC_BOOL, 0, NULL, &yes));
    return s->on;
}

static void told(dropouts *s, const char *name) {
    s->names = tc_arena_grow(s->r->arena, s->names, sizeof *s->names, &s->cap, s->n + 1);
    s->names[s->n++] = name;
}

static tc_value *scalar(const dropouts *s, const char *name, tc_dtype dtype, double number) {
    return tc_constant(s->r->graph, name, tc_tensor_scalar(s->r->graph->model, dtype, number));
}

static tc_value *ratio_value(const dropouts *s, double ratio) { return scalar(s, "ratio", TC_FLOAT, ratio); }

static void switch_on(dropouts *s, tc_node *node, const char *name, const double *ratio) {
    if (!tc_input(node, RATIO) && ratio)
        tc_node_set_input(node, RATIO, ratio_value(s, *ratio));
    tc_node_set_input(node, TRAIN, constant_true(s));
    told(s, name);
}

/* --- attention -------------------------------------------------------------------------------- */
static tc_node *insert(const dropouts *s, tc_node *behind, const char *op_type, const char *name, uint32_t n_inputs) {
    tc_node *node = tc_node_create(s->r->graph, "", op_type, n_inputs, 1);
    tc_value *like = tc_output(behind, 0);
    tc_node_add_output(node, 0, tc_arena_printf(s->r->graph->model->arena, "%s_%s", like->name, name), NULL);
    node->name = node->outputs[0]->name;
    tc_node_insert_after(node, behind);
    tc_new_ordinals(s->r->graph, node, node->next);
    return node;
}

/* Nodes of the call with this op that read `from` now read `to`. */
static bool pass_on(const tc_restore_call *call, const char *op_type, const tc_value *from, tc_value *to) {
    bool any = false;
    for (size_t i = 0; i < call->n; i++)
        for (uint32_t k = 0; tc_node_is(call->nodes[i], "", op_type) && k < call->nodes[i]->n_inputs; k++)
            if (tc_input(call->nodes[i], k) == from) {
                tc_node_set_input(call->nodes[i], k, to);
                any = true;
            }
    return any;
}

/* The probabilities: the result of the Softmax, with NaN replaced by 0 if a node does that. */
static tc_node *probabilities(const tc_restore_call *call) {
    tc_node *softmax = tc_restore_node(call, "Softmax");
    if (softmax)
        TC_FOR_USES(use, softmax->outputs[0])
            if (tc_node_is(use->user, "", "Where") && tc_input(use->user, 2) == softmax->outputs[0])
                return use->user;
    return softmax;
}

static bool insert_dropout(dropouts *s, const tc_restore_call *call, double ratio) {
    tc_node *source = probabilities(call);
    if (!source)
        return false;
    tc_value *kept = source->outputs[0];
    tc_node *node = insert(s, source, "Dropout", "dropped", TRAIN + 1);
    if (!pass_on(call, "MatMul", kept, node->outputs[0])) {
        tc_node_erase(node);
        return false;
    }
    tc_node_set_input(node, 0, kept);
    switch_on(s, node, call->call.result, &ratio);
    return true;
}

/* The term added to scores where a mask of bools is false: a Where of the call with the lowest finite number. With
 * it, a fully masked row would get the mean of all values. */
static tc_node *finite_mask(const tc_restore_call *call, const tc_node *add) {
    tc_node *where = tc_input(add, 1)->producer;
    const tc_value *other = where && tc_node_is(where, "", "Where") ? tc_input(where, 2) : NULL;
    const tc_tensor *masked = other ? tc_value_constant(other) : NULL;
    bool own = false;
    for (size_t i = 0; i < call->n; i++)
        own |= call->nodes[i] == where;
    if (!own || !masked || masked->count != 1 || !tc_dtype_is_float(masked->dtype))
        return NULL;
    double number = tc_tensor_get(masked, 0);
    return isfinite(number) && number < 0 && isinf(tc_round_float(masked->dtype, 2 * number)) ? where : NULL;
}

/* Replaces NaN after a Softmax by 0, unless its readers do so. TorchScript files never state the type of that 0
 * under autocast. */
static void guard_rows(const dropouts *s, tc_node *softmax) {
    tc_value *p = softmax->outputs[0];
    size_t readers = 0;
    TC_FOR_USES(use, p) {
        if (tc_node_is(use->user, "", "IsNaN"))
            return;
        readers++;
    }
    if (readers != tc_value_use_count(p)) /* the probabilities are an output */
        return;
    tc_node *nan = insert(s, softmax, "IsNaN", "nan", 1), *zero = insert(s, softmax, "CastLike", "zero", 2),
            *guard = insert(s, nan, "Where", "guarded", 3);
    tc_value_replace(p, guard->outputs[0]);
    tc_node_set_input(nan, 0, p);
    tc_node_set_input(guard, 0, nan->outputs[0]);
    tc_node_set_input(zero, 0, scalar(s, "zero", TC_FLOAT, 0));
    tc_node_set_input(zero, 1, p);
    tc_node_set_input(guard, 1, zero->outputs[0]);
    tc_node_set_input(guard, 2, p);
}

/* The type of the scores. Under autocast it is not float, and files state the type of few values: of the constant
 * that masks them, of a term, or of a result of the call. */
static tc_dtype dtype_of_scores(const tc_restore_call *call, const tc_node *add, const tc_node *mask) {
    const tc_value *const told[] = {mask ? tc_input(mask, 2) : tc_input(add, 0), tc_input(add, 1), tc_output(add, 0)};
    tc_dtype dtype = mask ? tc_value_constant(told[0])->dtype : tc_value_dtype(told[0]);
    for (size_t i = 1; i < TC_COUNT(told) && !tc_dtype_is_float(dtype); i++)
        dtype = told[i] ? tc_value_dtype(told[i]) : dtype;
    for (size_t i = 0; i < call->n && !tc_dtype_is_float(dtype); i++)
        dtype = call->nodes[i]->n_outputs ? tc_value_dtype(tc_output(call->nodes[i], 0)) : dtype;
    return tc_dtype_is_float(dtype) ? dtype : TC_FLOAT;
}

/* Where(mask, 0, -inf) instead of a mask of bools, and 0 instead of NaN after any mask. */
static void restore_mask(const dropouts *s, const tc_restore_call *call) {
    tc_node *add = tc_restore_node(call, "Add"), *softmax = tc_restore_node(call, "Softmax");
    const char *word = tc_torch_call_argument(&call->call, ATTENTION_MASK, "attn_mask");
    if (!add || !softmax || !tc_input(add, 1) || tc_input(softmax, 0) != tc_output(add, 0))
        return;
    tc_node *mask = finite_mask(call, add);
    tc_dtype dtype = dtype_of_scores(call, add, mask);
    if (!mask && tc_value_dtype(tc_input(add, 1)) == TC_BOOL) {
        mask = insert(s, tc_input(add, 0)->producer ? tc_input(add, 0)->producer : add, "Where", "mask", 3);
        tc_node_set_input(mask, 0, tc_input(add, 1));
        tc_node_set_input(mask, 1, scalar(s, "zero", dtype, 0));
        tc_node_move_before(mask, add);
        tc_node_set_input(add, 1, mask->outputs[0]);
    }
    if (mask)
        tc_node_set_input(mask, 2, scalar(s, "masked", dtype, -INFINITY));
    if (mask || (word && strcmp(word, "None") != 0))
        guard_rows(s, softmax);
}

/* Whether q and k have the same factor: one value, equal constants, or the roots of these. */
static bool same_scale(const tc_value *a, const tc_value *b) {
    while (a && b && a->producer && b->producer && tc_node_is(a->producer, "", "Sqrt") &&
           tc_node_is(b->producer, "", "Sqrt")) {
        a = tc_input(a->producer, 0);
        b = tc_input(b->producer, 0);
    }
    const tc_tensor *x = a ? tc_value_constant(a) : NULL, *y = b ? tc_value_constant(b) : NULL;
    bool equal = x && y && x->count == 1 && y->count == 1 && tc_tensor_get(x, 0) == tc_tensor_get(y, 0);
    return equal || (a && a == b);
}

static bool is_fused_attention(const tc_value *scores) {
    const tc_node *product =
        scores && scores->producer && tc_node_is(scores->producer, "", "MatMul") ? scores->producer : NULL;
    const tc_value *scales[2] = {NULL, NULL};
    for (uint32_t i = 0; product && i < 2; i++) {
        const tc_value *operand = tc_input(product, i);
        if (operand && operand->producer && tc_node_is(operand->producer, "", "Mul"))
            scales[i] = tc_input(operand->producer, 1);
    }
    return scales[0] && scales[1] && same_scale(scales[0], scales[1]);
}

static tc_status restore_attention(dropouts *s, const tc_restore_call *call) {
    const char *word = tc_torch_call_argument(&call->call, ATTENTION_RATIO, "dropout_p");
    double ratio = word ? strtod(word, NULL) : 0;
    restore_mask(s, call);
    if (!(ratio > 0 && ratio <= 1))
        return TC_OK;
    tc_node *dropout = tc_restore_node(call, "Dropout");
    if (dropout && tc_input(dropout, TRAIN))
        return TC_OK;
    if (dropout)
        switch_on(s, dropout, call->call.result, &ratio);
    if (dropout || insert_dropout(s, call, ratio))
        return TC_OK;
    const char *text = tc_arena_printf(s->r->arena, "the file lacks the dropout of %s, with ratio %g",
                                       tc_quote(s->r->env->ctx, call->call.result), ratio);
    return tc_restore_refuse(s->r, call->nodes[0], text,
                             "export with attn_implementation=\"eager\", or with optimize=False");
}

/* --- dropout of its own ----------------------------------------------------------------------- */
static void restore_own(dropouts *s, const tc_restore_call *call) {
    const char *train = tc_torch_call_argument(&call->call, TRAIN, "train"),
               *word = tc_torch_call_argument(&call->call, RATIO, "p");
    tc_node *node = tc_restore_node(call, "Dropout");
    double ratio = word ? strtod(word, NULL) : 0.5;
    if (node && !tc_input(node, TRAIN) && train && strcmp(train, "True") == 0)
        switch_on(s, node, call->call.result, &ratio);
}

/* A Dropout of TorchScript after a Softmax, and rows that a mask before it excludes. */
static void restore_without_calls(dropouts *s) {
    const char *producer = s->r->graph->model->info.producer_name;
    bool has_mode = tc_model_opset(s->r->graph->model, "") >= 12;
    if (s->r->n || !producer || strcmp(producer, "pytorch") != 0 || !has_mode)
        return;
    TC_FOR_NODES_SAFE(node, s->r->graph) {
        const tc_value *operand =
            tc_node_is(node, "", "Dropout") || tc_node_is(node, "", "Softmax") ? tc_input(node, 0) : NULL;
        tc_node *source = operand ? operand->producer : NULL;
        if (source && tc_node_is(node, "", "Softmax") && tc_node_is(source, "", "Add") && tc_output(node, 0) &&
            (is_fused_attention(tc_input(source, 0)) || is_fused_attention(tc_input(source, 1))))
            guard_rows(s, node);
        if (source && tc_node_is(source, "", "Where") && tc_input(source, 2))
            source = tc_input(source, 2)->producer;
        if (source && tc_node_is(node, "", "Dropout") && tc_node_is(source, "", "Softmax") && tc_input(node, RATIO) &&
            !tc_input(node, TRAIN))
            switch_on(s, node, tc_node_label(node), NULL);
    }
}

tc_status tc_restore_dropout(tc_restore *r) {
    dropouts s = {.r = r};
    for (size_t i = 0; i < r->n; i++) {
        const tc_torch_call *call = &r->calls[i].call;
        if (tc_torch_call_is(call, "aten.scaled_dot_product_attention"))
            TC_TRY(restore_attention(&s, &r->calls[i]));
        else if (tc_torch_call_is(call, "aten.native_dropout") || tc_torch_call_is(call, "aten.dropout"))
            restore_own(&s, &r->calls[i]);
    }
    restore_without_calls(&s);
    if (s.n)
        tc_note(r->env->ctx, NULL, "Dropout of %s drops again, as in PyTorch",
                tc_quote_list(r->env->ctx, s.names, s.n));
    return TC_OK;
}
