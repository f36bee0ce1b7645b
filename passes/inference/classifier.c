/* classifier.c: from an output back, through nodes that leave classes as they are, to the product. */
#include "classifier.h"

/* --- the weight ---------------------------------------------------------------------------------------- */

static tc_use *use_of(const tc_value *value, const tc_node *user, uint32_t index) {
    TC_FOR_USES(use, value)
        if (use->user == user && use->index == index)
            return use;
    return NULL;
}

static bool swaps(const tc_node *node) {
    size_t n;
    const int64_t *perm = tc_attr_ints(node, "perm", &n);
    return !perm || (n == 2 && perm[0] == 1);
}

/* The operand's initializer, perhaps through a Transpose. */
static bool find_weight(tc_classifier *c, tc_node *product, bool turned) {
    tc_node *reader = product;
    uint32_t index = 1;
    tc_value *weight = tc_input(product, 1);
    while (weight && weight->producer &&
           (tc_node_is(weight->producer, "", "Transpose") || tc_node_is(weight->producer, "", "Identity"))) {
        reader = weight->producer;
        turned = turned != (tc_node_is(reader, "", "Transpose") && swaps(reader));
        index = 0;
        weight = tc_input(reader, 0);
    }
    const tc_tensor *tensor = weight ? weight->init : NULL;
    if (!tensor || tensor->rank < 2 || !tc_dtype_is_float(tensor->dtype) || tensor->count == 0 ||
        (tensor->rank > 2 && !tc_node_is(product, "", "Conv")))
        return false;
    c->weight = weight;
    c->weight_use = use_of(weight, reader, index);
    c->class_axis = turned ? 1 : 0;
    c->classes = tensor->dims[c->class_axis];
    c->inputs = (int64_t)tensor->count / c->classes;
    return c->weight_use != NULL;
}

/* TorchScript's exporter stores equal initializers once, and then reads Identities. */
static const tc_tensor *stored(const tc_value *value) {
    while (value && value->producer && tc_node_is(value->producer, "", "Identity"))
        value = tc_input(value->producer, 0);
    return value ? value->init : NULL;
}

/* A number for each class. */
static bool is_bias(const tc_classifier *c, const tc_value *value) {
    const tc_tensor *tensor = stored(value);
    return tensor && tc_dtype_is_float(tensor->dtype) && (int64_t)tensor->count == c->classes && tensor->rank > 0 &&
           tensor->dims[tensor->rank - 1] == c->classes;
}

static bool read_product(tc_classifier *c, tc_node *node) {
    bool gemm = tc_node_is(node, "", "Gemm"), conv = tc_node_is(node, "", "Conv");
    if (!gemm && !conv && !tc_node_is(node, "", "MatMul"))
        return false;
    bool rows = conv || (gemm && tc_attr_int(node, "transB", 0) != 0);
    if (!find_weight(c, node, !rows) || (conv && tc_attr_int(node, "group", 1) != 1))
        return false;
    c->axis_1 = conv;
    tc_value *own = tc_input(node, 2);
    if (own && !is_bias(c, own))
        return false;
    if (own)
        c->bias_node = node, c->bias_index = 2;
    for (size_t i = 0; !own && i + 1 < c->n; i++) {
        tc_node *add = c->path[i];
        for (uint32_t k = 0; tc_node_is(add, "", "Add") && k < 2; k++)
            if (is_bias(c, tc_input(add, k)))
                c->bias_node = add, c->bias_index = k;
    }
    return true;
}

/* --- the path ------------------------------------------------------------------------------------------ */

/* Ops that leave each class its own numbers. A Conv's classes are on axis 1. */
static const struct step {
    const char *op;
    bool conv; /* after a Conv alone */
} steps[] = {{"Identity", false}, {"Cast", false},    {"Dropout", false},          {"Squeeze", false},
             {"Flatten", false},  {"Reshape", false}, {"Gather", false},           {"GatherND", false},
             {"Slice", false},    {"Relu", true},     {"GlobalAveragePool", true}, {"AveragePool", true},
             {"ReduceMean", true}};

/* The value before the node; NULL: the node is no such step. */
static tc_value *before(const tc_node *node, bool *inout_conv) {
    if (tc_node_is(node, "", "Add")) { /* a bias */
        tc_value *a = tc_input(node, 0), *b = tc_input(node, 1);
        return a && b && !stored(a) != !stored(b) ? (stored(a) ? b : a) : NULL;
    }
    for (size_t i = 0; i < TC_COUNT(steps); i++)
        if (tc_node_is(node, "", steps[i].op)) {
            *inout_conv |= steps[i].conv;
            return tc_input(node, 0);
        }
    return NULL;
}

bool tc_find_classifier(tc_value *output, tc_classifier *out, const char **out_op) {
    bool conv = false;
    *out = (tc_classifier){.output = output};
    *out_op = NULL;
    for (tc_value *value = output; value && value->producer && out->n < TC_CLASSIFIER_STEPS;) {
        tc_node *node = value->producer;
        *out_op = node->op_type;
        out->path[out->n++] = node;
        if (read_product(out, node)) {
            bool biased = true; /* an Add on the path that adds no bias adds something else */
            for (size_t i = 0; i + 1 < out->n; i++)
                biased &= !tc_node_is(out->path[i], "", "Add") || out->path[i] == out->bias_node;
            return biased && (!conv || out->axis_1);
        }
        value = before(node, &conv);
    }
    return false;
}

/* An input of the graph, or views and casts of it: tokens, and not positions that the graph counts. */
static bool is_given(const tc_value *value) {
    while (value && value->producer && (tc_is_view(value->producer) || tc_node_is(value->producer, "", "Cast")))
        value = tc_input(value->producer, 0);
    return value && value->is_input;
}

/* The largest embedding of that width holds the vocabulary: BERT's kinds of tokens are as few as its classes may be. */
const tc_value *tc_classifier_table(const tc_classifier *c) {
    const tc_value *largest = NULL;
    TC_FOR_NODES(node, c->weight->graph) {
        const tc_value *table = tc_node_is(node, "", "Gather") ? tc_input(node, 0) : NULL;
        if (table && table->init && table->init->rank == 2 && table->init->dims[1] == c->inputs &&
            is_given(tc_input(node, 1)) && (!largest || table->init->dims[0] > largest->init->dims[0]))
            largest = table;
    }
    return largest && largest->init->dims[0] == c->classes ? largest : NULL;
}
