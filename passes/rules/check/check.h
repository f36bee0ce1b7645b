/* check.h: a rule's match side as a small graph, which `tempoc --check-rules` runs before and after the rule. The
 * text of a match leaves things open; two sources close them. *Choices* are the options that the text enumerates:
 * each optional node present or not, each alternative, each optional operand. rule_choices_next enumerates all of
 * them. *Dice* draw the rest: shapes, element types, attributes that the pattern does not name, constants, the order
 * of commutative operands, the known parts of shapes. Guards steer the dice (needs.c) but promise nothing: the
 * matcher decides whether the graph matches.
 * The same rule, choices and seed give the same graph, so another copy is made by building it again. */
#ifndef TC_CHECK_H
#define TC_CHECK_H
#include "passes/rules/rule_ir.h"

typedef struct rule_dice {
    uint64_t state;
} rule_dice;
uint64_t rule_dice_next(rule_dice *dice);
unsigned rule_dice_below(rule_dice *dice, unsigned n); /* 0 to n - 1; n > 0 */
double rule_dice_unit(rule_dice *dice);                /* [0, 1) */
double rule_dice_normal(rule_dice *dice);
static inline bool rule_dice_percent(rule_dice *dice, unsigned percent) { return rule_dice_below(dice, 100) < percent; }

#define RULE_MAX_CHOICES 48

typedef struct rule_choices {
    uint8_t pick[RULE_MAX_CHOICES], of[RULE_MAX_CHOICES];
    const char *what[RULE_MAX_CHOICES]; /* the label of the node, or the name */
    uint16_t n;                         /* questions asked so far */
    uint16_t given;                     /* of these, those with a fixed answer: the others are 0 */
} rule_choices;

unsigned rule_choose(rule_choices *choices, unsigned n, const char *what);
/* The next vector of answers, like an odometer whose fastest wheel is the last question; false after the last one. */
bool rule_choices_next(rule_choices *choices);
/* "a: 0 of 2, fill: 1 of 2", in the arena; "-" if there were no questions. */
const char *rule_choices_text(tc_arena *arena, const rule_choices *choices);

/* The unknown parts of the shapes of graph inputs. */
typedef enum rule_unknown { UNKNOWN_NOTHING, UNKNOWN_SIZES, UNKNOWN_SOME, UNKNOWN_RANKS, UNKNOWN_COUNT } rule_unknown;

/* The requirements of the guards, and of the right side, for the value of a name. Names are RULE_NONE if there is no
 * such requirement. */
typedef struct rule_need {
    bool constant, scalar, finite, positive, pow2, flags, wants_float, wants_integer, wants_bool;
    bool is_below;
    double below;
    int rank, min_rank;       /* -1, 0: none */
    unsigned max_bits;        /* 0: none */
    uint16_t trailing_of;     /* a list of the last axes of this */
    uint16_t same_count;      /* of as many elements as this list */
    uint16_t spans, spans_of; /* of the shape of axes `spans` of `spans_of` */
    uint16_t same_shape;
    int first_dim;        /* dim(x, 0, n); -1: none */
    bool added;           /* it is broadcast to another value: a bias, maybe a mask of 0 and -inf */
    bool divides;         /* it divides, or is added to a divisor: mostly far from 0, and of one size */
    bool edges;           /* numbers that guards must catch: zero, infinities, NaN */
    bool scored;          /* it leads to a softmax */
    bool kept, read_late; /* in training graphs: an expensive node makes it; the backward pass reads it */
} rule_need;
extern const rule_need rule_no_need;
void rule_needs(const tc_rule *rule, rule_need needs[RULE_MAX_NAMES]);

typedef struct rule_input {
    tc_value *value;
    int rank;
    int64_t dims[TC_MAX_RANK];
    tc_dtype dtype;
    uint64_t count;
    void *data;
} rule_input;

#define RULE_MAX_INPUTS 64
#define RULE_MAX_ATTRS 24

/* The future position of a value: operand `index` of an unfinished node. */
typedef struct rule_place {
    const tc_node *node;
    uint32_t index;
    const struct rule_place *outer; /* the future position of that node's result; NULL: it is no operand */
} rule_place;

