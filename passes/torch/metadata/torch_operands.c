/* torch_operands.c: node and operand -> argument of the call. `rows` has the operands of ops with weights, and those
 * of elementwise ops. Other ops read an input if their call has no other. If a call lists several, those stored
 * under their own names are no candidates, and an initializer's name distinguishes a bias from a weight. */
#include "torch_operands.h"
#include "compiler/onnx/onnx.h"
#include "torch_calls.h"
#include <ctype.h>
#include <fnmatch.h>
#include <string.h>

struct tc_torch_program {
    tc_arena *arena;
    const tc_graph *graph;
    const tc_torch_signature *signature; /* or NULL */
    tc_map *inputs;                      /* token -> tc_torch_input, of files without a signature */
    tc_map *stored;                      /* spelled as in calls -> initializer, of files without a signature */
    tc_map *calls;                       /* node -> tc_torch_call */
    tc_map *results;                     /* of calls whose nodes are in the file, and names of the graph's inputs */
    tc_map *folds;                       /* initializer -> map of the names that it was folded from */
};

/* --- names ------------------------------------------------------------------------------------ */
/* As names are spelled in calls: lower case, with an underscore for every other character. */
static const char *mangled(tc_arena *arena, const char *name, size_t n) {
    char *text = tc_arena_strndup(arena, name, n);
    for (size_t i = 0; i < n; i++)
        text[i] = (char)(isalnum((unsigned char)text[i]) ? tolower((unsigned char)text[i]) : '_');
    return text;
}

/* "m_encoder_layer_0_query_bias" -> "m.encoder.layer.0.query.bias": the name begins with the longest matching module
 * around the node, from the metadata list ['', 'm', 'm.encoder', ...]; else the token. */
static const char *spell_out(tc_arena *arena, const tc_node *node, const char *token) {
    const char *scopes = tc_node_metadata(node, "pkg.torch.onnx.name_scopes"), *best = NULL;
    size_t longest = 0;
    for (const char *at = scopes ? strchr(scopes, '\'') : NULL, *end; at; at = strchr(end + 1, '\'')) {
        end = strchr(at + 1, '\'');
        if (!end)
            break;
        size_t n = (size_t)(end - at) - 1;
        if (n > longest && n < strlen(token) && token[n] == '_' && strncmp(mangled(arena, at + 1, n), token, n) == 0)
            best = at + 1, longest = n;
    }
    return best ? tc_arena_printf(arena, "%.*s.%s", (int)longest, best, token + longest + 1) : token;
}

static const tc_torch_input *make_input(tc_torch_program *p, const tc_node *node, const char *token) {
    static const struct {
        const char *prefix;
        tc_torch_kind kind;
    } kinds[] = {{"p_", TC_TORCH_PARAMETER}, {"b_", TC_TORCH_BUFFER}, {"c_", TC_TORCH_CONSTANT}};
    for (size_t i = 0; i < TC_COUNT(kinds); i++) {
        if (strncmp(token, kinds[i].prefix, 2) != 0)
            continue;
        const tc_value *stored = tc_map_get(p->stored, token + 2);
        tc_torch_input *input = TC_NEW(p->arena, tc_torch_input);
        *input = (tc_torch_input){.kind = kinds[i].kind,
                                  .token = token,
                                  .target = stored ? stored->name : spell_out(p->arena, node, token + 2)};
        tc_map_set(p->inputs, token, input);
        return input;
    }
    return NULL;
}

/* The program's input of that name, without %; NULL: it is a result. */
static const tc_torch_input *input_named(tc_torch_program *p, const tc_node *node, const char *token) {
    const tc_torch_input *input = tc_map_get(p->signature ? p->signature->by_token : p->inputs, token);
    return input || p->signature ? input : make_input(p, node, token);
}

static bool is_stored(const tc_torch_input *input) { return input && input->kind != TC_TORCH_INPUT && input->target; }

/* --- reading ---------------------------------------------------------------------------------- */
tc_torch_program *tc_torch_program_read(tc_arena *arena, const tc_graph *graph) {
    tc_torch_program *p = TC_NEW(arena, tc_torch_program);
    *p = (tc_torch_program){.arena = arena,
                            .graph = graph,
                            .signature = tc_torch_signature_read(arena, graph),
                            .inputs = tc_map_create(arena),
                            .stored = tc_map_create(arena),
                            .calls = tc_map_create(arena),
                            .results = tc_map_create(arena),
                            .folds = tc_map_create(arena)};
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        tc_map_set(p->results, graph->inputs[i]->name, p);
    for (uint32_t i = 0; !p->signature && i < graph->n_initializers; i++) {
        const tc_value *value = graph->initializers[i];
        tc_map_set(p->stored, mangled(arena, value->name, strlen(value->name)), graph->initializers[i]);
    }
    TC_FOR_NODES(node, graph) {
        tc_torch_call call;
        if (!tc_torch_call_read(arena, node, &call))
            continue;
        tc_torch_call *kept = TC_NEW(arena, tc_torch_call);
        *kept = call;
        tc_map_set_ptr(p->calls, node, kept);
        tc_map_set(p->results, kept->result, p);
    }
    return p;
}

