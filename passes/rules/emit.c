/* emit.c: makes the nodes of a rule's right side, one at a time, in the order of the text. Literals become
 * initializers of the element type of their neighbours; recip, neg, add and mul are computed here and now, in double,
 * then rounded once. */
#include "compiler/shape/shape.h"
#include "rule_ir.h"
#include <string.h>

enum { CALC_BYTES = 65536 };

tc_value *rule_operand_value(const rule_builder *b, const rule_operand *operand) {
    if (operand->kind == OPERAND_NODE)
        return b->result[operand->index];
    if (operand->kind != OPERAND_NAME)
        return NULL;
    return b->rule->names[operand->index].build != RULE_NONE ? b->built[operand->index] : b->values[operand->index];
}

static tc_value *make_constant(rule_builder *b, const tc_tensor *tensor, const char *suffix) {
    const char *name = tc_arena_printf(b->graph->model->arena, "%s_%s", b->base, suffix);
    tc_value *value = tc_constant(b->graph, name, tensor);
    if (b->n_made < TC_COUNT(b->made))
        b->made[b->n_made++] = value;
    return value;
}

/* --- literals --------------------------------------------------------------------------------- */

/* The element type of a literal among these operands: that of the first operand of numbers. Where's condition and
 * indices do not count. */
static tc_dtype literal_dtype(const rule_builder *b, const rule_node *node, const rule_operand *literal) {
    bool is_where = node->calc == CALC_NODE && !strcmp(node->ops[0].name, "Where");
    bool elementwise =
        node->calc != CALC_NODE || (node->ops[0].op && (node->ops[0].op->traits & (TC_ELEMENTWISE | TC_SAME_TYPE)));
    if (literal->integral && !elementwise)
        return TC_INT64;
    for (uint16_t i = is_where; i < node->n_operands; i++) {
        const tc_value *value = rule_operand_value(b, &node->operands[i]);
        if (value && tc_dtype_is_number(tc_value_dtype(value)))
            return tc_value_dtype(value);
    }
    if (b->anchor && b->anchor->n_inputs && tc_input(b->anchor, 0) && !literal->integral &&
        tc_dtype_is_number(tc_value_dtype(tc_input(b->anchor, 0))))
        return tc_value_dtype(tc_input(b->anchor, 0));
    return literal->integral ? TC_INT64 : TC_FLOAT;
}

/* A list with dims of matched values. Guards ensure that they are numbers; -1 leaves one to Reshape. */
static const int64_t *list_of(const rule_builder *b, const rule_operand *op, int64_t *list) {
    for (uint32_t i = 0; i < op->n_ints; i++) {
        const tc_value *value = op->sizes[i].name == RULE_NONE ? NULL : b->values[op->sizes[i].name];
        int rank = tc_value_rank(value);
        int64_t axis = op->sizes[i].axis + (op->sizes[i].axis < 0 ? rank : 0);
        bool known = rank > 0 && axis >= 0 && axis < rank && tc_dim_is_const(value->type->dims[axis]);
        list[i] = op->sizes[i].name == RULE_NONE ? op->ints[i] : known ? value->type->dims[axis].value : -1;
    }
    return list;
}

static tc_value *operand(rule_builder *b, const rule_node *node, const rule_operand *op) {
    tc_model *model = b->graph->model;
    if (op->kind == OPERAND_NUMBER)
        return make_constant(b, tc_tensor_scalar(model, literal_dtype(b, node, op), op->number), "const");
    int64_t list[TC_MAX_RANK];
    if (op->kind == OPERAND_INTS && op->sizes)
        return make_constant(b, tc_tensor_ints(model, list_of(b, op, list), op->n_ints), "const");
    if (op->kind == OPERAND_INTS)
        return make_constant(b, tc_tensor_ints(model, op->ints, op->n_ints), "const");
    return rule_operand_value(b, op);
}

/* --- arithmetic on constants ------------------------------------------------------------------ */

