/* choices.c: the way that is taken of each idea of keeping less: that of the option, else of the recipe, else the
 * first. */
#include "choices.h"
#include <string.h>

typedef struct choice {
    const char *idea, *way;
    size_t field; /* of tc_options */
} choice;

static const choice choices[] = {
#define CHOICE(idea, way) {#idea, #way, offsetof(tc_options, idea)},
#define MADE_BY(rule, idea, way)
#include "choices.def"
#undef CHOICE
#undef MADE_BY
};

static const struct {
    const char *rule, *idea, *way;
} makers[] = {
#define CHOICE(idea, way)
#define MADE_BY(rule, idea, way) {#rule, #idea, #way},
#include "choices.def"
#undef CHOICE
#undef MADE_BY
};

static const char *given(const tc_options *options, const choice *c) {
    return *(const char *const *)(const void *)((const char *)options + c->field);
}

/* Whether "gelu=y layernorm=y" names the way of the idea. */
static bool recipe_says(const char *words, const choice *c) {
    size_t idea = strlen(c->idea), way = strlen(c->way);
    for (words += strspn(words, " "); *words; words += strspn(words, " ")) {
        size_t n = strcspn(words, " ");
        if (n == idea + 1 + way && strncmp(words, c->idea, idea) == 0 && words[idea] == '=' &&
            strncmp(words + idea + 1, c->way, way) == 0)
            return true;
        words += n;
    }
    return false;
}

/* Of the idea whose rows begin at `first`: the row that is chosen. */
static const choice *chosen(const tc_options *options, const choice *first) {
    const choice *end = choices + TC_COUNT(choices);
    const char *words = tc_recipe_find(options->recipe)->choices, *option = given(options, first);
    for (const choice *c = first; c < end && strcmp(c->idea, first->idea) == 0; c++)
        if (option ? strcmp(option, c->way) == 0 : recipe_says(words, c))
            return c;
    return first;
}

static const choice *first_of(const char *idea) {
    const choice *c = choices;
    while (strcmp(c->idea, idea) != 0)
        c++;
    return c;
}

static tc_status check_idea(tc_ctx *ctx, const tc_options *options, const choice *first) {
    const char *option = given(options, first), *ways = "";
    if (!option)
        return TC_OK;
    if (!tc_pipeline_has(options, "lean"))
        return tc_error(ctx, TC_USAGE, NULL, "--%s goes with the pass 'lean', which does not run here", first->idea);
    for (const choice *c = first; c < choices + TC_COUNT(choices) && strcmp(c->idea, first->idea) == 0; c++) {
        if (strcmp(option, c->way) == 0)
            return TC_OK;
        ways = tc_arena_printf(ctx->arena, "%s%s%s", ways, *ways ? ", " : "", c->way);
    }
    return tc_error(ctx, TC_USAGE, NULL, "--%s=%s: expected one of %s", first->idea, tc_quote(ctx, option), ways);
}

static bool begins_idea(size_t i) { return i == 0 || strcmp(choices[i].idea, choices[i - 1].idea) != 0; }

tc_status tc_choices_check(tc_ctx *ctx, const tc_options *options) {
    for (size_t i = 0; i < TC_COUNT(choices); i++)
        if (begins_idea(i))
            TC_TRY(check_idea(ctx, options, &choices[i]));
    return TC_OK;
}

bool tc_is_chosen(const tc_options *options, const char *rule) {
    for (size_t i = 0; i < TC_COUNT(makers); i++)
        if (strcmp(makers[i].rule, rule) == 0)
            return strcmp(chosen(options, first_of(makers[i].idea))->way, makers[i].way) == 0;
    return true;
}

bool tc_chooses_first(const tc_options *options) {
    for (size_t i = 0; i < TC_COUNT(choices); i++)
        if (begins_idea(i) && chosen(options, &choices[i]) != &choices[i])
            return false;
    return true;
}
