/* trainable.c: decides which initializers are trained. By default these are float initializers of two or more elements
 * that the loss depends on, except those that guess_learned.h takes for masks, scales, statistics or rotary tables.
 * --train and --freeze override; the last match counts. One walk from the loss back suffices, because all uses of a
 * value are visited before its producer. A value stays "not direct" as long as each use of it is a mask's, or an op
 * that passes masks on and whose result is not direct either. */
#include "trainable.h"
#include "compiler/memory/memory.h"
#include "compiler/ir/ops.h"
#include "passes/gradients/gradients.h"
#include "guess_learned.h"
#include "peft_names.h"
#include "rotary_tables.h"
#include "passes/torch/metadata/metadata.h"
#include "train_list.h"
#include <fnmatch.h>
#include <string.h>

/* --- operands of a node ----------------------------------------------------------------------- */
typedef struct reads {
    tc_arena *arena;
    tc_value **values;
    size_t n, cap;
    tc_map *seen; /* outer values already listed */
} reads;

static void add_read(reads *r, tc_value *value) {
    r->values = tc_arena_grow(r->arena, r->values, sizeof(*r->values), &r->cap, r->n + 1);
    r->values[r->n++] = value;
}

static bool is_inside(const tc_graph *graph, const tc_graph *outer) {
    while (graph && graph != outer)
        graph = graph->parent;
    return graph != NULL;
}

static void add_outer_reads(reads *r, const tc_graph *top, const tc_graph *graph);

static void add_nested(reads *r, const tc_graph *top, const tc_node *node) {
    TC_FOR_NESTED(nested, node)
        add_outer_reads(r, top ? top : nested, nested);
}

static void add_outer(reads *r, const tc_graph *top, tc_value *value) {
    if (!value || is_inside(value->graph, top) || tc_map_get_ptr(r->seen, value))
        return;
    tc_map_set_ptr(r->seen, value, value);
    add_read(r, value);
}

static void add_outer_reads(reads *r, const tc_graph *top, const tc_graph *graph) {
    TC_FOR_NODES(node, graph) {
        for (uint32_t i = 0; i < node->n_inputs; i++)
            add_outer(r, top, tc_input(node, i));
        add_nested(r, top, node);
    }
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        add_outer(r, top, graph->outputs[i]);
}

size_t tc_node_reads(tc_arena *arena, const tc_node *node, tc_value ***out_values) {
    reads r = {.arena = arena, .seen = tc_map_create(arena)};
    for (uint32_t i = 0; i < node->n_inputs; i++)
        add_read(&r, tc_input(node, i));
    add_nested(&r, NULL, node);
    *out_values = r.values;
    return r.n;
}

/* --- flow ------------------------------------------------------------------------------------- */
static void mark(tc_flow *flow, const tc_value *value, int bits) {
    if (value && value->id < flow->n)
        flow->bits[value->id] = (uint8_t)(flow->bits[value->id] | bits);
}

static bool any_output_has(const tc_flow *flow, const tc_node *node, int bit) {
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (tc_flow_has(flow, tc_output(node, i), bit))
            return true;
    return false;
}

static bool may_flow(const tc_value *value) {
    tc_dtype dtype = tc_value_dtype(value);
    return dtype == TC_UNDEFINED || tc_dtype_is_float(dtype);
}

/* Calls `visit` for every value whose change the node passes on to its results. */
typedef bool (*visit_fn)(tc_flow *flow, const tc_node *node, uint32_t index, const tc_value *value);

static bool visit_flow(tc_arena *arena, const tc_rule_set *rules, tc_flow *flow, const tc_node *node, visit_fn visit) {
    bool any = false;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (tc_gradient_flows(rules, node, i))
            any = visit(flow, node, i, tc_input(node, i)) || any;
    if (!tc_has_nested(node) || tc_node_has(node, TC_NO_GRADIENT))
        return any;
    tc_value **values;
    size_t n = tc_node_reads(arena, node, &values);
    for (size_t i = node->n_inputs; i < n; i++)
        if (may_flow(values[i]))
            any = visit(flow, node, UINT32_MAX, values[i]) || any;
    return any;
}

