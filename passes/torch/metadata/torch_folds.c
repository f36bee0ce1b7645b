/* torch_folds.c: names of folded results -> steps from a parameter to an initializer. */
#include "torch_folds.h"
#include "torch_calls.h"
#include <math.h>
#include <string.h>

typedef enum step {
    STEP_UNKNOWN,
    STEP_NONE,
    STEP_LAYOUT, /* the same elements in another order */
    STEP_SHAPE,  /* in another shape */
    STEP_AXIS,   /* with one axis more */
    STEP_SPREAD,
    STEP_PART,
    STEP_ROWS,
    STEP_STOP,
} step;

static const struct {
    const char *operation;
    step step;
} steps[] = {
    {"t", STEP_LAYOUT},        {"transpose", STEP_LAYOUT},   {"permute", STEP_LAYOUT},  {"view", STEP_SHAPE},
    {"reshape", STEP_SHAPE},   {"_unsafe_view", STEP_SHAPE}, {"squeeze", STEP_SHAPE},   {"flatten", STEP_SHAPE},
    {"unflatten", STEP_SHAPE}, {"clone", STEP_NONE},         {"contiguous", STEP_NONE}, {"alias", STEP_NONE},
    {"movedim", STEP_LAYOUT},  {"unsqueeze", STEP_AXIS},     {"expand", STEP_SPREAD},   {"expand_as", STEP_SPREAD},
    {"repeat", STEP_SPREAD},   {"tile", STEP_SPREAD},        {"slice", STEP_PART},      {"select", STEP_PART},
    {"narrow", STEP_PART},     {"embedding", STEP_ROWS},     {"index", STEP_ROWS},      {"detach", STEP_STOP},
};

static double negative(double x) { return -x; }
static double inverse(double x) { return 1 / x; }
static double square(double x) { return x * x; }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double logit(double y) { return log(y / (1 - y)); }
static double softplus(double x) { return log1p(exp(x)); }
static double log_expm1(double y) { return log(expm1(y)); }

static const tc_torch_function functions[] = {
    {"neg", "Neg", negative, negative},
    {"exp", "Exp", exp, log},
    {"log", "Log", log, exp},
    {"sqrt", "Sqrt", sqrt, square},
    {"reciprocal", "Reciprocal", inverse, inverse},
    {"tanh", "Tanh", tanh, atanh},
    {"sigmoid", "Sigmoid", sigmoid, logit},
    {"softplus", "Softplus", softplus, log_expm1},
};

/* Operations whose nodes read a weight in a layout that the exporter changed. */
static const struct {
    const char *operation;
    tc_torch_layout layout;
} readers[] = {
    {"aten.linear", TC_TORCH_TRANSPOSED},
    {"aten.addmm", TC_TORCH_OTHER},
    {"aten.prelu", TC_TORCH_FLATTENED},
    {"aten.group_norm", TC_TORCH_FLATTENED},
    {"aten.native_group_norm", TC_TORCH_FLATTENED},
    {"aten.instance_norm", TC_TORCH_FLATTENED},
    {"aten.layer_norm", TC_TORCH_RESHAPED},
};

/* Names that the exporter numbers: constants, and results within an operation. */
static bool is_numbered(const char *name) { return tc_torch_same_stem(name, "val"); }

static step step_of(const char *name) {
    for (size_t i = 0; i < TC_COUNT(steps); i++)
        if (tc_torch_same_stem(name, steps[i].operation))
            return steps[i].step;
    return STEP_UNKNOWN;
}

static const tc_torch_function *function_of(const char *name) {
    for (size_t i = 0; i < TC_COUNT(functions); i++)
        if (tc_torch_same_stem(name, functions[i].operation))
            return &functions[i];
    return NULL;
}

/* The states before a recurrent layer if the call has no others: a state of several layers is read in parts. */
static bool reads_state(const tc_use *use, const tc_torch_call *call) {
    enum { INITIAL_H = 5, LAYERS = 4 };
    return (tc_torch_call_is(call, "aten.lstm") || tc_torch_call_is(call, "aten.gru")) && use->index >= INITIAL_H &&
           call->n_args > LAYERS && strcmp(call->args[LAYERS], "1") == 0;
}

/* The layout that all readers of a result within their operation agree on; TC_TORCH_AS_IT_IS: they do not show it.
 * If the file keeps no calls, a result that only products read on their right is taken for a transposed weight, as
 * of linear. */
static tc_torch_layout layout_of_readers(tc_arena *arena, const tc_value *value) {
    tc_torch_layout layout = TC_TORCH_AS_IT_IS;
    TC_FOR_USES(use, value) {
        tc_torch_call call;
        bool has_call = tc_torch_call_read(arena, use->user, &call);
        tc_torch_layout here = TC_TORCH_AS_IT_IS;
        if (!has_call && tc_node_is(use->user, "", "MatMul") && use->index == 1)
            here = TC_TORCH_TRANSPOSED;
        for (size_t i = 0; has_call && i < TC_COUNT(readers); i++)
            if (tc_torch_call_is(&call, readers[i].operation))
                here = readers[i].layout;
        if (has_call && reads_state(use, &call))
            here = TC_TORCH_RESHAPED;
        if (here == TC_TORCH_TRANSPOSED && value->init->rank != 2)
            here = TC_TORCH_OTHER;
        if (here == TC_TORCH_AS_IT_IS || (layout != TC_TORCH_AS_IT_IS && layout != here))
            return TC_TORCH_AS_IT_IS;
        layout = here;
    }
    return layout;
}

