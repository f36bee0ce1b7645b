/* run_cases.c: ONNX's backend test cases: a folder with model.onnx and test_data_set_N/{input,output}_J.pb, each one
 * TensorProto that belongs to graph input or output J. Compared as ONNX's own runner does: equal types and shapes,
 * |got - want| <= atol + rtol |want|, NaN equals NaN; integers and booleans must be equal. */
#include "compiler/onnx/onnx.h"
#include "run.h"
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RTOL 1e-3
#define RTOL_BFLOAT16 0x1p-6 /* its elements have 8 bits */
#define ATOL 1e-7

typedef enum verdict { PASS, FAIL, UNSUPPORTED } verdict;
static const char *const words[] = {"PASS", "FAIL", "UNSUPPORTED"};

typedef struct test_case {
    tc_ctx *ctx; /* of this case alone */
    const char *folder, *name;
    tempo_session *session;
    tc_model *tensors; /* owns what is read from .pb files */
    char why[400];
} test_case;

static verdict fail(test_case *c, const char *what) {
    snprintf(c->why, sizeof c->why, "%s", what);
    return FAIL;
}

/* The first line of a session's message is enough here. */
static verdict from_session(test_case *c, tempo_status status) {
    snprintf(c->why, sizeof c->why, "%s", tempo_message(c->session));
    c->why[strcspn(c->why, "\n")] = '\0';
    return status == TEMPO_UNSUPPORTED ? UNSUPPORTED : FAIL;
}

/* --- comparing -------------------------------------------------------------------------------- */

static bool close_enough(double got, double want, double rtol) {
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want);
    return got == want || fabs(got - want) <= ATOL + rtol * fabs(want);
}

static bool is_float(tempo_dtype dtype) {
    return dtype == TEMPO_FLOAT || dtype == TEMPO_DOUBLE || dtype == TEMPO_FLOAT16 || dtype == TEMPO_BFLOAT16;
}

static verdict compare(test_case *c, const char *name, const tempo_tensor *got, const tc_tensor *want_tensor) {
    tempo_tensor want = {(tempo_dtype)want_tensor->dtype, want_tensor->rank, want_tensor->dims, NULL,
                         want_tensor->bytes};
    union {
        const void *in;
        void *out;
    } data = {want_tensor->data};
    want.data = data.out;
    bool shape = got->rank == want.rank;
    for (int d = 0; shape && d < got->rank; d++)
        shape = got->dims[d] == want.dims[d];
    if (got->dtype != want.dtype || !shape) {
        snprintf(c->why, sizeof c->why, "output '%s' has another type or shape: rank %d of %s, expected rank %d of %s",
                 name, got->rank, tempo_dtype_text(got->dtype), want.rank, tempo_dtype_text(want.dtype));
        return FAIL;
    }
    if (!is_float(got->dtype))
        return got->bytes == 0 || memcmp(got->data, want.data, got->bytes) == 0 ? PASS : fail(c, "integers differ");
    for (uint64_t i = 0; i < want_tensor->count; i++) {
        double g = run_number(got, i), w = run_number(&want, i);
        if (close_enough(g, w, got->dtype == TEMPO_BFLOAT16 ? RTOL_BFLOAT16 : RTOL))
            continue;
        snprintf(c->why, sizeof c->why, "output '%s' element %llu: got %.9g, expected %.9g", name,
                 (unsigned long long)i, g, w);
        return FAIL;
    }
    return PASS;
}

/* --- one data set ----------------------------------------------------------------------------- */

static bool exists(const char *path) { return access(path, R_OK) == 0; }

static verdict read_tensor(test_case *c, const char *set, const char *kind, size_t j, tc_tensor **out_tensor) {
    const char *path = tc_arena_printf(c->ctx->arena, "%s/%s_%zu.pb", set, kind, j);
    *out_tensor = NULL;
    if (!exists(path))
        return PASS;
    if (tc_read_tensor_file(c->ctx, c->tensors, path, out_tensor) == TC_OK)
        return PASS;
    snprintf(c->why, sizeof c->why, "%s", c->ctx->n_diags ? c->ctx->diags[0].message : path);
    return FAIL;
}

static verdict bind_inputs(test_case *c, const char *set) {
    tempo_info info;
    for (size_t j = 0; tempo_input(c->session, j, &info); j++) {
        tc_tensor *tensor;
        if (read_tensor(c, set, "input", j, &tensor) != PASS)
            return FAIL;
        if (!tensor)
            continue;
        union {
            const void *in;
            void *out;
        } data = {tensor->data};
        tempo_tensor bound = {(tempo_dtype)tensor->dtype, tensor->rank, tensor->dims, data.out, tensor->bytes};
        tempo_status status = tempo_bind(c->session, info.name, &bound);
        if (status != TEMPO_OK)
            return from_session(c, status);
    }
    return PASS;
}

