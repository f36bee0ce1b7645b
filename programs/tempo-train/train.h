/* train.h: declarations that the parts of tempo-train share. A run goes: options -> graphs, compiled (train_graph.c) ->
 * data, bound batch by batch (train_loop.c) -> lines and records (train_log.c), checkpoints, and the files of the end
 * (train_save.c). */
#ifndef TEMPO_TRAIN_H
#define TEMPO_TRAIN_H
#include "compiler/base/base.h"
#include "passes/pass/pass.h"
#include "runtime/session/session.h"
#include "programs/tempo-train/data/train_data.h"
#include "programs/tempo-train/ranks/train_ranks.h"
#include "train_metrics.h"
#include <signal.h>

#define TRAIN_MOST INT64_C(1000000000) /* limit of numbers in options: products of two of them do not overflow */

/* --- schedules: train_schedule.c ---------------------------------------------------------------- */

typedef enum train_schedule_kind { TRAIN_LINEAR, TRAIN_COSINE, TRAIN_CONSTANT } train_schedule_kind;

/* The learning rate of each update: a function of its number, so that a run that goes on has the same ones. */
typedef struct train_schedule {
    train_schedule_kind kind;
    double rate;     /* at its highest */
    int64_t warmup;  /* updates below it at the beginning */
    int64_t updates; /* in all */
} train_schedule;

/* TC_USAGE where there is no schedule of that name. */
tc_status train_schedule_find(tc_ctx *ctx, const char *name, train_schedule_kind *out_kind);
/* "100", or "6%" of all updates, rounded up. TC_USAGE else. */
tc_status train_parse_warmup(tc_ctx *ctx, const char *text, int64_t updates, int64_t *out_warmup);
/* Of update `update`, from 1 to schedule->updates. With w updates of warmup and n in all: r u / (w + 1) in the warmup;
 * then, with t = (u - 1 - w) / (n - w), r (1 - t), r (1 + cos pi t) / 2, or r. */
double train_rate(const train_schedule *schedule, int64_t update);

/* --- options: train_main.c ---------------------------------------------------------------------- */

typedef struct train_options {
    tc_options options; /* of the compiler; those of the optimizer among them */
    tempo_options session;
    rt_hooks hooks;
    const char *model, *data_path, *eval_path;
    int64_t batch, max_length, pad_multiple, pack, bucket;
    bool shuffle, drop_last;
    const char **pads;
    size_t n_pads;
    int64_t epochs, steps, accumulate;
    double rate;
    const char *schedule_name, *warmup, *seed;
    train_schedule_kind schedule;
    const char *checkpoint;
    int64_t checkpoint_every, keep;
    bool resume;
    const char *save, *save_inference, *save_adapter, *adapter_prefix, *save_weights, *log, *tensorboard;
    int64_t print_every, eval_every;
    bool quiet, merge, tf32, check_memory;
    const char *device;
    int64_t threads;
    double rank_timeout;
    train_ranks *ranks; /* this process and the others that mpirun started with it */
} train_options;

extern const struct tc_option_table train_option_table;

/* The files that --save-adapter writes, in `arena`. train_save_adapter.c */
#define TRAIN_ADAPTER_WRITES 2
void train_adapter_written(tc_arena *arena, const train_options *o, tc_written out[TRAIN_ADAPTER_WRITES]);

/* --- options that change results: train_settings.c -------------------------------------------- */

/* Lines "option NAME=VALUE" of all options that change results. In the arena. */
const char *train_settings_text(tc_arena *arena, const train_options *o);
/* "--lr=0.2 (was 0.1), ...": the options of `own` that differ from `other`, `was` before each value of the latter;
 * NULL: no option in both differs. */
const char *train_settings_differ(tc_ctx *ctx, const char *own, const char *other, const char *was);
/* TC_USAGE where a rank has other options, another seed or another model than rank 0, and names the rank and these. */
tc_status train_settings_agree(tc_ctx *ctx, const train_options *o, const tc_file *file);

/* --- graphs: train_graph.c ---------------------------------------------------------------------- */

/* The source of every graph of the run. */
typedef struct train_source {
    const train_options *o;
    const tc_file *file;
} train_source;

/* A tensor that stays in the session from run to run. */
typedef struct train_state {
    const char *input;
    bool is_weight; /* has a first value in the file: a trained weight, or a running statistic; else it begins at 0 */
    bool is_statistic; /* a state that no optimizer makes: it changes with each batch */
    bool is_sum;       /* of gradients, within a group of batches: not part of a checkpoint */
} train_state;

