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

void tc_model_add_metadata(tc_model *model, const tc_pair *added, size_t n_added) {
    tc_model_info *info = &model->info;
    tc_arena *scratch = tc_arena_create();
    tc_map *places = tc_map_create(scratch); /* key -> its pair in the new list */
    tc_pair *pairs = TC_NEW_ARRAY(model->arena, tc_pair, info->n_metadata + n_added + 1);
    size_t n = 0;
    for (size_t i = 0; i < info->n_metadata + n_added; i++) {
        const tc_pair *pair = i < info->n_metadata ? &info->metadata[i] : &added[i - info->n_metadata];
        bool is_added = i >= info->n_metadata;
        tc_pair *place = is_added ? tc_map_get(places, pair->key) : NULL;
        if (!place)
            place = &pairs[n++];
        place->key = is_added ? tc_arena_strdup(model->arena, pair->key) : pair->key;
        place->value = is_added ? tc_arena_strdup(model->arena, pair->value) : pair->value;
        tc_map_set(places, place->key, place);
    }
    info->metadata = pairs;
    info->n_metadata = n;
    tc_arena_destroy(scratch);
}

void tc_model_set_metadata(tc_model *model, const char *key, const char *value) {
    tc_model_add_metadata(model, &(tc_pair){key, value}, 1);
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