static bool visit_back(tc_flow *flow, const tc_node *node, uint32_t index, const tc_value *value) {
    mark(flow, value, TC_FLOW_REACHES | tc_use_of_operand(flow, node, index));
    return true;
}

static bool visit_forward(tc_flow *flow, const tc_node *node, uint32_t index, const tc_value *value) {
    (void)node, (void)index;
    return tc_flow_has(flow, value, TC_FLOW_NEEDED);
}

static bool depends_on_data(tc_arena *arena, const tc_flow *flow, const tc_node *node) {
    if (tc_node_has(node, TC_RANDOM))
        return true;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (tc_flow_has(flow, tc_input(node, i), TC_FLOW_DATA))
            return true;
    if (!tc_has_nested(node))
        return false;
    tc_value **values;
    size_t n = tc_node_reads(arena, node, &values);
    for (size_t i = node->n_inputs; i < n; i++)
        if (tc_flow_has(flow, values[i], TC_FLOW_DATA))
            return true;
    return false;
}

static void flow_data(tc_arena *arena, tc_flow *flow, const tc_graph *graph) {
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        if (!graph->inputs[i]->init)
            mark(flow, graph->inputs[i], TC_FLOW_DATA);
    TC_FOR_NODES(node, graph) {
        bool data = depends_on_data(arena, flow, node);
        for (uint32_t i = 0; data && i < node->n_outputs; i++)
            mark(flow, tc_output(node, i), TC_FLOW_DATA);
    }
}

static void flow_back(tc_arena *arena, const tc_rule_set *rules, tc_flow *flow, const tc_graph *graph,
                      const tc_value *loss) {
    mark(flow, loss, TC_FLOW_REACHES | TC_FLOW_DIRECT);
    for (const tc_node *node = graph->last; node; node = node->prev)
        if (any_output_has(flow, node, TC_FLOW_REACHES))
            visit_flow(arena, rules, flow, node, visit_back);
}

static void flow_forward(tc_arena *arena, const tc_rule_set *rules, tc_flow *flow, const tc_graph *graph) {
    for (size_t i = 0; i < flow->n_trained; i++)
        mark(flow, flow->trained[i], TC_FLOW_NEEDED);
    TC_FOR_NODES(node, graph) {
        if (!any_output_has(flow, node, TC_FLOW_REACHES) || !visit_flow(arena, rules, flow, node, visit_forward))
            continue;
        for (uint32_t i = 0; i < node->n_outputs; i++)
            if (tc_flow_has(flow, tc_output(node, i), TC_FLOW_REACHES))
                mark(flow, tc_output(node, i), TC_FLOW_NEEDED);
    }
}

void tc_flow_between(tc_arena *arena, const tc_rule_set *rules, const tc_graph *graph, const tc_value *loss,
                     tc_value *const *trained, size_t n_trained, tc_flow *out_flow) {
    *out_flow = (tc_flow){.n = graph->model->next_id, .bits = TC_NEW_ARRAY(arena, uint8_t, graph->model->next_id)};
    out_flow->trained = TC_NEW_ARRAY(arena, tc_value *, n_trained + 1);
    for (size_t i = 0; i < n_trained; i++)
        out_flow->trained[out_flow->n_trained++] = trained[i];
    flow_back(arena, rules, out_flow, graph, loss);
    flow_forward(arena, rules, out_flow, graph);
}

/* --- selection -------------------------------------------------------------------------------- */
/* The command line's choice for an initializer, by its name or by PyTorch's: the list, and then --train and
 * --freeze. Matching globs are recorded (`matched`, NULL: nowhere). */
static tc_request request_of(const tc_pass_env *env, const char *name, const char *torch, bool *matched) {
    const tc_options *options = env->options;
    const tc_train_list *list = env->summary->train_list;
    bool adapts = tc_adapts(options), listed = list && tc_train_list_has(list, name, torch);
    if (adapts) /* the list of the file itself speaks of training without adapters */
        listed = tc_is_made(env, name) || (listed && tc_train_list_is_option(list));
    tc_request result = !list && !adapts ? TC_REQUEST_NONE : listed ? TC_REQUEST_TRAIN : TC_REQUEST_FREEZE;
    for (size_t i = 0; i < options->n_selection; i++) {
        bool train = strncmp(options->selection[i], "train=", 6) == 0;
        const char *glob = strchr(options->selection[i], '=') + 1;
        if (fnmatch(glob, name, 0) != 0 && fnmatch(glob, torch, 0) != 0)
            continue;
        if (matched)
            matched[i] = true;
        result = train ? TC_REQUEST_TRAIN : TC_REQUEST_FREEZE;
    }
    return result;
}

