/* options.c: turns tables of options into a parser and a help page (options.h). Mistakes are collected: one run shows
 * all of them. A misspelt name is answered with the nearest one by edit distance. */
#include "options.h"
#include "compiler/base/base.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HELP_COLUMN 30
#define HELP_WIDTH 100
#define NAME_LIMIT 48 /* names beyond this length are not compared */

static size_t minimum(size_t a, size_t b) { return a < b ? a : b; }

static int lower(char c) { return tolower((unsigned char)c); }

/* Edits (insert, delete, replace, swap two neighbours) that turn a into b but for case; both at most NAME_LIMIT long.
 */
static size_t edit_distance(const char *a, const char *b) {
    size_t na = strlen(a), nb = strlen(b);
    size_t rows[3][NAME_LIMIT + 1];
    size_t *before = rows[0], *last = rows[1], *now = rows[2];
    for (size_t j = 0; j <= nb; j++)
        last[j] = j;
    for (size_t i = 1; i <= na; i++) {
        now[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            now[j] = minimum(minimum(last[j], now[j - 1]) + 1, last[j - 1] + (lower(a[i - 1]) != lower(b[j - 1])));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = minimum(now[j], before[j - 2] + 1);
        }
        size_t *spare = before;
        before = last;
        last = now;
        now = spare;
    }
    return last[nb];
}

void tc_nearest_begin(tc_nearest *nearest, const char *word) {
    /* A third of the letters may differ: more than that and the suggestion would puzzle. */
    *nearest = (tc_nearest){.word = word, .distance = (strlen(word) + 2) / 3 + 1};
}

void tc_nearest_offer(tc_nearest *nearest, const char *name) {
    if (strlen(nearest->word) > NAME_LIMIT || strlen(name) > NAME_LIMIT)
        return;
    size_t distance = edit_distance(nearest->word, name), n_word = strlen(nearest->word), n_name = strlen(name);
    /* A name that was cut short (--rec) or continued (--batch-size) is the last that is near enough. */
    bool begins = (n_word >= 3 && strncmp(nearest->word, name, n_word) == 0) ||
                  (strncmp(nearest->word, name, n_name) == 0 && nearest->word[n_name] == '-');
    if (distance >= nearest->distance && begins && !nearest->best)
        distance = nearest->distance - 1;
    if (distance < nearest->distance) {
        nearest->distance = distance;
        nearest->best = name;
    }
}

static void *field_at(void *target, size_t offset) { return (char *)target + offset; }

static bool parse_number(const char *text, double *out_value) {
    char *end;
    *out_value = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*out_value);
}

tc_status tc_seed_option(tc_ctx *ctx, const char *text, uint64_t *out_seed) {
    char *end;
    if (!text)
        return TC_OK;
    errno = 0;
    *out_seed = strtoull(text, &end, 0);
    if (errno == 0 && *text >= '0' && *text <= '9' && *end == '\0')
        return TC_OK;
    return tc_error(ctx, TC_USAGE, NULL, "--seed=%s: expected a number from 0 to 2^64 - 1", tc_quote(ctx, text));
}

/* The earlier items and the new one, in a fresh array: lists are short. */
static void list_add(tc_ctx *ctx, const tc_option *option, const char *value, void *target) {
    const char ***list = field_at(target, option->offset);
    size_t *count = field_at(target, option->count_offset);
    const char **items = TC_NEW_ARRAY(ctx->arena, const char *, *count + 1);
    if (*count)
        memcpy(items, *list, *count * sizeof *items);
    items[(*count)++] = value;
    *list = items;
}

static tc_status bad_value(tc_ctx *ctx, const tc_option *option, const char *value, const char *expected) {
    return tc_error(ctx, TC_USAGE, NULL, "--%s=%s: expected %s", option->name, tc_quote(ctx, value), expected);
}

