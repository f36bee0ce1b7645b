/* checkpoint_case.h: checkpoints for tests: what is saved follows from the step, so that what is loaded can be checked
 * without knowing what was saved. */
#ifndef TEST_CHECKPOINT_CASE_H
#define TEST_CHECKPOINT_CASE_H
#include "cases.h"
#include "programs/tempo-train/checkpoint/train_checkpoint.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// clang-format off
// clang-format on

enum { CASE_WEIGHTS = 6, CASE_MOMENTS = 3, CASE_BYTES = 20000 };

typedef struct checkpoint_case {
    rt_array arrays[CASE_WEIGHTS + CASE_MOMENTS]; /* weights, then moments */
    train_progress progress;
    unsigned char bytes[CASE_WEIGHTS + CASE_MOMENTS][CASE_BYTES];
} checkpoint_case;

static const int64_t case_dims[][2] = {{50, 100}, {31, 9},   {7, 1},    {0, 4}, {3, 1},
                                       {1, 1},    {50, 100}, {50, 100}, {7, 1}};

static void case_make(checkpoint_case *c, int64_t step) {
    static const char *const names[] = {"embed",  "layer.0/weight", "layer.0/bias",  "none",          "mask",
                                        "counts", "embed.moment1",  "embed.moment2", "layer.0.moment"};
    static const tempo_dtype types[] = {TEMPO_FLOAT, TEMPO_FLOAT, TEMPO_BFLOAT16, TEMPO_FLOAT, TEMPO_BOOL,
                                        TEMPO_INT64, TEMPO_FLOAT, TEMPO_FLOAT,    TEMPO_DOUBLE};
    uint32_t random = (uint32_t)step * 2654435761u + 1;
    for (int i = 0; i < CASE_WEIGHTS + CASE_MOMENTS; i++) {
        size_t bytes = tempo_dtype_size(types[i]) * (size_t)(case_dims[i][0] * case_dims[i][1]);
        c->arrays[i] = (rt_array){.name = names[i], .tensor = {types[i], 2, case_dims[i], c->bytes[i], bytes}};
        for (size_t b = 0; b < bytes; b++) {
            random = random * 1664525u + 1013904223u;
            c->bytes[i][b] = (unsigned char)(random >> 24);
        }
    }
    c->progress = (train_progress){.step = step,
                                   .epoch = step / 7,
                                   .batch = step % 7,
                                   .seed = UINT64_MAX - (uint64_t)step,
                                   .loss_scale = 65536.0 / 3,
                                   .scale_good_steps = step / 2,
                                   .skipped = 3,
                                   .plan_hash = UINT64_C(0xfedcba9876543210),
                                   .data_hash = random,
                                   .ranks = 1};
}

/* And lets others begin, too. */
static inline tc_status case_begin(tc_ctx *ctx, const char *dir, int64_t *out_newest) {
    train_lock lock;
    tc_status status = train_checkpoint_begin(ctx, dir, &lock, out_newest);
    train_unlock_folder(&lock);
    return status;
}

static inline tc_status case_save(tc_ctx *ctx, const char *dir, int64_t step, int64_t keep) {
    checkpoint_case c;
    case_make(&c, step);
    return train_checkpoint_save(ctx, dir, keep, &c.progress, c.arrays, CASE_WEIGHTS, c.arrays + CASE_WEIGHTS,
                                 CASE_MOMENTS);
}

/* That what was loaded is what was saved at this step, all of it. */
static inline void case_check(const train_checkpoint *loaded, int64_t step) {
    static checkpoint_case c;
    case_make(&c, step);
    const train_progress *p = &loaded->progress, *q = &c.progress;
    assert_int_equal(p->step, step);
    assert_true(p->epoch == q->epoch && p->batch == q->batch && p->seed == q->seed && p->loss_scale == q->loss_scale);
    assert_true(p->scale_good_steps == q->scale_good_steps && p->skipped == 3 && p->plan_hash == q->plan_hash);
    assert_true(p->data_hash == q->data_hash && p->ranks == 1);
    assert_int_equal(loaded->weights.n, CASE_WEIGHTS);
    assert_int_equal(loaded->moments.n, CASE_MOMENTS);
    for (int i = 0; i < CASE_WEIGHTS + CASE_MOMENTS; i++) {
        const tempo_tensor *want = &c.arrays[i].tensor;
        const rt_array *got =
            rt_safetensors_find(i < CASE_WEIGHTS ? &loaded->weights : &loaded->moments, c.arrays[i].name);
        assert_non_null(got);
        assert_true(got->tensor.dtype == want->dtype && got->tensor.rank == 2 && got->tensor.bytes == want->bytes);
        assert_memory_equal(got->tensor.dims, want->dims, 2 * sizeof *want->dims);
        assert_memory_equal(got->tensor.data, want->data, want->bytes);
    }
}

/* Entries of a folder whose names do not begin with "step-", or hold a '.': none of them is whole. -1: no folder. */
static inline int case_remains(const char *dir) {
    int n = 0;
    DIR *stream = opendir(dir);
    if (!stream)
        return -1;
    for (struct dirent *e = readdir(stream); e; e = readdir(stream))
        n += e->d_name[0] != '.' && (strncmp(e->d_name, "step-", 5) != 0 || strchr(e->d_name, '.'));
    closedir(stream);
    return n;
}

static inline const char *case_path(const char *dir, const char *name) {
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

static inline bool case_exists(const char *dir, const char *name) { return access(case_path(dir, name), F_OK) == 0; }

static inline void case_remove_tree(const char *path) {
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
}
#endif
