/* bodies.c: turns ops of ai.tempo into calls of model-local functions, so that the result passes onnx's checker and
 * runs in any runtime. One function is attached for each combination of operands and switches in use, and nodes are
 * renamed to it: Attention_m1c1 is Attention to a runtime that knows the op (ops.h), and a function to all others.
 * The bodies keep six rules that runtimes require: R1 their opset is the model's; R2 the model imports their domain
 * (pipeline.c); R3 calls write every output slot; R4 no absent operand reaches LayerNormalization; R5 no overloads;
 * R6 attributes that are lists have defaults. */
#include "bodies.h"
#include "compiler/text/text.h"
#include "passes/rules/rules.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct row {
    const char *op;
    const char *(*variant)(const tc_node *node);
    bool (*make)(tc_body *body);
} row;

static const row rows[] = {
#define VARIANTS_BODY(op, variant) {#op, tc_variant_##variant, NULL},
#define MADE_BODY(op, maker) {#op, NULL, tc_make_##maker},
#include "bodies.def"
#undef VARIANTS_BODY
#undef MADE_BODY
};

/* --- text from parts -------------------------------------------------------------------------- */

void tc_body_suffix(tc_body *body, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    body->name = tc_arena_printf(body->arena, "%s%s", body->name, tc_arena_vprintf(body->arena, fmt, args));
    va_end(args);
}

void tc_body_add(tc_body *body, const char *fmt, ...) {
    va_list args, second;
    if (body->known)
        return;
    va_start(args, fmt);
    va_copy(second, args);
    size_t n = (size_t)vsnprintf(NULL, 0, fmt, args);
    if (body->length + n >= body->room) {
        const char *before = body->text;
        body->room = 2 * (body->length + n + 1);
        body->text = body->made = tc_arena_alloc(body->arena, body->room, 1);
        memcpy(body->made, before, body->length);
    }
    vsnprintf(body->made + body->length, n + 1, fmt, second);
    body->length += n;
    va_end(second);
    va_end(args);
}

void tc_body_wide(tc_body *body, bool half, const char *x, const char *result) {
    if (half)
        tc_body_add(body, "  %s = Cast <to: int = 1> (%s)\n", result, x);
    else
        tc_body_add(body, "  %s = Identity (%s)\n", result, x);
}

void tc_body_like(tc_body *body, bool half, const char *x, const char *like, const char *result) {
    if (half)
        tc_body_add(body, "  %s = CastLike (%s, %s)\n", result, x, like);
    else
        tc_body_add(body, "  %s = Identity (%s)\n", result, x);
}

static void find_known(tc_body *body) {
    if (body->model)
        body->known = tc_model_function(body->model, TC_TEMPO_DOMAIN, body->name, "");
}

static void add_header(tc_body *body) {
    tc_body_add(body, "<domain: \"" TC_TEMPO_DOMAIN "\", opset_import: [\"\" : %d]>\n", TC_CANONICAL_OPSET);
}

void tc_body_begin(tc_body *body, const char *params, const char *inputs, const char *outputs) {
    find_known(body);
    add_header(body);
    tc_body_add(body, "%s ", body->name);
    if (*params)
        tc_body_add(body, "<%s> ", params);
    tc_body_add(body, "(%s) => (%s)\n{\n", inputs, outputs);
}

void tc_body_end(tc_body *body) { tc_body_add(body, "}\n"); }

/* --- choice of the text ----------------------------------------------------------------------- */

const char *tc_variant_last_axis(const tc_node *node) {
    int64_t axis = tc_attr_int(node, "axis", -1);
    return axis == -1 || axis == tc_value_rank(tc_input(node, 0)) - 1 ? "" : "a";
}

const char *tc_variant_approximate(const tc_node *node) {
    const char *approximate = tc_attr_string(node, "approximate", "none");
    return strcmp(approximate, "none") == 0 ? "" : strcmp(approximate, "tanh") == 0 ? "tanh" : NULL;
}

static tc_status read_body(tc_ctx *ctx, tc_body *body, const char *variant, bool *out_found) {
    const char *text;
    if (!variant)
        return TC_OK;
    if (*variant)
        tc_body_suffix(body, "_%s", variant);
    find_known(body);
    *out_found = body->known != NULL;
    if (body->known)
        return TC_OK;
    TC_TRY(tc_rules_function(ctx, body->arena, body->name, &text));
    *out_found = text != NULL;
    if (text) {
        add_header(body);
        tc_body_add(body, "%s", text);
    }
    return TC_OK;
}