static tc_status set_value(tc_ctx *ctx, const tc_option *option, const char *value, void *target) {
    void *field = field_at(target, option->offset);
    switch (option->kind) {
    case TC_OPT_SWITCH: return tc_parse_switch(value, field) ? TC_OK : bad_value(ctx, option, value, "on or off");
    case TC_OPT_STRING: *(const char **)field = value; return TC_OK;
    case TC_OPT_INT:
    case TC_OPT_COUNT:
        if (!tc_parse_whole(value, field))
            return bad_value(ctx, option, value, "a whole number, such as 1000 or 1e3");
        if (option->kind == TC_OPT_COUNT && *(int64_t *)field < 0)
            return bad_value(ctx, option, value, "a number that is not negative");
        return TC_OK;
    case TC_OPT_NUMBER:
        return parse_number(value, field) ? TC_OK : bad_value(ctx, option, value, "a number, such as 0.1 or 1e-4");
    case TC_OPT_BYTES: return tc_parse_bytes(value, field) ? TC_OK : bad_value(ctx, option, value, TC_BYTES_USAGE);
    case TC_OPT_SECONDS:
        return tc_parse_seconds(value, field) ? TC_OK : bad_value(ctx, option, value, TC_SECONDS_USAGE);
    case TC_OPT_LIST: list_add(ctx, option, value, target); return TC_OK;
    case TC_OPT_TAGGED:
        list_add(ctx, option, tc_arena_printf(ctx->arena, "%s=%s", option->name, value), target);
        return TC_OK;
    }
    return TC_OK;
}

static const tc_option *find_long(const tc_option_table *table, const char *name, size_t length) {
    for (size_t i = 0; i < table->n_options; i++) {
        const char *candidate = table->options[i].name;
        if (strncmp(candidate, name, length) == 0 && candidate[length] == '\0')
            return &table->options[i];
    }
    return NULL;
}

static const tc_option *find_letter(const tc_option_table *table, char letter) {
    for (size_t i = 0; i < table->n_options; i++)
        if (table->options[i].letter == letter)
            return &table->options[i];
    return NULL;
}

/* The option whose help speaks of `name` first: lr for "learning-rate"; NULL: none does. */
static const tc_option *mentioned_by(const tc_option_table *table, const char *name) {
    char words[NAME_LIMIT + 1];
    const tc_option *found = NULL;
    size_t first = SIZE_MAX;
    if (!*name || strlen(name) > NAME_LIMIT || !strpbrk(name + 1, "-_0123456789")) /* single words are too common */
        return NULL;
    for (size_t i = 0; i <= strlen(name); i++)
        words[i] = name[i] == '-' || name[i] == '_' ? ' ' : name[i];
    for (size_t i = 0; i < table->n_options; i++) {
        const char *at = strstr(table->options[i].help, words);
        if (at && (size_t)(at - table->options[i].help) < first) {
            first = (size_t)(at - table->options[i].help);
            found = &table->options[i];
        }
    }
    return found;
}

static tc_status unknown_option(tc_ctx *ctx, const tc_option_table *table, const char *argument, const char *name) {
    tc_status status = tc_error(ctx, TC_USAGE, NULL, "unknown option %s", tc_quote(ctx, argument));
    const tc_option *mentioned = mentioned_by(table, name);
    tc_nearest nearest;
    tc_nearest_begin(&nearest, name);
    for (size_t i = 0; i < table->n_options; i++)
        tc_nearest_offer(&nearest, table->options[i].name);
    tc_nearest_offer(&nearest, "help");
    tc_nearest_offer(&nearest, "version");
    if (nearest.best)
        tc_hint(ctx, "did you mean --%s? %s --help=all lists all options", nearest.best, table->tool);
    else if (mentioned)
        tc_hint(ctx, "there is --%s: %.*s; %s --help=all lists all options", mentioned->name,
                (int)strcspn(mentioned->help, ";:"), mentioned->help, table->tool);
    else
        tc_hint(ctx, "%s --help=all lists all options", table->tool);
    return status;
}

typedef struct parse_state {
    tc_ctx *ctx;
    const tc_option_table *table;
    int argc, next;
    char **argv;
    FILE *answers;
    void *target;
    tc_arguments *arguments;
} parse_state;

/* The value of an option without '=': the next word, unless that looks like an option. */
static tc_status next_word(parse_state *st, const tc_option *option, const char *written, const char **out_value) {
    const char *word = st->next < st->argc ? st->argv[st->next] : NULL;
    if (word == NULL || strncmp(word, "--", 2) == 0) {
        tc_status status = tc_error(st->ctx, TC_USAGE, NULL, "%s needs a value: %s", written, option->argument);
        if (word)
            tc_hint(st->ctx, "if %s is the value, write --%s=%s", tc_quote(st->ctx, word), option->name, word);
        return status;
    }
    st->next++;
    *out_value = word;
    return TC_OK;
}

