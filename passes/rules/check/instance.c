/* instance.c: walks the match side of a rule like the matcher, but makes nodes instead of finding them. For each
 * node, operands that the pattern defines come first, then the others, drawn to fit. In the end the results become
 * outputs, and shapes are forgotten as far as `unknown` says. */
#include "check.h"
#include "compiler/shape/shape.h"
#include <string.h>

static bool make_node(rule_instance *inst, uint16_t index);

static bool fail(rule_instance *inst, const char *why) {
    if (!inst->why)
        inst->why = why;
    return false;
}

/* --- nodes ------------------------------------------------------------------------------------ */

/* Types of a finished node; an invalid node is no instance. */
static bool finish_node(rule_instance *inst, tc_node *node) {
    if (tc_infer_node(inst->ctx, node) == TC_OK)
        return true;
    const tc_diag *diag = &inst->ctx->diags[inst->ctx->n_diags - 1];
    return fail(inst, tc_arena_printf(inst->model->arena, "%s: %s", node->op_type, diag->message));
}

tc_value *rule_append_node(rule_instance *inst, const char *op, tc_value *a, tc_value *b, const char *name) {
    tc_node *node = tc_node_create(inst->graph, "", op, b ? 2 : 1, 1);
    tc_node_set_input(node, 0, a);
    if (b)
        tc_node_set_input(node, 1, b);
    tc_value *value = tc_node_add_output(node, 0, name, NULL);
    tc_node_append(node);
    return finish_node(inst, node) ? value : NULL;
}

static void bind(rule_instance *inst, uint16_t name, tc_value *value) {
    if (name == RULE_NONE || inst->state[name] != NAME_FREE)
        return;
    inst->state[name] = value ? NAME_BOUND : NAME_ABSENT;
    inst->values[name] = value;
}

static bool is_late(const rule_instance *inst, const tc_node *node) {
    for (unsigned i = 0; node && i < inst->n_late; i++)
        if (inst->late[i] == node)
            return true;
    return false;
}

/* An op with such a suffix belongs to the backward pass, and so do the readers of its results. */
static void note_late(rule_instance *inst, const tc_node *node) {
    size_t n = strlen(node->op_type);
    bool late = n > 4 && strcmp(node->op_type + n - 4, "Grad") == 0;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        late |= tc_input(node, i) && is_late(inst, tc_input(node, i)->producer);
    if (late && inst->n_late < TC_COUNT(inst->late))
        inst->late[inst->n_late++] = node;
}

/* --- operands --------------------------------------------------------------------------------- */

enum { MAX_ALIASES = 8 };

/* The fixed operand, before anything is drawn for it. */
typedef struct slot {
    const rule_operand *operand; /* for choices the chosen one; optional nodes that are left out are skipped */
    tc_value *value;
    bool done;
    uint16_t aliases[MAX_ALIASES], n_aliases; /* results of nodes left out: other names of the value */
} slot;

static void close_slot(rule_instance *inst, const slot *s) {
    for (uint16_t i = 0; i < s->n_aliases; i++)
        bind(inst, s->aliases[i], s->value);
}

static bool needs(const rule_node *pattern, uint16_t index) {
    return !pattern->ops[0].op || index < pattern->ops[0].op->min_inputs;
}