bool tc_torch_has_call(const tc_torch_program *program, const tc_node *node) {
    return tc_map_get_ptr(program->calls, node) != NULL;
}

bool tc_torch_has_calls(const tc_torch_program *program) { return tc_map_count(program->calls) > 0; }

tc_torch_kind tc_torch_kind_named(const tc_torch_program *program, const char *target) {
    const tc_torch_input *input = program->signature ? tc_map_get(program->signature->by_target, target) : NULL;
    return input ? input->kind : TC_TORCH_UNKNOWN;
}

const tc_torch_input *tc_torch_input_of(const tc_torch_program *program, const tc_value *initializer) {
    const tc_torch_signature *signature = program->signature;
    const tc_torch_input *input = signature ? tc_map_get(signature->by_target, initializer->name) : NULL;
    return is_stored(input) ? input : NULL;
}

static const tc_map *fold_of(tc_torch_program *program, const tc_value *initializer) {
    size_t n;
    tc_map *names = tc_map_get_ptr(program->folds, initializer);
    if (names)
        return names;
    const char **from = tc_torch_folded_from(program->arena, initializer, &n);
    names = tc_map_create(program->arena);
    for (size_t i = 0; i < n; i++)
        tc_map_set(names, from[i], program);
    tc_map_set_ptr(program->folds, initializer, names);
    return names;
}

bool tc_torch_is_input(tc_torch_program *program, const tc_value *initializer, const tc_torch_input *input) {
    return strcmp(initializer->name, input->target) == 0 || tc_map_get(fold_of(program, initializer), input->target);
}

/* --- ops with known operand positions ---------------------------------------------------------- */
enum { ANY = -1, NONE = -1 };

typedef struct row {
    const char *op; /* without ai.onnx's domain */
    int operand;    /* or ANY */
    const char *call;
    int argument; /* or NONE: it comes from the exporter */
    const char *key;
    bool transposed; /* the op reads the argument's transpose */
} row;

static const row rows[] = {
    {"MatMul", 1, "aten.linear.*", 1, "weight", true},
    {"Gemm", 1, "aten.linear.*", 1, "weight", true},
    {"Gemm", 2, "aten.linear.*", 2, "bias", false},
    {"Add", ANY, "aten.linear.*", 2, "bias", false},
    {"Gemm", 2, "aten.*add*mm.*", 0, NULL, false},
    {"Add", ANY, "aten.*add*mm.*", 0, NULL, false},
    {"Gemm", 0, "aten.*add*mm.*", 1, NULL, false},
    {"MatMul", 0, "aten.*add*mm.*", 1, NULL, false},
    {"Gemm", 1, "aten.*add*mm.*", 2, NULL, false},
    {"MatMul", 1, "aten.*add*mm.*", 2, NULL, false},
    {"Gemm", 0, "aten.*mm.default", 0, NULL, false},
    {"Gemm", 1, "aten.*mm.default", 1, NULL, false},
    {"MatMul", 0, "aten.*mm.default", 0, NULL, false},
    {"MatMul", 1, "aten.*mm.default", 1, NULL, false},
    {"MatMul", 0, "aten.matmul.*", 0, NULL, false},
    {"MatMul", 1, "aten.matmul.*", 1, NULL, false},
    {"Gather", 0, "aten.embedding.*", 0, NULL, false},
    {"Conv", 1, "aten.conv*", 1, "weight", false},
    {"Conv", 2, "aten.conv*", 2, "bias", false},
    {"ConvTranspose", 1, "aten.conv*", 1, "weight", false},
    {"ConvTranspose", 2, "aten.conv*", 2, "bias", false},
    {"BatchNormalization", 1, "aten.*batch_norm*", 1, "weight", false},
    {"BatchNormalization", 2, "aten.*batch_norm*", 2, "bias", false},
    {"BatchNormalization", 3, "aten.*batch_norm*", 3, "running_mean", false},
    {"BatchNormalization", 4, "aten.*batch_norm*", 4, "running_var", false},
    {"InstanceNormalization", 1, "aten.instance_norm.*", 1, "weight", false},
    {"InstanceNormalization", 2, "aten.instance_norm.*", 2, "bias", false},
    {"InstanceNormalization", ANY, "aten.*group_norm.*", NONE, NULL, false},
    {"GroupNormalization", 1, "aten.group_norm.*", 2, "weight", false},
    {"GroupNormalization", 2, "aten.group_norm.*", 3, "bias", false},
    {"Mul", ANY, "aten.group_norm.*", 2, "weight", false},
    {"Add", ANY, "aten.group_norm.*", 3, "bias", false},
    {"LayerNormalization", 1, "aten.*layer_norm.*", 2, "weight", false},
    {"LayerNormalization", 2, "aten.*layer_norm.*", 3, "bias", false},
    {"RMSNormalization", 1, "aten.*rms_norm*", 2, "weight", false},
    {"PRelu", 1, "aten.*prelu*", 1, "weight", false},
    {"Add", 0, "aten.add.*", 0, NULL, false},
    {"Add", 1, "aten.add.*", 1, "other", false},
    {"Sub", 0, "aten.sub.*", 0, NULL, false},
    {"Sub", 1, "aten.sub.*", 1, "other", false},
    {"Mul", 0, "aten.mul.*", 0, NULL, false},
    {"Mul", 1, "aten.mul.*", 1, "other", false},
    {"Div", 0, "aten.div.*", 0, NULL, false},
    {"Div", 1, "aten.div.*", 1, "other", false},
    {"Pow", 0, "aten.pow.*", 0, NULL, false},
    {"Pow", 1, "aten.pow.*", 1, "exponent", false},
    {"Max", 0, "aten.maximum.*", 0, NULL, false},
    {"Max", 1, "aten.maximum.*", 1, NULL, false},
    {"Min", 0, "aten.minimum.*", 0, NULL, false},
    {"Min", 1, "aten.minimum.*", 1, NULL, false},
    {"Where", 1, "aten.where.*", 1, NULL, false},
    {"Where", 2, "aten.where.*", 2, NULL, false},
};

