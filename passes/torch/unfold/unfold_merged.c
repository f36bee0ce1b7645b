/* unfold_merged.c: calls that the exporter merged because parameters were equal at export, and so were the results:
 * gates of ones, biases of zeros, copies of a layer. One parameter would get the gradients of both, the other none.
 * The merged call is missing, but its readers still name it:
 *
 *   Mul(a, x) -> mul      %mul = aten.mul.Tensor(%p_a, %x)
 *   Cos(mul)              %cos = aten.cos.default(%mul_1,)
 * So a value was merged in two cases: a call reads it by a name of its kind without a node; or calls read it by more
 * names than it has readers in the program (num_users), including views that the exporter dropped. The merged call
 * computed the same operation from the same operands, or from results that were merged, too, or from parameters. The
 * search upwards ends at results that some lost call read as well, and at parameters that may stand for another one. */
#include "passes/torch/metadata/metadata.h"
#include "unfold_program.h"
#include <string.h>

enum {
    FAR = 16,           /* nodes without a call, one after the other */
    MOST_MERGED = 1024, /* elements of values that the exporter merges */
};

typedef struct merges {
    const unfold_program *p;
    const tc_findings *missing;
    tc_map
        *names; /* value -> the names by which calls read it, and the calls that read it by its own ("%" and these) */
    tc_map *merged;   /* value -> the name of the other result that it stands for */
    tc_map *loose;    /* values of these that are views of one lost view, or were merged */
    tc_map *known;    /* initializer -> another parameter that a call reads through it */
    tc_map *seen;     /* nodes visited upwards */
    tc_map *reported; /* initializers */
    const tc_torch_input *last_missing, *last_unread; /* of the signature: a parameter; or of another kind */
    tc_value **found;
    size_t n_found, cap_found;
} merges;

static const unfold_reads *call_of(const merges *m, const tc_node *node) {
    return node ? tc_map_get_ptr(m->p->by_node, node) : NULL;
}

/* The call that made the value, skipping nodes without one, such as a Split that replaces a chunk. */
static const unfold_reads *source_of(const merges *m, const tc_value *value) {
    for (int i = 0; value && value->producer && i < FAR; i++) {
        const unfold_reads *r = call_of(m, value->producer);
        if (r)
            return r;
        value = tc_input(value->producer, 0);
    }
    return NULL;
}

static bool reads_name(const unfold_reads *r, const char *name) {
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(r->names[i], name) == 0)
            return true;
    return false;
}

/* --- names by which values are read ------------------------------------------------------------ */
/* A float that the node's call reads, not an internal result of the call. Nodes with one operand are skipped:
 * Concat(Unsqueeze(mul), Unsqueeze(mul)) reads mul twice. NULL: none. */
static tc_value *read_from_outside(const merges *m, const tc_node *node, uint32_t index, const unfold_reads *r) {
    tc_value *value = tc_input(node, index);
    for (int i = 0; i < FAR && value && value->producer; i++) {
        const unfold_reads *own = call_of(m, value->producer);
        const tc_node *before = value->producer;
        if (!tc_dtype_is_float(tc_value_dtype(value)) || !source_of(m, value))
            return NULL;
        if (!own || strcmp(own->result, r->result) != 0)
            return value;
        for (uint32_t k = 1; k < before->n_inputs; k++)
            if (tc_input(before, k) && !tc_input(before, k)->init)
                return NULL;
        value = tc_input(before, 0);
    }
    return NULL;
}

static void add_name(merges *m, tc_value *value, const char *name) {
    tc_map *names = tc_map_get_ptr(m->names, value);
    if (!names)
        tc_map_set_ptr(m->names, value, names = tc_map_create(m->p->u->scratch));
    tc_map_set(names, name, m->p->u);
}

static void add_merged(merges *m, tc_value *value, const char *other) {
    if (tc_map_get_ptr(m->merged, value))
        return;
    tc_map_set_ptr(m->merged, value, (void *)(uintptr_t)other);
    m->found = tc_arena_grow(m->p->u->scratch, m->found, sizeof *m->found, &m->cap_found, m->n_found + 1);
    m->found[m->n_found++] = value;
}

