/* unfold_lost.c: operations of the exported program that the file lacks. With optimize=True the exporter drops
 * operations that changed nothing (x * exp (s) while s is 0) and stores equal results once (sigmoid (g) and 1 -
 * sigmoid (g) while g is 0). The calls of nodes still name their operands. A name without a node is a result that
 * was merged with another or dropped. Views are dropped all the time, so their names alone show nothing. */
#include "passes/torch/restore/restore.h"
#include "unfold_program.h"
#include <string.h>

/* --- names ------------------------------------------------------------------------------------ */
/* Results that hold the elements of their operand, or no floats. */
static const char *const views[] = {
    "t",       "transpose",       "permute",       "movedim",         "view",         "_unsafe_view", "view_as",
    "reshape", "squeeze",         "unsqueeze",     "flatten",         "unflatten",    "expand",       "expand_as",
    "clone",   "contiguous",      "alias",         "detach",          "_to_copy",     "to",           "type_as",
    "slice",   "select",          "narrow",        "getitem",         "split",        "chunk",        "unbind",
    "dropout", "feature_dropout", "alpha_dropout", "lift_fresh_copy", "sym_size_int",
};

static bool is_among(const char *name, const char *const *stems, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (tc_torch_same_stem(name, stems[i]))
            return true;
    return false;
}

bool tc_unfold_may_be_dropped(const char *name) {
    static const char *const sums_and_products[] = {"add", "sub", "rsub", "mul", "div", "pow"};
    return is_among(name, sums_and_products, TC_COUNT(sums_and_products));
}

bool tc_unfold_is_view(const char *name) {
    return is_among(name, views, TC_COUNT(views)) || tc_torch_is_constant(name);
}

/* A call in module "m.wte" that reads "m.head.weight": "m.wte.weight" is tied to that. Parts are separated later. */
static void read_ties(unfold_program *p, const tc_node *node, const unfold_reads *r) {
    const char *module = tc_torch_module(p->u->scratch, node);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const char *whole = tc_torch_part_of(p->u->scratch, node, i);
        if (whole)
            tc_map_set(p->other, whole, p);
    }
    for (size_t i = 0; i < r->n && module; i++) {
        const tc_torch_input *input = tc_map_get(p->signature->by_token, r->names[i]);
        const char *dot = input && input->target ? strrchr(input->target, '.') : NULL;
        if (!dot || input->kind != TC_TORCH_PARAMETER)
            continue;
        const char *own = tc_arena_printf(p->u->scratch, "%s%s", module, dot);
        if (strcmp(own, input->target) != 0)
            tc_map_set(p->other, own, p);
    }
}

static void read_node(unfold_program *p, const tc_node *node) {
    tc_arena *arena = p->u->scratch;
    tc_torch_call call;
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (tc_output(node, i))
            tc_map_set(p->made, tc_output(node, i)->name, p);
    if (!tc_torch_call_read(arena, node, &call))
        return;
    unfold_reads *r = TC_NEW(arena, unfold_reads);
    *r = (unfold_reads){.result = call.result, .users = call.users};
    r->names = tc_torch_call_names(arena, &call, &r->n);
    for (size_t i = 0; i < r->n; i++)
        tc_map_set(p->read, r->names[i], p);
    read_ties(p, node, r);
    tc_map_set(p->made, call.result, p);
    tc_map_set_ptr(p->by_node, node, r);
}

static unfold_program read_program(tc_unfold *u, const tc_torch_signature *signature) {
    unfold_program p = {.u = u, .signature = signature};
    tc_map **maps[] = {&p.made, &p.by_node, &p.read, &p.other, &p.missing};
    for (size_t i = 0; i < TC_COUNT(maps); i++)
        *maps[i] = tc_map_create(u->scratch);
    TC_FOR_NODES(node, u->graph)
        read_node(&p, node);
    for (uint32_t i = 0; i < u->graph->n_inputs; i++)
        tc_map_set(p.made, u->graph->inputs[i]->name, u);
    for (uint32_t i = 0; i < u->graph->n_initializers; i++)
        tc_map_set(p.made, u->graph->initializers[i]->name, u);
    for (size_t i = 0; i < signature->n; i++)
        tc_map_set(p.made, signature->inputs[i].token, u);
    return p;
}

/* --- missing parameters ----------------------------------------------------------------------- */
static void add_known(const unfold_program *p, const tc_value *value, tc_map *known) {
    size_t n = 0;
    const char **from = tc_torch_folded_from(p->u->scratch, value, &n);
    tc_map_set(known, value->name, p->u);
    for (size_t i = 0; i < n; i++)
        tc_map_set(known, from[i], p->u);
}