tc_request tc_request_of(const tc_pass_env *env, const char *name) {
    return request_of(env, name, tc_torch_name_or_own(env->summary, name), NULL);
}

bool tc_is_asked_as_stored(const tc_pass_env *env, const char *name) {
    const char *torch = tc_torch_name_or_own(env->summary, name);
    tc_request request = tc_request_of(env, name);
    return request == TC_REQUEST_FREEZE ||
           (request == TC_REQUEST_TRAIN && (torch == name || request_of(env, torch, torch, NULL) != TC_REQUEST_TRAIN));
}

typedef struct name_list {
    const char **names;
    size_t n, cap;
} name_list;

static void add_name(tc_arena *arena, name_list *list, const char *name) {
    list->names = tc_arena_grow(arena, list->names, sizeof(*list->names), &list->cap, list->n + 1);
    list->names[list->n++] = tc_arena_strdup(arena, name); /* the report outlives the model */
}

typedef struct selection {
    tc_pass_env *env;
    tc_graph *graph;
    tc_flow *flow;
    name_list trained, frozen, unreached;
    name_list single; /* of one element, so not trained by default, but with names of parameters */
    name_list guessed[TC_GUESS_COUNT];
    tc_peft_found peft;
    bool *matched;
    size_t cap_trained;
    bool quiet;
} selection;

/* Whether it is a parameter, by the file or by its uses; guesses are listed. */
static bool is_learned(selection *s, const tc_value *value) {
    if (value->learned != TC_LEARNED_UNKNOWN)
        return value->learned == TC_LEARNED_YES;
    if (tc_flow_has(s->flow, value, TC_FLOW_DIRECT) && !tc_is_rotary_table(value))
        return true;
    tc_guess guess = tc_guess_learned(s->flow, value);
    add_name(s->env->ctx->arena, &s->guessed[guess], value->name);
    return guess >= TC_GUESS_FRESH;
}

static tc_request request_of_peft(tc_peft_kind kind) {
    return kind == TC_PEFT_ADAPTER ? TC_REQUEST_TRAIN : kind == TC_PEFT_BASE ? TC_REQUEST_FREEZE : TC_REQUEST_NONE;
}

static void select_one(selection *s, const char *name, const tc_tensor *tensor) {
    tc_ctx *ctx = s->env->ctx;
    tc_value *value = tc_map_get(s->graph->names, name);
    tc_request asked = request_of(s->env, name, tc_torch_name_or_own(s->env->summary, name), s->matched);
    const tc_train_list *list = s->env->summary->train_list;
    bool by_list = list || tc_adapts(s->env->options);
    const char *option = list ? tc_train_list_origin(list) : "--train";
    const bool is_told = asked != TC_REQUEST_NONE;
    if (!tc_dtype_is_float(tensor->dtype)) {
        if (asked == TC_REQUEST_TRAIN && !s->quiet)
            tc_warn(ctx, NULL, "%s: %s is %s and has no gradient", option, tc_quote(ctx, name),
                    tc_dtype_name(tensor->dtype));
        return;
    }
    tc_learned learned = value ? value->learned : TC_LEARNED_UNKNOWN;
    tc_peft_kind peft = tc_peft_kind_of(s->env, name, learned);
    if (!is_told && learned != TC_LEARNED_NO)
        asked = request_of_peft(peft);
    bool is_constant = tensor->count < 2 && learned == TC_LEARNED_NO;
    if (is_constant && (asked == TC_REQUEST_NONE || (by_list && asked == TC_REQUEST_FREEZE)))
        return;
    if (asked == TC_REQUEST_NONE && tensor->count < 2 && learned == TC_LEARNED_UNKNOWN) {
        bool folded = !value || !value->init;
        if (tc_has_parameter_name(name) && (folded || tc_flow_has(s->flow, value, TC_FLOW_REACHES)))
            add_name(ctx->arena, &s->single, name);
        return;
    }
    if (!value || !value->init || !tc_flow_has(s->flow, value, TC_FLOW_REACHES)) {
        add_name(ctx->arena, &s->unreached, name);
        if (asked == TC_REQUEST_TRAIN && is_told && !s->quiet)
            tc_warn(ctx, NULL, "%s: the loss does not depend on %s", option, tc_quote(ctx, name));
        return;
    }
    if (asked == TC_REQUEST_FREEZE || (asked == TC_REQUEST_NONE && !is_learned(s, value))) {
        add_name(ctx->arena, &s->frozen, name);
        if (!is_told && peft == TC_PEFT_BASE)
            tc_peft_add(ctx->arena, &s->peft, peft, name);
        return;
    }
    add_name(ctx->arena, &s->trained, name);
    if (!is_told || peft == TC_PEFT_ALIKE)
        tc_peft_add(ctx->arena, &s->peft, peft, name);
    s->flow->trained =
        tc_arena_grow(ctx->arena, s->flow->trained, sizeof(tc_value *), &s->cap_trained, s->flow->n_trained + 1);
    s->flow->trained[s->flow->n_trained++] = value;
}

