/* fit_batch.c: from sizes at a few batches to the largest batch that fits. Sizes grow with the batch, nearly in a
 * line: a guess by the last two is mostly the answer, or beside it; halves bound the search where it is not. */
#define _GNU_SOURCE /* dladdr */
#include "fit_batch.h"
#include "compiler/text/marks.h"
#include "compiler/ir/ops.h"
#include "kernels/matmul/sgemm.h"
#include "passes/budget/budget.h"
#include <dlfcn.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_BATCH (INT64_C(1) << 30)
#define MOST_TRIALS 100
/* tempo-run's libraries, in addresses: 50 MiB with a graph of one node, and up to 8 that remain after planning beside
 * the tables; the reserve that it leaves free under its own limit (runtime/available.c: this, and no more than the
 * arena); and a thread's stack, as systems have them. */
#define LIBRARIES (UINT64_C(58) << 20)
#define RESERVE (UINT64_C(16) << 20)
#define STACK (UINT64_C(8) << 20)

/* Bytes that an optimizer keeps for each trained element, in float. */
static const struct {
    const char *name;
    uint64_t bytes;
} optimizers[] = {{"none", 0}, {"sgd", 0}, {"momentum", 4}, {"adam", 8}, {"adamw", 8}, {"lamb", 8}};

static bool find_optimizer(const char *name, uint64_t *out_bytes) {
    for (size_t i = 0; i < TC_COUNT(optimizers); i++)
        if (strcmp(optimizers[i].name, name) == 0)
            return *out_bytes = optimizers[i].bytes, true;
    return false;
}

tc_status tc_fit_check(tc_ctx *ctx, const tc_fitting *f, const char *const *dims, size_t n_dims) {
    uint64_t bytes;
    if (!find_optimizer(f->optimizer, &bytes))
        return tc_error(ctx, TC_USAGE, NULL, "--optimizer=%s: expected none, sgd, momentum, adam, adamw or lamb",
                        tc_quote(ctx, f->optimizer));
    for (size_t i = 0; f->memory && i < n_dims; i++) {
        size_t n = strlen(f->dim);
        if (strncmp(dims[i], f->dim, n) != 0 || dims[i][n] != '=')
            continue;
        tc_error(ctx, TC_USAGE, NULL, "--fit varies '%s', but --dim gives it a value", tc_quote(ctx, f->dim));
        tc_hint(ctx, "leave --dim %s out, or name another dimension by --fit-dim", tc_quote(ctx, f->dim));
        return TC_USAGE;
    }
    return TC_OK;
}

/* --- sizes -------------------------------------------------------------------------------------- */

static uint64_t bytes_of(const tc_value *value) {
    uint64_t count = 1;
    for (int i = 0; i < tc_value_rank(value); i++)
        count *= tc_dim_is_const(value->type->dims[i]) ? (uint64_t)value->type->dims[i].value : 0;
    return tc_value_rank(value) < 0 ? 0 : tc_tensor_bytes(tc_value_dtype(value), count);
}

/* The file that this code is in, the program or libtempo.so: about as large as tempo-run, which holds libtempo, too,
 * with CUDA's kernels where it was built so. */
static uint64_t image_bytes(void) {
    struct stat image;
    Dl_info at;
    bool is_shared = dladdr(optimizers, &at) != 0 && strstr(at.dli_fname, ".so") != NULL;
    return stat(is_shared ? at.dli_fname : "/proc/self/exe", &image) == 0 ? (uint64_t)image.st_size : 0;
}

static uint64_t program_bytes(int64_t threads) {
    long cores = threads > 0 ? (long)threads : sysconf(_SC_NPROCESSORS_ONLN);
    return image_bytes() + LIBRARIES + tk_sgemm_code_bytes() + (cores > 1 ? (uint64_t)(cores - 1) * STACK : 0);
}

