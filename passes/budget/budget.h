/* budget.h: the parts of the pass `budget`: a graph becomes a problem of numbers (compiler/remat/remat_problem.h), and
 * a schedule that fits becomes a graph again.
 *
 * A *unit* is what nodes that compute the same have in common: its instances run once each, and a schedule may run it
 * more often or less. Units of views and of results that are known before the run are *free*: no decision is about
 * them, they stand where they are first read. All others are *real*, a node of the problem each; a unit that
 * --recompute names is two: what the forward pass runs, and what the backward pass runs again.
 *
 * A *form* is a unit that makes the results of another one from other operands (variants/forms.h): its node stands
 * behind the other's, and results of both have the same numbers. The given schedule has none.
 *
 * Nodes are told by their position, from 0, so that what was found out on a model holds for its clones. */
#ifndef TC_BUDGET_H
#define TC_BUDGET_H
#include "compiler/remat/remat_search.h"
#include "passes/variants/forms.h"
#include "passes/pass/pass.h"
#include "node_cost.h"

#define TC_BUDGET_ALIGN 64 /* of buffers: tempo-run's */
#define TC_BUDGET_GIVEN (TC_REMAT_NONE - 1)

/* --- what is asked for ------------------------------------------------------------------------- */

typedef enum tc_budget_kind { TC_BUDGET_BYTES, TC_BUDGET_PERCENT, TC_BUDGET_MIN } tc_budget_kind;

typedef struct tc_budget_spec {
    tc_budget_kind kind;
    uint64_t bytes;      /* TC_BUDGET_BYTES */
    uint64_t millionths; /* TC_BUDGET_PERCENT: of the initial arena */
} tc_budget_spec;

/* "12GiB", "1.5 MiB", "4096", "50%", "12.5%", "min"; TC_USAGE else. budget_spec.c */
tc_status tc_budget_parse(tc_ctx *ctx, const char *text, tc_budget_spec *out_spec);
/* Whether tc_runtime.initial is asked for. */
bool tc_budget_asks_initial(tc_ctx *ctx, const tc_options *options);
/* Without --memory-budget and the options that go with it. */
void tc_drop_budget(tc_options *options);

/* --- units ------------------------------------------------------------------------------------- */

typedef struct tc_unit {
    uint32_t first, last; /* positions of instances; next_instance leads from one to the next */
    uint32_t results;     /* result i of the unit is number results + i of all */
    uint32_t n_results;   /* the most that an instance has */
    uint32_t n_operands;
    const uint32_t *operands; /* [n_operands] numbers of results, TC_BUDGET_GIVEN, or TC_REMAT_NONE where absent */
    uint32_t form_of;         /* the unit whose results it makes; TC_REMAT_NONE: it is no form */
    bool is_free, is_known, makes_output, is_fixed; /* fixed: no copy of it is the same: it draws, or has an effect */
    /* Of free units: the real result whose bytes it shows (TC_REMAT_NONE: none), and real units that have to have run
     * before it, though it reads no byte of theirs. */
    uint32_t shows;
    const uint32_t *after;
    uint32_t n_after;
} tc_unit;

typedef struct tc_units {
    tc_arena *arena;
    const tc_graph *graph;
    tc_node **nodes; /* [n_nodes] by position */
    uint32_t n_nodes;
    uint32_t *position;            /* by node id */
    const tc_node_memory **memory; /* [n_nodes]; NULL: nothing runs */
    uint32_t *unit_of;             /* [n_nodes] */
    uint32_t *next_instance;       /* [n_nodes] position, or TC_REMAT_NONE */
    tc_unit *units;
    uint32_t n_units;
    uint32_t *maker_of; /* [n_results] the unit of each result */
    uint32_t n_results;
    uint32_t turn; /* position of the node that makes the loss, or TC_REMAT_NONE */
    bool has_forms;
} tc_units;

/* The forms that a graph has beside its nodes. */
typedef struct tc_unit_forms {
    const tc_form *list;
    uint32_t n;
} tc_unit_forms;

/* Of a graph whose types are all static and whose nodes the runtime has told of. TC_UNSUPPORTED: a node cannot be
 * planned, such as a loop. budget_units.c */
tc_status tc_units_make(tc_pass_env *env, tc_arena *arena, const tc_graph *graph, const tc_node_memories *memories,
                        tc_unit_forms forms, tc_units *out_units);
/* The unit whose results it makes: of a form another one, else itself. */
uint32_t tc_unit_root(const tc_units *units, uint32_t unit);
/* The number of a value that a node makes; TC_BUDGET_GIVEN for others, TC_REMAT_NONE for none. */
uint32_t tc_result_of(const tc_units *units, const tc_value *value);

/* --- the problem ------------------------------------------------------------------------------- */

/* A node of the problem. */
typedef struct tc_budget_node {
    uint32_t unit;
    bool late; /* it reads what was made again behind the turn, of the units that have it */
} tc_budget_node;

typedef struct tc_budget {
    tc_units units;
    tc_remat_problem problem;
    uint32_t n_plain;        /* nodes of the problem that are no forms: the first */
    tc_budget_node *nodes;   /* [problem.n_nodes] */
    uint32_t *node_of;       /* [n_units] TC_REMAT_NONE for free ones */
    uint32_t *late_node_of;  /* [n_units] the one behind the turn, where there are two; else TC_REMAT_NONE */
    uint32_t *value_of;      /* [n_results] of the problem; TC_REMAT_NONE */
    uint32_t *late_value_of; /* [n_results] likewise, behind the turn */
    uint32_t *result_of;     /* [problem.n_values] the result that a value of the problem is; TC_REMAT_NONE: none */
} tc_budget;

/* The problem, everything in `arena`; `costs` NULL: bytes that nodes touch. TC_USAGE where --save or --recompute name
 * nothing. budget_problem.c */
tc_status tc_budget_make(tc_pass_env *env, tc_arena *arena, const tc_graph *graph, const tc_node_memories *memories,
                         tc_unit_forms forms, const tc_costs *costs, tc_budget *out_budget);

/* Makes the graph, that of the budget or of a clone of its model, run the schedule: order, copies, who reads which.
 * Types of what is new are those of the originals. Returns how many nodes run a second time; `out_ran` NULL, or
 * [n_steps] the node that each step became. budget_emit.c */
uint32_t tc_budget_emit(tc_graph *graph, const tc_budget *budget, const uint32_t *steps, uint32_t n_steps,
                        const tc_node **out_ran);

/* Gives each step whose further results nobody reads the form without them, where it takes no more: in place.
 * budget_forms.c */
void tc_budget_forget(tc_arena *arena, const tc_budget *budget, uint32_t *steps, uint32_t n_steps);

/* Adds the error that tells what stands in the way: the floor, the node and the tensors that set it, and what could be
 * met: `nearest` bytes (0: not known). Returns TC_LIMIT. budget_certificate.c */
tc_status tc_budget_refuse(tc_ctx *ctx, const tc_budget *budget, uint64_t wanted, uint64_t floor, uint32_t floor_node,
                           uint64_t nearest);
/* "12.5 GiB (13421772800 bytes)" in the context's arena. */
const char *tc_budget_bytes(tc_ctx *ctx, uint64_t bytes);
#endif
