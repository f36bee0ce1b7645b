/* train_checkpoint.h: the state of a training run, in folders DIR/step-N that appear whole or not at all:
 *   weights.safetensors, optimizer.safetensors   for every reader of that format
 *   state                                        lines of text: the progress, and CRC-32C of every header and tensor of
 *                                                the two files, and of itself
 * A checkpoint is written to DIR/step-N.tmp-NUMBER, every file and the folder are flushed to the disk, the folder gets
 * its name, and DIR is flushed; only then is the oldest deleted. Whenever the process dies, and whatever the disk
 * refuses, the earlier checkpoints stay. Loading finds a bit that flips later, in any file. One process at a time has
 * DIR, by a lock (flock(2)) on the file DIR/.tempo-train.lock. Other files in DIR, and folders step-N that hold other
 * files, too, stay as they are. */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H
#include "runtime/files/files.h"

#define TRAIN_SETTING "option " /* begins each line of settings */

/* A run goes on from these, with the weights and moments, as if it had never stopped. */
typedef struct train_progress {
    int64_t step;         /* updates done */
    int64_t epoch, batch; /* the next batch, both from 0 */
    uint64_t seed;        /* of the order of samples and of dropout */
    double loss_scale;
    int64_t scale_good_steps; /* updates since the scale changed */
    int64_t skipped;          /* updates left out because gradients were not finite */
    uint64_t plan_hash, data_hash;
    int64_t ranks;
    const char *settings; /* lines of text, each with TRAIN_SETTING at its start, in the context's arena; NULL: none */
} train_progress;

typedef struct train_lock {
    const char *path; /* NULL: there never was one */
    int fd;
    bool is_locked; /* else the file system has no locks */
    tc_held held;
} train_lock;
void train_unlock_folder(train_lock *lock); /* of none, too */

/* Before a run: makes DIR where it does not exist, locks it, and removes unfinished checkpoints of earlier runs.
 * *out_newest: the last step that DIR has a checkpoint of, good or bad; -1: there is none. TC_IO where DIR cannot be
 * made or written, or another process has it; then there is nothing to unlock. */
tc_status train_checkpoint_begin(tc_ctx *ctx, const char *dir, train_lock *out_lock, int64_t *out_newest);

/* Writes DIR/step-N of step p->step, replacing an existing one, then prunes up to this step. Names of arrays are unique
 * within weights and within moments. TC_IO: the system said no; for a full disk usually before a byte is written. The
 * earlier checkpoints are still there, nothing else is left, and the run may go on. */
tc_status train_checkpoint_save(tc_ctx *ctx, const char *dir, int64_t keep, const train_progress *p,
                                const rt_array *weights, size_t n_weights, const rt_array *moments, size_t n_moments);

/* Deletes the oldest checkpoints up to this step beyond `keep` (0: none). Failed deletions are tried again after the
 * next checkpoint, without a message. A run that goes on calls it, too: one that was killed after writing a checkpoint
 * has left one too many. */
void train_checkpoint_prune(tc_ctx *ctx, const char *dir, int64_t keep, int64_t step);

typedef struct train_checkpoint {
    const char *path; /* DIR/step-N, in the context's arena; NULL: there is none in DIR */
    train_progress progress;
    rt_safetensors weights, moments; /* by name: their order is not that of saving */
} train_checkpoint;

/* The newest checkpoint in DIR in which every bit is as it was written. Warnings report newer ones that are damaged,
 * naming the tensor or else the file; they are renamed DIR/step-N.damaged. TC_OK with path NULL where DIR has none at
 * all, or does not exist; TC_BAD_INPUT where it has some and all are damaged. `out` may not be moved before it is
 * closed; on failure there is nothing to close. */
tc_status train_checkpoint_load(tc_ctx *ctx, const char *dir, train_checkpoint *out);
void train_checkpoint_close(train_checkpoint *c); /* of one that was not found, too */
#endif