tc_need tc_measure_need(const tc_fitting *f, const tc_model *model, const tc_summary *summary,
                        const tc_footprint *footprint) {
    const tc_graph *graph = model->graph;
    uint64_t per_element = 0, trained = 0, reserve = footprint->arena;
    tc_need n = {.known = true, .fits = true, .arena = footprint->arena};
    for (uint32_t i = 0; i < graph->n_initializers; i++)
        n.parameters += graph->initializers[i]->init->bytes;
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const tc_value *input = graph->inputs[i];
        bool state = tc_model_metadata(model, tc_arena_printf(model->arena, TC_ZERO_KEY "%s", input->name)) != NULL;
        *(state ? &n.optimizer : &n.inputs) += input->init ? 0 : bytes_of(input);
    }
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        const tc_value *gradient = graph->outputs[i], *of = gradient->gradient_of;
        if (gradient->role != TC_ROLE_GRADIENT)
            continue;
        n.gradients += bytes_of(gradient);
        trained += of && of->init ? of->init->count : 0;
    }
    if (!summary->update && find_optimizer(f->optimizer, &per_element))
        n.optimizer += trained * per_element;
    n.program = program_bytes(f->threads) + footprint->tables + (reserve < RESERVE ? reserve : RESERVE);
    n.total = n.arena + n.parameters + n.optimizer + n.inputs + n.program;
    return n;
}

/* --- the search --------------------------------------------------------------------------------- */

typedef tc_need row; /* not known: over a limit: --memory-budget, or what can be addressed */

typedef struct search {
    tc_ctx *ctx;
    const tc_watcher *watcher;
    const tc_fitting *f;
    tc_fit_trial trial;
    void *user;
    uint64_t memory;
    row rows[MOST_TRIALS];
    size_t n;
} search;

static tc_status try(search *s, int64_t batch, const row **out_row) {
    row *r = &s->rows[s->n++];
    size_t n_diags = s->ctx->n_diags;
    *r = (row){.batch = batch};
    tc_show_progress(s->watcher, tc_arena_printf(s->ctx->arena, "fit: %s = %" PRId64, s->f->dim, batch));
    tc_status status = s->trial(s->user, batch, r);
    tc_show_progress(s->watcher, NULL);
    if (status != TC_OK && (status != TC_LIMIT || batch == 1))
        return status;
    s->ctx->n_diags = n_diags; /* said again when the batch is known */
    r->batch = batch;
    r->fits = r->known && r->total <= s->memory;
    *out_row = r;
    return TC_OK;
}

typedef struct part {
    const char *name;
    uint64_t bytes;
} part;

static int largest_first(const void *a, const void *b) {
    const part *x = a, *y = b;
    return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : 0;
}

static tc_status refuse(const search *s, const row *r) {
    part parts[] = {{"what is computed", r->arena},
                    {"parameters", r->parameters},
                    {"the optimizer's state", r->optimizer},
                    {"inputs", r->inputs},
                    {"the program", r->program}};
    qsort(parts, TC_COUNT(parts), sizeof *parts, largest_first);
    tc_error(s->ctx, TC_LIMIT, NULL,
             "--fit: not even %s = 1 fits in %" PRIu64 " bytes: it takes %" PRIu64 ", most of it %s (%" PRIu64
             "), %s (%" PRIu64 ") and %s (%" PRIu64 ")",
             tc_quote(s->ctx, s->f->dim), s->memory, r->total, parts[0].name, parts[0].bytes, parts[1].name,
             parts[1].bytes, parts[2].name, parts[2].bytes);
    tc_hint(s->ctx,
            parts[0].bytes == r->program
                ? "the program is what tempo-run takes by itself, least with --threads=1"
                : "--recipe and --memory-budget make less of what is computed, --freeze of gradients and state");
    return TC_LIMIT;
}

static tc_status does_not_grow(const search *s, int64_t batch) {
    tc_error(s->ctx, TC_USAGE, NULL,
             "--fit: %s = %" PRId64 " takes no more memory than 1, or still fits: there is no largest",
             tc_quote(s->ctx, s->f->dim), batch);
    tc_hint(s->ctx, "name the dimension that memory grows with by --fit-dim");
    return TC_USAGE;
}

