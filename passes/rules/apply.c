/* apply.c: replaces the nodes that a rule matched, and applies a set of rules to a graph until nothing changes. The
 * value objects of the results stay and change producers, so names, graph outputs and metadata survive. Matched nodes
 * without further uses are erased. Each sweep visits the nodes that were there when it began, in order. The number of
 * sweeps and of rewrites is bounded, so a rule that undoes another, or that grows the graph, ends in a warning. */
#include "rules.h"
#include "compiler/base/base.h"
#include "compiler/shape/shape.h"
#include "passes/embedded/embedded.h"
#include "rule_ir.h"
#include <stdarg.h>
#include <string.h>

enum { MAX_SWEEPS = 32, REWRITES_PER_NODE = 8, REWRITES_AT_LEAST = 1024 };

/* --- one replacement -------------------------------------------------------------------------- */

static bool refuse(rule_match *m, const tc_node *node, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static bool refuse(rule_match *m, const tc_node *node, const char *fmt, ...) {
    m->failure = (match_failure){.depth = RULE_MAX_NODES, .loc = m->rule->loc, .step = "replace", .node = node};
    va_list args;
    va_start(args, fmt);
    vsnprintf(m->failure.why, sizeof m->failure.why, fmt, args);
    va_end(args);
    return false;
}

/* The value of the right side for result `name`, if it is not a new node's own result but an existing value. */
static tc_value *alias_of(const rule_builder *b, uint16_t name) {
    const rule_node *node = &b->rule->build[b->rule->names[name].build];
    return node->calc == CALC_NODE ? NULL : b->built[name];
}

/* An output of the graph keeps its name, so the value that replaces it must be free to change its own. */
static bool can_take_name(const rule_builder *b, const rule_match *m, const tc_value *from, const tc_value *to) {
    bool taken = false;
    for (uint16_t i = 0; i < b->rule->n_outs; i++)
        taken |= m->values[b->rule->outs[i]] != from && b->built[b->rule->outs[i]] == to;
    return !from->n_graph_outputs || (!taken && to->producer && to->graph == from->graph && !to->n_graph_outputs);
}

/* Whether the known parts of both types agree. */
static bool types_agree(const tc_type *a, const tc_type *b) {
    if (!a || !b || a->kind != TC_TENSOR || b->kind != TC_TENSOR)
        return true;
    if (a->dtype != TC_UNDEFINED && b->dtype != TC_UNDEFINED && a->dtype != b->dtype)
        return false;
    if (a->rank == TC_RANK_UNKNOWN || b->rank == TC_RANK_UNKNOWN)
        return true;
    bool agree = a->rank == b->rank;
    for (int i = 0; agree && i < a->rank; i++)
        agree = !tc_dim_is_const(a->dims[i]) || !tc_dim_is_const(b->dims[i]) || a->dims[i].value == b->dims[i].value;
    return agree;
}

static bool is_matched(const rule_match *m, const tc_node *node) {
    for (uint16_t i = 0; i < m->rule->n_match; i++)
        if (m->nodes[i] == node)
            return true;
    return false;
}

/* Every remaining user of the old value must come after the node that makes the new one. */
static bool users_come_later(const rule_match *m, const tc_value *old, const tc_node *made) {
    TC_FOR_USES(use, old) {
        if (is_matched(m, use->user))
            continue;
        if (use->user->graph != made->graph || !tc_node_before(made, use->user))
            return false;
    }
    return true;
}

/* A new node takes the position of the node whose result it replaces, or comes right after the last of its operands
 * if that is later. */
static tc_node *place(const rule_builder *b, const rule_match *m, const rule_node *node, bool *out_late) {
    tc_node *target = m->values[node->root]->producer, *latest = NULL;
    for (uint16_t i = 0; i < node->n_operands; i++) {
        const tc_value *value = rule_operand_value(b, &node->operands[i]);
        if (value && value->producer && value->graph == b->graph &&
            (!latest || tc_node_before(latest, value->producer)))
            latest = value->producer;
    }
    *out_late = latest && !tc_node_before(latest, target);
    return *out_late ? latest->next : target;
}

static bool results_fit(const rule_builder *b, rule_match *m, const bool *late) {
    for (uint16_t i = 0; i < b->rule->n_outs; i++) {
        uint16_t name = b->rule->outs[i];
        const rule_name *n = &b->rule->names[name];
        if (n->build == RULE_NONE || !m->values[name])
            continue;
        const tc_value *old = m->values[name], *new_value = b->built[name];
        if (!new_value)
            return refuse(m, old->producer, "'%s' would be absent", n->text);
        if (!types_agree(old->type, new_value->type))
            return refuse(m, old->producer, "the new '%s' is %s, the old one %s", n->text,
                          tc_type_text(b->ctx->arena, new_value->type), tc_type_text(b->ctx->arena, old->type));
        if (alias_of(b, name) && !can_take_name(b, m, old, new_value))
            return refuse(m, old->producer, "'%s' is an output of the graph and keeps its name", old->name);
        if (late[n->build] && !users_come_later(m, old, new_value->producer))
            return refuse(m, old->producer, "a user of '%s' comes before an operand of what replaces it", old->name);
    }
    return true;
}

/* `old` becomes a result of the node that made `fresh`; `fresh` becomes one of old's former producer and is erased
 * with it. */
static void take_over(tc_value *old, tc_value *fresh) {
    tc_node *made = fresh->producer, *gone = old->producer;
    uint32_t index = fresh->out_index, old_index = old->out_index;
    tc_value_replace(fresh, old);
    made->outputs[index] = old;
    gone->outputs[old_index] = fresh;
    old->producer = made;
    old->out_index = index;
    fresh->producer = gone;
    fresh->out_index = old_index;
}

/* Later nodes first, so that readers are erased before producers. */
static void erase_unused(const rule_match *m) {
    tc_node *order[RULE_MAX_NODES];
    unsigned n = 0;
    for (uint16_t i = 0; i < m->rule->n_match; i++) {
        unsigned at = n;
        bool skip = !m->nodes[i];
        for (unsigned k = 0; k < n; k++)
            skip |= order[k] == m->nodes[i];
        if (skip)
            continue;
        for (; at > 0 && tc_node_before(order[at - 1], m->nodes[i]); at--)
            order[at] = order[at - 1];
        order[at] = m->nodes[i];
        n++;
    }
    for (unsigned i = 0; i < n; i++) {
        bool used = false;
        for (uint32_t k = 0; k < order[i]->n_outputs; k++)
            used |= order[i]->outputs[k] && tc_value_is_used(order[i]->outputs[k]);
        if (used)
            continue;
        if (m->rule->set->forward_end == order[i]) /* its replacement is before it */
            m->rule->set->forward_end = order[i]->prev;
        tc_node_erase(order[i]);
    }
}

/* If a Shape or Size reads a value inside the match, it reads a parameter of the same shape instead. */
static void redirect_shape_uses(const rule_match *m) {
    for (uint16_t n = 0; n < m->rule->n_match; n++)
        for (uint32_t i = 0; m->nodes[n] && i < m->nodes[n]->n_outputs; i++) {
            tc_value *value = m->nodes[n]->outputs[i];
            for (tc_use *use = value ? value->uses : NULL, *next; use; use = next) {
                next = use->next;
                bool other = tc_node_has(use->user, TC_SHAPE_ONLY) && !is_matched(m, use->user);
                tc_value *twin = other ? rule_shape_twin(m, value, use->user) : NULL;
                if (twin)
                    tc_node_set_input(use->user, use->index, twin);
            }
        }
}

static void splice(rule_builder *b, rule_match *m) {
    tc_value *renamed[RULE_MAX_NAMES];
    const char *names[RULE_MAX_NAMES];
    unsigned n_renamed = 0;
    for (uint16_t i = 0; i < b->rule->n_outs; i++) {
        tc_value *old = m->values[b->rule->outs[i]], *new_value = b->built[b->rule->outs[i]];
        if (b->rule->names[b->rule->outs[i]].build == RULE_NONE || !old || old == new_value)
            continue;
        if (!alias_of(b, b->rule->outs[i])) {
            old->contents = new_value->contents ? new_value->contents : old->contents;
            old->type = old->type ? old->type : new_value->type;
            take_over(old, new_value);
            continue;
        }
        if (old->n_graph_outputs) {
            new_value->type = old->type ? old->type : new_value->type;
            new_value->origin = old->origin;
            names[n_renamed] = old->name;
            renamed[n_renamed++] = new_value;
        }
        tc_value_replace(old, new_value);
    }
    erase_unused(m);
    for (unsigned i = 0; i < n_renamed; i++)
        tc_value_rename(renamed[i], names[i]);
}

tc_status rule_replace(tc_ctx *ctx, rule_match *m, bool *out_done) {
    const tc_rule *rule = m->rule;
    tc_node *anchor = m->nodes[rule->anchor];
    rule_builder b = {.ctx = ctx, .rule = rule, .graph = anchor->graph, .values = m->values, .anchor = anchor};
    bool late[RULE_MAX_NODES] = {false};
    *out_done = false;
    for (uint16_t i = 0; i < rule->n_build; i++) {
        const tc_value *root = m->values[rule->build[i].root];
        if (!root) /* a second result that the node does not have */
            continue;
        b.label = root->producer->name;
        b.base = root->name;
        b.before = place(&b, m, &rule->build[i], &late[i]);
        TC_TRY(rule_build_node(&b, i));
    }
    if (!results_fit(&b, m, late)) {
        rule_unbuild(&b);
        return TC_OK;
    }
    redirect_shape_uses(m);
    *out_done = true;
    splice(&b, m);
    return TC_OK;
}

/* --- until nothing changes -------------------------------------------------------------------- */

typedef struct sweep {
    tc_pass_env *env;
    tc_rule_set *set;
    rule_match match;
    uint64_t rewrites, limit;
    const tc_rule *last;
} sweep;

static bool is_linked(const tc_node *node) { return node->prev || node->next || node->graph->first == node; }

static tc_status visit(sweep *s, tc_node *node) {
    const rule_bucket *bucket = rule_bucket_of(s->set->anchors, node->domain, node->op_type);
    for (size_t i = 0; bucket && i < bucket->n; i++) {
        tc_rule *rule = bucket->rules[i];
        bool done = false, explain = s->env->options && tc_is_explained(s->env->options, rule->name);
        if (rule->disabled)
            continue;
        rule->tried++;
        bool matched = rule_match_at(&s->match, rule, node, explain);
        s->set->steps += RULE_FUEL - s->match.fuel;
        if (!matched)
            continue;
        const char *label = tc_node_label(node), *op = node->op_type;
        TC_TRY(rule_replace(s->env->ctx, &s->match, &done));
        if (!done)
            continue;
        if (explain)
            tc_note(s->env->ctx, NULL, "rule %s matched at %s \"%s\"", rule->name, op, label);
        rule->matched++;
        s->rewrites++;
        s->last = rule;
        return TC_OK;
    }
    return TC_OK;
}

static tc_status sweep_once(sweep *s, tc_graph *graph) {
    size_t n = 0, count = graph->n_nodes;
    tc_arena *scratch = tc_arena_create();
    tc_node **nodes = TC_NEW_ARRAY(scratch, tc_node *, count + 1);
    tc_status status = TC_OK;
    TC_FOR_NODES(node, graph)
        nodes[n++] = node;
    for (size_t i = 0; i < n && status == TC_OK && s->rewrites < s->limit; i++) {
        tc_node *node = nodes[s->set->from_end ? n - 1 - i : i];
        if (is_linked(node))
            status = visit(s, node);
    }
    tc_arena_destroy(scratch);
    return status;
}

/* After the last sweep: reports why each remaining candidate did not match. */
static void explain_rest(sweep *s, tc_graph *graph) {
    TC_FOR_NODES(node, graph) {
        const rule_bucket *bucket = rule_bucket_of(s->set->anchors, node->domain, node->op_type);
        for (size_t i = 0; bucket && i < bucket->n; i++) {
            const tc_rule *rule = bucket->rules[i];
            bool done = false;
            if (rule->disabled || !tc_is_explained(s->env->options, rule->name))
                continue;
            if (!rule_match_at(&s->match, rule, node, true) ||
                (rule_replace(s->env->ctx, &s->match, &done) == TC_OK && !done))
                rule_explain(s->env->ctx, &s->match, node);
            if (done)
                return;
        }
    }
}

static tc_status apply_nested(sweep *s, tc_graph *graph);

static tc_status apply_graph(sweep *s, tc_graph *graph) {
    TC_TRY(apply_nested(s, graph));
    if (s->set->exhausted)
        return TC_OK;
    uint64_t before = s->rewrites;
    s->limit = before + (uint64_t)graph->n_nodes * REWRITES_PER_NODE + REWRITES_AT_LEAST;
    for (int i = 0; i < MAX_SWEEPS; i++) {
        uint64_t start = s->rewrites;
        TC_TRY(sweep_once(s, graph));
        if (s->rewrites == start) {
            if (s->env->options && s->env->options->explain)
                explain_rest(s, graph);
            return TC_OK;
        }
        if (s->rewrites >= s->limit)
            break;
    }
    s->set->exhausted = true;
    tc_warn(s->env->ctx, NULL, "rules did not end after %llu rewrites: rule %s (%s:%u) was applied last",
            (unsigned long long)(s->rewrites - before), s->last->name, s->last->file, s->last->loc.line);
    tc_hint(s->env->ctx, "two rules may undo each other; --disable=%s turns this one off", s->last->name);
    return TC_OK;
}

static tc_status apply_nested(sweep *s, tc_graph *graph) {
    TC_FOR_NODES(node, graph)
        TC_FOR_NESTED(nested, node)
            TC_TRY(apply_graph(s, nested));
    return TC_OK;
}

tc_status tc_rules_apply(tc_pass_env *env, tc_graph *graph, tc_rule_set *set, uint32_t *out_rewrites) {
    sweep s = {.env = env, .set = set};
    tc_status status = apply_graph(&s, graph);
    tc_rules_stats(env, set);
    if (out_rewrites)
        *out_rewrites = (uint32_t)s.rewrites;
    return status;
}

void tc_rules_set_forward_end(tc_rule_set *set, const tc_node *end) { set->forward_end = end; }

tc_status tc_rules_apply_each(tc_pass_env *env, tc_graph *graph, tc_rule_set *set, tc_rules_measure measure,
                              void *user) {
    tc_arena *scratch = tc_arena_create();
    bool *disabled = TC_NEW_ARRAY(scratch, bool, set->n_rules + 1);
    tc_dim before = measure(graph, user);
    tc_status status = TC_OK;
    for (tc_rule *rule = set->first; rule; rule = rule->next) {
        disabled[rule->serial] = rule->disabled;
        rule->disabled = true;
    }
    for (tc_rule *rule = set->first; rule && status == TC_OK; rule = rule->next) {
        uint32_t rewrites = 0;
        rule->disabled = disabled[rule->serial];
        status = tc_rules_apply(env, graph, set, &rewrites);
        rule->disabled = true;
        if (!rewrites || status != TC_OK)
            continue;
        tc_dim_pool *pool = graph->model->dims;
        tc_dim after = measure(graph, user), *freed = &tc_summary_rule(env, rule->name)->bytes_freed;
        *freed = tc_dim_add(pool, *freed, tc_dim_sub(pool, before, after));
        before = after;
    }
    for (tc_rule *rule = set->first; rule; rule = rule->next)
        rule->disabled = disabled[rule->serial];
    tc_arena_destroy(scratch);
    return status;
}

void tc_rules_keep(tc_rule_set *set, bool (*is_wanted)(const void *user, const char *name), const void *user) {
    for (tc_rule *rule = set->first; rule; rule = rule->next)
        rule->disabled |= !is_wanted(user, rule->name);
}

void tc_rules_from_end(tc_rule_set *set) { set->from_end = true; }

/* --- loading ---------------------------------------------------------------------------------- */

tc_status tc_rules_load_file(tc_ctx *ctx, const char *path, tc_rule_set *set) {
    tc_file file;
    tc_held held;
    TC_TRY(tc_file_open(ctx, path, &file));
    tc_file_hold(&file, &held);
    size_t n = file.size;
    char *text = tc_arena_alloc(set->arena, n + 1, 1);
    if (n > 0)
        memcpy(text, file.data, n);
    text[n] = '\0';
    tc_let_go(&held);
    tc_file_close(&file);
    if (strlen(text) != n)
        return tc_error(ctx, TC_BAD_INPUT, NULL, "'%s' holds a NUL byte: it is not a rules file", tc_quote(ctx, path));
    uint32_t built_in = set->n_functions;
    set->of_user = true;
    tc_status parsed = tc_rules_parse(ctx, text, path, set);
    set->of_user = false;
    TC_TRY(parsed);
    if (set->n_functions == built_in)
        return TC_OK;
    tc_status status = tc_error(ctx, TC_UNSUPPORTED, NULL, "'%s' defines a function: only built-in rules files may",
                                tc_quote(ctx, path));
    tc_hint(ctx, "put the function into the model");
    return status;
}

tc_status tc_rules_load(tc_pass_env *env, const char *name, bool with_user, tc_rule_set *set) {
    const tc_options *options = env->options;
    bool found = false;
    for (const tc_embedded *file = tc_embedded_rules; file->name; file++) {
        if (name && strcmp(file->name, name) != 0)
            continue;
        TC_TRY(tc_rules_parse(env->ctx, file->text, file->name, set));
        found = true;
    }
    TC_ASSERT(found);
    const tc_rule *built_in = set->last;
    bool of_user = false;
    for (size_t i = 0; options && with_user && i < options->n_rules_files; i++)
        TC_TRY(tc_rules_load_file(env->ctx, options->rules_files[i], set));
    for (tc_rule *rule = set->first; rule; rule = rule->next) {
        rule->disabled = (rule->inexact && !(options && options->inexact)) ||
                         (of_user && options->only_gradients && !rule->gradient);
        of_user |= rule == built_in;
        rule->disabled |= options && tc_is_disabled(options, rule->name);
    }
    return TC_OK;
}
