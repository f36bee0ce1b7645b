/* einsum_product.c: attention written with Einsum. A contraction before or after a Softmax that is a product of
 * matrices, in any order of axes, becomes MatMul between Transposes, as in other models, so that the attention rules
 * match it. A contraction that needs more than a permutation stays. */
#include "raise.h"
#include "compiler/ir/ops.h"
#include "compiler/shape/shape.h"
#include "passes/rules/rules.h"
#include <ctype.h>
#include <string.h>

/* MOST_STEPS from the Softmax to its product; digits label the axes of an ellipsis. */
enum { MOST_STEPS = 4, FIRST_DOT = '0' };

typedef struct product {
    char terms[3][2 * TC_MAX_RANK + 1]; /* of both operands and the result */
    char batch[TC_MAX_RANK + 1];        /* labels that all three have, in the result's order */
    /* labels of the first and the result, of the second and the result, of both operands */
    char row, column, inner;
} product;

/* The labels up to a comma or an arrow; NULL: a label occurs twice, or there are too many. "..." stands for `dots`
 * axes. */
static const char *read_term(const char *text, int dots, char *out_term) {
    size_t n = 0;
    for (; *text && *text != ',' && *text != '-'; text++) {
        if (n + TC_MAX_RANK >= 2 * TC_MAX_RANK || (isalpha((unsigned char)*text) && memchr(out_term, *text, n)))
            return NULL;
        if (isalpha((unsigned char)*text))
            out_term[n++] = *text;
        else if (strncmp(text, "...", 3) == 0) {
            for (int i = 0; i < dots; i++)
                out_term[n++] = (char)(FIRST_DOT + i);
            text += 2;
        } else if (*text != ' ')
            return NULL;
    }
    out_term[n] = 0;
    return text;
}

/* The number of axes that an ellipsis of both operands stands for; -1: the numbers differ. */
static int dots_of(const tc_node *node, const char *text) {
    int dots = 0;
    for (uint32_t i = 0; i < 2; i++) {
        char term[2 * TC_MAX_RANK + 1];
        const char *end = read_term(text, 0, term);
        int more = end ? tc_value_rank(tc_input(node, i)) - (int)strlen(term) : -1;
        if (more < 0 || more >= TC_MAX_RANK || (i > 0 && more != dots) ||
            (more > 0 && !memchr(text, '.', (size_t)(end - text))))
            return -1;
        dots = more;
        text = end + (*end == ',');
    }
    return dots;
}

static bool read_equation(const tc_node *node, product *p) {
    const char *text = tc_attr_string(node, "equation", "");
    int dots = dots_of(node, text);
    for (int i = 0; i < 3 && text && dots >= 0; i++) {
        text = read_term(text, dots, p->terms[i]);
        const char *mark = i == 0 ? "," : i == 1 ? "->" : "";
        if (!text || strncmp(text, mark, strlen(mark)) != 0)
            return false;
        text += strlen(mark);
    }
    return text && !*text && dots >= 0;
}

static tc_dim dim_of(const tc_value *value, const char *term, char label) {
    return value->type->dims[strchr(term, label) - term];
}

/* Whether the equation multiplies matrices: one label each for rows, columns and the contraction. */
static bool classify(const tc_node *node, product *p) {
    size_t n_batch = 0;
    const char *first = p->terms[0], *second = p->terms[1], *result = p->terms[2];
    for (const char *c = result; *c; c++) {
        bool a = strchr(first, *c) != NULL, b = strchr(second, *c) != NULL;
        char *single = a ? &p->row : &p->column;
        if (a && b)
            p->batch[n_batch++] = *c;
        else if ((!a && !b) || *single)
            return false;
        else
            *single = *c;
    }
    for (const char *c = first; *c; c++)
        if (!strchr(result, *c)) {
            if (p->inner || !strchr(second, *c))
                return false;
            p->inner = *c;
        }
    return p->row && p->column && p->inner && strlen(second) == n_batch + 2 && strchr(second, p->inner) &&
           tc_dim_equal(dim_of(tc_input(node, 0), first, p->inner), dim_of(tc_input(node, 1), second, p->inner));
}

/* Exchanges the operands if the result has the columns before the rows. */
static void order_operands(tc_node *node, product *p) {
    if (strchr(p->terms[2], p->row) < strchr(p->terms[2], p->column))
        return;
    product was = *p;
    tc_value *first = tc_input(node, 0);
    tc_node_set_input(node, 0, tc_input(node, 1));
    tc_node_set_input(node, 1, first);
    memcpy(p->terms[0], was.terms[1], sizeof was.terms[1]);
    memcpy(p->terms[1], was.terms[0], sizeof was.terms[0]);
    p->row = was.column;
    p->column = was.row;
}

