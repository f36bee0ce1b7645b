/* script_names.c: names of parameters in files of PyTorch's older exporter (TorchScript). It folds the transpose of
 * a Linear's weight and names the result "onnx::MatMul_203". The MatMul that reads it has the path of its module as
 * its name: "/bert/encoder/layer.0/output/dense/MatMul" multiplies by bert.encoder.layer.0.output.dense.weight. The
 * path of a module in a Sequential includes the Sequential: "/head/head.0/MatMul" belongs to head.0.
 * For a recurrent layer it folds several parameters into one operand, and names that "onnx::LSTM_117". */
#include "torch_names.h"
#include <string.h>

static bool is_folded(const char *name) { return strncmp(name, "onnx::MatMul_", 13) == 0; }

/* The next component of a path; false: it was the last one. */
static bool next_component(const char **at, size_t *out_length) {
    if (**at == '/')
        ++*at;
    *out_length = strcspn(*at, "/");
    return (*at)[*out_length] == '/';
}

static bool begins_with(const char *text, const char *start, size_t n) {
    return strncmp(text, start, n) == 0 && text[n] == '.';
}

/* "/a/b/b.0/MatMul" -> "a.b.0" */
const char *tc_script_module(tc_arena *arena, const tc_node *node) {
    const char *module = "";
    size_t length;
    for (const char *at = node->name; *at == '/' && next_component(&at, &length); at += length) {
        const char *next = at + length + 1;
        if (!begins_with(next, at, length))
            module = tc_arena_printf(arena, "%s%s%.*s", module, *module ? "." : "", (int)length, at);
    }
    return module;
}

bool tc_script_name(tc_arena *arena, const tc_value *initializer, tc_torch_name *out_name) {
    const tc_use *use = initializer->uses;
    if (!is_folded(initializer->name) || !use || use->next || tc_value_rank(initializer) != 2 ||
        !tc_node_is(use->user, "", "MatMul") || use->index != 1)
        return false;
    const char *module = tc_script_module(arena, use->user);
    if (!*module)
        return false;
    *out_name = (tc_torch_name){tc_arena_printf(arena, "%s.weight", module), TC_TORCH_TRANSPOSED};
    return true;
}

bool tc_script_is_joined(const tc_value *initializer) {
    static const char *const ops[] = {"LSTM", "GRU", "RNN"};
    const char *name = initializer->name, *begin = "onnx::";
    const size_t n = strlen(begin);
    TC_FOR_USES(use, initializer) {
        for (size_t i = 0; i < TC_COUNT(ops); i++) {
            const size_t length = strlen(ops[i]);
            if (tc_node_is(use->user, "", ops[i]) && strncmp(name, begin, n) == 0 &&
                strncmp(name + n, ops[i], length) == 0 && name[n + length] == '_')
                return true;
        }
    }
    return false;
}