static const tc_tensor *calc_tensor(rule_builder *b, const rule_node *node, uint16_t index) {
    const rule_operand *op = &node->operands[index];
    if (op->kind == OPERAND_NUMBER)
        return tc_tensor_scalar(b->graph->model, literal_dtype(b, node, op), op->number);
    const tc_value *value = rule_operand_value(b, op);
    const tc_tensor *tensor = value ? tc_value_constant(value) : NULL;
    return tensor && tensor->data && tensor->bytes <= CALC_BYTES && tc_dtype_bits(tensor->dtype) >= 8 ? tensor : NULL;
}

static double calc_element(rule_calc calc, double x, double y) {
    switch (calc) {
    case CALC_RECIP: return 1 / x;
    case CALC_NEG: return -x;
    case CALC_ADD: return x + y;
    default: return x * y;
    }
}

/* Writes element `index` through a scalar of the type, which rounds. */
static void put_element(tc_model *model, tc_tensor *tensor, uint64_t index, double value) {
    const tc_tensor *scalar = tc_tensor_scalar(model, tensor->dtype, value);
    size_t size = tc_tensor_bytes(tensor->dtype, 1);
    memcpy((char *)(uintptr_t)tensor->data + index * size, scalar->data, size);
}

static tc_status calc(rule_builder *b, const rule_node *node, tc_value **out_value) {
    const tc_tensor *x = calc_tensor(b, node, 0), *y = node->n_operands > 1 ? calc_tensor(b, node, 1) : x;
    const rule_name *root = &b->rule->names[node->root];
    if (!x || !y || x->dtype != y->dtype || (x->count != y->count && x->count != 1 && y->count != 1))
        return tc_error(b->ctx, TC_BAD_INPUT, b->anchor,
                        "rule %s (%s:%u): '%s' computes with a value that is not a constant of a fitting "
                        "shape",
                        b->rule->name, b->rule->file, node->loc.line, root->text);
    const tc_tensor *shape = x->count >= y->count && x->rank >= y->rank ? x : y;
    tc_tensor *result = tc_tensor_create(b->graph->model, x->dtype, shape->rank, shape->dims, NULL);
    for (uint64_t i = 0; i < result->count; i++) {
        double left = tc_tensor_get(x, x->count == 1 ? 0 : i), right = tc_tensor_get(y, y->count == 1 ? 0 : i);
        put_element(b->graph->model, result, i, calc_element(node->calc, left, right));
    }
    *out_value = make_constant(b, result, "const");
    return TC_OK;
}

/* Rules may be freed before the model, so everything that goes into the model is copied. */
static const char *keep(tc_model *model, const char *text) { return *text ? tc_arena_strdup(model->arena, text) : ""; }

/* --- attributes ------------------------------------------------------------------------------- */

static void copy_all_attrs(tc_node *to, const tc_node *from) {
    tc_attr_kind kind;
    bool required;
    for (uint32_t i = 0; i < from->n_attrs; i++)
        if (!to->op || tc_op_attr(to->op, from->attrs[i].name, &kind, &required))
            tc_attr_copy(to, &from->attrs[i]);
}

static void set_literal(tc_node *to, const tc_attr *attr) {
    tc_model *model = to->graph->model;
    const char *name = keep(model, attr->name);
    switch (attr->kind) {
    case TC_ATTR_INT: tc_attr_set_int(to, name, attr->i); return;
    case TC_ATTR_FLOAT: tc_attr_set_float(to, name, attr->f); return;
    case TC_ATTR_STRING:
        tc_attr_set_string(to, name, tc_arena_strndup(model->arena, attr->s.data, attr->s.size));
        return;
    default: tc_attr_set_ints(to, name, attr->ints, attr->count); return;
    }
}

/* The result of a function of matched values; false if its first operand is unbound. */
static bool called_number(const rule_builder *b, const rule_attr *attr, double *out_number) {
    const tc_value *args[2] = {NULL, NULL};
    for (uint16_t i = 0; i < attr->n_factors; i++)
        args[i] = b->values[attr->factors[i].name];
    if (args[0])
        *out_number = attr->call->number(args);
    return args[0] != NULL;
}