/* An operand of a node, and its name in the call. */
typedef struct operand {
    tc_value *value;
    bool named, again; /* by its own name; another operand is the same value */
} operand;

static bool is_of_kind(const merges *m, const tc_value *value, const char *name) {
    if (tc_unfold_is_view(name) && !tc_torch_same_stem(name, "getitem"))
        return false;
    return tc_torch_same_stem(value->name, name) || tc_torch_same_stem(source_of(m, value)->result, name);
}

/* Names without a value in the file are assigned to operands of their kind, which were merged, unless a sum or
 * product was dropped. The rest, views that were dropped, goes to the operands without a name, in their order. */
static void name_operands(merges *m, const unfold_reads *r, const operand *operands, size_t n) {
    size_t unnamed = 0, lost = 0, at = 0;
    const char **names = TC_NEW_ARRAY(m->p->u->scratch, const char *, r->n + 1);
    bool *taken = TC_NEW_ARRAY(m->p->u->scratch, bool, n + 1);
    for (size_t i = 0; i < n; i++)
        if (operands[i].named)
            add_name(m, operands[i].value, tc_arena_printf(m->p->u->scratch, "%%%s", r->result));
    for (size_t k = 0; k < r->n; k++) {
        const char *name = r->names[k];
        bool kind = false;
        if (tc_map_get(m->p->made, name) || strncmp(name, "sym_", 4) == 0)
            continue;
        for (size_t i = 0; i < n; i++) {
            if (!is_of_kind(m, operands[i].value, name) || (operands[i].named && !operands[i].again))
                continue;
            kind = taken[i] = true;
            add_name(m, operands[i].value, name);
            if (call_of(m, operands[i].value->producer) && !tc_unfold_may_be_dropped(name))
                add_merged(m, operands[i].value, name);
        }
        if (!kind)
            names[lost++] = name;
    }
    for (size_t i = 0; i < n; i++)
        unnamed += !operands[i].named && !taken[i];
    for (size_t i = 0; i < n && unnamed == lost; i++)
        if (!operands[i].named && !taken[i])
            add_name(m, operands[i].value, names[at++]);
}

static void read_operands(merges *m, const tc_node *node, const unfold_reads *r) {
    operand *operands = TC_NEW_ARRAY(m->p->u->scratch, operand, node->n_inputs + 1);
    size_t n = 0;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        tc_value *value = read_from_outside(m, node, i, r);
        if (!value)
            continue;
        operands[n] = (operand){value, reads_name(r, source_of(m, value)->result) || reads_name(r, value->name), false};
        for (size_t k = 0; k < n; k++)
            if (operands[k].value == value)
                operands[k].again = operands[n].again = true;
        n++;
    }
    name_operands(m, r, operands, n);
}

/* Outputs of the program, above all the loss, count as read. */
static void read_outputs(merges *m) {
    const tc_torch_signature *s = m->p->signature;
    for (size_t i = 0; i < s->n_outputs && i < m->p->u->graph->n_outputs; i++) {
        tc_value *value = m->p->u->graph->outputs[i];
        const unfold_reads *source = source_of(m, value);
        const char *name = s->outputs[i];
        if (!source)
            continue;
        if (!call_of(m, value->producer))
            value = tc_input(value->producer, 0);
        bool own = strcmp(name, source->result) == 0;
        add_name(m, value, own ? "%" : name);
        if (!own && value == m->p->loss && !tc_map_get(m->p->made, name) && tc_torch_same_stem(name, source->result))
            add_merged(m, value, name);
    }
}

/* More names than readers: some readers were merged. Parts after a Split have one each. */
static void count_names(merges *m, tc_value *value, const tc_map *names) {
    const unfold_reads *r = call_of(m, value->producer);
    const void *name, *other = NULL;
    void *any;
    size_t cursor = 0, own = 0, users = r ? r->users : 1;
    if (tc_map_count(names) <= users || (r && strcmp(r->result, value->name) != 0))
        return;
    while (tc_map_next(names, &cursor, &name, &any)) {
        bool is_own = *(const char *)name == '%';
        own += is_own;
        other = is_own ? other : name;
    }
    if (!other || tc_map_get_ptr(m->merged, value))
        return;
    if (r && own < users)
        tc_map_set_ptr(m->loose, value, m);
    add_merged(m, value, other);
}