static const row *row_of(const tc_node *node, uint32_t index, const tc_torch_call *call) {
    for (size_t i = 0; i < TC_COUNT(rows); i++)
        if ((rows[i].operand == ANY || rows[i].operand == (int)index) && tc_node_is(node, "", rows[i].op) &&
            fnmatch(rows[i].call, call->target, 0) == 0)
            return &rows[i];
    return NULL;
}

/* The op reads a weight in a position without a row: exporters fuse nodes, and keep the call of one of them. */
static bool has_places(const tc_node *node) {
    static const char *const ops[] = {"MatMul",
                                      "Gemm",
                                      "Gather",
                                      "Conv",
                                      "ConvTranspose",
                                      "BatchNormalization",
                                      "InstanceNormalization",
                                      "GroupNormalization",
                                      "LayerNormalization",
                                      "RMSNormalization"};
    for (size_t i = 0; i < TC_COUNT(ops); i++)
        if (tc_node_is(node, "", ops[i]))
            return true;
    return false;
}

/* --- arguments -------------------------------------------------------------------------------- */
static const char *name_in(tc_arena *arena, const char *argument) {
    size_t n = 0;
    while (isalnum((unsigned char)argument[n + 1]) || argument[n + 1] == '_')
        n++;
    return tc_arena_strndup(arena, argument + 1, n);
}

static tc_torch_operand input_operand(tc_torch_program *p, const tc_torch_input *input) {
    const tc_torch_input **inputs = TC_NEW_ARRAY(p->arena, const tc_torch_input *, 1);
    inputs[0] = input;
    return (tc_torch_operand){.kind = TC_OPERAND_INPUT, .inputs = inputs, .n = 1};
}

/* Whether the argument names another operand of the node. */
static bool is_elsewhere(const tc_torch_program *p, const tc_node *node, uint32_t index, const char *name) {
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const tc_value *value = i == index ? NULL : tc_input(node, i);
        const tc_torch_call *call = value && value->producer ? tc_map_get_ptr(p->calls, value->producer) : NULL;
        if (value && (strcmp(value->name, name) == 0 || (call && strcmp(call->result, name) == 0)))
            return true;
    }
    return false;
}

static bool is_commutative(const tc_node *node) {
    return tc_node_is(node, "", "Add") || tc_node_is(node, "", "Mul") || tc_node_is(node, "", "Max") ||
           tc_node_is(node, "", "Min");
}

/* Ones, or a number: the exporter stores its own constant as an equal initializer. */
static bool is_number(const tc_torch_program *p, const char *name) {
    return tc_torch_is_constant(name) && !tc_map_get(p->results, name) && !tc_map_get(p->graph->names, name);
}

