/* functions.c: functions of the right side that compute an attribute from matched values, by name, as in `<axis =
 * trailing(axes)>`. docs/how-it-works/rules.md describes them. */
#include "side_channels.h"
#include "rule_ir.h"
#include <string.h>

/* The first of the last axes that a list names, from the end. */
static double trailing(const tc_value *const *args) {
    const tc_tensor *axes = tc_value_constant(args[0]);
    return axes ? -(double)axes->count : -1;
}

static double side_capacity(const tc_value *const *args) { return (double)tc_side_channel_capacity(args[0], args[1]); }
static double side_least(const tc_value *const *args) { return tc_side_channel_least(tc_value_dtype(args[0])); }
static double side_limit(const tc_value *const *args) { return tc_side_channel_limit(tc_value_dtype(args[0])); }

static const rule_function functions[] = {
    {"side_capacity", 2, side_capacity},
    {"side_least", 1, side_least},
    {"side_limit", 1, side_limit},
    {"trailing", 1, trailing},
};

const rule_function *rule_function_find(const char *name) {
    for (size_t i = 0; i < TC_COUNT(functions); i++)
        if (strcmp(functions[i].name, name) == 0)
            return &functions[i];
    return NULL;
}
