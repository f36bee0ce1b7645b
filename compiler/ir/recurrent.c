/* recurrent.c: attributes of recurrent layers (recurrent.h). */
#include "recurrent.h"
#include "ops.h"
#include <string.h>
#include <strings.h>

static const char *const function_names[] = {"Tanh", "Sigmoid", "Relu"};
static const struct {
    const char *name;
    int gates, n_functions;
    tc_recurrent_function functions[3]; /* where the node names none */
} cells[] = {{"RNN", 1, 1, {TC_RNN_TANH}},
             {"GRU", 3, 2, {TC_RNN_SIGMOID, TC_RNN_TANH}},
             {"LSTM", 4, 3, {TC_RNN_SIGMOID, TC_RNN_TANH, TC_RNN_TANH}}};

const char *tc_recurrent_function_name(tc_recurrent_function function) { return function_names[function]; }

const uint32_t tc_recurrent_gradient_of[TC_RNN_GRADIENTS] = {TC_RNN_X,  TC_RNN_W,  TC_RNN_R, TC_RNN_B,
                                                             TC_RNN_H0, TC_RNN_C0, TC_RNN_P};

/* Sets `why` to the reason, in the model's arena. */
#define REFUSE(status, ...) (*why = tc_arena_printf(node->graph->model->arena, __VA_ARGS__), (status))

static tc_status read_cell(const tc_node *node, tc_recurrent *out, const char **why) {
    const char *name = tc_attr_string(node, "cell", node->op ? node->op->name : node->op_type);
    for (size_t i = 0; i < TC_COUNT(cells); i++)
        if (strcmp(cells[i].name, name) == 0) {
            out->cell = (tc_recurrent_cell)i;
            out->gates = cells[i].gates;
            out->n_functions = cells[i].n_functions;
            return TC_OK;
        }
    return REFUSE(TC_BAD_INPUT, "cell is \"%s\", expected LSTM, GRU or RNN", name);
}

static tc_status read_direction(const tc_node *node, tc_recurrent *out, const char **why) {
    const char *direction = tc_attr_string(node, "direction", "forward");
    out->directions = strcmp(direction, "bidirectional") == 0 ? 2 : 1;
    out->backward = strcmp(direction, "reverse") == 0;
    if (out->directions == 2 || out->backward || strcmp(direction, "forward") == 0)
        return TC_OK;
    return REFUSE(TC_BAD_INPUT, "direction is \"%s\", expected forward, reverse or bidirectional", direction);
}

static tc_status read_function(const tc_node *node, tc_bytes given, tc_recurrent_function *out, const char **why) {
    const char *name = tc_arena_strndup(node->graph->model->arena, given.data, given.size);
    for (size_t i = 0; i < TC_COUNT(function_names); i++)
        if (strcasecmp(function_names[i], name) == 0) {
            *out = (tc_recurrent_function)i;
            return TC_OK;
        }
    return REFUSE(TC_UNSUPPORTED, "there is no kernel for the activation %s of a recurrent layer", name);
}

static tc_status read_functions(const tc_node *node, tc_recurrent *out, const char **why) {
    const tc_attr *given = tc_attr_find(node, "activations");
    size_t n = (size_t)out->n_functions, all = n * (size_t)out->directions;
    if (given && (given->kind != TC_ATTR_STRINGS || given->count != all))
        return REFUSE(TC_BAD_INPUT, "there are %zu activations, expected %zu", given->count, all);
    for (size_t i = 0; i < all; i++) {
        tc_recurrent_function *function = &out->functions[i / n][i % n];
        *function = cells[out->cell].functions[i % n];
        if (given)
            TC_TRY(read_function(node, given->strings[i], function, why));
    }
    return TC_OK;
}

tc_status tc_recurrent_read(const tc_node *node, tc_recurrent *out, const char **why) {
    *out = (tc_recurrent){.directions = 1,
                          .batch_first = tc_attr_int(node, "layout", 0) != 0,
                          .reset_after = tc_attr_int(node, "linear_before_reset", 0) != 0,
                          .clip = tc_attr_float(node, "clip", 0)};
    TC_TRY(read_cell(node, out, why));
    TC_TRY(read_direction(node, out, why));
    if (tc_attr_int(node, "input_forget", 0) != 0)
        return REFUSE(TC_UNSUPPORTED, "there is no kernel for coupled input and forget gates (input_forget)");
    return read_functions(node, out, why);
}

tc_status tc_recurrent_of(tc_ctx *ctx, const tc_node *node, tc_recurrent *out) {
    const char *why = NULL;
    tc_status status = tc_recurrent_read(node, out, &why);
    if (status == TC_OK)
        return TC_OK;
    tc_error(ctx, status, node, "%s", why);
    if (status == TC_UNSUPPORTED)
        tc_hint(ctx, "activations are Tanh, Sigmoid and Relu; other layers can be written step by step with other ops");
    return status;
}
