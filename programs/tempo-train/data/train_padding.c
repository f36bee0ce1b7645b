/* train_padding.c: from each loss that ignores a label back to the graph's input. */
#include "train_padding.h"
#include <string.h>

/* Ops whose first result has elements of the first operand, and of no other. */
static const char *const movements[] = {"Cast",    "Expand", "Flatten", "Gather",  "Identity",  "Pad",
                                        "Reshape", "Slice",  "Split",   "Squeeze", "Transpose", "Unsqueeze"};

static bool moves(const tc_node *node) {
    for (size_t i = 0; node->domain[0] == '\0' && i < TC_COUNT(movements); i++)
        if (strcmp(node->op_type, movements[i]) == 0)
            return true;
    return false;
}

/* The source of the elements: a value that no such node made. Graphs have no circles. */
static const tc_value *origin_of(const tc_value *value) {
    while (value && value->producer && moves(value->producer))
        value = tc_input(value->producer, 0);
    return value;
}

static bool is_integer(const tc_value *value) {
    tc_dtype dtype = tc_value_dtype(value);
    return dtype == TC_INT64 || dtype == TC_INT32;
}

double train_padding_of(const tc_graph *graph, const tc_value *input) {
    if (!is_integer(input))
        return 0;
    for (const tc_node *node = graph->first; node; node = node->next) {
        const tc_attr *ignored = tc_attr_find(node, "ignore_index");
        if (!ignored || ignored->kind != TC_ATTR_INT)
            continue;
        for (uint32_t i = 0; i < node->n_inputs; i++)
            if (origin_of(tc_input(node, i)) == input)
                return (double)ignored->i;
    }
    return 0;
}
