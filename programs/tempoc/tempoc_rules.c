/* tempoc_rules.c: goes through the rules, the choices of each and enough draws for every choice, and reports the
 * results: a line per rule, for a failure also the choices, the shapes and the graphs. A rule without a hit fails, and
 * so does a choice without one, unless a guard on its presence excludes it: a rule that cannot be tried is not proven,
 * and an alternative that never matches is dead. */
#include "tempoc_rules.h"
#include "passes/embedded/embedded.h"
#include <math.h>
#include <string.h>

enum {
    MAX_VECTORS = 4096,  /* of choices; the rest is not tried, and the report says so */
    TRIES_FOR_ONE = 600, /* to get a hit at all */
    TRIES_FOR_MORE = 40, /* without reaching the wanted number */
    HITS_PER_RULE = 128,
    MIN_HITS = 3,
    CARELESS_PER_RULE = 512,
};

typedef struct tally {
    unsigned vectors, excluded, hits, wrong, dead;
    double worst;
    bool saves;
    trial failure; /* the first */
} tally;

typedef struct checker {
    tc_ctx *ctx;
    FILE *out;
    uint64_t seed;
    unsigned rules, failed, instances;
} checker;

static void (*trier(const tc_rule *rule))(trial *t) { return rule->gradient ? trial_gradient : trial_rewrite; }

static void note_failure(tally *sum, const trial *t) {
    if (sum->wrong + sum->dead == 0)
        sum->failure = *t;
}

/* One draw for a vector of choices; adds its result to `sum` and `choices`. */
static verdict draw(checker *c, const tc_rule *rule, const rule_choices *given, unsigned k, bool careless,
                    rule_choices *choices, tally *sum, trial *t) {
    *t = (trial){.rule = rule, .choices = *given, .careless = careless};
    t->seed = (c->seed * 1000003u + sum->vectors) * 1000003u + k;
    t->unknown = k >= 8 ? (rule_unknown)(k % UNKNOWN_COUNT) : UNKNOWN_NOTHING;
    t->edges = k / UNKNOWN_COUNT % 2 == 1;
    trier(rule)(t);
    if (t->choices.n > choices->n) /* a draw that fails early does not ask for every choice */
        *choices = t->choices;
    if (t->verdict == VERDICT_RIGHT || t->verdict == VERDICT_WRONG) {
        sum->hits++;
        sum->saves |= t->saves;
        sum->worst = t->error > sum->worst ? t->error : sum->worst;
    }
    if (t->verdict == VERDICT_WRONG) {
        note_failure(sum, t);
        sum->wrong++;
    }
    return t->verdict;
}

/* Draws for one vector of choices until there were enough hits, then draws carelessly. Shapes are known in the first
 * draws, later in every fourth draw and less and less in the others. */
static void check_vector(checker *c, const tc_rule *rule, unsigned wanted, unsigned careless, rule_choices *choices,
                         tally *sum) {
    const rule_choices given = *choices;
    unsigned hits = 0, k = 0;
    verdict v = VERDICT_NONE;
    trial t, last = {.rule = rule};
    for (; k < TRIES_FOR_ONE && hits < wanted && (hits < MIN_HITS || k < 2 * wanted + TRIES_FOR_MORE) &&
           v != VERDICT_WRONG;
         k++) {
        v = draw(c, rule, &given, k, false, choices, sum, &t);
        if (v == VERDICT_EXCLUDED)
            break;
        hits += v != VERDICT_NONE;
        last = v == VERDICT_NONE ? t : last;
    }
    for (unsigned n = 0; n < careless && hits > 0 && v != VERDICT_WRONG && !rule->gradient; n++)
        v = draw(c, rule, &given, k++, true, choices, sum, &t);
    sum->excluded += v == VERDICT_EXCLUDED;
    if (hits == 0 && v != VERDICT_EXCLUDED) {
        note_failure(sum, &last);
        sum->dead++;
    }
    sum->vectors++;
}

/* All questions that these answers lead to. */
static void ask(const tc_rule *rule, uint64_t seed, rule_choices *choices) {
    const rule_choices given = *choices;
    rule_instance inst = {.why = ""};
    for (unsigned k = 0; k < TRIES_FOR_MORE && inst.why; k++) {
        rule_choices asked = given;
        tc_ctx ctx;
        tc_ctx_init(&ctx, "tempoc");
        if (rule->gradient)
            rule_instance_forward(&ctx, rule, &asked, seed + k, UNKNOWN_NOTHING, &inst);
        else
            rule_instance_make(&ctx, rule, &asked, seed + k, UNKNOWN_NOTHING, false, false, &inst);
        if (asked.n > choices->n)
            *choices = asked;
        tc_model_destroy(inst.model);
        tc_ctx_fini(&ctx);
    }
}

