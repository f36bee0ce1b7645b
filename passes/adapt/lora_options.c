/* lora_options.c: the text of --lora. */
#include "adapt.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANK = 1 << 16 };
#define USUAL_ALPHA 8 /* PEFT's lora_alpha */

double tc_lora_scale(const tc_lora *lora) {
    double rank = (double)lora->rank;
    return lora->alpha / (lora->rslora ? sqrt(rank) : rank);
}

/* Words after the rank; one with `number` is written NAME=NUMBER. */
static const struct word {
    const char *name;
    size_t number, flag; /* offsets in tc_lora; the other is SIZE_MAX */
    double below;        /* the number is at least 0, and below this */
} words[] = {
    {"alpha", offsetof(tc_lora, alpha), SIZE_MAX, INFINITY},
    {"dropout", offsetof(tc_lora, dropout), SIZE_MAX, 1},
    {"dora", SIZE_MAX, offsetof(tc_lora, dora), 0},
    {"rslora", SIZE_MAX, offsetof(tc_lora, rslora), 0},
};

static bool read_word(const char *text, tc_lora *lora) {
    size_t n = strcspn(text, "=");
    for (size_t i = 0; i < TC_COUNT(words); i++) {
        const struct word *word = &words[i];
        if (strlen(word->name) != n || strncmp(word->name, text, n) != 0)
            continue;
        if (word->flag != SIZE_MAX)
            *(bool *)((char *)lora + word->flag) = true;
        if (word->number == SIZE_MAX)
            return text[n] == '\0';
        char *end = NULL;
        double number = text[n] ? strtod(text + n + 1, &end) : NAN;
        *(double *)((char *)lora + word->number) = number;
        return end && end != text + n + 1 && *end == '\0' && number >= 0 && number < word->below;
    }
    return false;
}

static tc_status refuse(tc_ctx *ctx, const char *text, const char *why) {
    tc_error(ctx, TC_USAGE, NULL, "--lora=%s: %s", tc_quote(ctx, text), why);
    tc_hint(ctx, "write --lora=RANK[,alpha=A][,dropout=P][,dora][,rslora][:GLOB], such as "
                 "--lora=8,alpha=16:'*q_proj'");
    return TC_USAGE;
}

tc_status tc_lora_parse(tc_ctx *ctx, const char *text, tc_lora *out_lora) {
    const char *colon = strchr(text, ':');
    char *settings =
        colon ? tc_arena_strndup(ctx->arena, text, (size_t)(colon - text)) : tc_arena_strdup(ctx->arena, text);
    char *save = NULL, *end = NULL;
    *out_lora = (tc_lora){.alpha = USUAL_ALPHA, .glob = colon ? colon + 1 : NULL};
    if (colon && colon[1] == '\0')
        return refuse(ctx, text, "the glob after the colon is empty");
    const char *word = strtok_r(settings, ",", &save);
    errno = 0;
    out_lora->rank = word ? strtoll(word, &end, 10) : 0;
    if (!word || end == word || *end || errno || out_lora->rank < 1 || out_lora->rank > MOST_RANK)
        return refuse(ctx, text, "it begins with a rank from 1 to 65536");
    while ((word = strtok_r(NULL, ",", &save)) != NULL)
        if (!read_word(word, out_lora))
            return refuse(ctx, text, tc_arena_printf(ctx->arena, "'%s' is no setting of it", tc_quote(ctx, word)));
    return TC_OK;
}

tc_status tc_check_lora(tc_ctx *ctx, const tc_options *options) {
    tc_lora lora;
    for (size_t i = 0; i < options->n_lora; i++)
        TC_TRY(tc_lora_parse(ctx, options->lora[i], &lora));
    if (!tc_adapts(options))
        return TC_OK;
    return tc_pipeline_need(ctx, options, "--lora", "lora",
                            "take a recipe with a backward pass, or evaluate; in --passes, put it after shapes");
}
