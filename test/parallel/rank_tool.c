/* rank_tool.c: one rank of what check_parallel.py has mpirun start: rank_tool MODE ARGUMENT...
 *   train MODEL IN OUT STEPS BUCKET  steps of a training graph on this rank's rows of IN's arrays x and t; rank 0
 * writes what the graph keeps to OUT, and says the loss of each step means CHUNK                      means of random
 * pieces of every type beside loops in double work                             steps without an end, each with the sum
 * of a number stuck RANK                       the rank computes a node for ever fail RANK | fail all             a
 * failure of its own differ RANK                      ... has other bits say                              who is there,
 * and threads TEMPO_RANK_TIMEOUT: seconds. Everything that a rank finds wrong is an exit code. */
#include "passes/upgrade/upgrade.h"
#include "passes/bodies/bodies.h"
#include "kernels/common/half.h"
#include "compiler/cli/cli.h"
#include "passes/pass/pass.h"
#include "runtime/files/files.h"
#include "runtime/session/session.h"
#include "programs/tempo-train/ranks/train_link.h"
#include "programs/tempo-train/ranks/train_ranks.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void rest(double seconds) {
    const struct timespec pause = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
    nanosleep(&pause, NULL);
}

/* --- train ------------------------------------------------------------------------------------ */

static bool wants_all(const void *user, const char *name) {
    (void)user, (void)name;
    return true;
}

static tc_status check(tc_ctx *ctx, const tempo_session *s, tempo_status status) {
    return status == TEMPO_OK ? TC_OK : tc_error(ctx, (tc_status)status, NULL, "%s", tempo_message(s));
}

/* This rank's rows, the last rank's being fewer where they do not go up. A rank without any has the first one. */
static tc_status bind_rows(tc_ctx *ctx, tempo_session *s, const rt_array *array, train_ranks *ranks) {
    const tempo_tensor *whole = &array->tensor;
    const int64_t rows = whole->dims[0], each = (rows + ranks->ranks - 1) / ranks->ranks;
    int64_t begin = each * ranks->rank < rows ? each * ranks->rank : rows;
    int64_t n = begin + each < rows ? each : rows - begin;
    train_ranks_share(ranks, (double)n / (double)rows);
    begin = n > 0 ? begin : 0;
    n = n > 0 ? n : 1;
    int64_t *dims = TC_NEW_ARRAY(ctx->arena, int64_t, (size_t)whole->rank + 1);
    memcpy(dims, whole->dims, (size_t)whole->rank * sizeof *dims);
    dims[0] = n;
    const size_t bytes = whole->bytes / (size_t)rows;
    const tempo_tensor part = {whole->dtype, whole->rank, dims, (char *)whole->data + (size_t)begin * bytes,
                               (size_t)n * bytes};
    return check(ctx, s, tempo_bind(s, array->name, &part));
}

static tc_status steps(tc_ctx *ctx, tempo_session *s, train_ranks *ranks, int64_t n) {
    tempo_tensor loss;
    for (int64_t step = 1; step <= n; step++) {
        TC_TRY(check(ctx, s, tempo_bind(s, "step", &(tempo_tensor){TEMPO_INT64, 0, NULL, &step, sizeof step})));
        TC_TRY(check(ctx, s, tempo_run(s)));
        TC_TRY(check(ctx, s, tempo_output(s, "loss", &loss)));
        double mean =
            ranks->link ? ranks->share * (double)*(const float *)loss.data : (double)*(const float *)loss.data;
        mean = ranks->share == 0 ? 0 : mean;
        TC_TRY(train_ranks_sum(ctx, ranks, &mean, 1));
        if (ranks->rank == 0)
            printf("loss %.9g\n", mean);
        uint64_t bits;
        memcpy(&bits, &mean, sizeof bits);
        TC_TRY(train_ranks_agree(ctx, ranks, step, 7, bits));
    }
    return TC_OK;
}

/* Weights and what else is kept have the same bits on all ranks; rank 0 writes them. */
static tc_status deliver(tc_ctx *ctx, tempo_session *s, train_ranks *ranks, const char *path) {
    rt_array *kept = TC_NEW_ARRAY(ctx->arena, rt_array, (size_t)s->shared.n_states + 1);
    for (uint32_t i = 0; i < s->shared.n_states; i++) {
        const char *name = s->inputs[s->shared.states[i].input].value->name;
        kept[i].name = name;
        TC_TRY(check(ctx, s, tempo_get_state(s, name, &kept[i].tensor)));
        uint64_t bits = tc_hash_bytes(kept[i].tensor.data, kept[i].tensor.bytes, 0);
        TC_TRY(train_ranks_agree(ctx, ranks, i, 7, bits));
    }
    if (ranks->rank == 0)
        TC_TRY(rt_npz_write(ctx, path, kept, s->shared.n_states));
    return train_ranks_barrier(ctx, ranks);
}

