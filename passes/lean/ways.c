/* ways.c: which variant of each idea of keeping less is used: that of the option, else of the recipe, else the
 * first. */
#include "ways.h"
#include <string.h>

typedef struct way {
    const char *idea, *name;
    size_t field; /* of tc_options */
} way;

static const way ways[] = {
#define WAY(idea, name) {#idea, #name, offsetof(tc_options, idea)},
#define MADE_BY(rule, idea, name)
#include "ways.def"
#undef WAY
#undef MADE_BY
};

static const struct {
    const char *rule, *idea, *name;
} makers[] = {
#define WAY(idea, name)
#define MADE_BY(rule, idea, name) {#rule, #idea, #name},
#include "ways.def"
#undef WAY
#undef MADE_BY
};

static const char *given(const tc_options *options, const way *w) {
    return *(const char *const *)(const void *)((const char *)options + w->field);
}

/* Whether "gelu=y layernorm=y" names the idea's variant. */
static bool recipe_says(const char *words, const way *w) {
    size_t idea = strlen(w->idea), name = strlen(w->name);
    for (words += strspn(words, " "); *words; words += strspn(words, " ")) {
        size_t n = strcspn(words, " ");
        if (n == idea + 1 + name && strncmp(words, w->idea, idea) == 0 && words[idea] == '=' &&
            strncmp(words + idea + 1, w->name, name) == 0)
            return true;
        words += n;
    }
    return false;
}

/* Of the idea whose rows begin at `first`: the chosen row. */
static const way *chosen(const tc_options *options, const way *first) {
    const way *end = ways + TC_COUNT(ways);
    const char *words = tc_recipe_find(options->recipe)->ways, *option = given(options, first);
    for (const way *w = first; w < end && strcmp(w->idea, first->idea) == 0; w++)
        if (option ? strcmp(option, w->name) == 0 : recipe_says(words, w))
            return w;
    return first;
}

static const way *first_of(const char *idea) {
    const way *w = ways;
    while (strcmp(w->idea, idea) != 0)
        w++;
    return w;
}

static tc_status check_idea(tc_ctx *ctx, const tc_options *options, const way *first) {
    const char *option = given(options, first), *names = "";
    if (!option)
        return TC_OK;
    TC_TRY(tc_pipeline_need(ctx, options, tc_arena_printf(ctx->arena, "--%s", first->idea), "lean", NULL));
    for (const way *w = first; w < ways + TC_COUNT(ways) && strcmp(w->idea, first->idea) == 0; w++) {
        if (strcmp(option, w->name) == 0)
            return TC_OK;
        names = tc_arena_printf(ctx->arena, "%s%s%s", names, *names ? ", " : "", w->name);
    }
    return tc_error(ctx, TC_USAGE, NULL, "--%s=%s: expected one of %s", first->idea, tc_quote(ctx, option), names);
}

static bool begins_idea(size_t i) { return i == 0 || strcmp(ways[i].idea, ways[i - 1].idea) != 0; }

tc_status tc_check_ways(tc_ctx *ctx, const tc_options *options) {
    for (size_t i = 0; i < TC_COUNT(ways); i++)
        if (begins_idea(i))
            TC_TRY(check_idea(ctx, options, &ways[i]));
    return TC_OK;
}

bool tc_is_chosen(const tc_options *options, const char *rule) {
    for (size_t i = 0; i < TC_COUNT(makers); i++)
        if (strcmp(makers[i].rule, rule) == 0)
            return strcmp(chosen(options, first_of(makers[i].idea))->name, makers[i].name) == 0;
    return true;
}

bool tc_makes_first(const char *rule) {
    for (size_t i = 0; i < TC_COUNT(makers); i++)
        if (strcmp(makers[i].rule, rule) == 0)
            return strcmp(first_of(makers[i].idea)->name, makers[i].name) == 0;
    return true;
}

bool tc_chooses_first(const tc_options *options) {
    for (size_t i = 0; i < TC_COUNT(ways); i++)
        if (begins_idea(i) && chosen(options, &ways[i]) != &ways[i])
            return false;
    return true;
}
