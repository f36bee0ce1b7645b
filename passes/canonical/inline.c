/* inline.c: replaces calls of model-local functions by the functions' bodies, so that shapes, rules and gradients
 * see plain ops. Exporters write functions for their own helper ops. Ops of ai.tempo in a file that tempoc wrote
 * keep their functions, because the table of ops knows them. Functions without calls are removed. */
#include "passes/draws/draws.h"
#include "compiler/ir/ops.h"
#include "passes/pass/pass.h"

#define CALL_LIMIT 1000000 /* calls replaced in one model; nested functions multiply */

typedef struct inliner {
    tc_ctx *ctx;
    tc_model *model;
    uint64_t calls;
} inliner;

static const tc_function *callee(const tc_model *model, const tc_node *node) {
    if (node->op)
        return NULL;
    return tc_model_function(model, node->domain, node->op_type, node->overload);
}

static tc_status inline_graph(inliner *in, tc_graph *graph);

static tc_status inline_nested(inliner *in, tc_node *node) {
    TC_FOR_NESTED(nested, node)
        TC_TRY(inline_graph(in, nested));
    return TC_OK;
}

static tc_status inline_graph(inliner *in, tc_graph *graph) {
    tc_node *node = graph->first;
    while (node) {
        const tc_function *function = callee(in->model, node);
        if (function == NULL) {
            TC_TRY(inline_nested(in, node));
            node = node->next;
            continue;
        }
        if (++in->calls > CALL_LIMIT)
            return tc_error(in->ctx, TC_LIMIT, node, "the model's functions expand to more than %d calls", CALL_LIMIT);
        /* The body replaces the call and may hold calls itself: the walk continues at its first node. */
        tc_node *before = node->prev;
        TC_TRY(tc_inline_call(in->ctx, node, function));
        node = before ? before->next : graph->first;
    }
    return TC_OK;
}

/* Removes the functions whose domain and name the table of ops does not know: all their calls have been replaced. */
static void drop_functions(tc_model *model) {
    size_t kept = 0;
    for (size_t i = 0; i < model->n_functions; i++) {
        tc_function *function = model->functions[i];
        if (tc_op_find(function->domain, function->name))
            model->functions[kept++] = function;
    }
    model->n_functions = kept;
}

tc_status tc_pass_inline(tc_pass_env *env, tc_model *model) {
    inliner in = {.ctx = env->ctx, .model = model};
    TC_TRY(inline_graph(&in, model->graph));
    drop_functions(model);
    tc_record_dropouts(env, model);
    return TC_OK;
}