static void find_by_counts(merges *m) {
    const void *value;
    void *names;
    size_t cursor = 0;
    while (tc_map_next(m->names, &cursor, &value, &names))
        count_names(m, (tc_value *)(uintptr_t)value, names);
}

/* --- other values read there ------------------------------------------------------------------- */
static const char *leaf_of(const char *target) {
    const char *dot = strrchr(target, '.');
    return dot ? dot + 1 : target;
}

static const tc_torch_input *stored_input(const merges *m, const char *token) {
    const tc_torch_input *input = tc_map_get(m->p->signature->by_token, token);
    return input && input->target && input->kind != TC_TORCH_INPUT ? input : NULL;
}

/* Each parameter that the call reads is missing in the module of that name: "m.fc." */
static bool has_all(const merges *m, const unfold_reads *r, const char *module, size_t n_module) {
    bool any = false;
    for (size_t i = 0; i < r->n; i++) {
        const tc_torch_input *input = stored_input(m, r->names[i]);
        if (!input || input->kind != TC_TORCH_PARAMETER)
            continue;
        any = true;
        if (!tc_map_get(m->p->missing,
                        tc_arena_printf(m->p->u->scratch, "%.*s%s", (int)n_module, module, leaf_of(input->target))))
            return false;
    }
    return any;
}

static bool module_is_missing(const merges *m, const unfold_reads *r) {
    const void *name;
    void *value;
    size_t cursor = 0;
    while (r && tc_map_next(m->p->missing, &cursor, &name, &value))
        if (has_all(m, r, name, (size_t)(leaf_of(name) - (const char *)name)))
            return true;
    return false;
}

/* Whether some missing parameter, or, for `buffers`, another value, may have been read through the initializer. Of
 * equal tensors the exporter keeps the first one; of the names of a tied parameter the file has the last. */
static bool stands_for_missing(const merges *m, const tc_value *weight, bool buffers) {
    const tc_torch_input *own = tc_map_get(m->p->signature->by_target, weight->name);
    bool before = (m->last_missing && (!own || own < m->last_missing)) ||
                  (buffers && m->last_unread && (!own || own < m->last_unread));
    return before && weight->init->count <= MOST_MERGED;
}

static void find_last(merges *m) {
    const tc_torch_signature *s = m->p->signature;
    for (size_t i = 0; i < s->n; i++) {
        const tc_torch_input *input = &s->inputs[i];
        if (input->kind == TC_TORCH_PARAMETER && input->target && tc_map_get(m->p->missing, input->target))
            m->last_missing = input;
        else if (input->kind != TC_TORCH_PARAMETER && input->target && !tc_map_get(m->p->made, input->target) &&
                 !tc_map_get(m->p->read, input->token) && !input->changed)
            m->last_unread = input;
    }
}

/* An existing call reads the initializer for another input that is stored as it. */
static void read_known(merges *m, tc_torch_program *program, const tc_node *node) {
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const tc_value *value = tc_input(node, i);
        if (!value || !value->init || value->learned != TC_LEARNED_YES)
            continue;
        tc_torch_operand meant = tc_torch_operand_of(program, node, i);
        if (meant.kind == TC_OPERAND_INPUT && !tc_torch_is_input(program, value, meant.inputs[0]))
            tc_map_set_ptr(m->known, value, (void *)(uintptr_t)meant.inputs[0]->target);
    }
}

/* --- upwards ----------------------------------------------------------------------------------- */
static void report(merges *m, const tc_value *merged, const tc_value *weight, const char *why, bool refuse) {
    tc_ctx *ctx = m->p->u->env->ctx;
    const char *name = tc_quote(ctx, source_of(m, merged)->result),
               *other = tc_quote(ctx, tc_map_get_ptr(m->merged, merged));
    tc_map_set_ptr(m->reported, weight, m);
    if (refuse) {
        tc_unfold_tell_lost(
            m->p->u, weight->name,
            tc_arena_printf(m->p->u->scratch, "%s, which also stands for %s (they were equal%s)", name, other, why));
        return;
    }
    tc_warn(ctx, NULL,
            "the exporter merged two equal results: %s also stands for %s; if PyTorch computes that one from "
            "another value than %s, the gradient of %s differs from PyTorch's",
            name, other, tc_quote(ctx, weight->name), tc_quote(ctx, weight->name));
    tc_hint(ctx, "export with optimize=False: then nothing is merged");
}

