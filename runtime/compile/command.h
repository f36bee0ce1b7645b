/* command.h: a command line of tempoc as a value: the options that tempoc and tempo_compile (tempo.h) share, and the
 * work that they ask for. */
#ifndef TC_COMMAND_H
#define TC_COMMAND_H
#include "compiler/base/base.h"
#include "compiler/cli/cli.h"
#include "fit_batch.h"
#include "target.h"

typedef struct tc_command {
    tc_options options;
    const char *input, *output, *emit, *report, *target_name, *names, *checkpoint;
    const tc_target *target;
    tc_fitting fit;
    int64_t verify_seed, threads;
    bool quiet, verbose, verify, merge;
    bool list_passes, list_rules, check_rules; /* of tempoc alone */
} tc_command;

extern const tc_option_table tc_command_table; /* its target is a tc_command, all zero */

/* The options go together, and name what there is: TC_USAGE else, before any file is touched. */
tc_status tc_command_check(tc_ctx *ctx, tc_command *command);
/* The files that the command writes: -o and --report. */
#define TC_COMMAND_WRITES 2
void tc_command_written(const tc_command *command, tc_written out[TC_COMMAND_WRITES]);
/* The compiled model is written as text. */
bool tc_command_emits_text(const tc_command *command);

/* Where the results go, beside the files that the command names; each may be NULL but `text`. */
typedef struct tc_command_results {
    FILE *text;  /* lines for a reader: the report, unless -q; tables of --fit, --stats and others */
    FILE *dumps; /* tc_pass_env's */
    FILE *model; /* the compiled model */
    FILE *json;  /* the report */
    const tc_watcher *watcher;
} tc_command_results;

/* Compiles the model in `file`, as often as the options ask for. A model is written also where the report or --verify
 * fails; the status is the exit code of tempoc. command_run.c */
tc_status tc_command_run(tc_ctx *ctx, const tc_command *command, const tc_file *file, const tc_command_results *to);
#endif
