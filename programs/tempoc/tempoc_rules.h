/* tempoc_rules.h: `tempoc --check-rules`: every rule is instantiated, applied and run. Of tempoc alone: here passes and
 * runtime meet. */
#ifndef TEMPOC_RULES_H
#define TEMPOC_RULES_H
#include "passes/rules/check/check.h"
#include "runtime/session/session.h"

/* Checks the rules of the files in `options`, or, without files, the built-in ones; with `names`, only those with these
 * names. Prints a line per rule and a summary to `out`, and the graphs of failures. TC_MISMATCH where a rule is wrong
 * or could not be tried; TC_USAGE where no rule has a name. */
tc_status tempoc_check_rules(tc_ctx *ctx, const tc_options *options, uint64_t seed, const char *const *names,
                             size_t n_names, FILE *out);

/* --- inside ----------------------------------------------------------------------------------- */

/* The result of one instance. */
typedef enum verdict {
    VERDICT_RIGHT,
    VERDICT_WRONG,    /* `text` has the difference */
    VERDICT_EXCLUDED, /* a guard on presence or absence rules the choices out */
    VERDICT_NONE,     /* no hit: `text` has the reason */
} verdict;

typedef struct trial {
    const tc_rule *rule;
    rule_choices choices;
    uint64_t seed;
    rule_unknown unknown;
    bool edges, careless;
    verdict verdict;
    double error; /* the worst, relative to the largest element of its output; of gradients: relative to gradcheck's
                   * limit */
    bool saves;   /* fewer bytes are kept than before */
    char text[400];
} trial;

/* Makes the instance, applies the rule, runs the graph before and after it. tempoc_rules_try.c */
void trial_rewrite(trial *t);
/* The gradient that the rule builds against central differences. tempoc_rules_gradient.c */
void trial_gradient(trial *t);
/* Whether the rule replaces a forward and a backward half at once, and has to keep less. */
bool trial_is_pair(const tc_rule *rule);
/* The graphs of a trial as text. */
void trial_print(const trial *t, FILE *out);

/* Opens a session on the instance's model, which it takes over, binds the inputs and runs; on failure `text` has the
 * reason. */
tempo_session *trial_run(trial *t, rule_instance *inst, const char *what);
void trial_say(trial *t, verdict v, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
#endif
