/* metadata.c: pairs of text that a file carries along, and the number that the runtime reads there. */
#include "ir.h"
#include <stdlib.h>
#include <string.h>

#define MOST_THREADS 4096

static size_t find(const tc_model *model, const char *key) {
    size_t at = 0;
    while (at < model->info.n_metadata && strcmp(model->info.metadata[at].key, key) != 0)
        at++;
    return at;
}

const char *tc_model_metadata(const tc_model *model, const char *key) {
    size_t at = find(model, key);
    return at < model->info.n_metadata ? model->info.metadata[at].value : NULL;
}

void tc_model_set_metadata(tc_model *model, const char *key, const char *value) {
    tc_model_info *info = &model->info;
    size_t at = find(model, key), n = at < info->n_metadata ? info->n_metadata : info->n_metadata + 1;
    tc_pair *pairs = TC_NEW_ARRAY(model->arena, tc_pair, n);
    if (info->n_metadata > 0)
        memcpy(pairs, info->metadata, info->n_metadata * sizeof *pairs);
    pairs[at] = (tc_pair){tc_arena_strdup(model->arena, key), tc_arena_strdup(model->arena, value)};
    info->metadata = pairs;
    info->n_metadata = n;
}

tc_status tc_model_threads(tc_ctx *ctx, const tc_model *model, int *out_threads) {
    const char *text = tc_model_metadata(model, TC_THREADS_KEY);
    char *end = NULL;
    long number = text ? strtol(text, &end, 10) : TC_USUAL_THREADS;
    *out_threads = (int)number;
    if (!text || (*text >= '1' && *text <= '9' && *end == '\0' && number <= MOST_THREADS))
        return TC_OK;
    tc_error(ctx, TC_BAD_INPUT, NULL, "the file's metadata has '%s' for " TC_THREADS_KEY, tc_quote(ctx, text));
    tc_hint(ctx, "it is the number of threads that scratch memory is made for, from 1 to %d", MOST_THREADS);
    return TC_BAD_INPUT;
}