/* Whether an optional node is present. Names that only an absent node binds must be unbound elsewhere too. */
static bool is_there(rule_instance *inst, uint16_t index) {
    const rule_node *pattern = &inst->rule->match[index];
    if (!pattern->optional || inst->decided[index])
        return !pattern->optional || inst->decided[index] == 1;
    bool may_stay = true, may_go = true;
    for (uint16_t i = 1; i < pattern->n_operands; i++) {
        const rule_operand *operand = &pattern->operands[i];
        if (operand->kind != OPERAND_NAME)
            continue;
        may_stay &= inst->state[operand->index] != NAME_ABSENT || !needs(pattern, i);
        may_go &= inst->state[operand->index] != NAME_BOUND || !inst->rule->names[operand->index].optional;
    }
    bool there = may_stay && (!may_go || rule_choose(inst->choices, 2, pattern->label) == 0);
    inst->decided[index] = there ? 1 : 2;
    for (uint16_t i = 1; !there && i < pattern->n_operands; i++)
        if (pattern->operands[i].kind == OPERAND_NAME && inst->rule->names[pattern->operands[i].index].optional)
            bind(inst, pattern->operands[i].index, NULL);
    for (uint16_t i = 1; !there && i < pattern->n_outputs; i++)
        bind(inst, pattern->outputs[i], NULL);
    return there;
}

/* The pattern node that makes an operand, if there is one and it is not built yet. */
static uint16_t maker_of(const rule_instance *inst, const rule_operand *operand) {
    if (operand->kind == OPERAND_NODE)
        return operand->index;
    bool is_open = operand->kind == OPERAND_NAME && inst->state[operand->index] == NAME_FREE && !inst->rule->gradient;
    return is_open ? inst->rule->names[operand->index].node : RULE_NONE;
}

static bool open_slot(rule_instance *inst, const char *label, const rule_operand *operand, slot *s) {
    *s = (slot){.operand = operand};
    for (uint16_t maker;;) {
        while (operand->kind == OPERAND_CHOICE)
            operand = &operand->choices[rule_choose(inst->choices, operand->n_choices, label)];
        s->operand = operand;
        maker = maker_of(inst, operand);
        if (maker == RULE_NONE)
            break;
        const rule_node *pattern = &inst->rule->match[maker];
        if (is_there(inst, maker)) {
            if (!make_node(inst, maker))
                return false;
            s->value = operand->kind == OPERAND_NAME ? inst->values[operand->index] : inst->nodes[maker]->outputs[0];
            s->done = true;
            close_slot(inst, s);
            return true;
        }
        if (pattern->n_outputs && pattern->outputs[0] != RULE_NONE && s->n_aliases < MAX_ALIASES)
            s->aliases[s->n_aliases++] = pattern->outputs[0];
        operand = &pattern->operands[0];
        label = pattern->label;
    }
    s->done = operand->kind == OPERAND_ABSENT;
    if (operand->kind == OPERAND_NAME && inst->state[operand->index] != NAME_FREE) {
        s->done = true;
        s->value = inst->values[operand->index];
        close_slot(inst, s);
    }
    return true;
}

static bool draw_slot(rule_instance *inst, const rule_node *pattern, const tc_node *node, uint16_t index, slot *s) {
    const rule_operand *operand = s->operand;
    const rule_name *name = operand->kind == OPERAND_NAME ? &inst->rule->names[operand->index] : NULL;
    bool required = needs(pattern, index);
    s->done = true;
    switch (operand->kind) {
    case OPERAND_NUMBER: s->value = rule_draw_number(inst, node, index, operand->number); break;
    case OPERAND_INTS: s->value = rule_draw_ints(inst, operand->ints, operand->n_ints); break;
    case OPERAND_ANY:
        if (!required && rule_choose(inst->choices, 2, pattern->label))
            return true;
        s->value = rule_draw_operand(inst, node, index, NULL, "any");
        break;
    default:
        if (inst->state[operand->index] == NAME_FREE) {
            bool leave = name->optional && !required && rule_choose(inst->choices, 2, name->text);
            s->value = leave ? NULL : rule_draw_operand(inst, node, index, &inst->needs[operand->index], name->text);
            if (leave || s->value)
                bind(inst, operand->index, s->value);
            required = !leave;
        } else { /* drawn for an operand before this one */
            s->value = inst->values[operand->index];
            required = false;
        }
        if (!s->value && !required)
            return true;
    }
    close_slot(inst, s);
    return s->value || fail(inst, "an operand could not be drawn");
}