/* The switch whose opposite `name` is: --no-shuffle, or --cudnn where --no-cudnn is a switch; NULL: there is none. */
static const tc_option *find_opposite(const parse_state *st, const char *name, size_t length) {
    const char *other = tc_arena_printf(st->ctx->arena, "no-%.*s", (int)length, name);
    const tc_option *option = length > 3 && strncmp(name, "no-", 3) == 0 ? find_long(st->table, name + 3, length - 3)
                                                                         : find_long(st->table, other, length + 3);
    return option && option->kind == TC_OPT_SWITCH ? option : NULL;
}

/* "off", "true" and the like as a separate word after a switch; a bare number is an argument. */
static const char *next_switch(parse_state *st) {
    bool on;
    const char *word = st->next < st->argc ? st->argv[st->next] : NULL;
    if (word == NULL || (*word >= '0' && *word <= '9') || !tc_parse_switch(word, &on))
        return NULL;
    st->next++;
    return word;
}

static tc_status set_switch(const parse_state *st, const tc_option *option, const char *value, bool negated) {
    bool *field = field_at(st->target, option->offset);
    TC_TRY(set_value(st->ctx, option, value ? value : "on", st->target));
    *field ^= negated;
    return TC_OK;
}

static tc_status parse_long(parse_state *st, const char *argument) {
    const char *name = argument + 2, *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const char *written = tc_arena_strndup(st->ctx->arena, argument, length + 2);
    const tc_option *option = find_long(st->table, name, length);
    bool negated = option == NULL;
    if (negated)
        option = find_opposite(st, name, length);
    if (option == NULL)
        return unknown_option(st->ctx, st->table, written, written + 2);
    if (option->kind == TC_OPT_SWITCH)
        return set_switch(st, option, equals ? equals + 1 : next_switch(st), negated);
    const char *value = equals ? equals + 1 : NULL;
    if (value == NULL)
        TC_TRY(next_word(st, option, written, &value));
    return set_value(st->ctx, option, value, st->target);
}

static tc_status parse_short(parse_state *st, const char *argument) {
    const tc_option *option = find_letter(st->table, argument[1]);
    if (option == NULL || (option->kind == TC_OPT_SWITCH && argument[2] != '\0'))
        return unknown_option(st->ctx, st->table, argument, argument + 1);
    if (option->kind == TC_OPT_SWITCH)
        return set_value(st->ctx, option, "on", st->target);
    const char *value = argument + 2;
    if (*value == '\0')
        TC_TRY(next_word(st, option, argument, &value));
    return set_value(st->ctx, option, value, st->target);
}

static bool answered(const tc_option_table *table, const char *argument, FILE *out) {
    if (strcmp(argument, "--help") == 0 || (strcmp(argument, "-h") == 0 && !find_letter(table, 'h')))
        tc_options_help(table, false, out);
    else if (strcmp(argument, "--help=all") == 0)
        tc_options_help(table, true, out);
    else if (strcmp(argument, "--help=table") == 0)
        tc_options_table(table, out);
    else if (strcmp(argument, "--version") == 0)
        fprintf(out, "%s %s\n", table->tool, TEMPO_VERSION);
    else
        return false;
    return true;
}

static void add_argument(parse_state *st, const char *argument) {
    st->arguments->items[st->arguments->count++] = argument;
}

tc_status tc_options_parse(tc_ctx *ctx, const tc_option_table *table, int argc, char **argv, FILE *answers,
                           void *target, tc_arguments *out_arguments) {
    parse_state st = {ctx, table, argc, 1, argv, answers, target, out_arguments};
    *out_arguments = (tc_arguments){.items = TC_NEW_ARRAY(ctx->arena, const char *, (size_t)argc + 1)};
    for (size_t i = 0; i < table->n_options; i++)
        if (table->options[i].otherwise)
            TC_TRY(set_value(ctx, &table->options[i], table->options[i].otherwise, target));

    tc_status worst = TC_OK;
    bool only_arguments = false;
    while (st.next < argc) {
        const char *argument = argv[st.next++];
        tc_status status = TC_OK;
        if (only_arguments || argument[0] != '-' || argument[1] == '\0') {
            add_argument(&st, argument);
        } else if (strcmp(argument, "--") == 0) {
            only_arguments = true;
        } else if (answered(table, argument, st.answers)) {
            out_arguments->done = true;
            return TC_OK;
        } else {
            status = argument[1] == '-' ? parse_long(&st, argument) : parse_short(&st, argument);
        }
        if (status != TC_OK)
            worst = status;
    }
    return worst;
}