/* Fills name and text; *out_found is false when the op has no body for this node. */
static tc_status find_body(tc_ctx *ctx, tc_body *body, bool *out_found) {
    const tc_node *node = body->node;
    *out_found = false;
    if (node->op == NULL || strcmp(node->domain, TC_TEMPO_DOMAIN) != 0)
        return TC_OK;
    body->name = node->op->name;
    body->text = "";
    for (size_t i = 0; i < TC_COUNT(rows); i++) {
        if (strcmp(rows[i].op, node->op->name) != 0)
            continue;
        if (!rows[i].make)
            return read_body(ctx, body, rows[i].variant(node), out_found);
        *out_found = rows[i].make(body);
        return TC_OK;
    }
    return read_body(ctx, body, "", out_found);
}

static tc_status parse_body(tc_ctx *ctx, tc_model *model, const tc_body *body, tc_function **out_function) {
    if (tc_parse_function(ctx, model, body->text, body->name, out_function) == TC_OK) {
        (*out_function)->is_body = true;
        return TC_OK;
    }
    return tc_error(ctx, TC_BUG, body->node, "the function body %s does not parse", body->name);
}

/* The function body of `node`, not yet in the model unless *out_known; NULL: the op has no body for these operands.
 * `anew`: make it even if the model has one already. */
static tc_status function_of(tc_ctx *ctx, tc_model *model, const tc_node *node, bool anew, bool *out_known,
                             tc_function **out_function) {
    tc_body body = {.arena = tc_arena_create(), .node = node, .model = anew ? NULL : model};
    bool found;
    tc_status status = find_body(ctx, &body, &found);
    *out_known = body.known != NULL;
    *out_function = body.known;
    if (status == TC_OK && found && !body.known)
        status = parse_body(ctx, model, &body, out_function);
    tc_arena_destroy(body.arena);
    return status;
}

tc_status tc_body_for(tc_ctx *ctx, tc_model *model, const tc_node *node, tc_function **out_function) {
    bool known;
    return function_of(ctx, model, node, true, &known, out_function);
}

/* --- the pass --------------------------------------------------------------------------------- */

static bool reads_attr(const tc_graph *graph, const char *name) {
    TC_FOR_NODES(node, graph)
        for (uint32_t i = 0; i < node->n_attrs; i++)
            if (node->attrs[i].ref && strcmp(node->attrs[i].ref, name) == 0)
                return true;
    return false;
}

/* The call sets the attributes that the body reads, because some tools ignore a function's defaults. */
static void write_defaults(tc_node *node, const tc_function *function) {
    for (size_t i = 0; i < function->n_defaults; i++)
        if (!tc_attr_find(node, function->defaults[i].name) && reads_attr(function->body, function->defaults[i].name))
            tc_attr_copy(node, &function->defaults[i]);
}

tc_status tc_refuse_request(tc_ctx *ctx, const tc_node *node) {
    tc_error(ctx, TC_UNSUPPORTED, node, "a Gradient is not computed, but compiled: it asks for a backward pass");
    tc_hint(ctx, "compile the file with tempoc, by a recipe that has the pass autodiff");
    return TC_UNSUPPORTED;
}

/* A node that is named after its function keeps that function. The plain name of the op does not count, because it
 * may be the name of one variant. */
static tc_status attach(tc_pass_env *env, tc_model *model, tc_node *node) {
    bool is_plain = node->op && strcmp(node->op->name, node->op_type) == 0;
    tc_function *given = tc_model_function(model, node->domain, node->op_type, ""), *function = is_plain ? NULL : given;
    if (function == NULL) {
        bool known;
        TC_TRY(function_of(env->ctx, model, node, false, &known, &function));
        if (tc_node_is(node, TC_TEMPO_DOMAIN, "Gradient"))
            return tc_refuse_request(env->ctx, node);
        if (!function && !given)
            return tc_error(env->ctx, TC_UNSUPPORTED, node, "this op of %s has no function body for these operands",
                            node->domain);
        if (function && !known)
            tc_model_add_function(model, function);
        function = function ? function : given;
    }
    tc_node_set_op(node, TC_TEMPO_DOMAIN, function->name);
    write_defaults(node, function);
    if (node->n_inputs > function->body->n_inputs) /* operands after the last one are absent */
        tc_node_resize_inputs(node, function->body->n_inputs);
    if (node->n_outputs < function->body->n_outputs)
        tc_node_resize_outputs(node, function->body->n_outputs);
    return TC_OK;
}

static tc_status attach_graph(tc_pass_env *env, tc_model *model, tc_graph *graph) {
    TC_FOR_NODES(node, graph) {
        if (strcmp(node->domain, TC_TEMPO_DOMAIN) == 0)
            TC_TRY(attach(env, model, node));
        TC_FOR_NESTED(nested, node)
            TC_TRY(attach_graph(env, model, nested));
    }
    return TC_OK;
}

tc_status tc_pass_bodies(tc_pass_env *env, tc_model *model) {
    size_t given = model->n_functions; /* functions attached here hold standard ops only */
    for (size_t i = 0; i < given; i++)
        TC_TRY(attach_graph(env, model, model->functions[i]->body));
    return attach_graph(env, model, model->graph);
}