/* The initializers of the file as read; later ones of passes are constants. */
static void select_all(selection *s) {
    const tc_map *recorded = s->env->summary->initializers;
    const void *name;
    void *tensor;
    size_t cursor = 0;
    while (recorded && tc_map_next(recorded, &cursor, &name, &tensor))
        select_one(s, name, tensor);
    for (uint32_t i = 0; !recorded && i < s->graph->n_initializers; i++)
        select_one(s, s->graph->initializers[i]->name, s->graph->initializers[i]->init);
}

/* A parameter or buffer of PyTorch that the loss does not use, or that the exporter removed, is not trained:
 * freezing it needs no initializer. */
static bool is_known_to_torch(const tc_torch_signature *signature, const char *glob) {
    for (size_t i = 0; signature && i < signature->n; i++)
        if (signature->inputs[i].target && fnmatch(glob, signature->inputs[i].target, 0) == 0)
            return true;
    return false;
}

static void warn_unmatched(const selection *s) {
    const tc_torch_signature *signature = NULL;
    for (size_t i = 0; i < s->env->options->n_selection; i++) {
        const char *asked = s->env->options->selection[i];
        if (s->matched[i])
            continue;
        signature = signature ? signature : tc_torch_signature_read(s->env->ctx->arena, s->graph);
        if (strncmp(asked, "freeze=", 7) == 0 && is_known_to_torch(signature, asked + 7))
            continue;
        tc_warn(s->env->ctx, NULL, "--%s matches no initializer", tc_quote(s->env->ctx, asked));
        tc_hint(s->env->ctx, "a glob has to match the whole name, such as '*bias'; tempoc -v lists the names");
    }
}

/* Most scalars are constants; a parameter among them would silently not be trained. */
static void tell_single(const selection *s) {
    tc_ctx *ctx = s->env->ctx;
    const name_list *single = &s->single;
    for (size_t i = 0; single->n <= TC_LIST_FEW && i < single->n; i++) {
        const char *name = tc_quote(ctx, single->names[i]);
        tc_note(ctx, NULL, "%s has one element and is taken for a constant", name);
        tc_hint(ctx, "--train='%s' trains it", name);
    }
    if (single->n > TC_LIST_FEW) {
        tc_note(ctx, NULL, "%zu initializers of one element are taken for constants: %s", single->n,
                tc_quote_list(ctx, single->names, single->n));
        tc_hint(ctx, "--train=NAME trains one of them");
    }
}

