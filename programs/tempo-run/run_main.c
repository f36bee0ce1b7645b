/* run_main.c: the runtime's command line: reads a model and an .npz file of inputs, writes an .npz file of outputs.
 * This file joins the runtime and the passes: models of any opset are upgraded here. */
#include "passes/upgrade/upgrade.h"
#include "passes/bodies/bodies.h"
#include "compiler/base/base.h"
#include "compiler/cli/cli.h"
#include "passes/pass/pass.h"
#include "run.h"
#include <string.h>
#include <time.h>

#define OPTION(...) TC_OPTION(run_options, __VA_ARGS__),
static const tc_option rows[] = {
#include "run_options.def"
};
#undef OPTION

static const char details[] =
    "tempo-run runs an ONNX graph on the CPU or a GPU: a plain model, or one compiled by tempoc. numpy writes the\n"
    "inputs: numpy.savez(\"batch.npz\", input_ids=ids, labels=labels).\n"
    "\n"
    "examples:\n"
    "  tempo-run train.onnx --inputs batch.npz                        list the outputs, scalars with their values\n"
    "  tempo-run train.onnx --inputs batch.npz --outputs grads.npz    write all outputs\n"
    "  tempo-run train.onnx --inputs batch.npz --memory               print where the bytes are\n"
    "  tempo-run train.onnx --inputs batch.npz --repeat 20            time it\n"
    "  tempo-run train.onnx --inputs batch.npz --profile trace.json   time each node\n"
    "  tempo-run train.onnx --inputs batch.npz --device=cuda          on the first GPU\n"
    "  tempo-run train.onnx --inputs half0.npz --device=cuda:0 --rank=0/2 --group=meet --average='*_grad'\n"
    "                                                                 the first of two GPUs that share a batch\n"
    "  tempo-run --test-data cases                                    run ONNX test cases\n";

static const char footer[] =
    "Exit codes: 0 good, 1 a test case failed, 2 bad or missing input, 3 unsupported, 4 limit or memory,\n"
    "5 input/output, 64 usage, 70 bug in tempo-run.\n";

static const tc_option_table table = {
    .tool = "tempo-run",
    .summary = "runs ONNX graphs",
    .usage = "MODEL.onnx [--inputs IN.npz] [--outputs OUT.npz] [options]",
    .details = details,
    .footer = footer,
    .options = rows,
    .n_options = TC_COUNT(rows),
};

/* --- arguments -------------------------------------------------------------------------------- */

static tc_status parse_dropout_rng(tc_ctx *ctx, run_options *o) {
    o->session.ort_dropout = strcmp(o->dropout_rng, "ort") == 0;
    if (o->session.ort_dropout || strcmp(o->dropout_rng, "tempo") == 0)
        return TC_OK;
    return tc_error(ctx, TC_USAGE, NULL, "--dropout-rng=%s: expected tempo or ort", tc_quote(ctx, o->dropout_rng));
}

static tc_status check_arguments(tc_ctx *ctx, run_options *o, const tc_arguments *arguments) {
    if (o->threads > 4096 || o->repeat < 1 || o->repeat > 1000000)
        return tc_error(ctx, TC_USAGE, NULL, "expected --threads from 0 to 4096, and --repeat from 1 to 1000000");
    o->session.threads = (int)o->threads;
    o->session.check_memory = o->check_memory;
    o->session.tf32 = o->tf32;
    o->session.no_cudnn = o->no_cudnn;
    TC_TRY(tc_seed_option(ctx, o->seed, &o->session.seed));
    TC_TRY(parse_dropout_rng(ctx, o));
    TC_TRY(run_check_ranks(ctx, o));
    if (o->test_data && arguments->count > 0)
        return tc_error(ctx, TC_USAGE, NULL, "--test-data runs the models in its folder: unexpected %s",
                        tc_quote(ctx, arguments->items[0]));
    if (!o->test_data && arguments->count != 1) {
        if (arguments->count == 0)
            tc_error(ctx, TC_USAGE, NULL, "no model given");
        else
            tc_error(ctx, TC_USAGE, NULL, "one model at a time: unexpected %s", tc_quote(ctx, arguments->items[1]));
        tc_hint(ctx, "for example: tempo-run train.onnx --inputs batch.npz; see tempo-run --help");
        return TC_USAGE;
    }
    o->model = o->test_data ? NULL : arguments->items[0];
    const tc_written written[] = {{"--outputs", o->outputs, TC_WRITTEN_ARRAYS},
                                  {"--profile", o->profile, TC_WRITTEN_PROFILE}};
    return tc_written_begin(ctx, written, TC_COUNT(written));
}

/* --- a run ------------------------------------------------------------------------------------ */

tc_status run_failed(const tempo_session *session, tempo_status status) {
    fputs(session ? tempo_message(session) : "tempo-run: error: out of memory\n", stderr);
    return (tc_status)status;
}

static bool has_input(const void *session, const char *name) { return rt_find_input(session, name) != NULL; }

