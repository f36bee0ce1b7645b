/* train_checkpoint.c: weights, moments and progress <-> a folder of its own; train_checkpoint.h has the protocol. */
#include "train_checkpoint.h"
#include "train_checkpoint_parts.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* --- saving ----------------------------------------------------------------------------------- */

typedef struct saving {
    tc_ctx *ctx;
    tc_arena *arena;
    const char *dir, *temp, *replaced, *path;
    const train_progress *progress;
    rt_safetensors_layout layouts[CHECKPOINT_FILES];
} saving;

static const char *within(tc_arena *arena, const char *path, const char *file) {
    return tc_arena_printf(arena, "%s/%s", path, file);
}

/* Bytes that an ordinary user may still write. Some file systems do not say: they report it when the files are
 * written. */
static tc_status check_room(const saving *s) {
    struct statvfs fs;
    uint64_t bytes = s->layouts[0].bytes + s->layouts[1].bytes;
    if (statvfs(s->dir, &fs) != 0 || fs.f_blocks == 0 || fs.f_frsize == 0 || fs.f_bavail > UINT64_MAX / fs.f_frsize)
        return TC_OK;
    uint64_t left = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (bytes <= left)
        return TC_OK;
    return tc_error(s->ctx, TC_IO, NULL, "no room for a checkpoint in '%s': it takes %.1f MiB, and %.1f MiB are left",
                    tc_quote(s->ctx, s->dir), (double)bytes / 0x1p20, (double)left / 0x1p20);
}

static tc_status make_temp(const saving *s) {
    if (!train_is_foreign_folder(s->path))
        return mkdir(s->temp, 0777) == 0 ? TC_OK : train_folder_error(s->ctx, "make the folder", s->temp);
    return tc_error(s->ctx, TC_IO, NULL, "'%s' exists and is no checkpoint by tempo-train", tc_quote(s->ctx, s->path));
}

static tc_status write_state(const saving *s) {
    file_sums sums[CHECKPOINT_FILES];
    tc_out_file *file;
    for (int f = 0; f < CHECKPOINT_FILES; f++)
        sums[f] = train_sum_layout(s->arena, &s->layouts[f]);
    TC_TRY(tc_out_open(s->ctx, within(s->arena, s->temp, STATE_FILE), &file));
    fputs(train_state_text(s->arena, s->progress, sums), tc_out_stream(file));
    return tc_out_commit(s->ctx, file); /* it checks whether all was written */
}

/* A checkpoint of the same step (a damaged one that the run went back to replace) is kept until the new one has its
 * name. */
static tc_status publish(const saving *s) {
    if (!train_sync_folder(s->temp))
        return train_folder_error(s->ctx, "write", s->temp);
    bool replaces = rename(s->path, s->replaced) == 0;
    if (rename(s->temp, s->path) != 0) {
        tc_status status = train_folder_error(s->ctx, "write", s->path);
        if (replaces)
            (void)rename(s->replaced, s->path); /* else it is when the next run begins */
        return status;
    }
    if (!train_sync_folder(s->dir))
        return train_folder_error(s->ctx, "write", s->dir);
    if (replaces)
        train_remove_folder(s->replaced);
    return TC_OK;
}

/* The folder loses its name first: a folder with that name is always whole. */
void train_checkpoint_prune(tc_ctx *ctx, const char *dir, int64_t keep, int64_t step) {
    step_folder *folders;
    size_t n;
    int64_t seen = 0;
    tc_arena *arena = tc_arena_create();
    tc_ctx quiet;
    tc_ctx_init(&quiet, ctx->tool);
    (void)train_list_folders(&quiet, arena, dir, &folders, &n);
    for (size_t i = 0; keep > 0 && i < n; i++) {
        if (folders[i].kind != FOLDER_WHOLE || folders[i].step > step || train_is_foreign_folder(folders[i].path) ||
            seen++ < keep)
            continue;
        const char *gone = train_folder_path(arena, dir, FOLDER_TEMP, folders[i].step);
        if (rename(folders[i].path, gone) == 0)
            train_remove_folder(gone);
    }
    tc_ctx_fini(&quiet);
    tc_arena_destroy(arena);
}

static void remove_temp(void *path) { train_remove_folder(path); }

