/* recipes.c: the recipes of recipes.def, and which passes options ask for. */
#include "pass.h"
#include <string.h>

static const tc_recipe recipes[] = {
#define RECIPE(name, passes, ways, summary) {#name, passes, ways, summary},
#include "recipes.def"
#undef RECIPE
};

size_t tc_recipe_count(void) { return TC_COUNT(recipes); }

const tc_recipe *tc_recipe_at(size_t index) {
    TC_ASSERT(index < TC_COUNT(recipes));
    return &recipes[index];
}

const tc_recipe *tc_recipe_find(const char *name) {
    if (name == NULL)
        return &recipes[0];
    for (size_t i = 0; i < TC_COUNT(recipes); i++)
        if (strcmp(recipes[i].name, name) == 0)
            return &recipes[i];
    return NULL;
}

const char *tc_pass_list(const tc_options *options) {
    return options->passes ? options->passes : tc_recipe_find(options->recipe)->passes;
}

bool tc_pipeline_has(const tc_options *options, const char *pass) {
    size_t length = strlen(pass);
    for (const char *at = tc_pass_list(options) + strspn(tc_pass_list(options), ", "); *at; at += strspn(at, ", ")) {
        size_t n = strcspn(at, ", ");
        if (n == length && strncmp(at, pass, n) == 0)
            return true;
        at += n;
    }
    return false;
}

tc_status tc_pipeline_need(tc_ctx *ctx, const tc_options *options, const char *option, const char *pass,
                           const char *hint) {
    if (tc_pipeline_has(options, pass))
        return TC_OK;
    tc_error(ctx, TC_USAGE, NULL, "%s needs the pass '%s', which does not run here", option, pass);
    if (hint)
        tc_hint(ctx, "%s", hint);
    return TC_USAGE;
}

bool tc_defer_to_budget(tc_pass_env *env, unsigned pass) {
    if (!env->options->memory_budget || env->summary->plan)
        return false;
    env->deferred |= pass;
    return true;
}
