/* command.c: the options of tempoc and tempo_compile, and whether they go together. */
#include "command.h"
#include "passes/pipeline/pipeline.h"
#include "passes/budget/node_cost.h"
#include <string.h>

#define OPTION(...) TC_OPTION(tc_command, __VA_ARGS__),
static const tc_option option_rows[] = {
#include "tempoc_options.def"
};
#undef OPTION

static const char details[] =
    "The default, recipe tiled, suits most models. If a run still does not fit, say how much memory there is:\n"
    "--memory-budget=12GiB.\n"
    "\n"
    "tempoc reads an ONNX model with a loss, works out its backward pass, and writes one graph with the model's\n"
    "outputs and a gradient W_grad for each trained initializer W. tempo-run runs it; tempo-train trains with it.\n"
    "\n"
    "examples:\n"
    "  tempoc model.onnx                                   check the model, and report what training it takes\n"
    "  tempoc model.onnx -o train.onnx --dim batch=32      compile it for batches of 32\n"
    "  tempoc model.onnx -o train.onnx --freeze='*embed*'  do not train the embeddings\n"
    "  tempoc model.onnx -o train.onnx --fit=16GiB         compile it for the largest batch that fits\n"
    "  tempoc model.onnx --dim batch=32 --report=mem.html  see which tensors are saved, and why\n"
    "  tempoc model.onnx --dim batch=4 --verify            compare gradients with those of the plain graph\n"
    "  tempoc model.onnx -o - --emit=text | less           read the compiled graph\n";

static const char footer[] =
    "Exit codes: 0 good, 1 mismatch, 2 bad input, 3 unsupported, 4 limit or memory, 5 input/output,\n"
    "6 NaN or infinity, 64 usage, 70 bug in tempoc. IN.onnx may be ONNX text, and \"-\" is standard input.\n";

const tc_option_table tc_command_table = {
    .tool = "tempoc",
    .summary = "compiles ONNX models for training",
    .usage = "IN.onnx [-o OUT.onnx] [options]",
    .details = details,
    .footer = footer,
    .options = option_rows,
    .n_options = TC_COUNT(option_rows),
};

bool tc_command_emits_text(const tc_command *c) {
    return c->emit ? strcmp(c->emit, "text") == 0 : c->output && tc_ends_with(c->output, ".onnxt");
}

void tc_command_written(const tc_command *c, tc_written out[TC_COMMAND_WRITES]) {
    out[0] = (tc_written){"-o", c->output, TC_WRITTEN_MODEL};
    out[1] = (tc_written){"--report", c->report, TC_WRITTEN_REPORT};
}

tc_status tc_command_check(tc_ctx *ctx, tc_command *c) {
    if (c->threads > 4096)
        return tc_error(ctx, TC_USAGE, NULL,
                        "--threads: expected a number from 0 to 4096; 0: as the file says, or else 16");
    if (c->emit && strcmp(c->emit, "onnx") != 0 && strcmp(c->emit, "text") != 0)
        return tc_error(ctx, TC_USAGE, NULL, "--emit=%s: expected onnx or text", tc_quote(ctx, c->emit));
    c->options.torch_names = strcmp(c->names, "pytorch") == 0;
    if (!c->options.torch_names && strcmp(c->names, "file") != 0)
        return tc_error(ctx, TC_USAGE, NULL, "--names=%s: expected file or pytorch", tc_quote(ctx, c->names));
    if (c->report && !tc_ends_with(c->report, ".json") && !tc_ends_with(c->report, ".html"))
        return tc_error(ctx, TC_USAGE, NULL, "--report=%s: expected a file name that ends in .json or .html",
                        tc_quote(ctx, c->report));
    if (c->merge && !c->options.lora_from) {
        tc_error(ctx, TC_USAGE, NULL, "--merge needs --lora-from");
        tc_hint(ctx, "for example: tempoc model.onnx --lora-from adapter --merge -o merged.onnx");
        return TC_USAGE;
    }
    c->fit.threads = c->threads;
    TC_TRY(tc_fit_check(ctx, &c->fit, c->options.dims, c->options.n_dims));
    if (c->fit.memory && (c->options.passes || c->options.pareto))
        return tc_error(ctx, TC_USAGE, NULL, "--fit cannot be combined with --passes or --pareto");
    if (c->options.update.optimizer && (c->fit.memory || c->verify)) {
        tc_error(ctx, TC_USAGE, NULL, "--update cannot be combined with --%s", c->verify ? "verify" : "fit");
        tc_hint(ctx, "%s",
                c->verify
                    ? "leave --update out to verify the gradients"
                    : "--fit counts the state of --optimizer; compile again with --update and the batch found (--dim)");
        return TC_USAGE;
    }
    bool is_auto = !c->options.passes && c->options.recipe && strcmp(c->options.recipe, "auto") == 0;
    if (is_auto && (c->fit.memory || c->options.memory_budget || c->options.pareto)) {
        tc_error(ctx, TC_USAGE, NULL, "--recipe=auto cannot be combined with --fit, --memory-budget or --pareto");
        tc_hint(ctx, "a memory budget chooses rewrites itself, node by node, under any recipe but none");
        return TC_USAGE;
    }
    if (c->options.machine)
        TC_TRY(tc_machine_check(ctx, c->options.machine));
    const char *otherwise = c->options.passes ? "onnx" : "cpu";
    TC_TRY(tc_target_find(ctx, c->target_name ? c->target_name : otherwise, &c->target));
    c->options.init_seed = c->options.remat_seed;
    return tc_pipeline_check(ctx, &c->options);
}
