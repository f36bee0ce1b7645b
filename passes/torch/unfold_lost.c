/* unfold_lost.c: what the file lacks of the program that was exported. With optimize=True the exporter drops what
 * changed nothing (x * exp (s) while s is 0) and stores equal results once (sigmoid (g) and 1 - sigmoid (g) while g is
 * 0). The calls that nodes keep still name what they read: a name that no node makes is a result that was merged with
 * another or dropped. Views are dropped all the time, and say nothing by themselves. */
#include "../../compiler/onnx_io.h"
#include "torch_calls.h"
#include "unfold.h"
#include <string.h>

/* --- names ------------------------------------------------------------------------------------ */
/* Results that hold the elements of what they were made from, or none that carry a gradient. */
static const char *const views[] = {
    "t",
    "transpose",
    "permute",
    "movedim",
    "view",
    "_unsafe_view",
    "view_as",
    "reshape",
    "squeeze",
    "unsqueeze",
    "flatten",
    "unflatten",
    "expand",
    "expand_as",
    "clone",
    "contiguous",
    "alias",
    "detach",
    "_to_copy",
    "to",
    "type_as",
    "slice",
    "select",
    "narrow",
    "getitem",
    "split",
    "chunk",
    "unbind",
    "dropout",
    "feature_dropout",
    "alpha_dropout",
    "lift_fresh_copy",
    "scalar_tensor_default",
    "sym_size_int",
    "arange",
    "zeros",
    "zeros_like",
    "ones",
    "ones_like",
    "full",
    "full_like",
    "empty_like",
};

/* Results that are an operand of theirs where the other one is 0 or 1. */
static const char *const sums_and_products[] = {"add", "sub", "rsub", "mul", "div", "pow"};

static bool is_among(const char *name, const char *const *stems, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (tc_torch_same_stem(name, stems[i]))
            return true;
    return false;
}

static bool is_view(const char *name) { return is_among(name, views, TC_COUNT(views)); }

/* --- what calls read -------------------------------------------------------------------------- */
typedef struct reads {
    const char *result; /* of the call */
    const char **names; /* without % */
    size_t n;
} reads;

typedef struct program {
    tc_unfold *u;
    const tc_torch_signature *signature;
    tc_map *made;    /* names that the file has: results of calls and nodes, inputs, initializers */
    tc_map *by_node; /* -> reads */
    tc_map *read;    /* names that any call reads */
    tc_map *other;   /* parameters in whose place their module reads another one: ties */
    tc_map *missing; /* last parts of the names of parameters that are nowhere: "weight" */
} program;

/* A call in module "m.wte" that reads "m.head.weight": "m.wte.weight" is tied to that. Scopes are a list of the modules
 * around the node, then its own name. */
static void read_ties(program *p, const tc_node *node, const reads *r) {
    const char *scopes = tc_node_metadata(node, "pkg.torch.onnx.name_scopes"), *quotes[4] = {0};
    for (const char *at = scopes ? strchr(scopes, '\'') : NULL; at; at = strchr(at + 1, '\'')) {
        memmove(quotes, quotes + 1, 3 * sizeof *quotes);
        quotes[3] = at;
    }
    for (size_t i = 0; i < r->n && quotes[0]; i++) {
        const tc_torch_input *input = tc_map_get(p->signature->by_token, r->names[i]);
        const char *dot = input && input->target ? strrchr(input->target, '.') : NULL;
        if (!dot || input->kind != TC_TORCH_PARAMETER)
            continue;
        const char *own =
            tc_arena_printf(p->u->scratch, "%.*s%s", (int)(quotes[1] - quotes[0] - 1), quotes[0] + 1, dot);
        if (strcmp(own, input->target) != 0)
            tc_map_set(p->other, own, p);
    }
}

static void read_node(program *p, const tc_node *node) {
    tc_arena *arena = p->u->scratch;
    tc_torch_call call;
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (tc_output(node, i))
            tc_map_set(p->made, tc_output(node, i)->name, p);
    if (!tc_torch_call_read(arena, node, &call))
        return;
    reads *r = TC_NEW(arena, reads);
    *r = (reads){.result = call.result};
    r->names = tc_torch_call_names(arena, &call, &r->n);
    for (size_t i = 0; i < r->n; i++)
        tc_map_set(p->read, r->names[i], p);
    read_ties(p, node, r);
    tc_map_set(p->made, call.result, p);
    tc_map_set_ptr(p->by_node, node, r);
}

