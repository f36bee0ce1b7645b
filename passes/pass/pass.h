/* pass.h: the interface of a pass. A pass changes one model in place and can be run again; passes.def lists all in
 * default order. */
#ifndef TC_PASS_H
#define TC_PASS_H
#include "compiler/memory/memory.h"
#include "plan_summary.h"
#include "update_options.h"
#include <signal.h>
#include <stdio.h>

/* The settings of the command line, for every pass. Zero is the default of each field. */
typedef struct tc_options {
    const char *passes;     /* --passes=: comma-separated names; NULL: the recipe's */
    const char *recipe;     /* --recipe=NAME */
    const char *loss;       /* --loss=NAME */
    const char *add_loss;   /* --add-loss=KIND[,...][:OUTPUT]: weights/added_loss.h */
    bool loss_scale;        /* --loss-scale: the backward pass starts from a graph input */
    const char *precision;  /* --precision: fp32, bf16 or fp16; NULL: fp32 */
    const char **selection; /* "train=GLOB" and "freeze=GLOB" (TC_OPT_TAGGED), in the order given */
    size_t n_selection;
    const char *train_list;   /* --train-list=FILE: names of the trained initializers; NULL: there is none */
    bool torch_names;         /* --names=pytorch: gradients have PyTorch's names and layouts, if the file has them */
    bool train_padding;       /* --train-padding: gradients for the padding rows of embeddings, too */
    bool retie;               /* --retie: weights that the exporter stored several times become one */
    bool untie;               /* --untie: weights that the exporter merged become several */
    bool restore_batch_norm;  /* --restore-batch-norm: norms that the file has in inference mode train */
    bool accumulate;          /* --accumulate: gradients that a graph of ONNX Runtime adds to buffers are still added */
    const char **rules_files; /* --rules=FILE */
    size_t n_rules_files;
    bool only_gradients; /* rewrites in these files are not applied. Not on the command line: for baselines of tests */
    bool only_requests;  /* autodiff answers Gradient nodes and nothing else. Likewise */
    const char **disabled; /* --disable=RULE */
    size_t n_disabled;
    const char *explain; /* --explain=RULE, or "all" */
    const char **stops;  /* --stop=VALUE */
    size_t n_stops;
    const char **dims; /* --dim NAME=VALUE, as given */
    size_t n_dims;
    const char *print_before, *print_after; /* --print-ir-before=, --print-ir-after=: pass name or "all" */
    bool verify_each, time, stats;
    const char *gelu, *layernorm, *dropout; /* which variant keeps which tensor; NULL: the recipe's. lean/ways.h */
    bool inexact;                           /* --inexact: rules that change rounding are applied too */
    const char *cost, *machine;             /* the cost model of a node, and the machine: budget/node_cost.h */
    const char *memory_budget;              /* --memory-budget=: NULL: there is none */
    const char **save;                      /* --save=REGEX: nodes that are never recomputed */
    size_t n_save;
    const char **recompute; /* --recompute=REGEX: nodes that the backward pass recomputes */
    size_t n_recompute;
    double remat_time;  /* --remat-time=: length of the search, in seconds of a usual machine; 0: 4 */
    int64_t remat_seed; /* --seed= */
    int64_t pareto;     /* --pareto=: points of the curve of budget against time; 0: none */
    bool best_effort;   /* --best-effort: accept a plan that misses the budget */

    const char *restore_dropout; /* --restore-dropout=P, or "file" */
    const char *head;            /* --head=N[:OUTPUT]: a new classifier of N classes */
    const char **lora; /* --lora=RANK[,...]:GLOB: adapters beside the products whose weights match: adapt/adapt.h */
    size_t n_lora;
    const char *lora_from;            /* --lora-from=: the adapter's file or folder */
    const struct tc_adapter *adapter; /* that it has, read by the caller; NULL: there is none */
    int64_t init_seed;                /* of weights that passes make: adapters, a new head */

    bool drop_predictions;    /* --drop-predictions: outputs that are no single floats: the pass `outputs` */
    tc_update_options update; /* --update and its settings */
    /* The task of the pass counts: nothing; weights for terms of the loss with different counts; the count of each
     * scalar as an output. Not on the command line: for programs that combine batches. */
    enum { TC_COUNT_NOT, TC_COUNT_SHARE, TC_COUNT_OUTPUT } counting;
} tc_options;
/* Whether the options ask for adapters: then the file's own weights are frozen unless --train names them. */
static inline bool tc_adapts(const tc_options *options) { return options->n_lora > 0 || options->adapter; }