static tc_status keep_all(tc_ctx *ctx, tempo_session *s) {
    const tc_model_info *info = &s->model->info;
    for (size_t i = 0; i < info->n_metadata; i++)
        if (strncmp(info->metadata[i].key, "tempo.keep.", 11) == 0)
            TC_TRY(check(ctx, s, tempo_keep(s, info->metadata[i].key + 11, info->metadata[i].value)));
    return TC_OK;
}

static tc_status train_on(tc_ctx *ctx, tempo_session *s, train_ranks *ranks, char **argv, const rt_npz *in) {
    if (rt_average_updates(s) != 2)
        return tc_error(ctx, TC_BUG, NULL, "there are two optimizers");
    TC_TRY(keep_all(ctx, s));
    for (size_t i = 0; i < in->n; i++) {
        const rt_array *array = &in->arrays[i];
        if (rt_find_input(s, array->name)->kept)
            TC_TRY(check(ctx, s, tempo_set_state(s, array->name, &array->tensor)));
        else if (array->tensor.rank > 0)
            TC_TRY(bind_rows(ctx, s, array, ranks));
        else
            TC_TRY(check(ctx, s, tempo_bind(s, array->name, &array->tensor)));
    }
    TC_TRY(steps(ctx, s, ranks, atoi(argv[3])));
    return deliver(ctx, s, ranks, argv[2]);
}

static tc_status train(tc_ctx *ctx, train_ranks *ranks, int argc, char **argv) {
    rt_hooks hooks = {tc_upgrade_model, tc_body_for, .collective = train_ranks_collective(ranks)};
    tempo_session *s;
    rt_npz in = {0};
    if (argc != 5)
        return tc_error(ctx, TC_USAGE, NULL, "train MODEL IN OUT STEPS BUCKET");
    rt_bucket_bytes = (size_t)atol(argv[4]);
    tempo_status opened = rt_open(argv[0], &(tempo_options){.threads = 1, .check_memory = 1}, &hooks, &s);
    tc_status status = check(ctx, s, opened);
    if (status == TC_OK)
        status = rt_npz_read(ctx, argv[1], wants_all, NULL, &in);
    if (status == TC_OK)
        status = train_on(ctx, s, ranks, argv, &in);
    tempo_close(s);
    if (in.arena)
        rt_npz_free(&in);
    return status;
}

/* --- means ------------------------------------------------------------------------------------ */

enum { PIECES = 7, MOST = 3000, MOST_RANKS = 16 };

static const struct {
    tk_dtype dtype;
    int64_t count;
} pieces[PIECES] = {{TK_F32, 1},  {TK_F32, MOST}, {TK_F64, 1000}, {TK_F16, 777},
                    {TK_BF16, 5}, {TK_F32, 0},    {TK_F32, 10}};

/* Element k of piece i on this rank: exact in every type. */
static double term(int rank, int i, int64_t k) { return (double)((k * 7 + i * 31 + rank * 13) % 64 - 32) / 8; }

static void put(tk_dtype dtype, void *at, int64_t k, double value) {
    if (dtype == TK_F64)
        ((double *)at)[k] = value;
    else if (dtype == TK_F32)
        ((float *)at)[k] = (float)value;
    else
        ((uint16_t *)at)[k] = dtype == TK_F16 ? tk_to_f16((float)value) : tk_to_bf16((float)value);
}

static double get(tk_dtype dtype, const void *at, int64_t k) {
    if (dtype == TK_F64)
        return ((const double *)at)[k];
    if (dtype == TK_F32)
        return (double)((const float *)at)[k];
    uint16_t h = ((const uint16_t *)at)[k];
    return (double)(dtype == TK_F16 ? tk_from_f16(h) : tk_from_bf16(h));
}

/* Ranks weigh 1, 2, ... , the last one nothing, and its elements are no numbers. */
static double share_of(int rank, int ranks) { return rank == ranks - 1 ? 0 : 2.0 * (rank + 1) / (ranks * (ranks - 1)); }

static double expected(int ranks, int i, int64_t k) {
    double sum = 0;
    for (int rank = 0; rank < ranks - 1; rank++)
        sum += share_of(rank, ranks) * term(rank, i, k);
    return sum;
}

/* Shares are rounded to float with the product, once a rank, and the sum once more to the piece's type. */
static double limit(tk_dtype dtype, int ranks) {
    double own = dtype == TK_F64 ? 0x1p-52 : dtype == TK_F16 ? 0x1p-10 : dtype == TK_BF16 ? 0x1p-7 : 0x1p-23;
    return 4 * (own + (dtype == TK_F64 ? 0x1p-52 : 0x1p-23) * ranks);
}