/* Neither stored, nor part of a computation, nor read by a call. */
static tc_findings missing_parameters(const unfold_program *p) {
    tc_findings missing = {0};
    tc_map *known = tc_map_create(p->u->scratch);
    for (uint32_t i = 0; i < p->u->graph->n_initializers; i++)
        add_known(p, p->u->graph->initializers[i], known);
    for (size_t i = 0; i < p->signature->n; i++) {
        const tc_torch_input *input = &p->signature->inputs[i];
        if (input->kind == TC_TORCH_PARAMETER && input->target && !tc_map_get(known, input->target) &&
            !tc_map_get(p->read, input->token) && !tc_map_get(p->other, input->target)) {
            tc_unfold_tell(p->u, &missing, tc_quote(p->u->env->ctx, input->target));
            tc_map_set(p->missing, input->target, p->u);
        }
    }
    return missing;
}

/* --- initializers that stand for equal ones --------------------------------------------------- */
/* The initializer's name, and the names that it was folded from. */
static tc_map *names_of(const unfold_program *p, const tc_value *value) {
    tc_map *names = tc_map_create(p->u->scratch);
    add_known(p, value, names);
    return names;
}

/* The call reads the initializer by its name, or by the name of a parameter that it was folded from. */
static bool names_itself(const unfold_program *p, const unfold_reads *r, const tc_map *names) {
    for (size_t i = 0; i < r->n; i++) {
        const tc_torch_input *input = tc_map_get(p->signature->by_token, r->names[i]);
        if (tc_map_get(names, input && input->target ? input->target : r->names[i]))
            return true;
    }
    return false;
}

static size_t times_read(const tc_node *node, const tc_value *value) {
    size_t n = 0;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        n += tc_input(node, i) == value;
    return n;
}

/* The result that a use of the initializer reads in PyTorch, if that is another one. If two results of one operation
 * have readers, one was merged with the other; they come from one parameter, unless some parameter is missing
 * elsewhere. `out_hint`: even a view, or an operand of a node without a call, may be another's. */
static const char *other_of(const unfold_program *p, const tc_value *value, bool missing, bool *out_hint) {
    tc_map *names = names_of(p, value), *seen = tc_map_create(p->u->scratch);
    TC_FOR_USES(use, value) {
        const unfold_reads *r = tc_map_get_ptr(p->by_node, use->user);
        bool again = tc_map_get_ptr(seen, use->user);
        tc_map_set_ptr(seen, use->user, use->user);
        *out_hint = *out_hint || !r;
        if (!r || again || (names_itself(p, r, names) && times_read(use->user, value) < 2))
            continue;
        for (size_t i = 0; i < r->n; i++) {
            const char *name = r->names[i];
            if (tc_map_get(p->made, name))
                continue;
            *out_hint = true;
            if (!tc_unfold_is_view(name) && (missing || !tc_torch_same_stem(name, value->name)))
                return name;
        }
    }
    return NULL;
}

/* --- parts whose readers were merged ----------------------------------------------------------- */
/* Counts a part once for each parameter that it is read as. */
static void count_part(const unfold_program *p, const tc_value *part, tc_map *parts) {
    tc_map *seen = tc_map_create(p->u->scratch);
    TC_FOR_USES(use, part) {
        const tc_value *turned = tc_node_is(use->user, "", "Transpose") ? tc_output(use->user, 0) : NULL;
        TC_FOR_USES(next, turned ? turned : part) {
            const char *whole = tc_torch_part_of(p->u->scratch, next->user, next->index);
            bool counts = whole && (turned || next == use) && !tc_map_get(seen, whole);
            if (counts)
                tc_map_set(parts, whole, (void *)((uintptr_t)tc_map_get(parts, whole) + 1));
            if (counts)
                tc_map_set(seen, whole, seen);
        }
    }
}

/* A Split that stands for those of several parameters: each of these has readers, unless these were merged. Example:
 * keys of one memory in two layers of a decoder. */
static void find_merged_parts(const unfold_program *p) {
    TC_FOR_NODES(node, p->u->graph) {
        const tc_value *whole = tc_node_is(node, "", "Split") ? tc_input(node, 0) : NULL;
        if (!whole || !whole->init || whole->learned != TC_LEARNED_YES || tc_map_get_ptr(p->by_node, node) ||
            tc_is_asked_as_stored(p->u->env, whole->name))
            continue;
        tc_map *parts = tc_map_create(p->u->scratch);
        uintptr_t n_read = 0;
        for (uint32_t i = 0; i < node->n_outputs; i++) {
            count_part(p, node->outputs[i], parts);
            n_read += node->outputs[i]->uses != NULL;
        }
        const void *name;
        void *n;
        size_t cursor = 0;
        while (tc_map_next(parts, &cursor, &name, &n))
            if (tc_map_count(parts) > 1 && (uintptr_t)n < n_read)
                tc_unfold_tell_lost(
                    p->u, whole->name,
                    tc_arena_printf(p->u->scratch, "%s, which also stands for parts of %s (they were equal)",
                                    tc_quote(p->u->env->ctx, whole->name), tc_quote(p->u->env->ctx, name)));
    }
}