typedef struct train_graph {
    tempo_session *session;
    tc_summary summary;                                       /* in the context's arena */
    const char *loss;                                         /* the output */
    bool takes_update, takes_apply, takes_share, takes_scale; /* inputs that it has */
    bool tells_norm, reports_finite;                          /* outputs that it has */
    train_state *states;
    size_t n_states;
    int64_t batch; /* of every input, fixed in the graph; 0: open */
    uint64_t hash; /* of nodes and states: another graph usually has another */
    tc_held held;  /* the session */
} train_graph;

/* Compiles the file with its backward pass and optimizer, at this batch (0: as the file has it), and opens it. */
tc_status train_graph_open(tc_ctx *ctx, const train_source *from, int64_t batch, train_graph *out);
void train_graph_close(train_graph *g); /* of one that was never opened, too */
/* Inputs that get data, no states of the graph `trained` (may be NULL); arrays in the context's arena. */
const train_input *train_graph_inputs(tc_ctx *ctx, const train_graph *g, const train_graph *trained, size_t *out_n);
/* The model compiled at this batch, with this budget (NULL: that of the options), before a session has it. */
tc_status train_compile(tc_ctx *ctx, const train_source *from, int64_t batch, const char *budget, tc_summary *summary,
                        tc_model **out_model);
/* Opens a session of a given model, which it takes over; `collective`: among ranks, or NULL. */
tc_status train_session_open(tc_ctx *ctx, const train_options *o, const rt_collective *collective, tc_model *model,
                             train_graph *out);
/* The failure of a call of the session's: its message is printed, after the diagnostics so far; by rank 0 alone where
 * it fails there, too. */
tc_status train_failed(tc_ctx *ctx, const tempo_session *session, tempo_status status);
/* A scalar output of floats of any type, as of the last run. */
tc_status train_read_number(tc_ctx *ctx, tempo_session *session, const char *output, double *out_number);
/* Binds the arrays of a batch. */
tc_status train_bind_batch(tc_ctx *ctx, tempo_session *session, const train_batch *batch);
/* The same for the forward graph: dropout off, no optimizer, the trained weights as inputs, and the counts of scalars
 * (out_summary). */
tc_status train_compile_forward(tc_ctx *ctx, const train_source *from, int64_t batch, const train_graph *trained,
                                tc_summary *out_summary, tc_model **out_model);
/* The options of data with this path; `batch` samples a batch of this rank. */
train_data_options train_data_for(const train_options *o, const char *path, int64_t batch);

/* --- signals: train_signals.c ------------------------------------------------------------------- */

enum { TRAIN_STOPS = 6, TRAIN_SIGNALS = TRAIN_STOPS + 1 };
/* From now on SIGUSR1 and SIGUSR2 ask for a checkpoint. */
void train_signals_begin(void);
/* And SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGXCPU and SIGPIPE ask for an end after the update; a second one of the first
 * three ends the process at once. */
void train_signals_catch(void);
/* The requests since the last call, each 1 or 0: ranks add them up. */
void train_signals_tell(double flags[TRAIN_SIGNALS]);
/* Of these, the signal that asks for an end (0: none), and whether a checkpoint is asked for. */
int train_signals_heard(const double flags[TRAIN_SIGNALS], bool *out_save);

/* --- evaluation: train_eval.c ------------------------------------------------------------------- */

/* The forward graph, dropout off. Its weights are inputs, bound to where the training session has them. */
typedef struct train_eval {
    train_graph graph;
    train_data *data;
    tc_counted *terms;       /* [n_terms] of all scores, one after the other */
    double *values, *counts; /* [n_terms] sums over batches: values times counts, and counts as of all samples */
    double *sums;            /* [n_terms] values alone */
    size_t n_terms;
    const char **scores; /* [n] scalar float outputs */
    double *means;
    size_t n;
    train_metrics metrics;
    void **copies; /* by state, of weights that lie on a device */
} train_eval;

/* Compiles the forward graph and opens --eval-data. */
tc_status train_eval_open(tc_ctx *ctx, const train_source *from, int64_t batch, const train_graph *trained,
                          train_eval *out);
void train_eval_close(train_eval *e);
/* Takes the memory of a first batch: a lack of it is then reported before the first update. Does nothing without
 * --eval-data. */
tc_status train_eval_prepare(tc_ctx *ctx, train_eval *e, const train_graph *trained);
/* Runs over all samples, each rank over its part; *out_samples of them. Means are e->means then: the values of one
 * batch of all samples, whatever the batch, but for scores that train_eval_open warned of. */
tc_status train_eval_run(tc_ctx *ctx, train_ranks *ranks, train_eval *e, const train_graph *trained,
                         int64_t *out_samples);

/* --- the run: train_loop.c ---------------------------------------------------------------------- */

/* The whole run: 128 and the number of the signal that ended it, TC_NUMERIC where a value is not finite. */
tc_status train_run_all(tc_ctx *ctx, const train_source *from);
#endif