/* Findings of the passes, for the report. In the context's arena. */
typedef struct tc_rule_stat {
    const char *name;
    uint64_t matched, tried;
    tc_dim bytes_freed; /* that the backward pass no longer keeps, if the pass measures it (lean) */
} tc_rule_stat;
typedef struct tc_pass_time {
    const char *name;
    double seconds;
} tc_pass_time;
/* A term of a scalar output, found by the pass counts: names of the graph. */
typedef struct tc_counted {
    const char *score;
    const char *part,
        *count; /* outputs: the term, and its divisor; count NULL: the number of samples, unless the term is a sum */
    const char
        *unguarded; /* output: the count before a lower bound was applied, the divisor for all batches; NULL: none */
    const char *factor; /* the input that multiplies the term; NULL: none */
    bool adds_up;       /* a sum: nothing divides it */
} tc_counted;
/* What the loss's cross-entropy shows of a batch, found by the pass metrics: outputs of the graph, float[classes], or
 * float[] where classes is 1. */
typedef struct tc_metrics {
    const char *right, *actual; /* labels that count: those with the best score, by class; and all */
    const char *predicted;      /* best scores of these labels, by class; NULL: no F1 */
    const char *count;      /* float[]: of labels that are 0 or 1, in columns; the above are of ones; NULL: others */
    const char *likelihood; /* -log p of these labels: their mean or their sum, any float; NULL: no perplexity */
    bool is_mean;
    int64_t classes;
} tc_metrics;
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
    int64_t file_batch; /* the batch in the file if the pass batch changed it; 0: it did not */
    uint32_t stops;   /* values where gradients stop: a directional derivative of the loss differs from the gradient */
    tc_map *dropouts; /* numbers of the file's Dropouts, for dropout.c. NULL: not counted yet */
    tc_map *randoms;  /* of its random ops, likewise */
    tc_map *initializers;      /* initializers of the file: name -> const tc_tensor; NULL: those of the graph.
                                  tc_record_initializers */
    tc_map *made;              /* names of those that passes made to be trained: tc_record_made. NULL: none */
    tc_map *torch_names;       /* initializer -> its parameter in PyTorch: metadata/torch_names.h */
    tc_train_list *train_list; /* NULL: there is none */
    struct tc_peft *peft;      /* NULL: not read yet. peft_names.h */
    tc_plan_summary *plan;     /* NULL: there was no budget */
    tc_pareto *pareto;         /* NULL: --pareto was not given */

    tc_update_summary *update; /* NULL: no weight is updated */
    tc_counted *counted;       /* of scalars that are no plain mean of samples */
    size_t n_counted, cap_counted;
    tc_metrics *metrics;        /* NULL: no cross-entropy of scores and labels was found */
    struct tc_adapted *adapted; /* products with an adapter, and their names: adapt/adapt.h */
    size_t n_adapted;
    const char *uncounted; /* a message: a scalar whose count is not known, and why; NULL: there is none */
} tc_summary;

/* The memory of a run with all its parts, in bytes. */
typedef struct tc_footprint {
    uint64_t arena, bound; /* allocated; the maximum of live bytes */
    uint64_t tables;       /* for the graph and the plan themselves, about */
    const char *missing;   /* an op without kernel, which prevents a run. In the context's arena. NULL: none */
    uint64_t work;         /* of placing it: a count, about 10 ns each */
} tc_footprint;

/* Services of the runtime, which passes do not know: the caller provides them. */
typedef struct tc_runtime {
    /* The memory of a run of the model, and its nodes one by one (`nodes` may be NULL). *out_planned: all shapes are
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
    const tc_watcher *watcher; /* NULL: no reports */
    FILE *dumps;               /* where --print-ir-before and -after print; NULL where neither is given */
    /* Reads the model once more, for a reproducer when a pass meets a bug (reproducer.h); NULL: no reproducer. */
    tc_status (*reread)(void *user, tc_model **out_model);
    void *reread_user;
    int64_t batch;     /* shapes found no dimension called batch: the new first dimension for `batch`; 0: none */
    unsigned deferred; /* passes that have left what they do to the pass `budget`: TC_DEFER_TILE, TC_DEFER_LEAN */
} tc_pass_env;

typedef struct tc_pass {
    const char *name, *summary;
    tc_status (*run)(tc_pass_env *env, tc_model *model);
    tc_status (*check)(tc_ctx *ctx, const tc_options *options); /* NULL: there is nothing to check */
} tc_pass;

/* The recipes: named pipelines for --recipe=. */
typedef struct tc_recipe {
    const char *name, *passes;
    const char *ways; /* "idea=way ..." for ideas without their first variant: lean/ways.def */
    const char *summary;
} tc_recipe;
const tc_recipe *tc_recipe_find(const char *name); /* NULL: the default; a NULL result: no recipe has that name */
size_t tc_recipe_count(void);
const tc_recipe *tc_recipe_at(size_t index);
/* --passes=, or the passes of the recipe: names between commas. */
const char *tc_pass_list(const tc_options *options);
/* Whether the options' pipeline has this pass. */
bool tc_pipeline_has(const tc_options *options, const char *pass);
/* TC_USAGE with a message where it has not, for an option ("--head") that means nothing then. `hint` NULL: there is
 * none. */
tc_status tc_pipeline_need(tc_ctx *ctx, const tc_options *options, const char *option, const char *pass,
                           const char *hint);
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
