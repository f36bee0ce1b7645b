/* rule_ir.h: a rule in memory. parse.c turns text into it, compile.c checks it and plans the match, match.c binds it
 * to a graph, apply.c and rule_gradient.c build its right side. Nested calls are unnamed nodes. All references are
 * indices into the rule's arrays, so that a match is two small arrays (values by name, nodes by pattern node). */
#ifndef TC_RULE_IR_H
#define TC_RULE_IR_H
#include "compiler/text/lexer.h"
#include "compiler/ir/ops.h"
#include "rules.h"

#define RULE_NONE UINT16_MAX
#define RULE_MAX_NAMES 160 /* per rule: names, and nodes of one side */
#define RULE_MAX_NODES 128
#define RULE_MAX_OPERANDS 32
#define RULE_TOLERANCE 1e-5 /* relative, for literal constants */

typedef tc_token rule_loc; /* only its line outlives the parse */

typedef enum operand_kind {
    OPERAND_ABSENT, /* nothing between two commas: the operand must be absent */
    OPERAND_ANY,    /* _ */
    OPERAND_NAME,   /* index: into names */
    OPERAND_NODE,   /* index: a nested call, its first result */
    OPERAND_NUMBER, /* a scalar constant */
    OPERAND_INTS,   /* an int64 constant of one dimension */
    OPERAND_CHOICE, /* (a or b or ...): the first choice that matches */
} operand_kind;

/* dim(x, axis): a number in a list of the right side; the axis may count from the end. */
typedef struct rule_size {
    uint16_t name; /* RULE_NONE: the list's own number */
    int64_t axis;
} rule_size;

typedef struct rule_operand {
    operand_kind kind;
    uint16_t index;
    bool integral; /* NUMBER: written without a point or exponent */
    double number;
    const int64_t *ints;    /* [n_ints] */
    const rule_size *sizes; /* [n_ints], or NULL: numbers only */
    uint32_t n_ints;
    struct rule_operand *choices; /* [n_choices] */
    uint16_t n_choices;
    rule_loc loc;
} rule_operand;

typedef enum rule_attr_kind { ATTR_LITERAL, ATTR_ALL, ATTR_REF, ATTR_PRODUCT, ATTR_CALL } rule_attr_kind;

/* A function that computes an attribute from matched values. */
typedef struct rule_function {
    const char *name;
    uint16_t n_args;                               /* at most: 1 or 2 */
    double (*number)(const tc_value *const *args); /* NULL: unbound, or not given */
} rule_function;

/* One factor of an attribute computed from matched constants: their only element, or its reciprocal. Or an argument
 * of a function. */
typedef struct rule_factor {
    uint16_t name;
    bool divides;
} rule_factor;

typedef struct rule_attr {
    rule_attr_kind kind;
    tc_attr literal;       /* its name is the attribute's for every kind */
    uint16_t from;         /* ALL, REF: the name whose producer holds the attributes; RULE_NONE: the anchor */
    const char *from_attr; /* REF: name of the attribute there */
    rule_factor *factors;  /* PRODUCT, CALL: [n_factors] */
    const rule_function *call;
    uint16_t n_factors;
    rule_loc loc;
} rule_attr;

/* The kind of a node on the right side; a pattern node is always CALC_NODE. */
typedef enum rule_calc {
    CALC_NODE,
    CALC_ALIAS,
    CALC_RECIP,
    CALC_NEG,
    CALC_ADD,
    CALC_MUL,
    CALC_REDUCE_LIKE,
} rule_calc;

typedef struct rule_op {
    const char *domain, *name;
    const tc_op *op;
} rule_op;

typedef struct rule_node {
    rule_calc calc;
    const rule_op *ops; /* alternatives */
    uint16_t n_ops;
    bool optional, commutative;
    bool product;   /* Mul*(a, b, c): the operands are the leaves of a tree of this op, in any order */
    uint16_t spare; /* product: first of n_operands - 2 pattern nodes without text, the inner nodes of that tree */
    rule_operand *operands;
    uint16_t n_operands;
    uint16_t *outputs;  /* names; RULE_NONE is _ */
    uint16_t n_outputs; /* 0: a nested call */
    rule_attr *attrs;
    uint16_t n_attrs;
    const char *label; /* first named result, else the op: for messages */
    uint16_t root;     /* right side: the first result of the rule that depends on this node */
    rule_loc loc;
} rule_node;

