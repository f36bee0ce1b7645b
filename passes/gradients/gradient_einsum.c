/* gradient_einsum.c: the gradient of a plain contraction: for each operand, the einsum of dy with the other operands
 * that leaves the operand's own labels. A label that stands in this operand alone was summed out: there the gradient is
 * repeated. Repeated labels within an operand (diagonals) and ellipses are refused. */
#include "gradient.h"
#include <ctype.h>
#include <string.h>

#define MAX_TERMS 16

typedef struct equation {
    char terms[MAX_TERMS][TC_MAX_RANK + 1], result[TC_MAX_RANK + 1];
    uint32_t n;
} equation;

/* Reads labels up to a comma, an arrow or the end. */
static const char *read_term(tc_grad *g, const char *text, char *out_term) {
    size_t n = 0;
    for (; *text && *text != ',' && *text != '-'; text++) {
        if (*text == ' ')
            continue;
        if (!isalpha((unsigned char)*text) || n == TC_MAX_RANK || memchr(out_term, *text, n))
            tc_grad_refuse(g, "its equation has an ellipsis, or a label twice in one term");
        else
            out_term[n++] = *text;
    }
    out_term[n] = 0;
    return text;
}

/* Without an arrow the result has, in order, the labels that occur once. */
static void implicit_result(equation *eq) {
    size_t n = 0;
    for (int label = 'A'; label <= 'z'; label++) {
        int count = 0;
        for (uint32_t i = 0; i < eq->n; i++)
            count += isalpha(label) && strchr(eq->terms[i], label);
        if (count == 1 && n < TC_MAX_RANK)
            eq->result[n++] = (char)label;
    }
    eq->result[n] = 0;
}

static equation read_equation(tc_grad *g) {
    equation eq = {.n = 0};
    const char *text = tc_attr_string(g->node, "equation", "");
    for (bool more = true; more && eq.n < MAX_TERMS; eq.n++) {
        text = read_term(g, text, eq.terms[eq.n]);
        more = *text == ',';
        text += more;
    }
    if (eq.n != g->node->n_inputs)
        tc_grad_refuse(g, "its equation does not have a term for each operand");
    if (text[0] == '-' && text[1] == '>')
        read_term(g, text + 2, eq.result);
    else if (*text)
        tc_grad_refuse(g, "its equation has no result after the arrow");
    else
        implicit_result(&eq);
    return eq;
}

static tc_value *operand_gradient(tc_grad *g, const equation *eq, uint32_t operand) {
    char text[(MAX_TERMS + 2) * (TC_MAX_RANK + 2)], left[TC_MAX_RANK + 1];
    tc_value *operands[MAX_TERMS + 1] = {g->douts[0]}, *x = tc_input(g->node, operand);
    int64_t alone[TC_MAX_RANK];
    size_t n = 1, n_left = 0, n_alone = 0, at = (size_t)sprintf(text, "%s", eq->result);
    for (uint32_t i = 0; i < eq->n; i++) {
        if (i == operand)
            continue;
        at += (size_t)sprintf(text + at, ",%s", eq->terms[i]);
        operands[n++] = tc_input(g->node, i);
    }
    for (size_t i = 0; eq->terms[operand][i]; i++) {
        if (strchr(text, eq->terms[operand][i]))
            left[n_left++] = eq->terms[operand][i];
        else
            alone[n_alone++] = (int64_t)i;
    }
    left[n_left] = 0;
    sprintf(text + at, "->%s", left);
    tc_node *node = tc_grad_node(g, "", "Einsum", n, operands, 1);
    tc_attr_set_string(node, "equation", text);
    tc_value *grad = tc_grad_unsqueeze(g, tc_grad_finish(g, node), alone, n_alone);
    return n_alone ? tc_grad_expand_like(g, grad, x) : tc_grad_reduce_like(g, grad, x);
}

void tc_gradient_einsum(tc_grad *g) {
    equation eq = read_equation(g);
    for (uint32_t i = 0; i < g->node->n_inputs && g->status == TC_OK; i++)
        if (g->needed[i])
            g->dins[i] = operand_gradient(g, &eq, i);
}