static verdict run_set(test_case *c, const char *set) {
    verdict v = bind_inputs(c, set);
    tempo_status status = v == PASS ? tempo_run(c->session) : TEMPO_OK;
    if (v != PASS || status != TEMPO_OK)
        return v != PASS ? v : from_session(c, status);
    tempo_info info;
    for (size_t j = 0; tempo_output_info(c->session, j, &info) && v == PASS; j++) {
        tc_tensor *want;
        tempo_tensor got;
        if (read_tensor(c, set, "output", j, &want) != PASS || !want)
            return c->why[0] ? FAIL : fail(c, "an expected output is missing");
        status = tempo_output(c->session, info.name, &got);
        v = status != TEMPO_OK ? from_session(c, status) : compare(c, info.name, &got, want);
    }
    return v;
}

/* --- one case --------------------------------------------------------------------------------- */

/* Sequences, strings and narrow types are no tensors of the runtime. */
static bool runs_types(test_case *c) {
    tempo_info info;
    for (size_t i = 0; tempo_input(c->session, i, &info) || tempo_output_info(c->session, i, &info); i++) {
        if (tempo_input(c->session, i, &info) && tempo_dtype_size(info.dtype) == 0)
            return false;
        if (tempo_output_info(c->session, i, &info) && tempo_dtype_size(info.dtype) == 0)
            return false;
    }
    return true;
}

static verdict run_case(test_case *c, const run_options *o) {
    const char *model = tc_arena_printf(c->ctx->arena, "%s/model.onnx", c->folder);
    tempo_status status = rt_open(model, &o->session, &o->hooks, &c->session);
    if (status != TEMPO_OK)
        return from_session(c, status);
    if (!runs_types(c)) {
        fail(c, "an input or output is of a type that the runtime does not hold");
        return UNSUPPORTED;
    }
    c->tensors = tc_model_create();
    verdict v = PASS;
    int sets = 0;
    for (; v == PASS; sets++) {
        const char *set = tc_arena_printf(c->ctx->arena, "%s/test_data_set_%d", c->folder, sets);
        if (!exists(set))
            break;
        v = run_set(c, set);
    }
    return sets > 0 ? v : fail(c, "there is no test_data_set_0");
}

static verdict try_case(const run_options *o, const char *folder, const char *name) {
    tc_ctx ctx;
    tc_ctx_init(&ctx, "tempo-run");
    test_case c = {.ctx = &ctx, .folder = folder, .name = name};
    verdict v = run_case(&c, o);
    printf("%s %s%s%s\n", words[v], name, v == PASS ? "" : ": ", v == PASS ? "" : c.why);
    tempo_close(c.session);
    tc_model_destroy(c.tensors);
    tc_ctx_fini(&ctx);
    return v;
}

/* --- folders ---------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static const char **list_cases(tc_ctx *ctx, DIR *dir, const char *folder, size_t *out_n) {
    const char **names = NULL;
    size_t cap = 0, n = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.' || !exists(tc_arena_printf(ctx->arena, "%s/%s/model.onnx", folder, entry->d_name)))
            continue;
        names = tc_arena_grow(ctx->arena, names, sizeof *names, &cap, n + 1);
        names[n++] = tc_arena_strdup(ctx->arena, entry->d_name);
    }
    if (n > 0)
        qsort(names, n, sizeof *names, by_name);
    *out_n = n;
    return names;
}

tc_status run_cases(tc_ctx *ctx, const run_options *o) {
    const char *folder = o->test_data;
    size_t counts[3] = {0}, n = 0;
    DIR *dir = opendir(folder);
    if (!dir)
        return tc_error(ctx, TC_IO, NULL, "cannot read the folder '%s': %s", tc_quote(ctx, folder), strerror(errno));
    if (exists(tc_arena_printf(ctx->arena, "%s/model.onnx", folder))) {
        const char *slash = strrchr(folder, '/');
        counts[try_case(o, folder, slash && slash[1] ? slash + 1 : folder)]++;
    } else {
        const char **names = list_cases(ctx, dir, folder, &n);
        for (size_t i = 0; i < n; i++)
            counts[try_case(o, tc_arena_printf(ctx->arena, "%s/%s", folder, names[i]), names[i])]++;
    }
    closedir(dir);
    if (counts[PASS] + counts[FAIL] + counts[UNSUPPORTED] == 0)
        return tc_error(ctx, TC_BAD_INPUT, NULL, "'%s' holds no test case: no model.onnx in it or in its folders",
                        tc_quote(ctx, folder));
    printf("%zu passed, %zu failed, %zu unsupported\n", counts[PASS], counts[FAIL], counts[UNSUPPORTED]);
    return counts[FAIL] ? TC_MISMATCH : TC_OK;
}