/* --- one node of the pattern ------------------------------------------------------------------ */

static void shuffle(rule_dice *dice, tc_value **values, unsigned n) {
    for (unsigned i = n; i > 1; i--) {
        unsigned k = rule_dice_below(dice, i);
        tc_value *kept = values[i - 1];
        values[i - 1] = values[k];
        values[k] = kept;
    }
}

/* All factors except two become products of two, in any order and nesting; the node itself multiplies the last two. */
static bool nest_product(rule_instance *inst, const rule_node *pattern, tc_value **factors, unsigned n) {
    shuffle(&inst->dice, factors, n);
    for (unsigned inner = 0; n > 2; n--, inner++) {
        unsigned at = rule_dice_below(&inst->dice, n - 1);
        tc_value *product = rule_append_node(inst, pattern->ops[0].name, factors[at], factors[at + 1], "product");
        if (!product)
            return false;
        inst->nodes[pattern->spare + inner] = product->producer;
        factors[at] = product;
        memmove(factors + at + 1, factors + at + 2, (n - at - 2) * sizeof *factors);
    }
    return true;
}

static bool set_operands(rule_instance *inst, const rule_node *pattern, tc_node *node, const slot *slots) {
    tc_value *values[RULE_MAX_OPERANDS];
    uint32_t n = pattern->n_operands;
    for (uint32_t i = 0; i < n; i++)
        values[i] = slots[i].value;
    if (pattern->product) {
        if (!nest_product(inst, pattern, values, n))
            return false;
        n = 2;
    }
    if (pattern->commutative && n == 2)
        shuffle(&inst->dice, values, 2);
    while (n > 0 && !values[n - 1])
        n--;
    for (uint32_t i = 0; i < n; i++)
        tc_node_set_input(node, i, values[i]);
    tc_node_resize_inputs(node, n);
    return true;
}

static void add_results(rule_instance *inst, const rule_node *pattern, tc_node *node) {
    for (uint16_t i = 0; i < node->n_outputs; i++) {
        uint16_t name = i < pattern->n_outputs ? pattern->outputs[i] : RULE_NONE;
        const char *text = name == RULE_NONE ? "t" : inst->rule->names[name].text;
        if (i > 0 && name == RULE_NONE)
            continue;
        if (is_late(inst, node))
            text = tc_arena_printf(inst->model->arena, "%s_grad", text);
        tc_value *value = tc_node_add_output(node, i, text, NULL);
        bind(inst, name, value);
    }
}

/* The operands that the pattern defines. `node` gets each at once, so that others can be drawn to fit. */
static bool open_slots(rule_instance *inst, const rule_node *pattern, tc_node *node, slot *slots) {
    const rule_place *outer = inst->place;
    bool good = true;
    for (uint16_t i = 0; i < pattern->n_operands && good; i++) {
        rule_place place = {node, i, outer};
        inst->place = &place;
        good = open_slot(inst, pattern->label, &pattern->operands[i], &slots[i]);
        if (good && slots[i].done)
            tc_node_set_input(node, i, slots[i].value);
    }
    inst->place = outer;
    return good;
}

static bool make_from(rule_instance *inst, const rule_node *pattern, tc_node **out_node) {
    const rule_op *op = &pattern->ops[rule_choose(inst->choices, pattern->n_ops, pattern->label)];
    slot slots[RULE_MAX_OPERANDS];
    uint32_t n_outputs = pattern->n_outputs ? pattern->n_outputs : 1;
    tc_node *node = tc_node_create(inst->graph, op->domain, op->name, pattern->n_operands, n_outputs);
    if (!open_slots(inst, pattern, node, slots))
        return false;
    bool named = pattern->n_outputs && pattern->outputs[0] != RULE_NONE;
    inst->result_rank = named ? inst->needs[pattern->outputs[0]].rank : -1;
    for (uint16_t i = 0; i < pattern->n_operands; i++) {
        if (!slots[i].done && !draw_slot(inst, pattern, node, i, &slots[i]))
            return false;
        tc_node_set_input(node, i, slots[i].value);
        if (i == 0 && !rule_draw_attrs(inst, node, pattern))
            return fail(inst, "an attribute could not be drawn");
    }
    if (pattern->n_operands == 0 && !rule_draw_attrs(inst, node, pattern))
        return fail(inst, "an attribute could not be drawn");
    if (!set_operands(inst, pattern, node, slots))
        return false;
    note_late(inst, node);
    add_results(inst, pattern, node);
    tc_node_append(node);
    *out_node = node;
    return finish_node(inst, node);
}