/* A number from the match: the result of a function, or a product of constants of one element. Unbound names count
 * as 1; false if all are unbound. */
static bool computed_number(const rule_builder *b, const rule_attr *attr, double *out_number) {
    bool any = false;
    *out_number = 1;
    if (attr->kind == ATTR_CALL)
        return called_number(b, attr, out_number);
    for (uint16_t i = 0; i < attr->n_factors; i++) {
        const tc_value *value = b->values[attr->factors[i].name];
        const tc_tensor *tensor = value ? tc_value_constant(value) : NULL;
        if (!tensor || !tensor->data || tensor->count != 1)
            continue;
        double factor = tc_tensor_get(tensor, 0);
        *out_number = attr->factors[i].divides ? *out_number / factor : *out_number * factor;
        any = true;
    }
    return any;
}

static void set_computed(const rule_builder *b, const rule_attr *attr, tc_node *to) {
    double number;
    const char *name = keep(b->graph->model, attr->literal.name);
    if (!computed_number(b, attr, &number))
        return;
    if (attr->literal.kind == TC_ATTR_INT)
        tc_attr_set_int(to, name, (int64_t)number);
    else
        tc_attr_set_float(to, name, (float)number);
}

static void set_attrs(rule_builder *b, const rule_node *node, tc_node *to) {
    for (uint16_t i = 0; i < node->n_attrs; i++) {
        const rule_attr *attr = &node->attrs[i];
        const tc_value *named = attr->from == RULE_NONE ? NULL : b->values[attr->from];
        const tc_node *from = attr->from == RULE_NONE ? b->anchor : named ? named->producer : NULL;
        if (attr->kind == ATTR_LITERAL)
            set_literal(to, &attr->literal);
        else if (attr->kind == ATTR_PRODUCT || attr->kind == ATTR_CALL)
            set_computed(b, attr, to);
        else if (attr->kind == ATTR_ALL && from)
            copy_all_attrs(to, from);
        else if (from) {
            const tc_attr *source = tc_attr_find(from, attr->from_attr);
            tc_attr renamed = source ? *source : (tc_attr){0};
            renamed.name = keep(b->graph->model, attr->literal.name);
            if (strcmp(attr->from_attr, attr->literal.name) != 0)
                renamed.origin = NULL;
            if (source)
                tc_attr_copy(to, &renamed);
        }
    }
}

/* --- nodes ------------------------------------------------------------------------------------ */

static uint32_t count_operands(const rule_builder *b, const rule_node *node) {
    uint32_t n = node->n_operands;
    while (n > 0) {
        const rule_operand *last = &node->operands[n - 1];
        bool is_literal = last->kind == OPERAND_NUMBER || last->kind == OPERAND_INTS;
        if (is_literal || rule_operand_value(b, last))
            break;
        n--;
    }
    return n;
}

static bool is_read(const tc_rule *rule, uint16_t name) {
    for (uint16_t i = 0; i < rule->n_build; i++)
        for (uint16_t k = 0; k < rule->build[i].n_operands; k++)
            if (rule->build[i].operands[k].kind == OPERAND_NAME && rule->build[i].operands[k].index == name)
                return true;
    return false;
}

/* A result of a rewrite that the matched node lacks, and that nothing else uses. */
static bool is_missing(const rule_builder *b, uint16_t name) {
    return !b->rule->gradient && b->rule->names[name].is_out && !b->values[name] && !is_read(b->rule, name);
}

/* Unused results are absent but keep their positions, also at the end, because function bodies need the right
 * number. */
static bool is_wanted(const rule_builder *b, const rule_node *node, uint16_t output) {
    if (output >= node->n_outputs)
        return output == 0;
    uint16_t name = node->outputs[output];
    return name != RULE_NONE && (!b->used || b->used[name]) && !is_missing(b, name);
}