static tc_status write_temp(const saving *s) {
    for (int f = 0; f < CHECKPOINT_FILES; f++)
        TC_TRY(
            rt_safetensors_write_layout(s->ctx, within(s->arena, s->temp, train_checkpoint_files[f]), &s->layouts[f]));
    TC_TRY(write_state(s));
    return publish(s);
}

static tc_status save(saving *s, const rt_array *const arrays[], const size_t n[], int64_t keep) {
    static const tc_pair metadata = {"format", "pt"}; /* without it transformers reads no file */
    for (int f = 0; f < CHECKPOINT_FILES; f++)
        TC_TRY(rt_safetensors_lay_out(s->ctx, arrays[f], n[f], &metadata, 1, &s->layouts[f]));
    TC_TRY(check_room(s));
    TC_TRY(make_temp(s));
    tc_held held;
    tc_hold(&held, remove_temp, (void *)(uintptr_t)s->temp);
    tc_status status = write_temp(s);
    tc_let_go(&held);
    train_remove_folder(s->temp); /* after success there is none */
    if (status == TC_OK)
        train_checkpoint_prune(s->ctx, s->dir, keep, s->progress->step);
    return status;
}

tc_status train_checkpoint_save(tc_ctx *ctx, const char *dir, int64_t keep, const train_progress *p,
                                const rt_array *weights, size_t n_weights, const rt_array *moments, size_t n_moments) {
    const rt_array *const arrays[] = {weights, moments};
    const size_t n[] = {n_weights, n_moments};
    tc_arena *arena = tc_arena_create();
    saving s = {.ctx = ctx,
                .arena = arena,
                .dir = dir,
                .temp = train_folder_path(arena, dir, FOLDER_TEMP, p->step),
                .replaced = train_folder_path(arena, dir, FOLDER_REPLACED, p->step),
                .path = train_folder_path(arena, dir, FOLDER_WHOLE, p->step),
                .progress = p};
    tc_status status = save(&s, arrays, n, keep);
    for (int f = 0; f < CHECKPOINT_FILES; f++)
        rt_safetensors_free_layout(&s.layouts[f]);
    tc_arena_destroy(arena);
    return status;
}

/* --- loading ---------------------------------------------------------------------------------- */

/* `ctx` receives this folder's diagnostics alone. */
static tc_status open_folder(tc_ctx *ctx, tc_arena *arena, const step_folder *f, train_checkpoint *out) {
    file_sums sums[CHECKPOINT_FILES];
    rt_safetensors *files[] = {&out->weights, &out->moments};
    *out = (train_checkpoint){0};
    TC_TRY(train_read_state(ctx, within(arena, f->path, STATE_FILE), &out->progress, sums));
    if (out->progress.step != f->step)
        return tc_error(ctx, TC_BAD_INPUT, NULL, "it is of step %" PRId64, out->progress.step);
    for (int i = 0; i < CHECKPOINT_FILES; i++) {
        const char *path = within(arena, f->path, train_checkpoint_files[i]);
        TC_TRY(rt_safetensors_open(ctx, path, files[i]));
        ctx->file = path;
        TC_TRY(train_check_sums(ctx, files[i], &sums[i]));
    }
    return TC_OK;
}

/* "weights.safetensors: tensor 'w' is damaged", of the context's newest diagnostic. */
static const char *why(const tc_ctx *ctx, tc_arena *arena) {
    const char *slash = ctx->file ? strrchr(ctx->file, '/') : NULL;
    const char *message = ctx->n_diags > 0 ? ctx->diags[ctx->n_diags - 1].message : "";
    return tc_arena_printf(arena, "%s: %s", slash ? slash + 1 : "", message);
}

typedef struct loading {
    tc_ctx *ctx;
    tc_arena *arena;
    step_folder *folders; /* [n] whole ones */
    size_t n;
    tc_status *statuses; /* [n] the result of each */
    const char *reason;  /* of the newest that is damaged */
} loading;

static tc_status try_folder(loading *l, size_t i, train_checkpoint *out) {
    tc_ctx trial;
    tc_ctx_init(&trial, l->ctx->tool);
    l->statuses[i] = open_folder(&trial, l->arena, &l->folders[i], out);
    if (l->statuses[i] != TC_OK) {
        const char *reason = why(&trial, l->arena);
        train_checkpoint_close(out);
        l->reason = l->reason ? l->reason : reason;
        tc_warn(l->ctx, NULL, "checkpoint '%s' is skipped: %s", tc_quote(l->ctx, l->folders[i].path), reason);
    }
    if (l->statuses[i] == TC_OK) /* otherwise it is freed with the context of the trial */
        out->progress.settings = tc_arena_strdup(l->ctx->arena, out->progress.settings);
    tc_ctx_fini(&trial);
    return l->statuses[i];
}

