/* options.h: command lines from tables. A tool lists its options once, in an X-macro file, and gets the parser, --help,
 * --version, --no-x for switches, a suggestion for each misspelt name, its man page and its completion from it:
 *
 *     #define OPTION(...) TC_OPTION(run_options, __VA_ARGS__),
 *     static const tc_option rows[] = {
 *     #include "run_options.def"
 *     };
 *
 * The field's C type follows from the kind, below. `count` is the size_t field of a LIST or TAGGED and `field` again
 * for other kinds. Rows of one group stand together: the group's name is its heading in --help. USUAL rows are those
 * that --help shows; --help=all shows the RARE ones, too. */
#ifndef TC_OPTIONS_H
#define TC_OPTIONS_H
#include "compiler/base/base.h"
#include <stddef.h>
#include <stdint.h>

typedef enum tc_option_kind {
    TC_OPT_SWITCH,  /* bool; --name and --no-name, or --name=on, off and their like (quantity.h) */
    TC_OPT_STRING,  /* const char *, borrowed from argv; the last one given counts */
    TC_OPT_INT,     /* int64_t */
    TC_OPT_COUNT,   /* int64_t >= 0 */
    TC_OPT_NUMBER,  /* double, finite */
    TC_OPT_BYTES,   /* uint64_t > 0; 4096, 12GiB, 1.5G, 16GB */
    TC_OPT_SECONDS, /* double, not negative; 90, 90s, 2m, 1.5h */
    TC_OPT_LIST,    /* const char ** in the context's arena, and its size_t count; may be given several times */
    TC_OPT_TAGGED,  /* the same, items as "name=value": options that share a list keep the order between them */
} tc_option_kind;

typedef enum tc_option_shown { TC_OPT_USUAL, TC_OPT_RARE } tc_option_shown;

typedef struct tc_option {
    tc_option_shown shown;
    tc_option_kind kind;
    const char *name;      /* without dashes */
    char letter;           /* 'o' for -o; 0: none */
    const char *argument;  /* "FILE"; NULL for switches */
    const char *otherwise; /* the default as it would be written, set by the parser and shown in --help; NULL: field
                              untouched */
    const char *group;
    const char *help; /* one or two sentences: lower case, no period at the end */
    size_t offset, count_offset;
} tc_option;

/* A row of such a file as a tc_option; `type` has the fields. */
#define TC_OPTION(type, shown, kind, field, count, name, letter, argument, otherwise, group, help)                     \
    {                                                                                                                  \
        TC_OPT_##shown, TC_OPT_##kind, name, letter, argument, otherwise, group, help, offsetof(type, field),          \
            offsetof(type, count)                                                                                      \
    }

typedef struct tc_option_table {
    const char *tool;    /* "tempoc" */
    const char *summary; /* the tool's purpose, one line */
    const char *usage;   /* "IN.onnx -o OUT.onnx [options]" */
    const char
        *details; /* further text of --help, printed as it is between usage and options: examples first; or NULL */
    const char *footer; /* printed as it is at the end of --help: exit codes, further reading; or NULL */
    const tc_option *options;
    size_t n_options;
} tc_option_table;

typedef struct tc_arguments {
    const char **items; /* the words that are no options, in order */
    size_t count;
    bool done; /* --help or --version was given and answered: leave with exit code 0 */
} tc_arguments;

/* Sets defaults, then parses argv[1..argc) into the fields of `target`. Accepts --x=V, --x V, -oV, -o V, --x, --no-x
 * and "--", after which nothing is an option; "-" is an argument. Every mistake adds an error; TC_USAGE when there was
 * one. --help and --version are answered on `answers`. */
tc_status tc_options_parse(tc_ctx *ctx, const tc_option_table *table, int argc, char **argv, FILE *answers,
                           void *target, tc_arguments *out_arguments);
/* A seed as text: decimal, hexadecimal after 0x or octal after 0, from 0 to 2^64 - 1, TC_USAGE else; NULL leaves
 * *out_seed as it is. */
tc_status tc_seed_option(tc_ctx *ctx, const char *text, uint64_t *out_seed);
/* The usual options, or all. */
void tc_options_help(const tc_option_table *table, bool all, FILE *out);
/* What --help=table prints, the source of man pages and completion (docs/meson.build): a row per option, --help and
 * --version included, of group, name, letter, argument, default and help between tabs; a missing field is empty. */
void tc_options_table(const tc_option_table *table, FILE *out);

/* The nearest of several names to a misspelt one: begin, offer each, read `best` (NULL: nothing near enough to
 * suggest). */
typedef struct tc_nearest {
    const char *word, *best;
    size_t distance;
} tc_nearest;
void tc_nearest_begin(tc_nearest *nearest, const char *word);
void tc_nearest_offer(tc_nearest *nearest, const char *name);
#endif