/* The axes of `from` in the order of `to`; false: they are in that order already. */
static bool permutation(const char *from, const char *to, int64_t *out_perm) {
    for (size_t i = 0; to[i]; i++)
        out_perm[i] = strchr(from, to[i]) - from;
    return strcmp(from, to) != 0;
}

/* The operand with its axes in the order of `to`. */
static tc_status turn(tc_pass_env *env, tc_node *node, uint32_t index, const char *from, const char *to) {
    int64_t perm[TC_MAX_RANK];
    if (!permutation(from, to, perm))
        return TC_OK;
    tc_value *x = tc_input(node, index), *old = tc_output(node, 0);
    tc_node *turned = tc_node_create(node->graph, "", "Transpose", 1, 1);
    turned->name = node->name;
    tc_node_set_input(turned, 0, x);
    tc_attr_set_ints(turned, "perm", perm, strlen(to));
    tc_node_add_output(turned, 0, tc_arena_printf(node->graph->model->arena, "%s_operand_%u", old->name, index), NULL);
    tc_node_insert_before(turned, node);
    tc_node_set_input(node, index, tc_output(turned, 0));
    return tc_infer_node(env->ctx, turned);
}

/* The product gives axes in the order of `from`; a Transpose after it makes the result. */
static tc_status turn_result(tc_pass_env *env, tc_node *node, const char *from, const char *to) {
    int64_t perm[TC_MAX_RANK];
    if (!permutation(from, to, perm))
        return tc_infer_node(env->ctx, node);
    tc_value *result = tc_node_take_output(node, 0);
    tc_node_add_output(node, 0, tc_arena_printf(node->graph->model->arena, "%s_product", result->name), NULL);
    tc_node *turned = tc_node_create(node->graph, "", "Transpose", 1, 1);
    turned->name = node->name;
    tc_node_set_input(turned, 0, tc_output(node, 0));
    tc_attr_set_ints(turned, "perm", perm, strlen(to));
    tc_node_set_output(turned, 0, result);
    tc_node_insert_after(turned, node);
    TC_TRY(tc_infer_node(env->ctx, node));
    return tc_infer_node(env->ctx, turned);
}

static tc_status lower(tc_pass_env *env, tc_node *node, bool *out_changed) {
    product p = {.row = 0};
    char first[TC_MAX_RANK + 3], second[TC_MAX_RANK + 3], result[TC_MAX_RANK + 3];
    if (node->n_inputs != 2 || node->n_outputs != 1 || !read_equation(node, &p) || !classify(node, &p))
        return TC_OK;
    *out_changed = true;
    order_operands(node, &p);
    snprintf(first, sizeof first, "%s%c%c", p.batch, p.row, p.inner);
    snprintf(second, sizeof second, "%s%c%c", p.batch, p.inner, p.column);
    snprintf(result, sizeof result, "%s%c%c", p.batch, p.row, p.column);
    TC_TRY(turn(env, node, 0, p.terms[0], first));
    TC_TRY(turn(env, node, 1, p.terms[1], second));
    tc_attr_remove(node, "equation");
    tc_node_set_op(node, "", "MatMul");
    return turn_result(env, node, result, p.terms[2]);
}

/* Whether the value is a softmax of rows, perhaps dropped, cast or masked. */
static bool is_map(const tc_value *value) {
    static const char *const between[] = {"Cast", "Dropout", "Where"};
    for (int step = 0; step < MOST_STEPS && value && value->producer; step++) {
        const tc_node *node = value->producer;
        const tc_value *next = NULL;
        if (tc_node_is(node, "", "Softmax"))
            return true;
        for (size_t i = 0; i < TC_COUNT(between); i++)
            if (strcmp(node->op_type, between[i]) == 0)
                next = tc_input(node, strcmp(between[i], "Where") == 0 ? 2 : 0);
        value = next;
    }
    return false;
}

tc_status tc_lower_einsum_products(tc_pass_env *env, tc_graph *graph, bool *out_changed) {
    TC_FOR_NODES_SAFE(node, graph) {
        if (!tc_node_is(node, "", "Einsum") || node->n_inputs != 2)
            continue;
        if (tc_leads_to_softmax(tc_output(node, 0)) || is_map(tc_input(node, 0)) || is_map(tc_input(node, 1)))
            TC_TRY(lower(env, node, out_changed));
    }
    return TC_OK;
}