typedef struct rule_name {
    const char *text;
    bool param, optional, is_out, matched; /* matched: an operand of the match */
    uint16_t node, output;                 /* the pattern node that defines it, or RULE_NONE */
    uint16_t build, build_output;          /* the right side's node that defines it, or RULE_NONE */
    int8_t input;                          /* gradient rules: operand number of the op, or -1 */
    rule_loc loc;
} rule_name;

struct guard_row;
typedef enum guard_arg_kind { GUARD_NAME, GUARD_NUMBER, GUARD_STRING } guard_arg_kind;
typedef struct guard_arg {
    guard_arg_kind kind;
    uint16_t name;
    double number;
    const char *string; /* also the text of an unknown name */
} guard_arg;
typedef struct rule_guard {
    const struct guard_row *row;
    bool negated;
    const char *text; /* as written: for messages */
    guard_arg *args;
    uint16_t n_args;
    rule_loc loc;
} rule_guard;

typedef struct tc_rule {
    const char *name, *doc, *file;
    rule_loc loc;
    bool inexact, rounds, /* rounds: results may differ by rounding, and --check-rules allows it */
        mends,            /* results may be numbers where the replaced ones are NaN */
        gradient, disabled;
    uint16_t rounds_of; /* a parameter: results differ by a fraction of its largest element; RULE_NONE: by a fraction of
                           their own */
    int benefit;
    uint32_t serial; /* order in the set */
    rule_name *names;
    uint16_t n_names;
    rule_node *match, *build;
    uint16_t n_match, n_build;
    uint16_t *params, *outs;
    uint16_t n_params, n_outs;
    rule_guard *guards;
    uint16_t n_guards;
    /* compile.c */
    uint16_t anchor; /* the last statement of the match block */
    uint16_t *down;  /* statements not reached from the anchor, in the order of the search among users */
    uint16_t n_down;
    /* gradient rules */
    rule_op op;
    uint16_t *results, *douts; /* outs of the op by position are `outs`, operands are `params` */
    uint16_t n_results, n_douts;
    uint64_t matched, tried;
    struct tc_rule_set *set;
    struct tc_rule *next; /* in the set */
} tc_rule;

struct tc_rule_set {
    tc_arena *arena;
    tc_rule *first, *last;
    uint32_t n_rules, n_functions;
    tc_map *anchors;            /* "domain.Op" -> rule_bucket: by benefit, then order */
    tc_map *gradients;          /* "domain.Op" -> rule_bucket: in order */
    tc_map *by_name;            /* name -> tc_rule */
    bool of_user;               /* a file of --rules is being parsed: its gradient rules go before the built-in ones */
    bool exhausted;             /* did not end: not applied again */
    bool from_end;              /* sweeps go from the last node to the first */
    uint64_t steps;             /* of all matching so far: the limits apply to it */
    const tc_node *forward_end; /* nodes after it are the backward pass; NULL: not known */
};

typedef struct rule_bucket {
    tc_rule **rules;
    size_t n, cap;
} rule_bucket;

