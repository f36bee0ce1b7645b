/* train_main.c: the trainer's command line. Every mistake that can be known before the work starts is reported before
 * it starts; the exit code is the status (compiler/base/diag.h), or 128 and the number of the signal that ended it. */
#include "passes/pipeline/pipeline.h"
#include "passes/upgrade/upgrade.h"
#include "passes/bodies/bodies.h"
#include "compiler/base/base.h"
#include "compiler/cli/cli.h"
#include "runtime/compile/adapter_file.h"
#include "train.h"
#include <float.h>
#include <inttypes.h>
#include <string.h>

#define OPTION(...) TC_OPTION(train_options, __VA_ARGS__),
static const tc_option rows[] = {
#include "train_options.def"
};
#undef OPTION

static const char details[] =
    "The default, recipe tiled, suits most models. If a run still does not fit, say how much memory there is\n"
    "(--memory-budget=12GiB), or add up the gradients of several smaller batches (--batch 8 --accumulate 4).\n"
    "\n"
    "tempo-train trains the weights of an ONNX model: of a plain model with a loss, which it compiles first, or of\n"
    "a model compiled by tempoc. numpy writes the data:\n"
    "numpy.savez(\"train.npz\", input_ids=ids, attention_mask=mask, labels=labels).\n"
    "\n"
    "examples:\n"
    "  tempo-train model.onnx --data train.npz --save trained.onnx           fine-tune for one epoch with AdamW\n"
    "  tempo-train model.onnx --data train.npz --eval-data eval.npz --batch 32 --epochs 3 --lr 3e-5 --warmup 6%\n"
    "                                                                        evaluate after each epoch\n"
    "  tempo-train model.onnx --data train.npz --checkpoint run --resume     stop and continue by the same line\n"
    "  tempo-train model.onnx --data train.npz --save-weights w.safetensors  for PyTorch's load_state_dict\n"
    "  tempo-train model.onnx --data train.npz --batch 32 --dim sequence=128 --memory-budget=40%\n"
    "                                                                        in less memory, with the same bits\n"
    "  mpirun -n 4 tempo-train model.onnx --data train.npz --batch 8         four processes, 32 samples an update\n";

static const char footer[] =
    "Exit codes: 0 good, 2 bad or missing input, 3 unsupported, 4 limit or memory, 5 input/output, 6 NaN or infinity,\n"
    "64 usage, 70 bug in tempo-train, 128 + N ended by signal N after a whole update: 143 by SIGTERM. A process of\n"
    "mpirun also exits with 5 if another one ended.\n";

const tc_option_table train_option_table = {
    .tool = "tempo-train",
    .summary = "trains ONNX models",
    .usage = "MODEL.onnx --data TRAIN.npz [--eval-data EVAL.npz] [--save OUT.onnx] [options]",
    .details = details,
    .footer = footer,
    .options = rows,
    .n_options = TC_COUNT(rows),
};

/* --- optimizers ----------------------------------------------------------------------------------- */

/* The defaults of each optimizer. */
static const struct {
    const char *name;
    double rate;
} optimizers[] = {{"adamw", 5e-5}, {"adam", 5e-5}, {"sgd", 1e-2}, {"lamb", 1e-3}};

#define UNSET DBL_MAX /* no rate was given */

/* The pipeline checks the optimizer's other options. */
static tc_status check_optimizer(tc_ctx *ctx, train_options *o) {
    double usual = optimizers[0].rate;
    for (size_t i = 0; i < TC_COUNT(optimizers); i++)
        if (strcmp(optimizers[i].name, o->options.update.optimizer) == 0)
            usual = optimizers[i].rate;
    o->rate = o->rate == UNSET ? usual : o->rate;
    o->options.update.accumulate = o->accumulate > 1;
    o->options.update.option = "optimizer";
    if (o->rate < 0)
        return tc_error(ctx, TC_USAGE, NULL, "--lr=%g: expected a number that is not negative", o->rate);
    return TC_OK;
}

/* --- arguments ------------------------------------------------------------------------------------ */

static tc_status check_numbers(tc_ctx *ctx, const train_options *o) {
    const struct {
        const char *option;
        int64_t value;
    } counts[] = {{"accumulate", o->accumulate}, {"steps", o->steps},
                  {"epochs", o->epochs},         {"pack", o->pack},
                  {"max-length", o->max_length}, {"pad-multiple", o->pad_multiple},
                  {"bucket", o->bucket}};
    if (o->threads > 4096)
        return tc_error(ctx, TC_USAGE, NULL, "--threads: expected a number from 0 to 4096");
    if (o->accumulate < 1 || o->keep < 2)
        return tc_error(ctx, TC_USAGE, NULL, "expected --accumulate of 1 or more, and --keep of 2 or more");
    for (size_t i = 0; i < TC_COUNT(counts); i++)
        if (counts[i].value > TRAIN_MOST)
            return tc_error(ctx, TC_USAGE, NULL, "--%s=%" PRId64 ": expected at most %" PRId64, counts[i].option,
                            counts[i].value, TRAIN_MOST);
    if (o->steps == 0 && o->epochs == 0)
        return tc_error(ctx, TC_USAGE, NULL, "--epochs and --steps are both 0: there is nothing to do");
    if (!o->checkpoint && (o->resume || o->checkpoint_every > 0)) {
        tc_error(ctx, TC_USAGE, NULL, "%s needs --checkpoint", o->resume ? "--resume" : "--checkpoint-every");
        tc_hint(ctx, "for example: --checkpoint run --resume");
        return TC_USAGE;
    }
    if (o->options.recipe && strcmp(o->options.recipe, "auto") == 0) {
        tc_error(ctx, TC_USAGE, NULL, "--recipe=auto works in tempoc only");
        tc_hint(ctx, "compile with tempoc %s -o train.onnx --recipe=auto, then train train.onnx", o->model);
        return TC_USAGE;
    }
    return TC_OK;
}