static program read_program(tc_unfold *u, const tc_torch_signature *signature) {
    program p = {.u = u, .signature = signature};
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

/* --- parameters that are nowhere -------------------------------------------------------------- */
static void add_known(const program *p, const tc_value *value, tc_map *known) {
    size_t n = 0;
    const char **from = tc_torch_folded_from(p->u->scratch, value, &n);
    tc_map_set(known, value->name, p->u);
    for (size_t i = 0; i < n; i++)
        tc_map_set(known, from[i], p->u);
}

static const char *leaf_of(const char *target) {
    const char *dot = strrchr(target, '.');
    return dot ? dot + 1 : target;
}

/* Neither stored, nor computed with, nor read by a call. */
static tc_findings missing_parameters(const program *p) {
    tc_findings missing = {0};
    tc_map *known = tc_map_create(p->u->scratch);
    for (uint32_t i = 0; i < p->u->graph->n_initializers; i++)
        add_known(p, p->u->graph->initializers[i], known);
    for (size_t i = 0; i < p->signature->n; i++) {
        const tc_torch_input *input = &p->signature->inputs[i];
        if (input->kind == TC_TORCH_PARAMETER && input->target && !tc_map_get(known, input->target) &&
            !tc_map_get(p->read, input->token) && !tc_map_get(p->other, input->target)) {
            tc_unfold_tell(p->u, &missing, tc_quote(p->u->env->ctx, input->target));
            tc_map_set(p->missing, leaf_of(input->target), p->u);
        }
    }
    return missing;
}

/* --- initializers that stand for what was equal ----------------------------------------------- */
/* The initializer's name, and those of what went into it. */
static tc_map *names_of(const program *p, const tc_value *value) {
    size_t n = 0;
    const char **from = tc_torch_folded_from(p->u->scratch, value, &n);
    tc_map *names = tc_map_create(p->u->scratch);
    tc_map_set(names, value->name, names);
    for (size_t i = 0; i < n; i++)
        tc_map_set(names, from[i], names);
    return names;
}

/* The call reads the initializer by its name, or by that of a parameter that went into it. */
static bool names_itself(const program *p, const reads *r, const tc_map *names) {
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

/* What a use of the initializer reads in PyTorch, where that is another result. Of two results of one operation, one
 * was merged with the other: they come from one parameter, unless some parameter is nowhere else. `out_hint`: even a
 * view, or what a node without a call reads, may be another's. */
static const char *other_of(const program *p, const tc_value *value, bool missing, bool *out_hint) {
    tc_map *names = names_of(p, value), *seen = tc_map_create(p->u->scratch);
    TC_FOR_USES(use, value) {
        const reads *r = tc_map_get_ptr(p->by_node, use->user);
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
            if (!is_view(name) && (missing || !tc_torch_same_stem(name, value->name)))
                return name;
        }
    }
    return NULL;
}

/* --- calls with parameters that were merged ---------------------------------------------------- */
enum { FAR = 8 }; /* nodes without a call on the way to one with parameters */

/* The call that gave the value, behind nodes without one, as the Split in the place of a chunk. */
static const reads *source_of(const program *p, const tc_value *value, const tc_node **out_node) {
    for (int i = 0; value && value->producer && i < FAR; i++) {
        const reads *r = tc_map_get_ptr(p->by_node, value->producer);
        *out_node = value->producer;
        if (r)
            return r;
        value = tc_input(value->producer, 0);
    }
    return NULL;
}

static bool reads_name(const reads *r, const char *name) {
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(r->names[i], name) == 0)
            return true;
    return false;
}

/* The name of that kind in the call that the file has nothing for; NULL: none, or several. */
static const char *only_lost(const program *p, const reads *r, const char *kind) {
    const char *only = NULL;
    for (size_t i = 0; i < r->n; i++) {
        if (!tc_torch_same_stem(r->names[i], kind) || tc_map_get(p->made, r->names[i]))
            continue;
        if (only && strcmp(only, r->names[i]) != 0)
            return NULL;
        only = r->names[i];
    }
    return only;
}

/* The call reads a parameter, in whose place an equal one that is nowhere may have been read. */
static bool may_stand_for_missing(const program *p, const reads *r) {
    for (size_t i = 0; i < r->n; i++) {
        const tc_torch_input *input = tc_map_get(p->signature->by_token, r->names[i]);
        if (input && input->kind == TC_TORCH_PARAMETER && input->target &&
            tc_map_get(p->missing, leaf_of(input->target)))
            return true;
    }
    return false;
}

/* The trained operand of the call's last node; NULL: it has none, or one is to be trained or left as it is. */
static const tc_value *weight_of(const program *p, const tc_node *node) {
    const tc_value *weight = NULL;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const tc_value *value = tc_input(node, i);
        if (!value || !value->init || value->learned != TC_LEARNED_YES)
            continue;
        if (tc_is_asked_as_stored(p->u->env, value->name))
            return NULL;
        weight = weight ? weight : value;
    }
    return weight;
}

/* An operand goes by another name in this call than where it was made, or, behind a Split, in other calls. */
static void look_for_merged(const program *p, const tc_node *node, const reads *r, const tc_findings *missing,
                            tc_map *called, tc_map *told) {
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const tc_node *from = NULL;
        const tc_value *value = tc_input(node, i);
        const reads *source = source_of(p, value, &from);
        if (!source || strcmp(source->result, r->result) == 0 || reads_name(r, source->result) ||
            !may_stand_for_missing(p, source) || tc_map_get_ptr(told, from) || !weight_of(p, from))
            continue;
        bool split = from != value->producer;
        const char *name = only_lost(p, r, split ? "getitem" : source->result),
                   *first = split ? tc_map_get_ptr(called, value) : source->result;
        if (name && split && !first)
            tc_map_set_ptr(called, value, (void *)(uintptr_t)name);
        if (!name || !first || strcmp(first, name) == 0)
            continue;
        tc_map_set_ptr(told, from, p->u);
        tc_ctx *ctx = p->u->env->ctx;
        tc_unfold_tell_lost(p->u, weight_of(p, from)->name,
                            tc_arena_printf(p->u->scratch,
                                            "%s, which stands for %s, too (they were equal, and %s %s nowhere)",
                                            tc_quote(ctx, source->result), tc_quote(ctx, name),
                                            tc_unfold_told(p->u, missing), missing->n == 1 ? "is" : "are"));
    }
}