/* Two changes of shape count as one; otherwise the second may or may not undo the first. */
static void change_layout(tc_torch_fold *fold, tc_torch_layout layout) {
    bool joins = fold->layout == TC_TORCH_AS_IT_IS || (fold->layout == layout && layout == TC_TORCH_RESHAPED);
    fold->layout = joins ? layout : TC_TORCH_OTHER;
}

/* Adds a step to the fold; false if the step is unknown. */
static bool add_step(tc_torch_fold *fold, const char *name, bool last) {
    const tc_torch_function *function = function_of(name);
    if (function) {
        fold->any_order = !last && fold->n_functions > 0;
        if (fold->n_functions == TC_TORCH_FUNCTIONS)
            return false;
        fold->functions[fold->n_functions++] = function;
        return true;
    }
    switch (step_of(name)) {
    case STEP_UNKNOWN: return false;
    case STEP_NONE: return true;
    case STEP_LAYOUT: change_layout(fold, TC_TORCH_OTHER); return true;
    case STEP_SHAPE: change_layout(fold, TC_TORCH_RESHAPED); return true;
    case STEP_AXIS: change_layout(fold, TC_TORCH_RESHAPED), fold->added_axes++; return true;
    case STEP_SPREAD: fold->spread = true; return true;
    case STEP_PART: fold->part = true; return true;
    case STEP_STOP: fold->stopped = true; return true;
    case STEP_ROWS: fold->rows = true; return true;
    }
    return false;
}

static bool has(const char *const *names, size_t n, const char *operation) {
    for (size_t i = 0; i < n; i++)
        if (tc_torch_same_stem(names[i], operation))
            return true;
    return false;
}

/* The last step: the operation that made the initializer itself. */
static void read_last_step(tc_arena *arena, const tc_value *value, tc_torch_fold *fold) {
    if (!is_numbered(value->name)) {
        fold->known = add_step(fold, value->name, true) && fold->known;
        return;
    }
    tc_torch_layout layout = layout_of_readers(arena, value);
    fold->known = fold->known && layout != TC_TORCH_AS_IT_IS;
    change_layout(fold, layout);
}

/* The parameter plus a number: no other operand went in. More numbered names would be a factor before the sum. */
static bool is_shift(const tc_value *value, const char *const *from, size_t n) {
    size_t numbered = 0, scalars = 0;
    for (size_t i = 0; i < n; i++) {
        numbered += is_numbered(from[i]);
        scalars += strncmp(from[i], "scalar_tensor_default", strlen("scalar_tensor_default")) == 0;
    }
    return tc_torch_same_stem(value->name, "add") && numbered == 1 && scalars <= 1 && n == 2 + scalars;
}

/* Other operands of an embedding are taken for its indices, which are computed in many ways; those of other lookups
 * are buffers. */
static void read_steps(tc_arena *arena, const tc_torch_signature *signature, const tc_value *value, const char **from,
                       size_t n, tc_torch_fold *fold) {
    bool index = tc_torch_same_stem(value->name, "index"), embedding = tc_torch_same_stem(value->name, "embedding");
    bool lookup = embedding || index || has(from, n, "embedding") || has(from, n, "index");
    bool any_indices = embedding || index || has(from, n, "embedding");
    fold->known = true;
    fold->shifted = is_shift(value, from, n);
    if (fold->shifted)
        return;
    for (size_t i = 0; i < n && !any_indices; i++) {
        const tc_torch_input *input = tc_map_get(signature->by_target, from[i]);
        if (input)
            fold->known = fold->known && (lookup || input->kind == TC_TORCH_PARAMETER);
        else if (!is_numbered(from[i]))
            fold->known = add_step(fold, from[i], false) && fold->known;
    }
    read_last_step(arena, value, fold);
    fold->rows = lookup;
    fold->moved = lookup && !embedding;
    fold->known = fold->known && !(lookup && fold->n_functions);
}

tc_torch_fold tc_torch_fold_of(tc_arena *arena, const tc_torch_signature *signature, const tc_value *initializer) {
    tc_torch_fold fold = {0};
    size_t n = 0, cap = 0;
    const char **from = tc_torch_folded_from(arena, initializer, &n);
    for (size_t i = 0; i < n; i++) {
        const tc_torch_input *input = tc_map_get(signature->by_target, from[i]);
        if (!input || input->kind != TC_TORCH_PARAMETER)
            continue;
        fold.parameters = tc_arena_grow(arena, fold.parameters, sizeof *fold.parameters, &cap, fold.n_parameters + 1);
        fold.parameters[fold.n_parameters++] = input;
    }
    if (fold.n_parameters == 1)
        read_steps(arena, signature, initializer, from, n, &fold);
    return fold;
}