static tc_status means(tc_ctx *ctx, train_ranks *ranks, int argc, char **argv) {
    static double memory[PIECES][MOST];
    rt_piece list[PIECES];
    uint64_t bits = 0;
    train_link_chunk = argc > 0 ? (size_t)atol(argv[0]) : train_link_chunk;
    for (int i = 0; i < PIECES; i++) {
        list[i] = (rt_piece){memory[i], pieces[i].count, pieces[i].dtype};
        for (int64_t k = 0; k < pieces[i].count; k++)
            put(pieces[i].dtype, memory[i], k, ranks->rank == ranks->ranks - 1 ? NAN : term(ranks->rank, i, k));
    }
    const rt_collective *all = train_ranks_collective(ranks);
    train_ranks_share(ranks, share_of(ranks->rank, ranks->ranks));
    train_ranks_hold(ranks, true); /* nothing comes of it */
    all->average(all->user, 0, list, PIECES);
    if (!all->averaged(all->user, 0))
        return tc_error(ctx, TC_IO, NULL, "%s", all->failure(all->user));
    train_ranks_hold(ranks, false);
    all->average(all->user, 0, list, 3); /* two buckets under way */
    all->average(all->user, 1, list + 3, PIECES - 3);
    if (!all->averaged(all->user, 1))
        return tc_error(ctx, TC_IO, NULL, "%s", all->failure(all->user));
    for (int i = 0; i < PIECES; i++) {
        bits = tc_hash_bytes(memory[i], (size_t)pieces[i].count * tk_size(pieces[i].dtype), bits);
        for (int64_t k = 0; k < pieces[i].count; k++) {
            double got = get(pieces[i].dtype, memory[i], k), wanted = expected(ranks->ranks, i, k);
            if (!(got - wanted <= limit(pieces[i].dtype, ranks->ranks) * 4 &&
                  wanted - got <= limit(pieces[i].dtype, ranks->ranks) * 4))
                return tc_error(ctx, TC_MISMATCH, NULL, "piece %d [%lld] is %.17g, not %.17g", i, (long long)k, got,
                                wanted);
        }
    }
    if (ranks->rank == 0)
        printf("bits %016llx\n", (unsigned long long)bits);
    return train_ranks_agree(ctx, ranks, 1, 1, bits);
}

/* --- what goes wrong -------------------------------------------------------------------------- */

static tc_status work(tc_ctx *ctx, train_ranks *ranks, int argc, char **argv) {
    (void)argc, (void)argv;
    const rt_collective *all = train_ranks_collective(ranks);
    printf("rank %d process %d\n", ranks->rank, (int)getpid());
    fflush(stdout);
    for (double one = 1;; one = 1) {
        all->alive(all->user, "node");
        rest(0.002);
        all->alive(all->user, NULL);
        TC_TRY(train_ranks_sum(ctx, ranks, &one, 1));
    }
}

static bool is_meant(const train_ranks *ranks, int argc, char **argv) {
    return argc > 0 && (strcmp(argv[0], "all") == 0 || atoi(argv[0]) == ranks->rank);
}

static tc_status stuck(tc_ctx *ctx, train_ranks *ranks, int argc, char **argv) {
    const rt_collective *all = train_ranks_collective(ranks);
    if (is_meant(ranks, argc, argv)) {
        all->alive(all->user, "node that hangs");
        rest(1000);
    }
    return train_ranks_barrier(ctx, ranks);
}

static tc_status fail(tc_ctx *ctx, train_ranks *ranks, int argc, char **argv) {
    if (is_meant(ranks, argc, argv))
        return tc_error(ctx, TC_BAD_INPUT, NULL, "rank %d does not like its data", ranks->rank);
    return train_ranks_barrier(ctx, ranks);
}

static tc_status differ(tc_ctx *ctx, train_ranks *ranks, int argc, char **argv) {
    return train_ranks_agree(ctx, ranks, 3, 1, is_meant(ranks, argc, argv));
}

static tc_status say(tc_ctx *ctx, train_ranks *ranks, int argc, char **argv) {
    (void)argc, (void)argv;
    printf("rank %d of %d, threads %d, collective %s\n", ranks->rank, ranks->ranks, ranks->threads,
           train_ranks_collective(ranks) ? "yes" : "no");
    fflush(stdout);
    return train_ranks_barrier(ctx, ranks);
}

static const struct {
    const char *name;
    tc_status (*run)(tc_ctx *ctx, train_ranks *ranks, int argc, char **argv);
} modes[] = {{"train", train}, {"means", means},   {"work", work}, {"stuck", stuck},
             {"fail", fail},   {"differ", differ}, {"say", say}};

static tc_status run(tc_ctx *ctx, int argc, char **argv) {
    static train_ranks ranks;
    const char *timeout = getenv("TEMPO_RANK_TIMEOUT");
    for (size_t i = 0; argc > 1 && i < TC_COUNT(modes); i++) {
        if (strcmp(modes[i].name, argv[1]) != 0)
            continue;
        TC_TRY(train_ranks_begin(ctx, timeout ? atof(timeout) : TRAIN_RANK_TIMEOUT, &ranks));
        return train_ranks_end(ctx, &ranks, modes[i].run(ctx, &ranks, argc - 2, argv + 2));
    }
    return tc_error(ctx, TC_USAGE, NULL, "unknown mode");
}

int main(int argc, char **argv) { return tc_program("rank_tool", run, argc, argv); }