static bool make_node(rule_instance *inst, uint16_t index) {
    return inst->nodes[index] || make_from(inst, &inst->rule->match[index], &inst->nodes[index]);
}

/* --- the graph around it ---------------------------------------------------------------------- */

static bool show_late(rule_instance *inst, tc_value *value) {
    const char *name = tc_arena_printf(inst->model->arena, "%s_again_grad", value->name);
    tc_value *late = rule_append_node(inst, "Abs", value, NULL, name);
    if (!late)
        return false;
    late->role = TC_ROLE_GRADIENT;
    tc_graph_add_output(inst->graph, late);
    return true;
}

/* The value itself, or a node after it that drops it. */
static bool show(rule_instance *inst, tc_value *value, bool first, const rule_need *need) {
    bool direct = value->producer && !value->n_graph_outputs && !need->read_late && !need->scored &&
                  rule_dice_percent(&inst->dice, 50);
    if (!first && !need->scored && rule_dice_percent(&inst->dice, 25))
        return true;
    if (direct) {
        value->role = is_late(inst, value->producer) ? TC_ROLE_GRADIENT : TC_ROLE_NONE;
        tc_graph_add_output(inst->graph, value);
        return true;
    }
    int rank = tc_value_rank(value);
    tc_value *axis = NULL, *seen;
    if (need->read_late && rank < 1)
        return fail(inst, "a scalar cannot be summed along an axis");
    if (need->read_late) /* neither a view nor cheap: otherwise the result would be an output, or recomputed */
        axis = tc_constant(inst->graph, "axis", tc_tensor_scalar_int(inst->model, 0));
    bool late = is_late(inst, value->producer);
    const char *name = tc_arena_printf(inst->model->arena, late ? "%s_seen_grad" : "%s_seen", value->name);
    seen = rule_append_node(inst, axis ? "CumSum" : need->scored ? "Softmax" : "Identity", value, axis, name);
    if (!seen)
        return false;
    seen->role = late ? TC_ROLE_GRADIENT : TC_ROLE_NONE;
    tc_graph_add_output(inst->graph, seen);
    return true;
}

static bool show_results(rule_instance *inst, const uint16_t *names, uint16_t n) {
    bool any = false;
    for (uint16_t i = 0; i < n; i++) {
        tc_value *value = names[i] == RULE_NONE ? NULL : inst->values[names[i]];
        if (!value)
            continue;
        if (!is_late(inst, value->producer) && !inst->loss)
            inst->loss = value;
        if (!show(inst, value, !any, &inst->needs[names[i]]))
            return false;
        any = true;
    }
    for (uint16_t i = 0; i < inst->rule->n_names; i++)
        if (inst->needs[i].read_late && inst->values[i] && !show_late(inst, inst->values[i]))
            return false;
    return any || fail(inst, "no result is there");
}

/* --- known parts of shapes -------------------------------------------------------------------- */

static tc_dim hidden_dim(rule_instance *inst, int64_t size) {
    tc_dim_pool *pool = inst->model->dims;
    unsigned kind = inst->unknown == UNKNOWN_SIZES ? 4 : rule_dice_below(&inst->dice, 10);
    if ((inst->unknown == UNKNOWN_SIZES && size == 1) || kind < 4)
        return tc_dim_const(size);
    if (kind < 7) /* equal sizes are known as equal */
        return tc_dim_symbol(pool, tc_arena_printf(inst->model->arena, "n%lld", (long long)size));
    return kind < 9 ? tc_dim_fresh(pool, "m") : tc_dim_unknown();
}

