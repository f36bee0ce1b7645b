/* guess_learned.c: distinguishes parameters from masks, scales and running statistics by their uses in the graph.
 * Masks and scales are added to the operand of a Softmax, multiply it, or are selected into it, or are the mask of
 * Attention. Learned biases and temperatures are used in the same ways: then their elements decide, and for the
 * elements of a fresh parameter the name. */
#include "guess_learned.h"
#include "compiler/memory/memory.h"
#include "compiler/ir/ops.h"
#include "mask_contents.h"
#include "parameter_uses.h"
#include "rotary_tables.h"
#include <ctype.h>
#include <math.h>
#include <string.h>

/* --- names ------------------------------------------------------------------------------------ */
/* Whether the part after the last dot of the first `n` characters begins with a letter. */
static bool has_named_part(const char *name, size_t n) {
    while (n > 0 && name[n - 1] != '.')
        n--;
    return n > 1 && isalpha((unsigned char)name[n]);
}

bool tc_has_parameter_name(const char *name) {
    size_t n = strlen(name), digits = n;
    while (digits > 0 && isdigit((unsigned char)name[digits - 1]))
        digits--;
    bool in_list = digits < n && digits > 1 && name[digits - 1] == '.';
    return has_named_part(name, in_list ? digits - 1 : n);
}

/* --- by uses ---------------------------------------------------------------------------------- */
static bool is_scalar_gather(const tc_node *node) {
    return tc_node_is(node, "", "Gather") && tc_input(node, 1) && tc_value_rank(tc_input(node, 1)) == 0;
}

/* One row taken by its number is a part of a mask, like a slice. Rows looked up by a list are rows of a table. */
static bool passes_mask(const tc_node *node) { return tc_node_has(node, TC_PASSES_MASK) || is_scalar_gather(node); }

static bool is_vector(const tc_value *value) { return value && value->init && tc_value_rank(value) == 1; }

static bool is_number(const tc_value *value) {
    const tc_tensor *constant = value ? tc_value_constant(value) : NULL;
    return constant && constant->count == 1;
}

/* x for x c, c x and x / c; NULL for other nodes. */
static const tc_value *scaled_by_node(const tc_node *node) {
    bool mul = tc_node_is(node, "", "Mul"), div = tc_node_is(node, "", "Div");
    if ((mul || div) && is_number(tc_input(node, 1)))
        return tc_input(node, 0);
    return mul && is_number(tc_input(node, 0)) ? tc_input(node, 1) : NULL;
}

/* The value before views, transposes and scales. */
static const tc_value *origin_of(const tc_value *value) {
    while (value && value->producer) {
        const tc_value *before = scaled_by_node(value->producer);
        if (!before && (tc_is_view(value->producer) || tc_node_is(value->producer, "", "Transpose")))
            before = tc_input(value->producer, 0);
        if (!before)
            break;
        value = before;
    }
    return value;
}

static bool is_weight(const tc_flow *flow, const tc_value *value) {
    return value && !tc_flow_has(flow, value, TC_FLOW_DATA) && tc_value_rank(value) >= 2;
}

enum { SUMMANDS = 4 }; /* sums in sums that are visited */

/* x W, for a weight that the file holds or computes from others alone, and sums of it and of biases. */
static bool is_layer(const tc_flow *flow, const tc_value *value, int depth) {
    static const char *const products[] = {"MatMul", "Gemm", "Conv", "ConvTranspose"};
    value = origin_of(value);
    const tc_node *node = value ? value->producer : NULL;
    if (!node || depth == 0)
        return false;
    for (size_t i = 0; i < TC_COUNT(products); i++)
        if (tc_node_is(node, "", products[i]))
            return is_weight(flow, tc_input(node, 1));
    if (!tc_node_is(node, "", "Add") && !tc_node_is(node, "", "Sum"))
        return false;
    bool any = false;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        bool layer = is_layer(flow, tc_input(node, i), depth - 1);
        if (!layer && !is_vector(tc_input(node, i)))
            return false;
        any = any || layer;
    }
    return any;
}

/* A vector added to x W is a layer's bias, even if a Softmax follows (or an attention with W as its keys); scores
 * are products of two activations. */
static bool is_layer_bias(const tc_flow *flow, const tc_node *node, uint32_t index) {
    if (tc_node_is(node, TC_TEMPO_DOMAIN, "DotProductAttention"))
        return index == 3 && is_vector(tc_input(node, 3)) && !tc_input(node, 4) && is_weight(flow, tc_input(node, 1));
    return tc_node_is(node, "", "Add") && index <= 1 && is_vector(tc_input(node, index)) &&
           is_layer(flow, tc_input(node, 1 - index), SUMMANDS);
}

