/* recipe_variant.h: a program as one way to compile it makes it, opened and run; failures; outputs held against each
 * other bit by bit. */
#ifndef FUZZ_VARIANT_H
#define FUZZ_VARIANT_H
#include "passes/pass/pass.h"
#include "recipe_check.h"
#include "runtime/session/session.h"

typedef struct fz_variant {
    const char *name, *recipe, *passes;
    fz_style style;
    /* memory_budget NULL: there is none; else all of --memory-budget's options, and what N% is of. */
    tc_options budget;
    uint64_t initial;
    tc_ctx ctx;
    bool unchecked;        /* memory is as in any run: canaries make the arena larger */
    tc_status status;      /* of compiling it */
    uint64_t arena;        /* that any run takes; 0: it is not known before */
    tc_plan_summary *plan; /* under a budget, if it came so far; in the context's arena */
    tempo_session *session;
    uint64_t saved;        /* by the ledger; UINT64_MAX: it cannot tell */
    uint64_t saved_sample; /* the same with each dim that tempoc was not told at the size that passes decide by */
} fz_variant;

typedef struct fz_case {
    const fz_program *p;
    fz_counts *rules; /* NULL: nobody counts */
    fz_end *end;
    tc_arena *arena; /* of bound elements */
} fz_case;

fz_variant fz_variant_of(const char *name, const char *recipe, const char *passes, fz_style style);
void fz_variant_fini(fz_variant *v);
/* Compiles, runs with memory checked, compares ledger and runtime; false: the case's end tells why not. */
bool fz_make(fz_case *c, fz_variant *v);
/* Whether tempoc is told the sizes, by --dim. */
bool fz_is_bound_early(const fz_program *p);

/* Both are false, always. */
bool fz_fail(fz_case *c, fz_kind_of_end kind, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
bool fz_refused(fz_case *c, fz_variant *v);

/* Elements of input `value`, with `step` times those of another draw added; in the case's arena. */
tempo_tensor fz_elements(fz_case *c, int value, const fz_style *style, double step, uint64_t direction);
tc_tensor fz_view(const tempo_tensor *t);
bool fz_same_shape(const tempo_tensor *a, const tempo_tensor *b);
double fz_farthest(const tempo_tensor *a, const tempo_tensor *b); /* INFINITY: NaN in one of them */
bool fz_compare_bits(fz_case *c, fz_variant *want, fz_variant *got);

/* The program under memory budgets: every plan keeps what it promises, and the bits of the same recipe without. `none`
 * was made. One recipe and budget by the program's seed, or each with each. recipe_budget.c */
bool fz_check_budgets(fz_case *c, fz_variant *none, bool all);
#endif
