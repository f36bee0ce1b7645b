/* train_run.h: a run in progress: shared by train_loop.c, train_begin.c and their neighbours. */
#ifndef TRAIN_RUN_H
#define TRAIN_RUN_H
#include "passes/adapt/adapt.h"
#include "programs/tempo-train/checkpoint/train_checkpoint.h"
#include "train_counts.h"
#include "train_log.h"

typedef struct train_run {
    tc_ctx *ctx;
    const train_source *from;
    const train_options *o;
    train_graph graph;
    train_data *data;
    train_eval eval;
    train_counts counts;   /* empty until it is needed */
    float *factors;        /* elements of the inputs that multiply terms of the loss */
    bool reported_nothing; /* that an update counted nothing */
    train_log log;
    train_schedule schedule;
    train_progress progress;
    train_lock lock;        /* of --checkpoint */
    train_checkpoint found; /* that the run goes on from; path NULL: none */
    int64_t batch, batches; /* samples of a batch, of all ranks; batches of an epoch */
    int stop;               /* the signal that asks some rank for an end; 0: none */
    bool save;              /* some rank is asked for a checkpoint */
    bool trained;           /* by all updates: what follows does not change weights */
    bool unsaved;           /* the last checkpoint could not be written */
    struct {
        float rate, share, scale;
        int64_t update;
        bool apply;
    } own; /* elements of the inputs that the loop gives */
} train_run;

/* Binds tempo.rate and its kin. */
tc_status train_bind_own(train_run *r);
/* From the current progress to the last update, or to the first one after a signal, which is *out_stop (else 0). */
tc_status train_updates(train_run *r, int *out_stop);

/* Reports the failure of a run, with its update; the origin of values that are not finite is searched.
 * train_nonfinite.c */
tc_status train_run_failed(train_run *r, tempo_status status);
tc_status train_not_finite(train_run *r);
/* The loss has nothing to count in the current update, of so many batches. A single process, which runs without counts,
 * counts only now; false where it cannot. train_nonfinite.c */
bool train_counted_nothing(train_run *r, int64_t batches);

/* Refuses a run that does not fit in memory before anything is computed, and says which would. train_memory.c */
tc_status train_check_memory(train_run *r);

/* --checkpoint and --resume, before data is opened: the checkpoint's seeds hold. train_states.c */
tc_status train_find_checkpoint(train_run *r);
/* Goes back to the checkpoint that was found, if there is one. */
tc_status train_take_checkpoint(train_run *r);
/* Writes one, if --checkpoint names a folder. */
tc_status train_checkpoint_now(train_run *r);
/* Running statistics, which each rank computes on its own part of the batches, become those of rank 0, as in PyTorch's
 * DistributedDataParallel. */
tc_status train_share_statistics(train_run *r);
/* States as arrays: weights, and the others, without sums. In the arena. */
tc_status train_list_states(train_run *r, tc_arena *arena, bool weights, rt_array **out_arrays, size_t *out_n);

/* TC_USAGE where --save-inference is given and the model predicts nothing: its outputs are scores. train_save.c */
tc_status train_check_save(train_run *r);
/* --save, --save-inference and --save-weights of a train_run, where they are given. train_save.c, train_save_weights.c
 */
tc_status train_save_model(void *run);
tc_status train_save_inference(void *run);
tc_status train_save_weights(void *run);
/* The parameter of PyTorch that the weight stands for, by its name there, in `arena`; `file` is the model as read.
 * False: its layout cannot be undone. train_save_weights.c */
bool train_put_back(tc_arena *arena, const train_run *r, const tc_model *file, const rt_array *weight, rt_array *out);

/* --save-adapter and --merge, where they are given: before the updates, TC_USAGE where there are no adapters or their
 * format cannot hold them, and as tc_check_merge. --save-adapter after the updates. train_save_adapter.c */
tc_status train_check_adapter(train_run *r);
tc_status train_save_adapter(void *run);
/* The adapter that the trained weight is a part of; NULL: of none. train_save_adapted.c, as the next three */
const tc_adapted *train_adapter_of(const train_run *r, const char *weight);
/* The adapters that were trained, beside their weights in the model as read, without dropout. `summary`: of the passes
 * before. False: it has no place for them, and is to be read again. */
bool train_add_adapters(train_run *r, tc_model *model, tc_summary *summary);
/* Makes them inputs with defaults. */
void train_offer_adapters(const train_run *r, tc_model *model);
/* Makes them a part of their weights; errors as of tc_merge_adapter. `weights`: all that was trained. */
tc_status train_merge_adapters(train_run *r, tc_model *model, const rt_array *weights, size_t n);
#endif