/* The weights of a weighted sum that depend on no data: no exporter computes these from constants, so they are
 * learned. */
static bool is_mixture(const tc_node *node) {
    const tc_value *origin = origin_of(tc_input(node, 0));
    return origin && origin->init;
}

int tc_use_of_operand(const tc_flow *flow, const tc_node *node, uint32_t index) {
    bool attention =
        tc_node_is(node, TC_TEMPO_DOMAIN, "Attention") || tc_node_is(node, TC_TEMPO_DOMAIN, "DotProductAttention");
    if (tc_node_is(node, "", "Softmax"))
        return is_mixture(node) ? TC_FLOW_DIRECT : TC_FLOW_SCORES;
    if (tc_node_is(node, "", "BatchNormalization") && (index == 3 || index == 4))
        return 0;
    if (is_layer_bias(flow, node, index))
        return TC_FLOW_DIRECT;
    if (attention && index == 3)
        return TC_FLOW_SCORES;
    if (!passes_mask(node))
        return TC_FLOW_DIRECT;
    int bits = 0;
    for (uint32_t i = 0; i < node->n_outputs; i++)
        for (int bit = TC_FLOW_DIRECT; bit <= TC_FLOW_SCORES; bit *= 2)
            bits |= tc_flow_has(flow, tc_output(node, i), bit) ? bit : 0;
    return bits;
}

/* --- by elements and names -------------------------------------------------------------------- */
/* Scores are scaled by powers of two and by 1/sqrt(n); a fresh temperature of 1 is one too. */
static bool is_usual_scale(double x) {
    int exponent;
    double n = 1 / (x * x);
    return frexp(fabs(x), &exponent) == 0.5 || fabs(n - nearbyint(n)) < 1e-4 * n;
}

static tc_guess guess_uniform(const char *name, double element) {
    bool fresh = element == 0 || element == 1 || !is_usual_scale(element);
    return fresh && tc_has_parameter_name(name) && !tc_name_is_generated(name) ? TC_GUESS_FRESH : TC_GUESS_MASK;
}

tc_guess tc_guess_learned(const tc_flow *flow, const tc_value *value) {
    double element;
    if (tc_is_rotary_table(value))
        return TC_GUESS_ROTARY;
    if (!tc_flow_has(flow, value, TC_FLOW_SCORES))
        return TC_GUESS_STATISTIC;
    switch (tc_looks_of(value->graph->model, value->init, &element)) {
    case TC_LOOKS_UNIFORM: return guess_uniform(value->name, element);
    case TC_LOOKS_VARIED: return tc_has_parameter_name(value->name) ? TC_GUESS_LEARNED : TC_GUESS_UNNAMED;
    case TC_LOOKS_UNKNOWN:
    case TC_LOOKS_MASK:
    case TC_LOOKS_RULE: break;
    }
    return TC_GUESS_MASK;
}

/* --- notes ------------------------------------------------------------------------------------ */
static const struct telling {
    const char *one, *several, *option;
} tellings[TC_GUESS_COUNT] = {
    [TC_GUESS_MASK] = {"is taken for a mask or scale of softmax scores and is not trained",
                       "initializers are taken for masks or scales of softmax scores and are not trained", "train"},
    [TC_GUESS_ROTARY] = {"is taken for a table of rotary position embeddings and is not trained",
                         "initializers are taken for tables of rotary position embeddings and are not trained",
                         "train"},
    [TC_GUESS_FRESH] = {"is trained because of its name; its elements are all equal, so it could be a mask "
                        "or scale of softmax scores",
                        "initializers are trained because of their names; their elements are all equal, so "
                        "they could be masks or scales of softmax scores",
                        "freeze"},
    [TC_GUESS_UNNAMED] =
        {"is trained because of its elements, which are not those of a mask or scale of softmax scores",
         "initializers are trained because of their elements, which are not those of masks "
         "or scales of softmax scores",
         "freeze"},
};

void tc_tell_guessed(tc_ctx *ctx, tc_guess guess, const char *const *names, size_t n) {
    const struct telling *telling = &tellings[guess];
    if (!telling->one)
        return;
    for (size_t i = 0; n <= TC_LIST_FEW && i < n; i++) {
        const char *name = tc_quote(ctx, names[i]);
        tc_note(ctx, NULL, "%s %s", name, telling->one);
        tc_hint(ctx, "--%s='%s' %ss it", telling->option, name, telling->option);
    }
    if (n > TC_LIST_FEW) {
        tc_note(ctx, NULL, "%zu %s: %s", n, telling->several, tc_quote_list(ctx, names, n));
        tc_hint(ctx, "--%s=NAME %ss one of them", telling->option, telling->option);
    }
}
