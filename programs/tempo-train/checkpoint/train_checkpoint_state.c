/* train_checkpoint_state.c: the file `state` of a checkpoint: lines of a word and numbers; the last line is the sum of
 * all before it. A text that is read is written again and compared: there is only one text for each state. */
#include "train_checkpoint_parts.h"
#include "compiler/text/text.h"
#include "runtime/files/files.h"
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

const char *const train_checkpoint_files[CHECKPOINT_FILES] = {WEIGHTS_FILE, MOMENTS_FILE};

#define FIRST_LINE "tempo-train checkpoint 1\n"

typedef enum field_kind { SIGNED, UNSIGNED, NUMBER } field_kind;

static const struct {
    const char *word;
    field_kind kind;
    size_t at;
} fields[] = {
    {"step", SIGNED, offsetof(train_progress, step)},
    {"epoch", SIGNED, offsetof(train_progress, epoch)},
    {"batch", SIGNED, offsetof(train_progress, batch)},
    {"seed", UNSIGNED, offsetof(train_progress, seed)},
    {"loss-scale", NUMBER, offsetof(train_progress, loss_scale)},
    {"scale-good-steps", SIGNED, offsetof(train_progress, scale_good_steps)},
    {"skipped", SIGNED, offsetof(train_progress, skipped)},
    {"plan-hash", UNSIGNED, offsetof(train_progress, plan_hash)},
    {"data-hash", UNSIGNED, offsetof(train_progress, data_hash)},
    {"ranks", SIGNED, offsetof(train_progress, ranks)},
};

/* --- sums ------------------------------------------------------------------------------------- */

file_sums train_sum_layout(tc_arena *arena, const rt_safetensors_layout *layout) {
    file_sums sums = {.bytes = layout->bytes, .header = rt_crc32c(0, layout->header, layout->header_bytes)};
    sums.n = layout->n;
    sums.arrays = TC_NEW_ARRAY(arena, uint32_t, layout->n + 1);
    for (size_t i = 0; i < layout->n; i++)
        sums.arrays[i] = rt_crc32c(0, layout->arrays[i]->tensor.data, layout->arrays[i]->tensor.bytes);
    return sums;
}

tc_status train_check_sums(tc_ctx *ctx, const rt_safetensors *s, const file_sums *sums) {
    if (s->file.size != sums->bytes || s->n != sums->n)
        return tc_error(ctx, TC_BAD_INPUT, NULL, "it has %zu bytes and %zu tensors, expected %" PRIu64 " and %zu",
                        s->file.size, s->n, sums->bytes, sums->n);
    if (rt_crc32c(0, s->file.data, s->header) != sums->header)
        return tc_error(ctx, TC_BAD_INPUT, NULL, "its header is damaged");
    for (size_t i = 0; i < s->n; i++) {
        const tempo_tensor *t = &s->arrays[i].tensor;
        if (rt_crc32c(0, t->data, t->bytes) != sums->arrays[i])
            return tc_error(ctx, TC_BAD_INPUT, NULL, "tensor '%s' is damaged", tc_quote(ctx, s->arrays[i].name));
    }
    return TC_OK;
}

/* --- writing ---------------------------------------------------------------------------------- */

typedef struct lines {
    tc_arena *arena;
    char *text;
    size_t n, cap;
} lines;

static void add(lines *l, const char *line) {
    size_t n = strlen(line);
    l->text = tc_arena_grow(l->arena, l->text, 1, &l->cap, l->n + n + 1);
    memcpy(l->text + l->n, line, n + 1);
    l->n += n;
}

static void add_field(lines *l, size_t i, const train_progress *p) {
    char line[80], number[TC_NUMBER_TEXT];
    const void *at = (const char *)p + fields[i].at;
    if (fields[i].kind == NUMBER) {
        tc_double_text(*(const double *)at, number);
        snprintf(line, sizeof line, "%s %s\n", fields[i].word, number);
    } else {
        snprintf(line, sizeof line, fields[i].kind == SIGNED ? "%s %" PRId64 "\n" : "%s %" PRIu64 "\n", fields[i].word,
                 *(const int64_t *)at);
    }
    add(l, line);
}