/* Damaged checkpoints must not stand before those that the run will write. One that just could not be read stays. */
static void set_aside(const loading *l, size_t n_damaged) {
    for (size_t i = 0; i < n_damaged; i++)
        if (l->statuses[i] != TC_IO && !train_is_foreign_folder(l->folders[i].path))
            (void)rename(l->folders[i].path, tc_arena_printf(l->arena, "%s.damaged", l->folders[i].path));
}

static tc_status load(loading *l, const char *dir, train_checkpoint *out) {
    step_folder *all;
    size_t n;
    TC_TRY(train_list_folders(l->ctx, l->arena, dir, &all, &n));
    l->folders = TC_NEW_ARRAY(l->arena, step_folder, n + 1);
    l->statuses = TC_NEW_ARRAY(l->arena, tc_status, n + 1);
    for (size_t i = 0; i < n; i++)
        if (all[i].kind == FOLDER_WHOLE)
            l->folders[l->n++] = all[i];
    for (size_t i = 0; i < l->n; i++) {
        if (try_folder(l, i, out) != TC_OK)
            continue;
        out->path = tc_arena_strdup(l->ctx->arena, l->folders[i].path);
        set_aside(l, i);
        return TC_OK;
    }
    if (l->n == 0)
        return TC_OK;
    tc_error(l->ctx, TC_BAD_INPUT, NULL, "none of the %zu checkpoints in '%s' is whole; in the newest, %s", l->n,
             tc_quote(l->ctx, dir), l->reason);
    tc_hint(l->ctx, "restore the folder from a copy, or name another one to begin anew");
    return TC_BAD_INPUT;
}

tc_status train_checkpoint_load(tc_ctx *ctx, const char *dir, train_checkpoint *out) {
    *out = (train_checkpoint){0};
    loading l = {.ctx = ctx, .arena = tc_arena_create()};
    tc_status status = load(&l, dir, out);
    tc_arena_destroy(l.arena);
    return status;
}

void train_checkpoint_close(train_checkpoint *c) {
    rt_safetensors_close(&c->weights);
    rt_safetensors_close(&c->moments);
    *c = (train_checkpoint){0};
}

/* --- beginning -------------------------------------------------------------------------------- */

static tc_status make_dir(tc_ctx *ctx, tc_arena *arena, const char *dir) {
    if (mkdir(dir, 0777) == 0)
        (void)train_sync_folder(within(arena, dir, "..")); /* the first checkpoint reports errors of the disk */
    else if (errno != EEXIST)
        return train_folder_error(ctx, "make the folder", dir);
    const char *inside = within(arena, dir, "."); /* which a file has not */
    return access(inside, R_OK | W_OK | X_OK) == 0 ? TC_OK : train_folder_error(ctx, "write to", dir);
}

static tc_status find_newest(tc_ctx *ctx, tc_arena *arena, const char *dir, train_lock *out_lock, int64_t *out_newest) {
    step_folder *folders;
    size_t n;
    *out_newest = -1;
    TC_TRY(make_dir(ctx, arena, dir));
    TC_TRY(train_lock_folder(ctx, dir, out_lock));
    TC_TRY(train_clean_folders(ctx, dir));
    TC_TRY(train_list_folders(ctx, arena, dir, &folders, &n));
    for (size_t i = 0; i < n; i++)
        if (folders[i].kind == FOLDER_WHOLE && folders[i].step > *out_newest)
            *out_newest = folders[i].step;
    return TC_OK;
}

tc_status train_checkpoint_begin(tc_ctx *ctx, const char *dir, train_lock *out_lock, int64_t *out_newest) {
    tc_arena *arena = tc_arena_create();
    *out_lock = (train_lock){0};
    tc_status status = find_newest(ctx, arena, dir, out_lock, out_newest);
    if (status != TC_OK)
        train_unlock_folder(out_lock);
    tc_arena_destroy(arena);
    return status;
}