static tc_status bind_inputs(tc_ctx *ctx, tempo_session *session, const rt_npz *inputs) {
    for (size_t i = 0; i < inputs->n; i++) {
        if (inputs->arrays[i].skipped) {
            tc_note(ctx, NULL, "array '%s' is ignored: the model has no input of that name",
                    tc_quote(ctx, inputs->arrays[i].name));
            continue;
        }
        bool is_kept = rt_find_input(session, inputs->arrays[i].name)->kept;
        tempo_status status =
            (is_kept ? tempo_set_state : tempo_bind)(session, inputs->arrays[i].name, &inputs->arrays[i].tensor);
        if (status != TEMPO_OK)
            return run_failed(session, status);
    }
    tc_diags_print(ctx, stderr);
    return TC_OK;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The collector of --profile: a table where FILE ends in .csv, else a trace. Both NULL without it. */
typedef struct profile {
    run_trace *trace;
    run_times *times;
} profile;

static profile begin_profile(tc_ctx *ctx, const char *path, tempo_session *session) {
    profile p = {0};
    size_t length = path ? strlen(path) : 0;
    if (length >= 4 && strcmp(path + length - 4, ".csv") == 0) {
        p.times = run_times_create(ctx->arena);
        tempo_on_event(session, run_times_event, p.times);
    } else if (path) {
        p.trace = run_trace_create(ctx->arena);
        tempo_on_event(session, run_trace_event, p.trace);
    }
    return p;
}

static void next_run(const profile *p) {
    if (p->trace)
        run_trace_next_run(p->trace);
    if (p->times)
        run_times_next_run(p->times);
}

static tc_status write_profile(tc_ctx *ctx, const profile *p, const char *path) {
    return p->times ? run_times_write(ctx, p->times, path) : p->trace ? run_trace_write(ctx, p->trace, path) : TC_OK;
}

/* *out_traced: whether the profile was written. */
static tc_status run_repeatedly(tc_ctx *ctx, const run_options *o, tempo_session *session, tc_status *out_traced) {
    double *seconds = TC_NEW_ARRAY(ctx->arena, double, (size_t)o->repeat);
    tempo_status status = tempo_prepare(session);
    profile p = begin_profile(ctx, o->profile, session);
    for (int64_t i = 0; status == TEMPO_OK && i < o->repeat; i++) {
        double start = now();
        status = tempo_run(session);
        seconds[i] = now() - start;
        next_run(&p);
    }
    tempo_on_event(session, NULL, NULL);
    *out_traced = write_profile(ctx, &p, o->profile);
    if (status != TEMPO_OK)
        return run_failed(session, status);
    if (o->repeat > 1)
        run_print_times(stdout, seconds, (size_t)o->repeat);
    return TC_OK;
}

static tc_status deliver(tc_ctx *ctx, const run_options *o, tempo_session *session) {
    size_t n = 0;
    rt_array *outputs = TC_NEW_ARRAY(ctx->arena, rt_array, tempo_output_count(session) + 1);
    tc_map *seen = tc_map_create(ctx->arena);
    tempo_info info;
    for (size_t i = 0; tempo_output_info(session, i, &info); i++) {
        if (tc_map_get(seen, info.name))
            continue; /* a graph may name a value as its output twice; an archive holds it once */
        tc_map_set(seen, info.name, seen);
        outputs[n].name = info.name;
        tempo_status status = tempo_output(session, info.name, &outputs[n++].tensor);
        if (status != TEMPO_OK)
            return run_failed(session, status);
    }
    if (o->outputs)
        return rt_npz_write(ctx, o->outputs, outputs, n);
    run_print_outputs(stdout, outputs, n);
    return TC_OK;
}

static tc_status run_session(tc_ctx *ctx, const run_options *o, tempo_session *session, const rt_weights *weights,
                             const rt_npz *inputs) {
    TC_TRY(run_join(ctx, o, session));
    TC_TRY(run_bind_weights(ctx, session, weights));
    TC_TRY(bind_inputs(ctx, session, inputs));
    if (o->seed)
        tempo_seed(session, o->session.seed, 0);
    tc_status traced;
    TC_TRY(run_repeatedly(ctx, o, session, &traced));
    tc_status delivered = deliver(ctx, o, session);
    tempo_memory memory;
    if (o->memory && tempo_memory_report(session, &memory) == TEMPO_OK)
        run_print_memory(stdout, &memory);
    if (o->products)
        run_print_products(stdout, session);
    return delivered == TC_OK ? traced : delivered;
}

static tc_status run_model(tc_ctx *ctx, const run_options *o) {
    tempo_session *session;
    rt_npz inputs = {0};
    rt_weights weights = {0};
    tempo_status opened = rt_open(o->model, &o->session, &o->hooks, &session);
    tc_status status = opened == TEMPO_OK ? TC_OK : run_failed(session, opened);
    if (status == TC_OK && o->checkpoint)
        status = rt_weights_open(ctx, o->checkpoint, &weights);
    if (status == TC_OK && o->inputs)
        status = rt_npz_read(ctx, o->inputs, has_input, session, &inputs);
    if (status == TC_OK)
        status = run_session(ctx, o, session, &weights, &inputs);
    if (inputs.arena)
        rt_npz_free(&inputs);
    tempo_close(session);
    if (weights.path)
        rt_weights_close(&weights);
    return status;
}

static tc_status run(tc_ctx *ctx, int argc, char **argv) {
    run_options o = {.hooks = {.upgrade = tc_upgrade_model, .body = tc_body_for}};
    tc_arguments arguments;
    TC_TRY(tc_options_parse(ctx, &table, argc, argv, stdout, &o, &arguments));
    if (arguments.done)
        return TC_OK;
    if (o.list_devices) {
        run_list_devices(stdout);
        return TC_OK;
    }
    TC_TRY(rt_find_device(ctx, o.device, &o.hooks.device, &o.hooks.device_number));
    if (o.list_kernels) {
        run_list_kernels(stdout, o.hooks.device->kind);
        return TC_OK;
    }
    TC_TRY(check_arguments(ctx, &o, &arguments));
    return o.test_data ? run_cases(ctx, &o) : run_model(ctx, &o);
}

int main(int argc, char **argv) {
    tc_program_one_heap();
    return tc_program("tempo-run", run, argc, argv);
}
