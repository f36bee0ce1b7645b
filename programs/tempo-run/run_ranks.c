/* run_ranks.c: tempo-run as one of several ranks, which find each other by a file that rank 0 writes; and states. */
#include "compiler/base/base.h"
#include "run.h"
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* --- arguments -------------------------------------------------------------------------------- */

tc_status run_check_ranks(tc_ctx *ctx, run_options *o) {
    int end = 0;
    if (o->patience <= 0)
        return tc_error(ctx, TC_USAGE, NULL, "--patience: expected seconds above 0");
    o->session.patience = o->patience;
    if (!o->rank != !o->group || (o->rank && (o->n_average == 0 || o->test_data))) {
        tc_error(ctx, TC_USAGE, NULL,
                 "--rank, --group and --average need each other, and cannot be combined with --test-data");
        tc_hint(ctx,
                "for example: --device=cuda:1 --rank=1/2 --group=meet --average='*_grad'; docs/howto/processes.md");
        return TC_USAGE;
    }
    if (o->rank && (sscanf(o->rank, "%d/%d%n", &o->rank_at, &o->n_ranks, &end) != 2 || o->rank[end] != '\0' ||
                    o->rank_at < 0 || o->rank_at >= o->n_ranks))
        return tc_error(ctx, TC_USAGE, NULL, "--rank=%s: expected R/N, with R from 0 to N - 1", tc_quote(ctx, o->rank));
    return TC_OK;
}

/* --- joining ---------------------------------------------------------------------------------- */

/* Appears whole or not at all. */
static tc_status write_group(tc_ctx *ctx, const char *path, const tempo_group *group) {
    tc_out_file *file;
    TC_TRY(tc_out_open(ctx, path, &file));
    fwrite(group, sizeof *group, 1, tc_out_stream(file));
    return tc_out_commit(ctx, file);
}

static tc_status begin_group(tc_ctx *ctx, const run_options *o, tempo_session *session, tempo_group *out_group) {
    if (access(o->group, F_OK) == 0) {
        tc_error(ctx, TC_IO, NULL, "'%s' exists already", tc_quote(ctx, o->group));
        tc_hint(ctx, "remove it, if no other ranks are about to meet there");
        return TC_IO;
    }
    tempo_status status = tempo_new_group(session, out_group);
    return status == TEMPO_OK ? write_group(ctx, o->group, out_group) : run_failed(session, status);
}

static bool read_group(const char *path, tempo_group *out_group) {
    int fd = tc_open(path, O_RDONLY);
    bool is_read = fd >= 0 && read(fd, out_group, sizeof *out_group) == (ssize_t)sizeof *out_group;
    if (fd >= 0)
        close(fd);
    return is_read;
}

static tc_status await_group(tc_ctx *ctx, const run_options *o, tempo_group *out_group) {
    const struct timespec pause = {.tv_nsec = 10000000};
    for (double waited = 0; !read_group(o->group, out_group); waited += 1e-9 * (double)pause.tv_nsec) {
        if (waited > o->patience)
            return tc_error(ctx, TC_IO, NULL, "rank %d of %d: '%s', which rank 0 writes, did not come within %g s",
                            o->rank_at, o->n_ranks, tc_quote(ctx, o->group), o->patience);
        nanosleep(&pause, NULL);
    }
    return TC_OK;
}

static tc_status join(tc_ctx *ctx, const run_options *o, tempo_session *session) {
    tempo_group group;
    TC_TRY(o->rank_at == 0 ? begin_group(ctx, o, session, &group) : await_group(ctx, o, &group));
    tempo_status status = tempo_join(session, &group, o->rank_at, o->n_ranks);
    if (o->rank_at == 0)
        (void)unlink(o->group);
    return status == TEMPO_OK ? TC_OK : run_failed(session, status);
}

/* --- outputs ---------------------------------------------------------------------------------- */

static tc_status average(tc_ctx *ctx, tempo_session *session, const char *glob) {
    bool is_found = false;
    tempo_info info;
    for (size_t i = 0; tempo_output_info(session, i, &info); i++) {
        if (fnmatch(glob, info.name, 0) != 0)
            continue;
        is_found = true;
        tempo_status status = tempo_average(session, info.name);
        if (status != TEMPO_OK)
            return run_failed(session, status);
    }
    return is_found ? TC_OK
                    : tc_error(ctx, TC_USAGE, NULL, "--average=%s: no output has a matching name", tc_quote(ctx, glob));
}

static tc_status keep(tc_ctx *ctx, tempo_session *session, const char *pair) {
    const char *input = strchr(pair, '=');
    if (!input)
        return tc_error(ctx, TC_USAGE, NULL, "--keep=%s: expected OUT=IN, an output and an input", tc_quote(ctx, pair));
    const char *output = tc_arena_printf(ctx->arena, "%.*s", (int)(input - pair), pair);
    tempo_status status = tempo_keep(session, output, input + 1);
    return status == TEMPO_OK ? TC_OK : run_failed(session, status);
}

tc_status run_join(tc_ctx *ctx, const run_options *o, tempo_session *session) {
    for (size_t i = 0; i < o->n_keep; i++)
        TC_TRY(keep(ctx, session, o->keep[i]));
    tempo_status kept = rt_keep_as_given(session);
    if (kept != TEMPO_OK)
        return run_failed(session, kept);
    for (size_t i = 0; i < o->n_average; i++)
        TC_TRY(average(ctx, session, o->average[i]));
    return o->rank ? join(ctx, o, session) : TC_OK;
}