/* Words of `text` from `column` on, wrapped at HELP_WIDTH and indented to HELP_COLUMN. */
static void print_wrapped(FILE *out, const char *text, int column) {
    while (*text) {
        size_t length = strcspn(text, " ");
        if (column > HELP_COLUMN && column + 1 + (int)length > HELP_WIDTH) {
            fputc('\n', out);
            column = 0;
        }
        if (column < HELP_COLUMN) {
            fprintf(out, "%*s", HELP_COLUMN - column, "");
            column = HELP_COLUMN;
        } else {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", (int)length, text);
        column += (int)length;
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

/* The default shown in help; NULL for a switch that is off, as readers expect. */
static const char *shown_default(const tc_option *option) {
    bool is_off = option->kind == TC_OPT_SWITCH && option->otherwise && strcmp(option->otherwise, "on") != 0;
    return is_off ? NULL : option->otherwise;
}

static void print_option(FILE *out, const tc_option *option) {
    char head[96], body[1024];
    char letter[8] = "    ";
    if (option->letter)
        snprintf(letter, sizeof letter, "-%c, ", option->letter);
    snprintf(head, sizeof head, "  %s--%s%s%s", letter, option->name, option->argument ? "=" : "",
             option->argument ? option->argument : "");
    const char *otherwise = shown_default(option);
    snprintf(body, sizeof body, "%s%s%s%s", option->help, otherwise ? " [default: " : "", otherwise ? otherwise : "",
             otherwise ? "]" : "");
    fputs(head, out);
    int column = (int)strlen(head);
    if (column >= HELP_COLUMN - 1) {
        fputc('\n', out);
        column = 0;
    }
    print_wrapped(out, body, column);
}

/* The options that every tool has besides its table. */
static const tc_option standard[] = {
    {TC_OPT_USUAL, TC_OPT_SWITCH, "help", 'h', NULL, NULL, "Help",
     "describe the usual options and exit; --help=all: every option", 0, 0},
    {TC_OPT_USUAL, TC_OPT_SWITCH, "version", 0, NULL, NULL, "Help", "print the version and exit", 0, 0},
};

void tc_options_help(const tc_option_table *table, bool all, FILE *out) {
    fprintf(out, "%s: %s\n\nusage: %s %s\n", table->tool, table->summary, table->tool, table->usage);
    if (table->details)
        fprintf(out, "\n%s", table->details);
    const char *group = NULL;
    for (size_t i = 0; i < table->n_options; i++) {
        const tc_option *option = &table->options[i];
        if (option->shown == TC_OPT_RARE && !all)
            continue;
        if (group == NULL || strcmp(group, option->group) != 0)
            fprintf(out, "\n%s:\n", group = option->group);
        print_option(out, option);
    }
    fprintf(out, "\n%s:\n", standard[0].group);
    for (size_t i = 0; i < TC_COUNT(standard); i++)
        print_option(out, &standard[i]);
    if (!all)
        fprintf(out, "\n%s --help=all describes all %zu options.\n", table->tool, table->n_options);
    if (table->footer)
        fprintf(out, "\n%s", table->footer);
}

static void print_row(FILE *out, const tc_option *option) {
    const char *otherwise = shown_default(option), letter[2] = {option->letter, 0};
    fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\n", option->group, option->name, letter,
            option->argument ? option->argument : "", otherwise ? otherwise : "", option->help);
}

void tc_options_table(const tc_option_table *table, FILE *out) {
    for (size_t i = 0; i < table->n_options; i++)
        print_row(out, &table->options[i]);
    for (size_t i = 0; i < TC_COUNT(standard); i++)
        print_row(out, &standard[i]);
}
