/* gradient_einsum.c: the gradient of a contraction. For each operand it is the einsum of dy with the other operands,
 * with the operand's own labels as result. If only this operand has a label, the forward op summed over it, so the
 * gradient is repeated along it. If an operand has a label twice, the forward op took the diagonal, so the gradient
 * is zero off it. An ellipsis becomes labels that the equation does not use. */
#include "gradients.h"
#include <ctype.h>
#include <string.h>

#define MAX_TERMS 16

typedef struct equation {
    char terms[MAX_TERMS][TC_MAX_RANK + 1], result[TC_MAX_RANK + 1];
    uint32_t n;
} equation;

/* Labels that the equation lacks, for the dims of its ellipses. */
static void free_labels(const char *text, char out_labels[TC_MAX_RANK + 1]) {
    size_t n = 0;
    for (int label = 'a'; label >= 'A' && n < TC_MAX_RANK; label = label == 'z' ? 'A' : label == 'Z' ? 0 : label + 1)
        if (!strchr(text, label))
            out_labels[n++] = (char)label;
    out_labels[n] = 0;
}

/* Reads labels up to a comma, an arrow or the end. An ellipsis becomes `dots`. */
static const char *read_term(tc_build *g, const char *text, const char *dots, char *out_term) {
    size_t n = 0;
    for (; *text && *text != ',' && *text != '-'; text++) {
        bool ellipsis = strncmp(text, "...", 3) == 0;
        const char *labels = ellipsis ? dots : (char[]){*text, 0};
        if (*text == ' ')
            continue;
        if ((!ellipsis && !isalpha((unsigned char)*text)) || n + strlen(labels) > TC_MAX_RANK) {
            tc_grad_refuse(g, "its equation has an invalid term, or one with more than %d labels", TC_MAX_RANK);
            break;
        }
        for (; *labels; labels++)
            out_term[n++] = *labels;
        text += ellipsis ? 2 : 0;
    }
    out_term[n] = 0;
    return text + strcspn(text, ",-");
}

/* The number of dims of the ellipsis in the operand's term. */
static int dots_of(tc_build *g, const char *text, uint32_t operand) {
    char term[TC_MAX_RANK + 1];
    read_term(g, text, "", term);
    int dots = tc_grad_rank(g, tc_input(g->of->node, operand)) - (int)strlen(term);
    if (dots < 0 || (dots > 0 && !memchr(text, '.', strcspn(text, ",-"))))
        tc_grad_refuse(g, "a term of its equation has not as many labels as its operand has dimensions");
    return dots < 0 || g->status != TC_OK ? 0 : dots;
}

/* Without an arrow the result has the ellipsis and, in order, the labels that occur once. */
static void implicit_result(equation *eq, const char *dots) {
    size_t n = (size_t)sprintf(eq->result, "%s", dots);
    for (int label = 'A'; label <= 'z'; label++) {
        int count = 0;
        for (uint32_t i = 0; i < eq->n && isalpha(label) && !strchr(dots, label); i++)
            for (const char *c = eq->terms[i]; *c; c++)
                count += *c == label;
        if (count == 1 && n < TC_MAX_RANK)
            eq->result[n++] = (char)label;
    }
    eq->result[n] = 0;
}

static equation read_equation(tc_build *g) {
    equation eq = {.n = 0};
    char labels[TC_MAX_RANK + 1];
    int most = 0;
    const char *text = tc_attr_string(g->of->node, "equation", "");
    free_labels(text, labels);
    int n_labels = (int)strlen(labels);
    for (bool more = true; more && eq.n < MAX_TERMS && eq.n < g->of->node->n_inputs; eq.n++) {
        int dots = dots_of(g, text, eq.n);
        if (dots > n_labels)
            tc_grad_refuse(g, "its equation has too many labels");
        most = dots > most ? dots : most;
        text = read_term(g, text, labels + (n_labels - (dots > n_labels ? n_labels : dots)), eq.terms[eq.n]);
        more = *text == ',';
        text += more;
    }
    const char *dots = labels + (n_labels - (most > n_labels ? n_labels : most));
    if (eq.n != g->of->node->n_inputs || *text == ',')
        tc_grad_refuse(g, "its equation does not have a term for each operand");
    if (text[0] == '-' && text[1] == '>')
        read_term(g, text + 2, dots, eq.result);
    else if (*text)
        tc_grad_refuse(g, "its equation has no result after the arrow");
    else
        implicit_result(&eq, dots);
    return eq;
}