static void hide_input(rule_instance *inst, rule_input *input) {
    tc_dim dims[TC_MAX_RANK];
    if (inst->unknown == UNKNOWN_RANKS && rule_dice_percent(&inst->dice, 60)) {
        input->value->type = tc_type_tensor(inst->model, input->dtype, TC_RANK_UNKNOWN, NULL);
        return;
    }
    for (int i = 0; i < input->rank; i++)
        dims[i] = hidden_dim(inst, input->dims[i]);
    input->value->type = tc_type_tensor(inst->model, input->dtype, input->rank, dims);
}

static bool hide_shapes(rule_instance *inst) {
    if (inst->unknown == UNKNOWN_NOTHING)
        return true;
    for (unsigned i = 0; i < inst->n_inputs; i++)
        hide_input(inst, &inst->inputs[i]);
    tc_forget_shapes(inst->graph);
    return tc_infer_graph(inst->ctx, inst->graph) == TC_OK || fail(inst, "shapes cannot be inferred");
}

/* --- the instance ----------------------------------------------------------------------------- */

static tc_dtype draw_dtype(rule_instance *inst) {
    static const tc_dtype floats[] = {TC_DOUBLE, TC_DOUBLE, TC_FLOAT}, integers[] = {TC_INT64, TC_INT32, TC_UINT8},
                          any[] = {TC_DOUBLE, TC_DOUBLE, TC_FLOAT, TC_INT64, TC_INT32, TC_BOOL};
    const rule_need *w = inst->needs;
    bool is_float = false, is_integer = false, is_bool = false;
    unsigned bits = 64;
    for (uint16_t i = 0; i < inst->rule->n_names; i++) {
        is_float |= w[i].wants_float;
        is_integer |= w[i].wants_integer;
        is_bool |= w[i].wants_bool && inst->rule->names[i].is_out;
        bits = w[i].max_bits && w[i].max_bits < bits ? w[i].max_bits : bits;
    }
    if (inst->careless && rule_dice_percent(&inst->dice, 30))
        return any[rule_dice_below(&inst->dice, TC_COUNT(any))];
    if (bits < 64 && !is_integer)
        return TC_FLOAT;
    if (is_float)
        return floats[rule_dice_below(&inst->dice, TC_COUNT(floats))];
    if (is_integer)
        return integers[rule_dice_below(&inst->dice, TC_COUNT(integers))];
    return is_bool ? TC_BOOL : any[rule_dice_below(&inst->dice, TC_COUNT(any))];
}

static void begin(tc_ctx *ctx, const tc_rule *rule, rule_choices *choices, uint64_t seed, rule_unknown unknown,
                  rule_instance *inst) {
    memset(inst, 0, sizeof *inst);
    inst->ctx = ctx;
    inst->rule = rule;
    inst->choices = choices;
    inst->dice.state = seed;
    inst->unknown = unknown;
    inst->model = tc_model_create();
    inst->model->ir_version = 10;
    tc_model_set_opset(inst->model, "", TC_CANONICAL_OPSET);
    tc_model_set_opset(inst->model, TC_TEMPO_DOMAIN, TC_TEMPO_DOMAIN_VERSION);
    inst->graph = inst->model->graph = tc_graph_create(inst->model, NULL, "instance");
    choices->n = 0;
    rule_needs(rule, inst->needs);
    for (uint16_t i = 0; i < rule->n_match; i++)
        for (uint16_t k = 0; k < rule->match[i].n_ops; k++)
            inst->has_scores |= strstr(rule->match[i].ops[k].name, "Softmax") != NULL ||
                                strstr(rule->match[i].ops[k].name, "Attention") != NULL;
    for (uint16_t i = 0; i < rule->n_names; i++)
        inst->has_scores |= inst->needs[i].scored;
}