static tc_torch_operand by_row(tc_torch_program *p, const tc_node *node, uint32_t index, const tc_torch_call *call,
                               const row *at) {
    const char *argument = NULL;
    if (at->argument != NONE) {
        argument = tc_torch_call_argument(call, (size_t)at->argument, at->key);
        if (argument && argument[0] == '%' && at->argument == at->operand && is_commutative(node) &&
            is_elsewhere(p, node, index, name_in(p->arena, argument)))
            argument = tc_torch_call_argument(call, 1 - index, index ? NULL : "other");
    }
    if (!argument || (argument[0] != '%' && argument[0] != '['))
        return (tc_torch_operand){.kind = TC_OPERAND_CONSTANT};
    const char *name = argument[0] == '%' ? name_in(p->arena, argument) : "";
    const tc_torch_input *input = *name ? input_named(p, node, name) : NULL;
    if (!is_stored(input))
        return (tc_torch_operand){.kind = is_number(p, name) ? TC_OPERAND_CONSTANT : TC_OPERAND_UNTOLD};
    tc_torch_operand operand = input_operand(p, input);
    const char *flag = tc_node_is(node, "", "Gemm") && index < 2 ? (index ? "transB" : "transA") : NULL;
    operand.layout = true;
    operand.transposed = at->transposed != (flag && tc_attr_int(node, flag, 0) != 0);
    return operand;
}

typedef struct found {
    const tc_torch_input **inputs; /* that may be the operand */
    size_t n, cap;
    tc_map *seen; /* those, as a set */
    bool other;   /* the call reads another value that the initializer may come from */
} found;

static void find_in(tc_torch_program *p, const tc_node *node, const tc_value *value, const char *text, found *f) {
    for (const char *at = strchr(text, '%'); at; at = strchr(at + 1, '%')) {
        const char *name = name_in(p->arena, at);
        const tc_torch_input *input = input_named(p, node, name);
        if (!is_stored(input)) {
            f->other = f->other || (!input && !tc_map_get(p->results, name) && !is_number(p, name));
            continue;
        }
        const tc_value *own = tc_map_get(p->graph->names, input->target);
        bool seen = own && own->init && !tc_torch_is_input(p, value, input);
        f->other = f->other || seen;
        if (seen || tc_map_get_ptr(f->seen, input))
            continue;
        tc_map_set_ptr(f->seen, input, f);
        f->inputs = tc_arena_grow(p->arena, f->inputs, sizeof *f->inputs, &f->cap, f->n + 1);
        f->inputs[f->n++] = input;
    }
}

static const char *leaf(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* The only one that the initializer is, or is named after; NULL: none, or several. */
static const tc_torch_input *likely(tc_torch_program *p, const tc_value *value, const found *f) {
    const tc_torch_input *only = NULL;
    for (size_t i = 0; i < f->n; i++) {
        if (tc_torch_is_input(p, value, f->inputs[i]))
            return f->inputs[i];
        if (strcmp(leaf(value->name), leaf(f->inputs[i]->target)) != 0)
            continue;
        if (only)
            return NULL;
        only = f->inputs[i];
    }
    return only;
}

static tc_torch_operand by_elimination(tc_torch_program *p, const tc_node *node, uint32_t index,
                                       const tc_torch_call *call) {
    const tc_value *value = tc_input(node, index);
    found f = {.seen = tc_map_create(p->arena)};
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (i != index && tc_input(node, i) && tc_input(node, i)->init)
            return (tc_torch_operand){0};
    for (size_t i = 0; i < call->n_args; i++)
        find_in(p, node, value, call->args[i], &f);
    for (size_t i = 0; i < call->n_keys; i++)
        find_in(p, node, value, call->values[i], &f);
    if (f.n == 0)
        return (tc_torch_operand){.kind = f.other ? TC_OPERAND_UNTOLD : TC_OPERAND_CONSTANT};
    const tc_torch_input *input = f.n == 1 ? f.inputs[0] : likely(p, value, &f);
    if (input)
        return input_operand(p, input);
    return (tc_torch_operand){.kind = TC_OPERAND_EITHER, .inputs = f.inputs, .n = f.n};
}

/* A part of a parameter, in the node's module. */
static tc_torch_operand by_module(tc_torch_program *p, const tc_node *node, uint32_t index) {
    const char *target = p->signature ? tc_torch_part_of(p->arena, node, index) : NULL;
    const tc_torch_input *input = target ? tc_map_get(p->signature->by_target, target) : NULL;
    return is_stored(input) ? input_operand(p, input) : (tc_torch_operand){0};
}

tc_torch_operand tc_torch_operand_of(tc_torch_program *program, const tc_node *node, uint32_t index) {
    const tc_torch_call *call = tc_map_get_ptr(program->calls, node);
    tc_torch_operand part = by_module(program, node, index);
    if (part.n)
        return part;
    const row *at = call ? row_of(node, index, call) : NULL;
    if (at)
        return by_row(program, node, index, call, at);
    return call && !has_places(node) ? by_elimination(program, node, index, call) : (tc_torch_operand){0};
}