/* `grad` has one dim for each label of the term. Dims for repeated labels are appended, with zeros off the diagonal. */
static tc_value *onto_diagonals(tc_build *g, tc_value *grad, const char *term, tc_value *x) {
    int64_t repeated[TC_MAX_RANK];
    size_t n = 0;
    for (size_t i = 0; term[i]; i++)
        if (memchr(term, term[i], i))
            repeated[n++] = (int64_t)i;
    tc_value *zero = tc_build_like(g, grad, 0), *spread = tc_build_unsqueeze(g, grad, repeated, n);
    for (size_t k = 0; k < n; k++) {
        int64_t other = repeated[k], first = strchr(term, term[other]) - term, trailing[TC_MAX_RANK];
        tc_value *dim = TC_OP(g, "Squeeze", tc_build_dims(g, x, other, other + 1), tc_build_int(g, 0)), *places[2];
        tc_value *range = TC_OP(g, "Range", tc_build_scalar(g, TC_INT64, 0), dim, tc_build_scalar(g, TC_INT64, 1));
        for (int side = 0; side < 2; side++) {
            size_t after = strlen(term) - 1 - (size_t)(side ? other : first);
            for (size_t i = 0; i < after; i++)
                trailing[i] = (int64_t)i + 1;
            places[side] = tc_build_unsqueeze(g, range, trailing, after);
        }
        spread = TC_OP(g, "Where", TC_OP(g, "Equal", places[0], places[1]), spread, zero);
    }
    return spread;
}

static tc_value *operand_gradient(tc_build *g, const equation *eq, uint32_t operand) {
    char text[(MAX_TERMS + 2) * (TC_MAX_RANK + 2)], left[TC_MAX_RANK + 1];
    tc_value *operands[MAX_TERMS + 1] = {g->of->douts[0]}, *x = tc_input(g->of->node, operand);
    int64_t alone[TC_MAX_RANK];
    size_t n = 1, n_left = 0, n_alone = 0, n_once = 0, at = (size_t)sprintf(text, "%s", eq->result);
    for (uint32_t i = 0; i < eq->n; i++) {
        if (i == operand)
            continue;
        at += (size_t)sprintf(text + at, ",%s", eq->terms[i]);
        operands[n++] = tc_input(g->of->node, i);
    }
    const char *term = eq->terms[operand];
    for (size_t i = 0; term[i]; i++) {
        if (memchr(term, term[i], i))
            continue;
        if (strchr(text, term[i]))
            left[n_left++] = term[i];
        else
            alone[n_alone++] = (int64_t)n_once;
        n_once++;
    }
    left[n_left] = 0;
    sprintf(text + at, "->%s", left);
    tc_node *node = tc_build_node(g, "", "Einsum", n, operands, 1);
    tc_attr_set_string(node, "equation", text);
    tc_value *grad = tc_build_unsqueeze(g, tc_build_finish(g, node), alone, n_alone);
    if (n_once < strlen(term))
        grad = onto_diagonals(g, grad, term, x);
    return n_alone ? tc_build_expand_like(g, grad, x) : tc_grad_reduce_like(g, grad, x);
}

void tc_gradient_einsum(tc_build *g) {
    equation eq = read_equation(g);
    for (uint32_t i = 0; i < g->of->node->n_inputs && g->status == TC_OK; i++)
        if (g->of->needed[i])
            g->of->dins[i] = operand_gradient(g, &eq, i);
}