const char *train_state_text(tc_arena *arena, const train_progress *p, const file_sums sums[CHECKPOINT_FILES]) {
    lines l = {.arena = arena};
    char line[120];
    add(&l, FIRST_LINE);
    for (size_t i = 0; i < TC_COUNT(fields); i++)
        add_field(&l, i, p);
    add(&l, p->settings ? p->settings : "");
    for (int f = 0; f < CHECKPOINT_FILES; f++) {
        snprintf(line, sizeof line, "%s %" PRIu64 " %08" PRIx32 " %zu\n", train_checkpoint_files[f], sums[f].bytes,
                 sums[f].header, sums[f].n);
        add(&l, line);
        for (size_t i = 0; i < sums[f].n; i++) {
            snprintf(line, sizeof line, "%08" PRIx32 "\n", sums[f].arrays[i]);
            add(&l, line);
        }
    }
    snprintf(line, sizeof line, "crc32c %08" PRIx32 "\n", rt_crc32c(0, l.text, l.n));
    add(&l, line);
    return l.text;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* The rest of the line after `word` and a blank, with the text moved past it; NULL: it is another line. */
static char *take_line(char **text, const char *word) {
    size_t n = strlen(word);
    char *line = *text, *end = strchr(line, '\n');
    if (!end || strncmp(line, word, n) != 0 || (n > 0 && line[n] != ' '))
        return NULL;
    *end = '\0';
    *text = end + 1;
    return n > 0 ? line + n + 1 : line;
}

static bool read_fields(char **text, train_progress *out) {
    for (size_t i = 0; i < TC_COUNT(fields); i++) {
        void *at = (char *)out + fields[i].at;
        const char *value = take_line(text, fields[i].word);
        if (!value)
            return false;
        if (fields[i].kind == NUMBER)
            *(double *)at = strtod(value, NULL);
        else if (fields[i].kind == SIGNED)
            *(int64_t *)at = strtoll(value, NULL, 10);
        else
            *(uint64_t *)at = strtoull(value, NULL, 10);
    }
    return true;
}

/* A line for each tensor: a larger number than the text has room for is refused. */
static bool read_sums(tc_arena *arena, char **text, const char *file, file_sums *out) {
    char *at = take_line(text, file);
    if (!at)
        return false;
    out->bytes = strtoull(at, &at, 10);
    out->header = (uint32_t)strtoul(at, &at, 16);
    out->n = (size_t)strtoull(at, NULL, 10);
    if (out->n > strlen(*text) / 9)
        return false;
    out->arrays = TC_NEW_ARRAY(arena, uint32_t, out->n + 1);
    for (size_t i = 0; i < out->n; i++) {
        const char *line = take_line(text, "");
        if (!line)
            return false;
        out->arrays[i] = (uint32_t)strtoul(line, NULL, 16);
    }
    return true;
}

/* The lines with this beginning. */
static const char *take_settings(tc_arena *arena, char **text) {
    const char *begin = *text;
    while (strncmp(*text, TRAIN_SETTING, strlen(TRAIN_SETTING)) == 0 && strchr(*text, '\n'))
        *text = strchr(*text, '\n') + 1;
    return tc_arena_strndup(arena, begin, (size_t)(*text - begin));
}

static bool read_text(tc_arena *arena, char *text, train_progress *out, file_sums out_sums[CHECKPOINT_FILES]) {
    if (strncmp(text, FIRST_LINE, strlen(FIRST_LINE)) != 0)
        return false;
    text += strlen(FIRST_LINE);
    if (!read_fields(&text, out))
        return false;
    out->settings = take_settings(arena, &text);
    for (int f = 0; f < CHECKPOINT_FILES; f++)
        if (!read_sums(arena, &text, train_checkpoint_files[f], &out_sums[f]))
            return false;
    return true;
}

tc_status train_read_state(tc_ctx *ctx, const char *path, train_progress *out, file_sums out_sums[CHECKPOINT_FILES]) {
    static const char newer[] = "tempo-train checkpoint ";
    tc_file file;
    ctx->file = path;
    TC_TRY(tc_file_open(ctx, path, &file));
    tc_held held;
    tc_file_hold(&file, &held);
    size_t n = file.size;
    char *text = tc_arena_strndup(ctx->arena, n > 0 ? file.data : "", n);
    const char *again = read_text(ctx->arena, text, out, out_sums) ? train_state_text(ctx->arena, out, out_sums) : "";
    bool same = strlen(again) == n && memcmp(again, file.data, n) == 0;
    bool other = n >= sizeof FIRST_LINE && memcmp(file.data, newer, sizeof newer - 1) == 0 &&
                 memcmp(file.data, FIRST_LINE, sizeof FIRST_LINE - 1) != 0;
    tc_let_go(&held);
    tc_file_close(&file);
    if (same)
        return TC_OK;
    return tc_error(ctx, TC_BAD_INPUT, NULL,
                    other ? "it is damaged, or of another version of tempo-train" : "it is damaged");
}