static unsigned count_vectors(const tc_rule *rule, uint64_t seed) {
    rule_choices choices = {0};
    unsigned n = 0;
    do
        ask(rule, seed + n++, &choices);
    while (n < MAX_VECTORS && rule_choices_next(&choices));
    return n;
}

/* --- the report ------------------------------------------------------------------------------- */

static void print_failure(checker *c, const tally *sum) {
    static const char *const known[] = {"known", "symbols", "partly known", "ranks unknown"};
    const trial *t = &sum->failure;
    fprintf(c->out, "  rule %s (%s:%u), choices %s, seed %llu, shapes %s:\n  %s\n", t->rule->name, t->rule->file,
            t->rule->loc.line, rule_choices_text(c->ctx->arena, &t->choices), (unsigned long long)t->seed,
            known[t->unknown], t->text);
    if (t->verdict == VERDICT_WRONG)
        trial_print(t, c->out);
}

static bool tell(checker *c, const tc_rule *rule, const tally *sum) {
    bool pair = trial_is_pair(rule), failed = sum->wrong || sum->dead || sum->hits == 0 || (pair && !sum->saves);
    const char *what = sum->wrong       ? "WRONG"
                       : sum->hits == 0 ? "NO INSTANCE"
                       : sum->dead      ? "DEAD CHOICE"
                       : failed         ? "SAVES NOTHING"
                                        : "right";
    fprintf(c->out, "%-28s %8u %10u %10.2g  %s", rule->name, sum->vectors, sum->hits, sum->worst, what);
    if (sum->excluded)
        fprintf(c->out, ", %u choices excluded by guards", sum->excluded);
    fputc('\n', c->out);
    if (sum->wrong || sum->dead)
        print_failure(c, sum);
    return failed;
}

static void check_rule(checker *c, tc_rule *rule) {
    unsigned vectors = count_vectors(rule, c->seed), wanted = HITS_PER_RULE / vectors,
             careless = CARELESS_PER_RULE / vectors;
    rule_choices choices = {0};
    tally sum = {0};
    wanted = wanted < MIN_HITS ? MIN_HITS : wanted;
    careless = careless < MIN_HITS ? MIN_HITS : careless;
    do
        check_vector(c, rule, wanted, careless, &choices, &sum);
    while (sum.vectors < MAX_VECTORS && sum.wrong + sum.dead == 0 && rule_choices_next(&choices));
    c->rules++;
    c->instances += sum.hits;
    c->failed += tell(c, rule, &sum);
}

/* --- files ------------------------------------------------------------------------------------ */

static bool is_asked(const tc_rule *rule, const char *const *names, size_t n_names) {
    for (size_t i = 0; i < n_names; i++)
        if (strcmp(names[i], rule->name) == 0 || (rule->gradient && strcmp(names[i], rule->op.name) == 0))
            return true;
    return n_names == 0;
}

/* Other gradient rules of the op would be taken first. */
static void check_alone(checker *c, tc_rule_set *set, tc_rule *rule) {
    for (tc_rule *other = set->first; other; other = other->next)
        other->disabled = other != rule;
    check_rule(c, rule);
    fflush(c->out);
}

static void check_set(checker *c, tc_rule_set *set, const char *const *names, size_t n_names) {
    for (tc_rule *rule = set->first; rule; rule = rule->next)
        if (is_asked(rule, names, n_names))
            check_alone(c, set, rule);
}

tc_status tempoc_check_rules(tc_ctx *ctx, const tc_options *options, uint64_t seed, const char *const *names,
                             size_t n_names, FILE *out) {
    checker c = {.ctx = ctx, .out = out, .seed = seed};
    tc_status status = TC_OK;
    fprintf(out, "%-28s %8s %10s %10s\n", "rule", "choices", "instances", "worst");
    for (const tc_embedded *file = tc_embedded_rules; file->name && !options->n_rules_files && status == TC_OK;
         file++) {
        tc_rule_set *set = tc_rules_create();
        status = tc_rules_parse(ctx, file->text, file->name, set);
        if (status == TC_OK)
            check_set(&c, set, names, n_names);
        tc_rules_destroy(set);
    }
    for (size_t i = 0; i < options->n_rules_files && status == TC_OK; i++) {
        tc_rule_set *set = tc_rules_create();
        status = tc_rules_load_file(ctx, options->rules_files[i], set);
        if (status == TC_OK)
            check_set(&c, set, names, n_names);
        tc_rules_destroy(set);
    }
    TC_TRY(status);
    if (c.rules == 0)
        return tc_error(ctx, TC_USAGE, NULL, "there is no rule to check%s%s", n_names ? ": no rule is named " : "",
                        n_names ? tc_quote(ctx, names[0]) : "");
    fprintf(out, "%u rules, %u instances, %u failed\n", c.rules, c.instances, c.failed);
    return c.failed ? tc_error(ctx, TC_MISMATCH, NULL, "%u of %u rules are not proven", c.failed, c.rules) : TC_OK;
}