/* Where the line through two sizes meets the memory, between the largest batch that fits and the smallest that does
 * not (NULL: none is known). */
static int64_t guess(const search *s, const row *low, const row *high, const row *before) {
    const row *other = high && high->known ? high : before;
    int64_t most = high ? high->batch - 1 : MOST_BATCH;
    if ((high && !high->known) || s->n % 4 == 3) /* in between, halves: sizes may bend */
        return high ? low->batch + (high->batch - low->batch) / 2 : low->batch * 2 < most ? low->batch * 2 : most;
    double run = (double)(other->batch - low->batch), rise = (double)other->total - (double)low->total;
    double room = (double)(s->memory - low->total), steps = rise / run > 0 ? room * run / rise : 1e18;
    int64_t at = steps < (double)(most - low->batch) ? low->batch + (int64_t)steps : most;
    return at <= low->batch ? low->batch + 1 : at;
}

static tc_status look(search *s, const row **out_best) {
    const row *low, *high = NULL, *before, *now;
    TC_TRY(try(s, 1, &low));
    if (!low->fits)
        return refuse(s, low);
    before = low;
    for (int64_t batch = 2; (!high || high->batch - low->batch > 1) && s->n < MOST_TRIALS;) {
        TC_TRY(try(s, batch, &now));
        if (!now->fits) {
            high = now;
        } else {
            before = low;
            low = now;
        }
        if (low->batch >= MOST_BATCH || (batch > 1024 && now->known && now->total == s->rows[0].total))
            return does_not_grow(s, low->batch);
        batch = guess(s, low, high, before);
    }
    *out_best = low;
    return TC_OK;
}

/* --- the table ---------------------------------------------------------------------------------- */

static int by_batch(const void *a, const void *b) {
    const row *x = a, *y = b;
    return (x->batch > y->batch) - (x->batch < y->batch);
}

static void print(const search *s, int64_t best, FILE *out) {
    fprintf(out, "fit        %s = %" PRId64 " is the largest in %s, optimizer %s\n", s->f->dim, best,
            tc_budget_bytes(s->ctx, s->memory), s->f->optimizer);
    fprintf(out, "  %10s %15s %15s %13s %13s %13s %13s %15s\n", s->f->dim, "arena", "of it gradients", "parameters",
            "optimizer", "inputs", "program", "total");
    for (size_t i = 0; i < s->n; i++) {
        const row *r = &s->rows[i];
        if (!r->known)
            fprintf(out, "  %10" PRId64 " over a limit\n", r->batch);
        else
            fprintf(out,
                    "  %10" PRId64 " %15" PRIu64 " %15" PRIu64 " %13" PRIu64 " %13" PRIu64 " %13" PRIu64 " %13" PRIu64
                    " %15" PRIu64 "%s\n",
                    r->batch, r->arena, r->gradients, r->parameters, r->optimizer, r->inputs, r->program, r->total,
                    r->fits ? "  fits" : "");
    }
}

tc_status tc_fit_batch(tc_ctx *ctx, const tc_fitting *f, const tc_watcher *watcher, tc_fit_trial trial, void *user,
                       FILE *out, const tc_fit **out_fit) {
    search *s = TC_NEW(ctx->arena, search);
    const row *best = NULL;
    *s = (search){.ctx = ctx, .watcher = watcher, .f = f, .trial = trial, .user = user, .memory = f->memory};
    TC_TRY(look(s, &best));
    int64_t batch = best->batch;
    qsort(s->rows, s->n, sizeof *s->rows, by_batch);
    tc_fit *fit = TC_NEW(ctx->arena, tc_fit);
    *fit = (tc_fit){f->dim, f->optimizer, s->memory, batch, s->rows, s->n};
    *out_fit = fit;
    if (out)
        print(s, batch, out);
    return TC_OK;
}