typedef struct rule_instance {
    tc_ctx *ctx;
    const tc_rule *rule;
    tc_model *model; /* the caller destroys it */
    tc_graph *graph;
    rule_choices *choices;
    rule_dice dice;
    bool edges;    /* among the elements: zeros of both signs, infinities, NaN; rows that a mask excludes */
    bool careless; /* some operands violate guards and ops, to find guards that let too much pass */
    bool smooth;   /* no element near a kink: for finite differences */
    rule_unknown unknown;
    tc_dtype dtype;                /* of operands without neighbours */
    uint8_t state[RULE_MAX_NAMES]; /* name_state */
    tc_value *values[RULE_MAX_NAMES];
    tc_node *nodes[RULE_MAX_NODES];      /* by pattern node; NULL: left out. Of gradient rules: nodes[0] is the op */
    uint8_t decided[RULE_MAX_NODES];     /* optional nodes: 1 there, 2 left out; 0: not asked yet */
    const tc_node *late[RULE_MAX_NODES]; /* the backward pass */
    unsigned n_late;
    rule_need needs[RULE_MAX_NAMES];
    rule_input inputs[RULE_MAX_INPUTS];
    unsigned n_inputs;
    struct {
        const char *name;
        bool set;
        tc_attr attr;
    } attrs[RULE_MAX_ATTRS]; /* drawn: the same in every node that has them */
    unsigned n_attrs;
    bool has_scores;      /* the pattern has a softmax: -inf in a term of its operand excludes an element */
    const tc_value *loss; /* of rules with a forward and a backward half: a result of the forward half */
    const rule_place *place;
    int common_dim;        /* the size of all dims that are not 1; 0: not drawn yet, -1: there is none */
    int rank, result_rank; /* required by guards for the drawn operand, for the result of its node; -1: any */
    tc_value *douts[RULE_MAX_OPERANDS];         /* of gradient rules: inputs for the gradients of the results */
    const double *dout_data[RULE_MAX_OPERANDS]; /* their elements; NULL: the rule takes none */
    const char *why;                            /* the reason why there is no instance; NULL: there is one */
} rule_instance;

/* Makes the graph for `choices`; `why` is the reason for a failure. Diagnostics may be left in the context. The
 * graph has an input for each parameter that need not be a constant, and its outputs are the results, directly or
 * through an Identity. */
void rule_instance_make(tc_ctx *ctx, const tc_rule *rule, rule_choices *choices, uint64_t seed, rule_unknown unknown,
                        bool edges, bool careless, rule_instance *out_instance);
/* For a gradient rule: the op alone, in double precision, its results as outputs. */
void rule_instance_forward(tc_ctx *ctx, const tc_rule *rule, rule_choices *choices, uint64_t seed, rule_unknown unknown,
                           rule_instance *out_instance);

/* --- draw.c, draw_attr.c ---------------------------------------------------------------------- */
/* A value for operand `index` of a node with some of its other operands; `need` may be NULL. NULL: `why` is set. */
tc_value *rule_draw_operand(rule_instance *inst, const tc_node *node, uint32_t index, const rule_need *need,
                            const char *name);
/* A constant of one element for a literal at that position; a list. */
tc_value *rule_draw_number(rule_instance *inst, const tc_node *node, uint32_t index, double number);
tc_value *rule_draw_ints(rule_instance *inst, const int64_t *ints, uint32_t n);
/* `n` of `rank` axes, or the last `n`, in any order, counted from either end. */
void rule_draw_axes(rule_instance *inst, int64_t *list, int64_t n, int rank, bool trailing);
/* The attributes: those of the pattern, or ONNX's default, and draws for the op's other attributes. */
bool rule_draw_attrs(rule_instance *inst, tc_node *node, const rule_node *pattern);
/* A graph input of this type with random elements. */
tc_value *rule_draw_input(rule_instance *inst, const char *name, tc_dtype dtype, int rank, const int64_t *dims);
/* A node of one result, appended, with its type; NULL: it is no valid node. */
tc_value *rule_append_node(rule_instance *inst, const char *op, tc_value *a, tc_value *b, const char *name);
#endif