/* --- parse.c, compile.c ----------------------------------------------------------------------- */
tc_status rule_error(tc_lexer *lx, rule_loc loc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
tc_status rule_compile(tc_lexer *lx, tc_rule_set *set, tc_rule *rule);
/* The bucket of an op, or NULL. */
const rule_bucket *rule_bucket_of(const tc_map *buckets, const char *domain, const char *op_type);

/* --- guards.c --------------------------------------------------------------------------------- */
typedef struct guard_call {
    const tc_rule *rule;
    tc_value *const *values; /* by name; NULL: unbound */
    const bool *needed;      /* gradient rules: by operand; NULL else */
    const rule_guard *guard;
} guard_call;
typedef struct guard_row {
    const char *name, *args; /* args: one letter each: v value, n number, d a number of dims, x an axis, s string; a
                              * trailing '*' repeats the last */
    bool (*holds)(const guard_call *call);
    bool absent_ok; /* called with unbound values too; else a guard on an unbound name holds */
} guard_row;
const guard_row *guard_find(const char *name);
static inline tc_value *guard_value(const guard_call *call, uint16_t index) {
    return call->values[call->guard->args[index].name];
}
/* guards_scores.c */
bool guard_is_scored(const guard_call *call);
bool guard_is_in_tail(const guard_call *call);
bool guard_is_named(const guard_call *call);
bool guard_is_column(const guard_call *call);
bool guard_is_product(const guard_call *call);
/* NULL, or the first guard that does not hold. */
const rule_guard *guards_failing(const tc_rule *rule, tc_value *const *values, const bool *needed);

#define RULE_FUEL 4096 /* steps of matching per candidate */

/* --- match.c ---------------------------------------------------------------------------------- */
typedef enum name_state { NAME_FREE, NAME_BOUND, NAME_ABSENT } name_state;

typedef struct match_failure {
    unsigned depth; /* pattern nodes bound when it happened; 0: no failure recorded */
    rule_loc loc;
    const char *step; /* label of the pattern node, or "where" */
    const tc_node *node;
    char why[160];
} match_failure;

typedef struct rule_match {
    const tc_rule *rule;
    tc_value *values[RULE_MAX_NAMES];
    uint8_t state[RULE_MAX_NAMES];
    tc_node *nodes[RULE_MAX_NODES]; /* NULL: optional and absent */
    bool explain;
    match_failure failure;
    unsigned depth, fuel; /* fuel: steps left */
    uint16_t trail[RULE_MAX_NAMES + RULE_MAX_NODES], n_trail;
} rule_match;

/* Binds the rule with `anchor` as its anchor. Interior values must not have other users. No allocation. */
bool rule_match_at(rule_match *match, const tc_rule *rule, tc_node *anchor, bool explain);
/* A parameter with the shape of a value inside the match, defined before `user`, which reads the shape only; or NULL.
 */
tc_value *rule_shape_twin(const rule_match *match, const tc_value *value, const tc_node *user);
bool rule_same_constant(const tc_value *a,
                        const tc_value *b); /* equal type and bytes, at most 64 of them; no weights */

/* --- functions.c ------------------------------------------------------------------------------ */
/* NULL: no function has that name. */
const rule_function *rule_function_find(const char *name);

/* --- emit.c: the right side ------------------------------------------------------------------ */
typedef struct rule_builder {
    tc_ctx *ctx;
    const tc_rule *rule;
    tc_graph *graph;
    tc_value *const *values;            /* by name: bound by the match */
    tc_value *built[RULE_MAX_NAMES];    /* by name: made by the right side */
    tc_value *result[RULE_MAX_NODES];   /* first result of each node of the right side */
    tc_node *nodes[RULE_MAX_NODES];     /* NULL: not built, or no node */
    tc_value *made[RULE_MAX_NODES * 4]; /* initializers for literals */
    unsigned n_made;
    const tc_node *anchor;    /* the node whose attributes `@` means */
    const bool *used;         /* by name: results to build; NULL: all */
    const char *label, *base; /* prefix of names of new nodes and new values */
    tc_node *before;          /* new nodes go before it; NULL: to the end */
} rule_builder;
/* Builds one node of the right side before b->before, with types. */
tc_status rule_build_node(rule_builder *b, uint16_t index);
/* Erases everything built; only the built nodes themselves may use it. */
void rule_unbuild(rule_builder *b);
tc_value *rule_operand_value(const rule_builder *b, const rule_operand *operand); /* names and calls; NULL else */

/* --- apply.c, explain.c ----------------------------------------------------------------------- */
/* Builds and splices; *out_done is false when the replacement would not fit (match->failure says why). */
tc_status rule_replace(tc_ctx *ctx, rule_match *match, bool *out_done);
/* One note: how far the rule got at `anchor`. */
void rule_explain(tc_ctx *ctx, const rule_match *match, const tc_node *anchor);
#endif
