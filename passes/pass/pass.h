/* pass.h: what a pass is. A pass changes one model in place and can be run again; passes.def lists all in default
 * order. */
#ifndef TC_PASS_H
#define TC_PASS_H
#include "compiler/memory/node_memory.h"
#include "plan_summary.h"
#include "update_options.h"
#include <signal.h>
#include <stdio.h>

/* What the command line decides, for every pass. Zero is the default of each field. */
typedef struct tc_options {
    const char *passes;     /* --passes=: comma-separated names; NULL: the recipe's */
    const char *recipe;     /* --recipe=NAME */
    const char *loss;       /* --loss=NAME */
    bool loss_scale;        /* --loss-scale: the backward pass starts from a graph input */
    const char *precision;  /* --precision: fp32, bf16 or fp16; NULL: fp32 */
    const char **selection; /* "train=GLOB" and "freeze=GLOB" (TC_OPT_TAGGED), in the order given */
    size_t n_selection;
    const char *train_list; /* --train-list=FILE: names of what is trained; NULL: there is none */
    bool torch_names;       /* --names=pytorch: gradients have PyTorch's names and layouts, where the file tells them */
    bool train_padding;     /* --train-padding: gradients for the padding rows of embeddings, too */
    bool retie;             /* --retie: weights that the exporter stored several times become one */
    bool untie;             /* --untie: weights that the exporter merged become several */
    bool accumulate;        /* --accumulate: gradients that a graph of ONNX Runtime adds to buffers are added still */
    const char **rules_files; /* --rules=FILE */
    size_t n_rules_files;
    bool only_gradients;   /* of these files: rewrites in them are left out. Not on the command line: for yardsticks */
    bool only_requests;    /* autodiff answers Gradient nodes and does no more. Likewise */
    const char **disabled; /* --disable=RULE */
    size_t n_disabled;
    const char *explain; /* --explain=RULE, or "all" */
    const char **stops;  /* --stop=VALUE */
    size_t n_stops;
    const char **dims; /* --dim NAME=VALUE, as given */
    size_t n_dims;
    const char *print_before, *print_after; /* --print-ir-before=, --print-ir-after=: pass name or "all" */
    bool verify_each, time, stats;
    const char *gelu, *layernorm, *dropout; /* what is kept for them; NULL: as the recipe says. lean/ways.h */
    bool inexact;                           /* --inexact: rules that change rounding are applied too */
    const char *cost, *machine;             /* what running a node costs, and on which machine: budget/node_cost.h */
    const char *memory_budget;              /* --memory-budget=: NULL: there is none */
    const char **save;                      /* --save=REGEX: what is never computed again */
    size_t n_save;
    const char **recompute; /* --recompute=REGEX: what the backward pass does not read from the forward pass */
    size_t n_recompute;
    double remat_time;  /* --remat-time=: how much is tried, in seconds of a usual machine; 0: 4 */
    int64_t remat_seed; /* --seed= */
    int64_t pareto;     /* --pareto=: points of the curve of budget against time; 0: none */
    bool best_effort;   /* --best-effort: a plan that misses the budget is a result, too */

    tc_update_options update; /* --update and how */
    /* What the pass counts does: nothing; lets terms of the loss be weighed where they count differently; shows what
     * each scalar counts. Not on the command line: for who puts batches together. */
    enum { TC_COUNT_NOT, TC_COUNT_SHARE, TC_COUNT_TELL } counting;
} tc_options;

/* What passes found out, for the report. In the context's arena. */
typedef struct tc_rule_stat {
    const char *name;
    uint64_t matched, tried;
    tc_dim bytes_freed; /* that the backward pass no longer keeps, where the pass measures it (lean) */
} tc_rule_stat;
typedef struct tc_pass_time {
    const char *name;
    double seconds;
} tc_pass_time;
/* A term of a scalar output, as the pass counts found it: names of the graph. */
typedef struct tc_counted {
    const char *score;
    const char *part, *count; /* outputs: the term, and what it is divided by; count NULL: samples, unless it adds up */
    const char
        *behind_guard;  /* output: count before it was kept from 0, by which all batches are divided; NULL: none */
    const char *factor; /* the input that the term is multiplied by; NULL: none */
    bool adds_up;       /* a sum: divided by nothing */
} tc_counted;
typedef struct tc_train_list tc_train_list; /* train_list.h */
typedef struct tc_summary {
    const char **trained, **frozen, **unreached; /* initializer names */
    size_t n_trained, n_frozen, n_unreached;
    tc_rule_stat *rules;
    size_t n_rules, cap_rules;
    tc_map *rules_by_name; /* -> index + 1; NULL: there are none yet */
    tc_pass_time *times;
    size_t n_times;
    uint32_t nodes_before, nodes_after;
    int64_t file_batch;   /* the batch in the file, where pass batch has made it another; 0: it has not */
    uint32_t stops;       /* values that gradients stopped at: a directional derivative of the loss is another one */
    tc_map *dropouts;     /* numbers of the file's Dropouts; dropout.c's. NULL: not counted yet */
    tc_map *randoms;      /* of its other random ops, likewise */
    tc_map *initializers; /* of the file as read: name -> const tc_tensor; NULL: those of the graph.
                             tc_record_initializers */
    tc_map *torch_names;  /* initializer -> the parameter of PyTorch's that it is: metadata/torch_names.h */
    tc_train_list *train_list; /* NULL: there is none */
    tc_plan_summary *plan;     /* NULL: there was no budget */
    tc_pareto *pareto;         /* NULL: nobody asked for it */

    tc_update_summary *update; /* NULL: no weight is updated */
    tc_counted *counted;       /* of scalars that are no plain mean of samples */
    size_t n_counted, cap_counted;
    const char *uncounted; /* a text: a scalar of which it is not known what it counts, and why; NULL: there is none */
} tc_summary;