static void tell_joined(const selection *s) {
    tc_ctx *ctx = s->env->ctx;
    name_list joined = {0};
    for (size_t i = 0; i < s->flow->n_trained; i++)
        if (tc_script_is_joined(s->flow->trained[i]))
            add_name(ctx->arena, &joined, s->flow->trained[i]->name);
    if (!joined.n)
        return;
    tc_note(ctx, NULL,
            "the exporter combined several parameters into each of these operands of recurrent layers; the "
            "operands are trained, with gates in ONNX's order: %s",
            tc_quote_list(ctx, joined.names, joined.n));
    tc_hint(ctx, "export with do_constant_folding=False: then each parameter is trained under its own name");
}

bool tc_freezes_file(const tc_pass_env *env) {
    const tc_options *options = env->options;
    return tc_adapts(options) && options->n_selection == 0 && !options->train_list;
}

bool tc_is_made(const tc_pass_env *env, const char *name) {
    return env->summary->made && tc_map_get(env->summary->made, name);
}

void tc_record_initializer(tc_pass_env *env, const char *name, const tc_tensor *tensor) {
    if (env->summary->initializers)
        tc_map_set(env->summary->initializers, name, (void *)(uintptr_t)tensor);
}

void tc_record_made(tc_pass_env *env, tc_value *value) {
    const char *name = tc_arena_strdup(env->ctx->arena, value->name);
    value->learned = TC_LEARNED_YES;
    tc_record_initializer(env, name, value->init);
    if (!env->summary->made)
        env->summary->made = tc_map_create(env->ctx->arena);
    tc_map_set(env->summary->made, name, (void *)(uintptr_t)name);
}

void tc_record_initializers(tc_pass_env *env, const tc_model *model) {
    tc_map *names = tc_map_create(env->ctx->arena);
    tc_torch_record(env, model);
    for (uint32_t i = 0; i < model->graph->n_initializers; i++) {
        tc_value *value = model->graph->initializers[i];
        tc_map_set(names, value->name, (void *)value->init);
        if (tc_dtype_is_float(value->init->dtype) && tc_request_of(env, value->name) == TC_REQUEST_TRAIN)
            value->learned = TC_LEARNED_YES;
    }
    env->summary->initializers = names;
    tc_peft_read(env, model);
}

static selection run_selection(tc_pass_env *env, const tc_rule_set *rules, tc_graph *graph, const tc_value *loss,
                               bool quiet, tc_flow *out_flow) {
    tc_arena *arena = env->ctx->arena;
    *out_flow = (tc_flow){.n = graph->model->next_id, .bits = TC_NEW_ARRAY(arena, uint8_t, graph->model->next_id)};
    selection s = {.env = env, .graph = graph, .flow = out_flow, .quiet = quiet};
    s.matched = TC_NEW_ARRAY(arena, bool, env->options->n_selection);
    flow_data(arena, out_flow, graph);
    flow_back(arena, rules, out_flow, graph, loss);
    select_all(&s);
    flow_forward(arena, rules, out_flow, graph);
    return s;
}

tc_status tc_trainable_select(tc_pass_env *env, const tc_rule_set *rules, tc_graph *graph, const tc_value *loss,
                              tc_flow *out_flow) {
    selection s = run_selection(env, rules, graph, loss, false, out_flow);
    TC_TRY(tc_train_list_check(env, graph));
    TC_TRY(tc_peft_settle(env, &s.peft));
    warn_unmatched(&s);
    tell_single(&s);
    tell_joined(&s);
    for (int guess = 0; guess < TC_GUESS_COUNT; guess++)
        tc_tell_guessed(env->ctx, (tc_guess)guess, s.guessed[guess].names, s.guessed[guess].n);
    tc_summary *summary = env->summary;
    summary->trained = s.trained.names, summary->n_trained = s.trained.n;
    summary->frozen = s.frozen.names, summary->n_frozen = s.frozen.n;
    summary->unreached = s.unreached.names, summary->n_unreached = s.unreached.n;
    return TC_OK;
}

tc_status tc_trainable_preview(tc_pass_env *env, tc_graph *graph, const tc_value *loss, tc_flow *out_flow) {
    tc_rule_set *rules = tc_rules_create();
    tc_status status = tc_rules_load(env, NULL, true, rules);
    if (status == TC_OK)
        run_selection(env, rules, graph, loss, true, out_flow);
    tc_rules_destroy(rules);
    return status;
}