/* --- sums and products that were dropped ------------------------------------------------------ */
/* The call reads a sum or product that no node makes. */
static bool reads_dropped(const unfold_program *p, const tc_node *node, const unfold_reads *r) {
    bool has_float = false;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        has_float = has_float || (tc_input(node, i) && tc_dtype_is_float(tc_value_dtype(tc_input(node, i))));
    for (size_t i = 0; i < r->n && has_float; i++)
        if (tc_unfold_may_be_dropped(r->names[i]) && !tc_map_get(p->made, r->names[i]))
            return true;
    return false;
}

static bool any_dropped(const unfold_program *p) {
    TC_FOR_NODES(node, p->u->graph) {
        const unfold_reads *r = tc_map_get_ptr(p->by_node, node);
        if (r && reads_dropped(p, node, r))
            return true;
    }
    return false;
}

/* PyTorch's loss, if it is a sum or product without a node: the file has one of its operands. */
static const char *dropped_loss(const unfold_program *p, const tc_value *loss) {
    size_t at = 0;
    while (at < p->u->graph->n_outputs && p->u->graph->outputs[at] != loss)
        at++;
    const char *name = at < p->signature->n_outputs ? p->signature->outputs[at] : NULL;
    bool dropped = name && loss->producer && tc_map_get_ptr(p->by_node, loss->producer) && !tc_map_get(p->made, name) &&
                   tc_unfold_may_be_dropped(name);
    return dropped ? name : NULL;
}

static void warn_of_loss(const unfold_program *p, const tc_value *loss) {
    const char *dropped = dropped_loss(p, loss);
    if (!dropped)
        return;
    tc_warn(p->u->env->ctx, NULL,
            "the file lacks the sum or product %s, PyTorch's loss: the exporter dropped a term or factor "
            "that changed nothing, and its gradients are missing",
            tc_quote(p->u->env->ctx, dropped));
    tc_hint(p->u->env->ctx, "export with optimize=False: then the file has all parameters in use");
}

/* A convolution that reads the weight came from a norm: the exporter multiplied the norm's scale into the weight, as
 * in evaluation mode. In training mode the pass restore has refused that. The norm's module; NULL: none. */
static const char *norm_within(const unfold_program *p, const tc_value *weight) {
    TC_FOR_USES(use, weight) {
        tc_torch_call call;
        if (!tc_node_is(use->user, "", "BatchNormalization") && tc_torch_call_read(p->u->scratch, use->user, &call) &&
            tc_is_batch_norm_call(&call))
            return tc_torch_module(p->u->scratch, use->user);
    }
    return NULL;
}

static void tell_other(const unfold_program *p, const tc_value *value, const char *other) {
    tc_ctx *ctx = p->u->env->ctx;
    const char *norm = norm_within(p, value), *name = tc_quote(ctx, value->name);
    const char *text = norm ? "%s, which includes the batch normalization %s, folded by the exporter"
                            : "%s, which also stands for %s (they were equal)";
    tc_unfold_tell_lost(p->u, value->name,
                        tc_arena_printf(p->u->scratch, text, name, tc_quote(ctx, norm ? norm : other)));
}

void tc_unfold_find_lost(tc_unfold *u, const tc_torch_signature *signature, const tc_flow *flow, const tc_value *loss) {
    unfold_program p = read_program(u, signature);
    p.flow = flow, p.loss = loss;
    tc_findings missing = missing_parameters(&p);
    bool hint = false;
    warn_of_loss(&p, loss);
    for (uint32_t i = 0; i < u->graph->n_initializers; i++) {
        const tc_value *value = u->graph->initializers[i];
        if (value->learned != TC_LEARNED_YES || !tc_flow_has(flow, value, TC_FLOW_REACHES) ||
            tc_is_asked_as_stored(u->env, value->name))
            continue;
        const char *other = other_of(&p, value, missing.n > 0, &hint);
        bool all_there_is = u->env->options->add_loss && norm_within(&p, value); /* the pass restore has told of it */
        if (other && !all_there_is)
            tell_other(&p, value, other);
    }
    find_merged_parts(&p);
    tc_unfold_find_merged(&p, &missing);
    if (!missing.n || u->lost.n || tc_freezes_file(u->env) || !(hint || any_dropped(&p)))
        return;
    tc_warn(u->env->ctx, NULL,
            "the file lacks PyTorch's parameter%s %s: not used, used under another name, or dropped by the exporter "
            "where it changed nothing",
            missing.n == 1 ? "" : "s", tc_unfold_list(u, &missing));
    tc_hint(u->env->ctx, "export with optimize=False: then the file has all parameters in use");
}