static bool is_uniform(const merges *m, const tc_tensor *tensor) {
    const char *data = tc_tensor_peek(m->p->u->graph->model, tensor);
    size_t bytes = tc_dtype_bits(tensor->dtype) / 8;
    for (size_t i = 1; data && i < tensor->count; i++)
        if (memcmp(data, data + i * bytes, bytes) != 0)
            return false;
    return data && tensor->count <= MOST_MERGED;
}

/* The node may mean another value than the initializer. */
static void judge(merges *m, const tc_value *merged, const tc_node *node, const tc_value *weight) {
    const unfold_reads *r = call_of(m, node);
    const char *known = tc_map_get_ptr(m->known, weight);
    tc_ctx *ctx = m->p->u->env->ctx;
    if (weight->learned != TC_LEARNED_YES || !tc_flow_has(m->p->flow, weight, TC_FLOW_REACHES) ||
        tc_map_get_ptr(m->reported, weight) || tc_is_asked_as_stored(m->p->u->env, weight->name))
        return;
    if (known)
        report(m, merged, weight,
               tc_arena_printf(m->p->u->scratch, ", as %s and %s", tc_quote(ctx, weight->name), tc_quote(ctx, known)),
               true);
    else if (module_is_missing(m, r) || (!tc_map_get_ptr(m->loose, merged) && stands_for_missing(m, weight, false)))
        report(m, merged, weight,
               tc_arena_printf(m->p->u->scratch, ", and %s %s nowhere", tc_unfold_list(m->p->u, m->missing),
                               m->missing->n == 1 ? "is" : "are"),
               true);
    else if (stands_for_missing(m, weight, true) || (!m->missing->n && is_uniform(m, weight->init)))
        report(m, merged, weight, "", false);
}

/* Some lost call read the result, too: the call merged with the reader read it, and not another one. */
static bool is_shared(const merges *m, const unfold_reads *r, const tc_value *value) {
    const unfold_reads *made = call_of(m, value->producer);
    const tc_map *names = tc_map_get_ptr(m->names, value);
    return r && made && strcmp(r->result, made->result) != 0 && reads_name(r, made->result) &&
           made->users > (names ? tc_map_count(names) : 0);
}

static void go_up(merges *m, const tc_value *merged) {
    tc_node **left = NULL;
    size_t n = 0, cap = 0;
    left = tc_arena_grow(m->p->u->scratch, left, sizeof *left, &cap, 1);
    left[n++] = merged->producer;
    while (n) {
        const tc_node *node = left[--n];
        if (tc_map_get_ptr(m->seen, node))
            continue;
        tc_map_set_ptr(m->seen, node, m);
        left = tc_arena_grow(m->p->u->scratch, left, sizeof *left, &cap, n + node->n_inputs + 1);
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            const tc_value *value = tc_input(node, i);
            if (value && value->init)
                judge(m, merged, node, value);
            else if (value && value->producer && !is_shared(m, call_of(m, node), value))
                left[n++] = value->producer;
        }
    }
}

void tc_unfold_find_merged(const unfold_program *p, const tc_findings *missing) {
    merges m = {.p = p, .missing = missing};
    tc_map **maps[] = {&m.names, &m.merged, &m.loose, &m.known, &m.seen, &m.reported};
    for (size_t i = 0; i < TC_COUNT(maps); i++)
        *maps[i] = tc_map_create(p->u->scratch);
    tc_torch_program *program = tc_torch_program_read(p->u->scratch, p->u->graph);
    TC_FOR_NODES(node, p->u->graph) {
        const unfold_reads *r = call_of(&m, node);
        if (r) {
            read_operands(&m, node, r);
            read_known(&m, program, node);
        }
    }
    read_outputs(&m);
    find_by_counts(&m);
    find_last(&m);
    for (size_t i = 0; i < m.n_found; i++) {
        go_up(&m, m.found[i]);
        tc_map_set(p->made, tc_map_get_ptr(m.merged, m.found[i]), p->u);
    }
}