/* What a run of a graph takes for all that it computes, in bytes. */
typedef struct tc_footprint {
    uint64_t arena, bound; /* allocated; the most that is live at one time */
    uint64_t tables;       /* for knowing graph and plan, about */
    const char *missing;   /* an op without kernel: with it, there is no run. In the context's arena. NULL: none */
    uint64_t work;         /* of placing it: a count, about 10 ns each */
} tc_footprint;

/* What passes ask of the runtime, which they do not know: the caller hands it in. */
typedef struct tc_runtime {
    /* What a run of the model takes, and its nodes one by one (`nodes` may be NULL). *out_planned: all shapes are
     * known, and so is the footprint. The model stays as it is. */
    tc_status (*estimate)(void *user, tc_model *model, const tc_node_memories *nodes, tc_footprint *out_footprint,
                          bool *out_planned);
    void *user;
    uint64_t initial; /* the arena of the same file under recipe `none`, for tc_budget_asks_initial; 0: not known */
} tc_runtime;

/* A caller that watches a compilation; every field may be NULL. */
typedef struct tc_watcher {
    void (*searches)(void *user, bool begins); /* a search for a plan begins, or ends */
    /* How far a search is: a line without its end; NULL: the line goes. */
    void (*progress)(void *user, const char *line);
    const volatile sig_atomic_t *stop; /* not 0: a search ends with the best plan so far, and with `gives_up` the */
    bool gives_up;                     /* compilation ends before the next pass, with TC_LIMIT */
    void *user;
} tc_watcher;

typedef struct tc_pass_env {
    tc_ctx *ctx;
    const tc_options *options;
    tc_summary *summary;
    const tc_runtime *runtime; /* NULL: there is none */
    const tc_watcher *watcher; /* NULL: nobody watches */
    FILE *dumps;               /* where --print-ir-before and -after print; NULL where neither is given */
    /* Reads the model once more, for a reproducer when a pass meets a bug (reproducer.h); NULL: none is wanted. */
    tc_status (*reread)(void *user, tc_model **out_model);
    void *reread_user;
    int64_t batch;     /* shapes found no dimension called batch: what `batch` makes of the inputs' first; 0: nothing */
    unsigned deferred; /* passes that have left what they do to the pass `budget`: TC_DEFER_TILE, TC_DEFER_LEAN */
} tc_pass_env;

typedef struct tc_pass {
    const char *name, *summary;
    tc_status (*run)(tc_pass_env *env, tc_model *model);
    tc_status (*check)(tc_ctx *ctx, const tc_options *options); /* NULL: there is nothing to check */
} tc_pass;

/* The recipes: named pipelines, what --recipe= takes. */
typedef struct tc_recipe {
    const char *name, *passes;
    const char *ways; /* "idea=way ..." where it is not the first way: lean/ways.def */
    const char *summary;
} tc_recipe;
const tc_recipe *tc_recipe_find(const char *name); /* NULL: the default; a NULL result: there is none of that name */
size_t tc_recipe_count(void);
const tc_recipe *tc_recipe_at(size_t index);
/* --passes=, or the passes of the recipe: names between commas. */
const char *tc_pass_list(const tc_options *options);
/* The options' pipeline has this pass. */
bool tc_pipeline_has(const tc_options *options, const char *pass);
/* Passes whose rewrites the pass `budget` may choose node by node instead. */
enum { TC_DEFER_TILE = 1, TC_DEFER_LEAN = 2 };
/* Whether a pass leaves its rewrites to the pass `budget`, which is still to come: notes it in env->deferred. */
bool tc_defer_to_budget(tc_pass_env *env, unsigned pass);

/* The passes, as passes.def lists them: tc_pass_upgrade() and so on, with the checks of their options, which give
 * TC_USAGE and a message before any file is touched. */
#define PASS(name, check, summary)                                                                                     \
    tc_status tc_pass_##name(tc_pass_env *env, tc_model *model);                                                       \
    tc_status tc_check_##check(tc_ctx *ctx, const tc_options *options);
#include "passes.def"
#undef PASS
#endif
