/* fuzz_rules.c: any bytes -> rule parser -> two graphs, forward and gradient rules; what comes out must verify. A text
 * that starts with 'M' is a model instead, which canonicalize gets. Nothing may crash, leak, hang or leave a graph that
 * breaks an invariant. */
#include "compiler/shape/shape.h"
#include "compiler/text/text.h"
#include "compiler/ir/verify.h"
#include "passes/rules/rules.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const graphs[] = {
    "<ir_version: 10, opset_import: [\"\": 21]> g (float[B,4] x, float[B,4] dy, bool[B,4] c) => (float[B,4] y, "
    "float[B,4] dx, int64[2] s)"
    "<float k = {0.70710677}, float one = {1.0}, float half = {0.5}, float two = {2.0}, float[4] w = {1, 2, 3, 4}> {"
    "[a] a = Mul(k, x) [e] e = Erf(a) [b] b = Add(one, e) m = Mul(b, x) [y] g = Mul(half, m) s = Shape(e)"
    "n = Neg(g) nn = Neg(n) h = Add(nn, w) y = LayerNormalization(h, w, w) z = Pow(x, two) t = Mul(z, dy) u = Div(t, "
    "two)"
    "v = Where(c, u, half) dx = Sum(v, dy, n) }",
    "<ir_version: 10, opset_import: [\"\": 21]> g (float[2,3] x, float[3] z, bool c) => (float[2,3] y, float[2,3] v) "
    "<int64[1] one = {1}> {"
    "a = Mul(x, z) b = Mul(a, x) p = Softmax <axis = 1> (b) r = ReduceSum <keepdims = 1> (p, one) d, q = Dropout(p) "
    "t = Transpose(d)"
    "f = Transpose <perm = [1, 0]> (t) y = Sub(f, r) v = If(c) <then_branch = i () => (o) { o = Neg(y) }, "
    "else_branch = j () => (o2) { n2 = Neg(y) o2 = Neg(n2) }> }",
};

static void must_verify(tc_ctx *ctx, const tc_model *model) {
    ctx->n_diags = 0;
    if (tc_verify(ctx, model) == TC_OK)
        return;
    tc_diags_print(ctx, stderr);
    tc_print_graph(model->graph, stderr);
    abort();
}

static tc_model *load(tc_ctx *ctx, const char *text, size_t size) {
    tc_model *model = NULL;
    if (tc_parse_text(ctx, text, size, "graph", &model) == TC_OK && tc_infer_graph(ctx, model->graph) == TC_OK)
        return model;
    tc_model_destroy(model);
    return NULL;
}

static void try_gradients(tc_pass_env *env, tc_rule_set *set, tc_graph *graph) {
    tc_node *last = graph->last;
    tc_value *like = tc_graph_find(graph, "x"), *douts[3], *dins[16];
    bool needed[16];
    memset(needed, true, sizeof needed);
    for (tc_node *node = graph->first; node; node = node == last ? NULL : node->next) {
        bool found;
        if (node->n_outputs > 3 || node->n_inputs > 16)
            continue;
        for (uint32_t i = 0; i < 3; i++)
            douts[i] = i == 0 ? like : NULL;
        if (tc_gradient_rule_apply(env, set, node, douts, needed, dins, &found) != TC_OK)
            return;
    }
}

static void try_rules(const char *text) {
    for (size_t i = 0; i < TC_COUNT(graphs); i++) {
        tc_ctx ctx;
        tc_options options = {.explain = "all"};
        tc_summary summary = {0};
        tc_pass_env env = {&ctx, &options, &summary};
        tc_ctx_init(&ctx, "fuzz");
        tc_rule_set *set = tc_rules_create();
        tc_model *model = load(&ctx, graphs[i], strlen(graphs[i]));
        if (!model)
            abort();
        if (tc_rules_parse(&ctx, text, "fuzz.rules", set) == TC_OK &&
            tc_rules_apply(&env, model->graph, set, NULL) == TC_OK) {
            must_verify(&ctx, model);
            if (i == 0)
                try_gradients(&env, set, model->graph);
            must_verify(&ctx, model);
        }
        tc_rules_destroy(set);
        tc_model_destroy(model);
        tc_ctx_fini(&ctx);
    }
}

static void try_model(const char *text, size_t size) {
    tc_ctx ctx;
    tc_options options = {0};
    tc_summary summary = {0};
    tc_pass_env env = {&ctx, &options, &summary};
    tc_ctx_init(&ctx, "fuzz");
    tc_model *model = load(&ctx, text, size);
    if (model && tc_verify(&ctx, model) == TC_OK && tc_verify_ops(&ctx, model->graph) == TC_OK &&
        tc_pass_canonicalize(&env, model) == TC_OK)
        must_verify(&ctx, model);
    tc_model_destroy(model);
    tc_ctx_fini(&ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    if (size && text[0] == 'M')
        try_model(text + 1, size - 1);
    else
        try_rules(text);
    free(text);
    return 0;
}
