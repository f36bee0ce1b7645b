/* budget.h: the parts of the pass `budget`: a graph becomes a problem of numbers (compiler/remat/remat_problem.h), and
 * a schedule that fits becomes a graph again. A *unit* stands for all nodes that compute the same. Its instances run
 * once each in the file; a schedule may run it more or less often. Units of views and of results known before the run
 * are *free*: they need no decision, and come before their first reader. All others are *real*, one node of the problem
 * each. A unit that --recompute names has two: the run of the forward pass, and the second run of the backward pass. A
 * *variant* is a unit that makes the results of another one from other operands (variants/variants.h). Its node comes
 * after the other's, and results of both have the same numbers. The given schedule has none. Nodes are identified by
 * their position, from 0, so that facts found on a model hold for its clones. */
#ifndef TC_BUDGET_H
#define TC_BUDGET_H
#include "compiler/remat/remat.h"
#include "passes/variants/variants.h"
#include "passes/pass/pass.h"
#include "node_cost.h"

#define TC_BUDGET_ALIGN 64 /* of buffers: tempo-run's */
#define TC_BUDGET_GIVEN (TC_REMAT_NONE - 1)

/* --- the requested budget ---------------------------------------------------------------------- */

typedef enum tc_budget_kind { TC_BUDGET_BYTES, TC_BUDGET_PERCENT, TC_BUDGET_MIN } tc_budget_kind;

typedef struct tc_budget_spec {
    tc_budget_kind kind;
    uint64_t bytes;      /* TC_BUDGET_BYTES */
    uint64_t millionths; /* TC_BUDGET_PERCENT: of the initial arena */
} tc_budget_spec;

/* "12GiB", "1.5 MiB", "4096", "50%", "12.5%", "min"; else TC_USAGE. budget_spec.c */
tc_status tc_budget_parse(tc_ctx *ctx, const char *text, tc_budget_spec *out_spec);
/* Whether tc_runtime.initial is asked for. */
bool tc_budget_asks_initial(tc_ctx *ctx, const tc_options *options);
/* Without --memory-budget and the options that go with it. */
void tc_drop_budget(tc_options *options);

/* --- units ------------------------------------------------------------------------------------- */

typedef struct tc_unit {
    uint32_t first, last; /* positions of instances; next_instance leads from one to the next */
    uint32_t results;     /* result i of the unit has the number results + i among all */
    uint32_t n_results;   /* the largest number of results of an instance */
    uint32_t n_operands;
    const uint32_t *operands; /* [n_operands] numbers of results, TC_BUDGET_GIVEN, or TC_REMAT_NONE where absent */
    uint32_t variant_of;      /* the unit whose results it makes; TC_REMAT_NONE: it is no variant */
    bool is_free, is_known, makes_output, is_fixed; /* fixed: it cannot be copied, because it draws or has an effect */
    /* For free units: the real result whose bytes it shows (TC_REMAT_NONE: none), and real units that must run
     * before it, although it reads none of their bytes. */
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
    bool has_variants;
} tc_units;

/* The variants that a graph has beside its nodes. */
typedef struct tc_unit_variants {
    const tc_variant *list;
    uint32_t n;
} tc_unit_variants;

/* For a graph with static types whose nodes the runtime has estimated. TC_UNSUPPORTED: a node cannot be planned,
 * such as a loop. budget_units.c */
tc_status tc_units_make(tc_pass_env *env, tc_arena *arena, const tc_graph *graph, const tc_node_memories *memories,
                        tc_unit_variants variants, tc_units *out_units);
/* The unit whose results it makes: for a variant the original, else itself. */
uint32_t tc_unit_root(const tc_units *units, uint32_t unit);
/* The number of a value that a node makes; TC_BUDGET_GIVEN for others, TC_REMAT_NONE for none. */
uint32_t tc_result_of(const tc_units *units, const tc_value *value);

/* --- the problem ------------------------------------------------------------------------------- */

/* A node of the problem. */
typedef struct tc_budget_node {
    uint32_t unit;
    bool late; /* it reads the later run of units that have one, in the backward pass */
} tc_budget_node;

typedef struct tc_budget {
    tc_units units;
    tc_remat_problem problem;
    uint32_t n_plain;        /* the first nodes of the problem: those that are no variants */
    tc_budget_node *nodes;   /* [problem.n_nodes] */
    uint32_t *node_of;       /* [n_units] TC_REMAT_NONE for free ones */
    uint32_t *late_node_of;  /* [n_units] the run in the backward pass, if there are two; else TC_REMAT_NONE */
    uint32_t *value_of;      /* [n_results] of the problem; TC_REMAT_NONE */
    uint32_t *late_value_of; /* [n_results] likewise, in the backward pass */
    uint32_t *result_of;     /* [problem.n_values] the result of a value of the problem; TC_REMAT_NONE: none */
} tc_budget;

/* The problem, everything in `arena`; `costs` NULL: bytes that nodes touch. TC_USAGE if --save or --recompute match
 * nothing. budget_problem.c */
tc_status tc_budget_make(tc_pass_env *env, tc_arena *arena, const tc_graph *graph, const tc_node_memories *memories,
                         tc_unit_variants variants, const tc_costs *costs, tc_budget *out_budget);

/* Changes the graph, that of the budget or of a clone of its model, to run the schedule: order, copies, readers. New
 * values have the types of their originals. Returns the number of recomputed nodes; `out_ran` NULL, or [n_steps] the
 * node of each step. budget_emit.c */
uint32_t tc_budget_emit(tc_graph *graph, const tc_budget *budget, const uint32_t *steps, uint32_t n_steps,
                        const tc_node **out_ran);

/* Gives each step whose further results have no readers the variant without them, if it takes no more memory: in
 * place. budget_variants.c */
void tc_budget_forget(tc_arena *arena, const tc_budget *budget, uint32_t *steps, uint32_t n_steps);

/* Adds the error that explains why the budget cannot be met: the floor, the node and the tensors that set it, and
 * the nearest budget: `nearest` bytes (0: not known). Returns TC_LIMIT. budget_certificate.c */
tc_status tc_budget_refuse(tc_ctx *ctx, const tc_budget *budget, uint64_t wanted, uint64_t floor, uint32_t floor_node,
                           uint64_t nearest);
/* "12.5 GiB (13421772800 bytes)" in the context's arena. */
const char *tc_budget_bytes(tc_ctx *ctx, uint64_t bytes);
#endif