/* Fresh parameters are equal, and so are results of one value: of zero weights, as in modulations by AdaLN-Zero. */
static void find_merged_calls(const program *p, const tc_findings *missing) {
    tc_map *called = tc_map_create(p->u->scratch), *told = tc_map_create(p->u->scratch);
    TC_FOR_NODES(node, p->u->graph) {
        const reads *r = tc_map_get_ptr(p->by_node, node);
        if (r)
            look_for_merged(p, node, r, missing, called, told);
    }
}

/* --- sums and products that were dropped ------------------------------------------------------ */
static const char *result_of(const program *p, const tc_value *value) {
    const reads *r = value && value->producer ? tc_map_get_ptr(p->by_node, value->producer) : NULL;
    return r ? r->result : value ? value->name : "";
}

/* The call reads a sum or product that no node makes, and no operand of the node is one that it was merged with. */
static bool reads_dropped(const program *p, const tc_node *node, const reads *r) {
    bool merged[TC_COUNT(sums_and_products)] = {false}, has_float = false;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const char *result = result_of(p, tc_input(node, i));
        for (size_t k = 0; k < TC_COUNT(sums_and_products); k++)
            merged[k] = merged[k] || tc_torch_same_stem(result, sums_and_products[k]);
        has_float = has_float || (tc_input(node, i) && tc_dtype_is_float(tc_value_dtype(tc_input(node, i))));
    }
    for (size_t i = 0; i < r->n && has_float; i++)
        for (size_t k = 0; k < TC_COUNT(sums_and_products); k++)
            if (!merged[k] && tc_torch_same_stem(r->names[i], sums_and_products[k]) &&
                !tc_map_get(p->made, r->names[i]))
                return true;
    return false;
}

static bool any_dropped(const program *p) {
    TC_FOR_NODES(node, p->u->graph) {
        const reads *r = tc_map_get_ptr(p->by_node, node);
        if (r && reads_dropped(p, node, r))
            return true;
    }
    return false;
}

/* PyTorch's loss, where it is a sum or product that no node makes: the file has an operand of it. */
static const char *dropped_loss(const program *p, const tc_value *loss) {
    size_t at = 0;
    while (at < p->u->graph->n_outputs && p->u->graph->outputs[at] != loss)
        at++;
    const char *name = at < p->signature->n_outputs ? p->signature->outputs[at] : NULL;
    bool dropped = name && loss->producer && tc_map_get_ptr(p->by_node, loss->producer) && !tc_map_get(p->made, name) &&
                   is_among(name, sums_and_products, TC_COUNT(sums_and_products));
    return dropped ? name : NULL;
}

static void warn_of_loss(const program *p, const tc_value *loss) {
    const char *dropped = dropped_loss(p, loss);
    if (!dropped)
        return;
    tc_warn(p->u->env->ctx, NULL,
            "the file lacks the sum or product %s, which is PyTorch's loss: the exporter dropped a term or factor that "
            "changed nothing, and its gradients are missing",
            tc_quote(p->u->env->ctx, dropped));
    tc_hint(p->u->env->ctx, "export with optimize=False: all that is used is there");
}

void tc_unfold_find_lost(tc_unfold *u, const tc_torch_signature *signature, const tc_flow *flow, const tc_value *loss) {
    program p = read_program(u, signature);
    tc_findings missing = missing_parameters(&p);
    bool hint = false;
    warn_of_loss(&p, loss);
    for (uint32_t i = 0; i < u->graph->n_initializers; i++) {
        const tc_value *value = u->graph->initializers[i];
        if (value->learned != TC_LEARNED_YES || !tc_flow_has(flow, value, TC_FLOW_REACHES) ||
            tc_is_asked_as_stored(u->env, value->name))
            continue;
        const char *other = other_of(&p, value, missing.n > 0, &hint);
        if (other)
            tc_unfold_tell_lost(u, value->name,
                                tc_arena_printf(u->scratch, "%s, which stands for %s, too (they were equal)",
                                                tc_quote(u->env->ctx, value->name), tc_quote(u->env->ctx, other)));
    }
    if (missing.n)
        find_merged_calls(&p, &missing);
    if (!missing.n || u->lost.n || !(hint || any_dropped(&p)))
        return;
    tc_warn(u->env->ctx, NULL,
            "the file lacks PyTorch's parameter%s %s: not used, used under another name, or dropped by the exporter "
            "where it changed nothing",
            missing.n == 1 ? "" : "s", tc_unfold_told(u, &missing));
    tc_hint(u->env->ctx, "export with optimize=False: all that is used is there");
}