void rule_instance_make(tc_ctx *ctx, const tc_rule *rule, rule_choices *choices, uint64_t seed, rule_unknown how,
                        bool edges, bool careless, rule_instance *inst) {
    begin(ctx, rule, choices, seed, how, inst);
    inst->edges = edges;
    inst->careless = careless;
    inst->dtype = draw_dtype(inst);
    for (uint16_t i = 0; i < rule->n_match && !inst->why; i++) {
        rule_operand statement = {.kind = OPERAND_NODE, .index = i};
        slot s;
        if (rule->match[i].n_outputs && !inst->nodes[i])
            open_slot(inst, rule->match[i].label, &statement, &s);
    }
    if (!inst->why && show_results(inst, rule->outs, rule->n_outs))
        hide_shapes(inst);
}

/* A gradient has the shape of its result, and the same parts of both are known. */
static bool draw_douts(rule_instance *inst, const tc_node *node) {
    const tc_rule *rule = inst->rule;
    for (uint32_t i = 0; i < node->n_outputs && i < rule->n_douts; i++) {
        const tc_value *result = rule->douts[i] == RULE_NONE ? NULL : tc_output(node, i);
        int64_t dims[TC_MAX_RANK];
        for (int k = 0; result && k < result->type->rank; k++)
            dims[k] = result->type->dims[k].value;
        inst->douts[i] = result ? rule_draw_input(inst, "dy", result->type->dtype, result->type->rank, dims) : NULL;
        if (result && !inst->douts[i])
            return false;
        inst->dout_data[i] = result ? inst->inputs[inst->n_inputs - 1].data : NULL;
    }
    return true;
}

void rule_instance_forward(tc_ctx *ctx, const tc_rule *rule, rule_choices *choices, uint64_t seed, rule_unknown how,
                           rule_instance *inst) {
    begin(ctx, rule, choices, seed, how, inst);
    inst->smooth = true;
    inst->dtype = TC_DOUBLE;
    rule_operand operands[RULE_MAX_OPERANDS];
    uint16_t outputs[RULE_MAX_OPERANDS], n = rule->n_params < RULE_MAX_OPERANDS ? rule->n_params : RULE_MAX_OPERANDS;
    for (uint16_t i = 0; i < n; i++)
        operands[i] =
            (rule_operand){.kind = rule->params[i] == RULE_NONE ? OPERAND_ANY : OPERAND_NAME, .index = rule->params[i]};
    uint16_t n_outputs = 0;
    for (uint16_t i = 0; i < rule->n_outs && i < RULE_MAX_OPERANDS; i++) {
        bool serves = i == 0 || (i < rule->n_douts && rule->douts[i] != RULE_NONE);
        outputs[i] = serves || !rule_choose(choices, 2, "result") ? rule->outs[i] : RULE_NONE;
        n_outputs = (uint16_t)(i + 1);
    }
    rule_node pattern = {.ops = &rule->op,
                         .n_ops = 1,
                         .operands = operands,
                         .n_operands = n,
                         .outputs = outputs,
                         .n_outputs = n_outputs,
                         .label = rule->op.name};
    tc_node *node = NULL;
    if (!make_from(inst, &pattern, &node))
        return;
    inst->nodes[0] = node;
    if (!tc_type_is_static(tc_output(node, 0)->type)) {
        fail(inst, "the shape of the result is not known");
        return;
    }
    if (!draw_douts(inst, node))
        return;
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (tc_output(node, i))
            tc_graph_add_output(inst->graph, tc_output(node, i));
    if (!hide_shapes(inst))
        return;
    for (uint32_t i = 0; i < node->n_outputs && i < rule->n_douts; i++)
        if (inst->douts[i])
            inst->douts[i]->type = tc_output(node, i)->type;
}