static tc_status check_model(tc_ctx *ctx, train_options *o, const tc_arguments *arguments) {
    if (arguments->count == 1 && o->data_path) {
        o->model = arguments->items[0];
        return TC_OK;
    }
    if (arguments->count > 1)
        tc_error(ctx, TC_USAGE, NULL, "one model at a time: unexpected %s", tc_quote(ctx, arguments->items[1]));
    else
        tc_error(ctx, TC_USAGE, NULL, arguments->count < 1 ? "no model given" : "no data given: --data=FILE");
    tc_hint(ctx, "for example: tempo-train model.onnx --data train.npz; see tempo-train --help");
    return TC_USAGE;
}

static tc_status check_arguments(tc_ctx *ctx, train_options *o, const tc_arguments *arguments) {
    TC_TRY(check_model(ctx, o, arguments));
    TC_TRY(check_numbers(ctx, o));
    TC_TRY(check_optimizer(ctx, o));
    TC_TRY(train_schedule_find(ctx, o->schedule_name, &o->schedule));
    TC_TRY(tc_seed_option(ctx, o->seed, &o->session.seed));
    o->options.init_seed = (int64_t)o->session.seed;
    TC_TRY(tc_pipeline_check(ctx, &o->options));
    o->session.threads = (int)o->threads;
    o->session.check_memory = o->check_memory;
    o->session.tf32 = o->tf32;
    o->options.drop_predictions = true;
    if (o->rank_timeout <= 0)
        return tc_error(ctx, TC_USAGE, NULL, "--rank-timeout: expected seconds above 0");
    return rt_find_device(ctx, o->device, &o->hooks.device, &o->hooks.device_number);
}

/* --- files ---------------------------------------------------------------------------------------- */

static tc_status check_files(tc_ctx *ctx, const train_options *o) {
    tc_written adapter[TRAIN_ADAPTER_WRITES];
    train_adapter_written(ctx->arena, o, adapter);
    const tc_written written[] = {{"--save", o->save, TC_WRITTEN_MODEL},
                                  {"--save-inference", o->save_inference, TC_WRITTEN_MODEL},
                                  {"--save-weights", o->save_weights, TC_WRITTEN_WEIGHTS},
                                  adapter[0],
                                  adapter[1],
                                  {"--log", o->log, TC_WRITTEN_LOG}};
    return tc_written_begin(ctx, written, TC_COUNT(written));
}

/* Rank 0 writes for all. */
static void take_ranks(train_options *o, train_ranks *ranks) {
    o->ranks = ranks;
    if (o->threads == 0)
        o->session.threads = ranks->threads;
    if (ranks->rank == 0)
        return;
    o->save = o->save_inference = o->save_weights = o->save_adapter = o->log = o->tensorboard = NULL;
    o->quiet = true;
}

static tc_status train_model(tc_ctx *ctx, const train_options *o) {
    tc_file file;
    tc_held held;
    ctx->file = o->model;
    TC_TRY(tc_file_open(ctx, o->model, &file));
    tc_file_hold(&file, &held);
    const train_source from = {o, &file};
    tc_status status = train_settings_agree(ctx, o, &file);
    if (status == TC_OK)
        status = train_run_all(ctx, &from);
    tc_let_go(&held);
    tc_file_close(&file);
    return status;
}

static tc_status train(tc_ctx *ctx, train_options *o) {
    tc_adapter_file adapter;
    TC_TRY(check_files(ctx, o));
    TC_TRY(tc_adapter_open(ctx, &o->options, &adapter));
    tc_status status = train_model(ctx, o);
    tc_adapter_close(&adapter);
    return status;
}

/* Before the first file: the command line, and the other ranks. */
static tc_status get_ready(tc_ctx *ctx, int argc, char **argv, train_options *o, bool *out_done) {
    static train_ranks ranks;
    tc_arguments arguments;
    TC_TRY(tc_options_parse(ctx, &train_option_table, argc, argv, stdout, o, &arguments));
    *out_done = arguments.done;
    if (arguments.done)
        return TC_OK;
    TC_TRY(check_arguments(ctx, o, &arguments));
    train_signals_begin();
    TC_TRY(train_ranks_begin(ctx, o->rank_timeout, &ranks));
    take_ranks(o, &ranks);
    o->options.counting = o->accumulate > 1 || ranks.ranks > 1 ? TC_COUNT_SHARE : TC_COUNT_NOT;
    return TC_OK;
}

static tc_status run(tc_ctx *ctx, int argc, char **argv) {
    train_options o = {
        .hooks = {.upgrade = tc_upgrade_model, .body = tc_body_for}, .shuffle = true, .accumulate = 1, .rate = UNSET};
    bool is_done = false;
    tc_status status = get_ready(ctx, argc, argv, &o, &is_done);
    if (status != TC_OK)
        train_ranks_refuse(ctx);
    return status != TC_OK || is_done ? status : train_ranks_end(ctx, o.ranks, train(ctx, &o));
}

int main(int argc, char **argv) {
    tc_program_one_heap();
    return tc_program("tempo-train", run, argc, argv);
}
