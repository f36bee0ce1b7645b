/* needs.c: the requirements of a rule's guards and of its right side for each value, so that the dice produce
 * matches. A negated guard is no requirement, because most draws satisfy it. */
#include "check.h"
#include <string.h>

typedef struct need_row {
    const char *guard;
    void (*note)(rule_need *needs, const guard_arg *args);
    bool each; /* recorded for every argument except the first, each on its own */
} need_row;

static rule_need *first(rule_need *needs, const guard_arg *args) { return &needs[args[0].name]; }

static void constant(rule_need *w, const guard_arg *a) { first(w, a)->constant = true; }
static void finite(rule_need *w, const guard_arg *a) { first(w, a)->constant = first(w, a)->finite = true; }
static void positive(rule_need *w, const guard_arg *a) { first(w, a)->constant = first(w, a)->positive = true; }
static void flags(rule_need *w, const guard_arg *a) { first(w, a)->constant = first(w, a)->flags = true; }
static void pow2(rule_need *w, const guard_arg *a) { first(w, a)->constant = first(w, a)->pow2 = true; }
static void scalar(rule_need *w, const guard_arg *a) { first(w, a)->scalar = true; }
static void wants_float(rule_need *w, const guard_arg *a) { first(w, a)->wants_float = true; }
static void wants_integer(rule_need *w, const guard_arg *a) { first(w, a)->wants_integer = true; }
static void wants_bool(rule_need *w, const guard_arg *a) { first(w, a)->wants_bool = true; }
static void bits(rule_need *w, const guard_arg *a) { first(w, a)->max_bits = (unsigned)a[1].number; }
static void rank(rule_need *w, const guard_arg *a) { first(w, a)->rank = (int)a[1].number; }
static void min_rank(rule_need *w, const guard_arg *a) { first(w, a)->min_rank = (int)a[1].number; }
static void kept(rule_need *w, const guard_arg *a) { first(w, a)->kept = true; }
static void read_late(rule_need *w, const guard_arg *a) { first(w, a)->read_late = true; }
static void scored(rule_need *w, const guard_arg *a) { first(w, a)->scored = true; }
static void added(rule_need *w, const guard_arg *a) { first(w, a)->added = true; }
static void same_shape(rule_need *w, const guard_arg *a) { first(w, a)->same_shape = a[1].name; }

static void divides(rule_need *w, const guard_arg *a) { first(w, a)->divides = true; }

static void below(rule_need *w, const guard_arg *a) {
    first(w, a)->constant = first(w, a)->scalar = first(w, a)->is_below = true;
    first(w, a)->below = a[1].number;
}
static void trailing(rule_need *w, const guard_arg *a) {
    first(w, a)->constant = true;
    first(w, a)->trailing_of = a[1].name;
}
static void same_count(rule_need *w, const guard_arg *a) { w[a[1].name].same_count = a[0].name; }
static void spans(rule_need *w, const guard_arg *a) {
    first(w, a)->spans_of = a[1].name;
    first(w, a)->spans = a[2].name;
}
static void dim(rule_need *w, const guard_arg *a) {
    if (a[1].number == 0)
        first(w, a)->first_dim = (int)a[2].number;
}

/* Random draws satisfy guards without a row often enough. */
static const need_row rows[] = {
    {"below", below, false},
    {"bits_at_most", bits, false},
    {"bool", wants_bool, false},
    {"broadcasts", added, false},
    {"constant", constant, false},
    {"dim", dim, false},
    {"few_sides", divides, true},
    {"finite", finite, false},
    {"flags", flags, false},
    {"float", wants_float, false},
    {"integer", wants_integer, false},
    {"invertible", finite, false},
    {"kept_for", kept, false},
    {"nonzero", constant, false},
    {"positive", positive, false},
    {"pow2", pow2, false},
    {"rank", rank, false},
    {"rank_at_least", min_rank, false},
    {"lasts", read_late, false},
    {"needed_late", read_late, false},
    {"same_count", same_count, false},
    {"same_shape", same_shape, false},
    {"scalar", scalar, false},
    {"scored", scored, false},
    {"spans", spans, false},
    {"trailing", trailing, false},
};

static void need_constant(const tc_rule *rule, rule_need *needs, const rule_node *node) {
    for (uint16_t i = 0; i < node->n_operands; i++) {
        bool computed =
            node->calc == CALC_RECIP || node->calc == CALC_NEG || node->calc == CALC_ADD || node->calc == CALC_MUL;
        const rule_operand *operand = &node->operands[i];
        if (computed && operand->kind == OPERAND_NAME && rule->names[operand->index].build == RULE_NONE)
            needs[operand->index].constant = true;
    }
    for (uint16_t i = 0; i < node->n_attrs; i++)
        for (uint16_t k = 0; k < node->attrs[i].n_factors && node->attrs[i].kind == ATTR_PRODUCT; k++)
            needs[node->attrs[i].factors[k].name].constant = true;
}

const rule_need rule_no_need = {.rank = -1,
                                .first_dim = -1,
                                .trailing_of = RULE_NONE,
                                .same_count = RULE_NONE,
                                .spans = RULE_NONE,
                                .spans_of = RULE_NONE,
                                .same_shape = RULE_NONE};

void rule_needs(const tc_rule *rule, rule_need needs[RULE_MAX_NAMES]) {
    for (uint16_t i = 0; i < rule->n_names; i++)
        needs[i] = rule_no_need;
    for (uint16_t i = 0; i < rule->n_guards; i++)
        for (size_t k = 0; k < TC_COUNT(rows); k++)
            if (!rule->guards[i].negated && strcmp(rule->guards[i].row->name, rows[k].guard) == 0)
                for (uint16_t a = rows[k].each; a <= (rows[k].each ? rule->guards[i].n_args - 1 : 0); a++)
                    rows[k].note(needs, rule->guards[i].args + a);
    for (uint16_t i = 0; i < rule->n_build && !rule->gradient; i++)
        need_constant(rule, needs, &rule->build[i]);
}
