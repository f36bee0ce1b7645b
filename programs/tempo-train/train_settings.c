/* train_settings.c: options that change results, as lines of text "option NAME=VALUE". A run that goes on and the ranks
 * of one run are compared by them. Every option counts but those listed here. */
#include "compiler/cli/cli.h"
#include "compiler/text/text.h"
#include "train_run.h"
#include <inttypes.h>
#include <string.h>

/* Options that do not change results; data, seed and plan are compared separately. */
static const char *const ignored[] = {
    "data",           "eval-data",     "seed",           "checkpoint",  "checkpoint-every",
    "keep",           "resume",        "save",           "log",         "save-weights",
    "save-inference", "save-adapter",  "adapter-prefix", "tensorboard", "print-every",
    "eval-every",     "quiet",         "device",         "threads",     "rank-timeout",
    "check-memory",   "memory-budget", "remat-time",     "merge",
};

static bool is_ignored(const char *name) {
    for (size_t i = 0; i < TC_COUNT(ignored); i++)
        if (strcmp(ignored[i], name) == 0)
            return true;
    return false;
}

static const char *list_text(tc_arena *arena, const char *const *items, size_t n) {
    const char *text = "";
    for (size_t i = 0; i < n; i++)
        text = tc_arena_printf(arena, "%s%s%s", text, i > 0 ? " " : "", items[i]);
    return text;
}

static const char *value_text(tc_arena *arena, const train_options *o, const tc_option *row) {
    const void *at = (const char *)o + row->offset;
    char number[TC_NUMBER_TEXT];
    switch (row->kind) {
    case TC_OPT_SWITCH: return *(const bool *)at ? "on" : "off";
    case TC_OPT_STRING: return *(const char *const *)at ? *(const char *const *)at : "";
    case TC_OPT_NUMBER: tc_double_text(*(const double *)at, number); return tc_arena_strdup(arena, number);
    case TC_OPT_LIST:
    case TC_OPT_TAGGED:
        return list_text(arena, *(const char *const *const *)at,
                         *(const size_t *)(const void *)((const char *)o + row->count_offset));
    default: return tc_arena_printf(arena, "%" PRId64, *(const int64_t *)at);
    }
}

/* A value in one line. */
static const char *add_line(tc_arena *arena, const char *text, const char *name, const char *value) {
    char *line = tc_arena_strdup(arena, value);
    for (char *c = strchr(line, '\n'); c; c = strchr(c, '\n'))
        *c = ' ';
    return tc_arena_printf(arena, "%s" TRAIN_SETTING "%s=%s\n", text, name, line);
}

const char *train_settings_text(tc_arena *arena, const train_options *o) {
    const char *text = "";
    size_t shared = 0;
    for (size_t i = 0; i < train_option_table.n_options; i++) {
        const tc_option *row = &train_option_table.options[i];
        bool tagged = row->kind == TC_OPT_TAGGED; /* several share a list, whose items have their names */
        if (!is_ignored(row->name) && !(tagged && row->offset == shared))
            text = add_line(arena, text, tagged ? "" : row->name, value_text(arena, o, row));
        shared = tagged ? row->offset : shared;
    }
    return text;
}

/* The next line: its name and value. False: there is none. */
static bool next_line(tc_arena *arena, const char **text, const char **name, const char **value) {
    const size_t skipped = strlen(TRAIN_SETTING);
    const char *equals = strchr(*text, '='), *end = strchr(*text, '\n');
    if (!end || !equals || strncmp(*text, TRAIN_SETTING, skipped) != 0)
        return false;
    *name = tc_arena_strndup(arena, *text + skipped, (size_t)(equals - *text) - skipped);
    *value = tc_arena_strndup(arena, equals + 1, (size_t)(end - equals - 1));
    *text = end + 1;
    return true;
}

const char *train_settings_differ(tc_ctx *ctx, const char *own, const char *other, const char *was) {
    tc_arena *arena = ctx->arena;
    const char *text = "", *name, *value, *found, *old;
    while (next_line(arena, &own, &name, &value)) {
        const char *at = other;
        while (next_line(arena, &at, &found, &old))
            if (strcmp(found, name) == 0 && strcmp(old, value) != 0)
                text = tc_arena_printf(arena, "%s%s--%s%s%s (%s %s)", text, *text ? ", " : "", name, *name ? "=" : "",
                                       tc_quote(ctx, value), was, *old ? tc_quote(ctx, old) : "none");
    }
    return *text ? text : NULL;
}

/* Rank 0's text. */
static tc_status first_text(tc_ctx *ctx, train_ranks *ranks, const char *own, const char **out) {
    size_t n = strlen(own);
    TC_TRY(train_ranks_take_first(ctx, ranks, &n, sizeof n));
    char *text = tc_arena_alloc(ctx->arena, n + 1, 1);
    memset(text, 0, n + 1);
    if (ranks->rank == 0)
        memcpy(text, own, n);
    *out = text;
    return train_ranks_take_first(ctx, ranks, text, n);
}

tc_status train_settings_agree(tc_ctx *ctx, const train_options *o, const tc_file *file) {
    const char *first, *text, *differs;
    if (o->ranks->ranks == 1)
        return TC_OK;
    text = train_settings_text(ctx->arena, o);
    text = add_line(ctx->arena, text, "seed", tc_arena_printf(ctx->arena, "%" PRIu64, o->session.seed));
    TC_TRY(first_text(ctx, o->ranks, text, &first));
    differs = train_settings_differ(ctx, text, first, "rank 0:");
    const uint64_t hash = tc_hash_bytes(file->data, file->size, 0);
    uint64_t of_first = hash;
    TC_TRY(train_ranks_take_first(ctx, o->ranks, &of_first, sizeof of_first));
    if (!differs && of_first == hash)
        return TC_OK;
    if (differs)
        tc_error(ctx, TC_USAGE, NULL, "rank %d of %d was started with other options than rank 0: %s", o->ranks->rank,
                 o->ranks->ranks, differs);
    else
        tc_error(ctx, TC_USAGE, NULL, "rank %d of %d was started with another model than rank 0", o->ranks->rank,
                 o->ranks->ranks);
    tc_hint(ctx, "start all ranks by one command line: mpirun -n %d tempo-train ...", o->ranks->ranks);
    return TC_USAGE;
}
