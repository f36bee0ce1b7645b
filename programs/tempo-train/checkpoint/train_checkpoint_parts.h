/* train_checkpoint_parts.h: shared by the files of checkpoints: the text `state`, and folders. */
#ifndef TRAIN_CHECKPOINT_PARTS_H
#define TRAIN_CHECKPOINT_PARTS_H
#include "train_checkpoint.h"

#define WEIGHTS_FILE "weights.safetensors"
#define MOMENTS_FILE "optimizer.safetensors"
#define STATE_FILE "state"
enum { CHECKPOINT_FILES = 2 }; /* of tensors */
extern const char *const train_checkpoint_files[CHECKPOINT_FILES];

/* --- the text: train_checkpoint_state.c --------------------------------------------------------- */

/* The record in `state` of a file of tensors. */
typedef struct file_sums {
    uint64_t bytes;
    uint32_t header;  /* sum of all before the elements */
    uint32_t *arrays; /* [n] in the order of the file */
    size_t n;
} file_sums;

/* Arrays in `arena`. */
file_sums train_sum_layout(tc_arena *arena, const rt_safetensors_layout *layout);
const char *train_state_text(tc_arena *arena, const train_progress *p, const file_sums sums[CHECKPOINT_FILES]);
/* TC_BAD_INPUT where one byte of it is not as it was written. */
tc_status train_read_state(tc_ctx *ctx, const char *path, train_progress *out, file_sums out_sums[CHECKPOINT_FILES]);
/* TC_BAD_INPUT names the tensor that is damaged. */
tc_status train_check_sums(tc_ctx *ctx, const rt_safetensors *s, const file_sums *sums);

/* --- folders: train_checkpoint_folder.c --------------------------------------------------------- */

typedef enum folder_kind {
    FOLDER_WHOLE,    /* step-N */
    FOLDER_TEMP,     /* step-N.tmp-NUMBER: being written, or being deleted */
    FOLDER_REPLACED, /* step-N.old-NUMBER: was step-N until its successor is */
} folder_kind;

typedef struct step_folder {
    folder_kind kind;
    int64_t step;
    const char *path;
} step_folder;

/* All of these in DIR, the newest first; the paths in `arena`. *out_n is 0 where DIR is not there, and on failure. */
tc_status train_list_folders(tc_ctx *ctx, tc_arena *arena, const char *dir, step_folder **out_folders, size_t *out_n);
/* With a number that no other process uses. */
const char *train_folder_path(tc_arena *arena, const char *dir, folder_kind kind, int64_t step);
/* Finishes or removes what earlier runs left unfinished. Folders that cannot be removed stay. DIR is locked. */
tc_status train_clean_folders(tc_ctx *ctx, const char *dir);
/* It is a link, or it contains files that no checkpoint has: it must not be replaced or deleted. False: it does not
 * exist. */
bool train_is_foreign_folder(const char *path);
/* TC_IO where another process has it. The lock ends with the process, and on a failure (recover.h). */
tc_status train_lock_folder(tc_ctx *ctx, const char *dir, train_lock *out);
/* Deletes a folder with its files; false: it is still there. */
bool train_remove_folder(const char *path);
/* False: the folder's entries may not be on the disk; errno has the reason. */
bool train_sync_folder(const char *path);
tc_status train_folder_error(tc_ctx *ctx, const char *what, const char *path); /* TC_IO, by errno */
#endif
