/* tempoc_rules.h: `tempoc --check-rules`: every rule is instantiated, applied and run. Of tempoc alone: here passes and
 * runtime meet. */
#ifndef TEMPOC_RULES_H
#define TEMPOC_RULES_H
#include "passes/rules/check/instance.h"
#include "runtime/session/session.h"

/* Checks the rules of the files in `options`, or, where there are none, those that are built in; with `names`, of these
 * those so named. Prints a line per rule and a summary to `out`, and the graphs of what failed. TC_MISMATCH where a
 * rule is wrong or could not be tried; TC_USAGE where there is no rule of a name. */
tc_status tempoc_check_rules(tc_ctx *ctx, const tc_options *options, uint64_t seed, const char *const *names,
                             size_t n_names, FILE *out);

/* --- inside ----------------------------------------------------------------------------------- */

/* What became of one instance. */
typedef enum verdict {
    VERDICT_RIGHT,
    VERDICT_WRONG,    /* `text` says what differs */
    VERDICT_EXCLUDED, /* a guard on what is absent or present rules the choices out */
    VERDICT_NONE,     /* no hit: `text` says why */
} verdict;

typedef struct trial {
    const tc_rule *rule;
    rule_choices choices;
    uint64_t seed;
    rule_unknown unknown;
    bool edges, careless;
    verdict verdict;
    double
        error;  /* the worst, as a part of the largest element of its output; of gradients: of what gradcheck allows */
    bool saves; /* fewer bytes are kept than before */
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

/* Opens a session on the instance's model, which it takes over, binds the inputs and runs; on failure `text` says why.
 */
tempo_session *trial_run(trial *t, rule_instance *inst, const char *what);
void trial_say(trial *t, verdict v, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
#endif