/* A rule may make an op that only its user knows. The model must import a version of the op's domain. */
static tc_status check_domain(const rule_builder *b, const rule_node *node) {
    const rule_op *op = &node->ops[0];
    if (op->op || tc_model_opset(b->graph->model, op->domain) != 0)
        return TC_OK;
    tc_status status = tc_error(b->ctx, TC_BAD_INPUT, b->anchor,
                                "rule %s (%s:%u) makes %s.%s, but the model imports no opset of domain '%s'",
                                b->rule->name, b->rule->file, node->loc.line, op->domain, op->name, op->domain);
    tc_hint(b->ctx, "import the domain in the model, or turn the rule off (--disable=%s)", b->rule->name);
    return status;
}

static tc_status build_call(rule_builder *b, const rule_node *node, uint16_t index) {
    tc_model *model = b->graph->model;
    const rule_op *op = &node->ops[0];
    TC_TRY(check_domain(b, node));
    uint32_t n_inputs = count_operands(b, node), n_outputs = node->n_outputs ? node->n_outputs : 1;
    tc_value *operands[RULE_MAX_OPERANDS];
    for (uint32_t i = 0; i < n_inputs; i++)
        operands[i] = operand(b, node, &node->operands[i]);
    tc_node *made = tc_node_create(b->graph, op->op ? op->op->domain : keep(model, op->domain),
                                   op->op ? op->op->name : keep(model, op->name), n_inputs, n_outputs);
    b->nodes[index] = made;
    for (uint32_t i = 0; i < n_inputs; i++)
        tc_node_set_input(made, i, operands[i]);
    set_attrs(b, node, made);
    for (uint16_t i = 0; i < n_outputs; i++) {
        if (!is_wanted(b, node, i))
            continue;
        const char *what =
            node->n_outputs && node->outputs[i] != RULE_NONE ? b->rule->names[node->outputs[i]].text : op->name;
        tc_value *value = tc_node_add_output(made, i, tc_arena_printf(model->arena, "%s/%s", b->base, what), NULL);
        if (i == 0)
            b->result[index] = value;
        if (node->n_outputs && node->outputs[i] != RULE_NONE)
            b->built[node->outputs[i]] = value;
    }
    bool is_root = !b->rule->gradient && node->n_outputs && node->outputs[0] == node->root;
    if (is_root)
        made->name = b->label;
    else if (b->rule->gradient)
        made->name = b->result[index] ? b->result[index]->name : "";
    else /* node_names.c makes duplicate names unique */
        made->name = *b->label ? tc_arena_printf(model->arena, "%s/%s", b->label, op->name) : "";
    if (b->before)
        tc_node_insert_before(made, b->before);
    else
        tc_node_append(made);
    tc_status status = tc_infer_node(b->ctx, made);
    if (status != TC_OK)
        tc_hint(b->ctx, "this node comes from rule %s (%s:%u)", b->rule->name, b->rule->file, node->loc.line);
    return status;
}

tc_status rule_build_node(rule_builder *b, uint16_t index) {
    const rule_node *node = &b->rule->build[index];
    tc_value *value = NULL;
    if (node->calc == CALC_NODE)
        return build_call(b, node, index);
    if (node->calc == CALC_ALIAS)
        value = operand(b, node, &node->operands[0]);
    else if (node->calc == CALC_REDUCE_LIKE)
        TC_TRY(tc_reduce_like(b->ctx, operand(b, node, &node->operands[0]), operand(b, node, &node->operands[1]),
                              b->label, &value));
    else
        TC_TRY(calc(b, node, &value));
    b->result[index] = value;
    if (node->n_outputs && node->outputs[0] != RULE_NONE)
        b->built[node->outputs[0]] = value;
    return TC_OK;
}

void rule_unbuild(rule_builder *b) {
    for (uint16_t i = b->rule->n_build; i-- > 0;)
        if (b->nodes[i])
            tc_node_erase(b->nodes[i]);
    for (unsigned i = 0; i < b->n_made; i++)
        if (!tc_value_is_used(b->made[i]))
            tc_graph_remove_initializer(b->graph, b->made[i]);
}
