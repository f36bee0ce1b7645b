/* recipe_check.c: a program, as a model in float and in double, through the recipes. What is promised to be equal is
 * compared bit by bit, the rest with room for rounding; where that is not enough, the program in double with random
 * factors of about 1 at every value tells how far rounding can take it. Recipe none in double is what all others are
 * measured against; finite differences of the forward pass as read check it in turn. */
#include "recipe_variant.h"
#include <math.h>
#include <string.h>

#define TOLERANCE_32 5e-5
#define TOLERANCE_64 1e-9
#define TOLERANCE_PAPER 1e-3   /* slopes from y are off by up to 1e-4 of dy next to the minimum */
#define TOLERANCE_STASHED 1e-5 /* in double, where statistics of LayerNormalization are kept in float (stash_type) */
#define NOISE_SIZE 0x1p-22     /* of a rounding, and a few more behind it */
#define NOISE_RUNS 8
#define NOISE_ROOM 16       /* times what the factors did */
#define SMALL_GRADIENT 0.01 /* of the largest: some are zero in theory and noise in practice */
#define LEAST_GRADIENT 2e-3 /* of losses about 1: below are sums that cancel */
#define SMALL_VALUE 0.01
#define LARGE 1e6
#define AS_READ "upgrade,inline,shapes,dropout"
#define IN_BODIES "upgrade,inline,shapes,tied,canonicalize,dropout,raise,autodiff,canonicalize,lean,lower"
#define TILED_IN_BODIES "upgrade,inline,shapes,tied,canonicalize,dropout,raise,autodiff,canonicalize,tile,lean,lower"

/* --- comparing -------------------------------------------------------------------------------- */

static bool is_float(const tempo_tensor *t) { return tc_dtype_is_float((tc_dtype)t->dtype); }
static bool is_gradient(const char *name) { return strstr(name, "_grad") != NULL; }

static double largest(const tempo_tensor *t) {
    tc_tensor tensor = fz_view(t);
    double most = 0;
    for (uint64_t i = 0; i < tensor.count; i++) {
        double value = fabs(tc_tensor_get(&tensor, i));
        most = isfinite(value) ? fmax(most, value) : INFINITY;
    }
    return most;
}

/* Of the gradients of recipe none in double; INFINITY: something is not finite. */
static double largest_of_all(fz_variant *v, bool gradients) {
    tempo_info info;
    tempo_tensor t;
    double most = 0;
    for (size_t i = 0; tempo_output_info(v->session, i, &info); i++)
        if (is_gradient(info.name) == gradients && tempo_output(v->session, info.name, &t) == TEMPO_OK && is_float(&t))
            most = fmax(most, largest(&t));
    return most;
}

/* How far factors of about 1 at every value take the output. */
static double spread(fz_case *c, fz_variant *clean, const char *name) {
    double most = 0;
    tempo_tensor a, b;
    fz_counts *rules = c->rules;
    c->rules = NULL;
    for (int i = 0; i < NOISE_RUNS; i++) {
        fz_variant noisy =
            fz_variant_of("noise", "none", NULL, (fz_style){true, false, NOISE_SIZE, c->p->seed + (uint64_t)i});
        if (fz_make(c, &noisy) && tempo_output(noisy.session, name, &a) == TEMPO_OK &&
            tempo_output(clean->session, name, &b) == TEMPO_OK)
            most = fmax(most, fz_farthest(&a, &b));
        fz_variant_fini(&noisy);
    }
    c->rules = rules;
    return most;
}

typedef struct yardstick {
    fz_variant *best; /* recipe none in double */
    double gradients;
} yardstick;

static bool compare_output(fz_case *c, const yardstick *by, fz_kind_of_end kind, double tolerance, const char *name,
                           fz_variant *want, fz_variant *got) {
    tempo_tensor w, g;
    if (tempo_output(want->session, name, &w) != TEMPO_OK || tempo_output(got->session, name, &g) != TEMPO_OK)
        return fz_fail(c, kind, "%s of %s: not an output of %s", name, want->name, got->name);
    if (!fz_same_shape(&w, &g))
        return fz_fail(c, kind, "%s: %s and %s give it different shapes", name, want->name, got->name);
    double far = fz_farthest(&g, &w),
           scale = fmax(largest(&w),
                        is_gradient(name) ? fmax(LEAST_GRADIENT, SMALL_GRADIENT * by->gradients) : SMALL_VALUE);
    if (far <= (is_float(&w) ? tolerance * scale : 0))
        return true;
    fz_end kept = *c->end;
    double room = NOISE_ROOM * spread(c, by->best, name) * (tolerance / TOLERANCE_32);
    *c->end = kept;
    if (far <= room)
        return fz_fail(c, FZ_UNSURE, "%s: %s and %s are %.3g apart, which rounding may be: %.3g", name, want->name,
                       got->name, far, room) ||
               true;
    return fz_fail(c, kind, "%s: %s and %s are %.3g apart, of %.3g; rounding explains %.3g", name, want->name,
                   got->name, far, scale, room);
}

/* All outputs of `want`, or those that are no gradients. */
static bool compare(fz_case *c, const yardstick *by, fz_kind_of_end kind, double tolerance, fz_variant *want,
                    fz_variant *got, bool gradients) {
    tempo_info info;
    for (size_t i = 0; tempo_output_info(want->session, i, &info); i++)
        if ((gradients || !is_gradient(info.name)) && !compare_output(c, by, kind, tolerance, info.name, want, got))
            return false;
    return true;
}

/* --- slopes ----------------------------------------------------------------------------------- */

/* The loss with every trained weight moved by `step` times a direction. */
static bool loss_at(fz_case *c, fz_variant *open, fz_variant *trained, double step, uint64_t direction,
                    double *out_loss) {
    char name[32];
    tempo_tensor t;
    for (int i = 0; i < c->p->n_values; i++) {
        if (c->p->values[i].from != 'w' || !fz_is_bound(c->p, i, &open->style))
            continue;
        snprintf(name, sizeof name, "w%d_grad", i);
        bool moves = tempo_output(trained->session, name, &t) == TEMPO_OK;
        t = fz_elements(c, i, &open->style, moves ? step : 0, direction);
        snprintf(name, sizeof name, "w%d", i);
        if (tempo_bind(open->session, name, &t) != TEMPO_OK)
            return fz_refused(c, open);
    }
    snprintf(name, sizeof name, "v%d", c->p->loss);
    if (tempo_run(open->session) != TEMPO_OK || tempo_output(open->session, name, &t) != TEMPO_OK)
        return fz_refused(c, open);
    *out_loss = *(const double *)t.data;
    return true;
}

/* The gradients' product with the direction, and the same with the sizes of its terms. */
static double along(fz_case *c, fz_variant *trained, uint64_t direction, double *out_size) {
    char name[32];
    tempo_tensor t;
    double sum = 0;
    *out_size = 0;
    for (int i = 0; i < c->p->n_values; i++) {
        snprintf(name, sizeof name, "w%d_grad", i);
        if (c->p->values[i].from != 'w' || tempo_output(trained->session, name, &t) != TEMPO_OK)
            continue;
        for (int64_t k = 0; k < fz_count(&c->p->values[i]); k++) {
            double part = ((const double *)t.data)[k] * fz_direction(direction, i, k);
            sum += part;
            *out_size += fabs(part);
        }
    }
    return sum;
}

/* One of several steps will do: a kink may lie within one. */
static bool check_slope(fz_case *c, fz_variant *trained, fz_variant *open) {
    static const double steps[] = {1e-5, 1e-6, 1e-4, 1e-7};
    double up, down, size, slope = 0, sum = 0;
    for (size_t i = 0; i < TC_COUNT(steps); i++) {
        sum = along(c, trained, i + 1, &size);
        if (!loss_at(c, open, trained, steps[i], i + 1, &up) || !loss_at(c, open, trained, -steps[i], i + 1, &down))
            return false;
        slope = (up - down) / (2 * steps[i]);
        if (fabs(slope - sum) <= 1e-4 * size + 1e-6 * (1 + fabs(up)))
            return true;
    }
    return fz_fail(c, FZ_SLOPE, "the loss rises by %.9g in a direction in which the gradients say %.9g", slope, sum);
}

/* --- all of it -------------------------------------------------------------------------------- */

static double tolerance_64(const fz_program *p) {
    for (int n = 0; n < p->n_nodes; n++)
        if (p->nodes[n].op && strcmp(p->nodes[n].op, "LayerNormalization") == 0)
            return TOLERANCE_STASHED;
    return TOLERANCE_64;
}

/* At the sizes for which exact decided what to keep. Which of two values has fewer bytes, (B, S, 5) or (B, S, B), may
 * depend on a dim that tempoc was not told, of which it counts 64. To keep only what is less at every size would give
 * up what is less at all but tiny ones, and the runs here are tiny. */
static bool compare_saved(fz_case *c, const fz_variant *none, const fz_variant *exact) {
    return exact->saved_sample == UINT64_MAX || exact->saved_sample <= none->saved_sample ||
           fz_fail(c, FZ_LEDGER, "exact keeps %llu bytes, none %llu", (unsigned long long)exact->saved_sample,
                   (unsigned long long)none->saved_sample);
}

static bool run_checks(fz_case *c, fz_variant v[], bool all) {
    enum {
        READ,
        NONE,
        EXACT,
        PORTABLE,
        BEST,
        OPEN,
        EXACT_64,
        PORTABLE_64,
        BODIES,
        TILED,
        TILED_64,
        TILED_BODIES,
        CHUNKED,
        PAPER,
        PAPER_BYTES
    };
    uint64_t seed = c->p->seed;
    if (!fz_make(c, &v[BEST]) || !fz_make(c, &v[NONE]))
        return false;
    yardstick by = {&v[BEST], largest_of_all(&v[BEST], true)};
    if (!(by.gradients < LARGE) || !(largest_of_all(&v[BEST], false) < LARGE))
        return fz_fail(c, FZ_SKIPPED, "values or gradients are not finite, or larger than %g", LARGE);
    bool good = fz_make(c, &v[EXACT]) && fz_make(c, &v[PORTABLE]) && fz_make(c, &v[READ]) && fz_make(c, &v[TILED]) &&
                fz_compare_bits(c, &v[NONE], &v[EXACT]) && fz_compare_bits(c, &v[NONE], &v[TILED]) &&
                compare(c, &by, FZ_APART, TOLERANCE_32, &v[BEST], &v[NONE], true) &&
                compare(c, &by, FZ_APART, TOLERANCE_32, &v[NONE], &v[PORTABLE], true) &&
                compare(c, &by, FZ_UNREAD, TOLERANCE_32, &v[READ], &v[NONE], false);
    good = good && compare_saved(c, &v[NONE], &v[EXACT]);
    if (good && (all || seed % 4 == 0))
        good = fz_make(c, &v[BODIES]) && compare(c, &by, FZ_APART, TOLERANCE_32, &v[NONE], &v[BODIES], true);
    if (good && (all || seed % 4 == 1))
        good = fz_make(c, &v[EXACT_64]) && fz_make(c, &v[PORTABLE_64]) && fz_compare_bits(c, &v[BEST], &v[EXACT_64]) &&
               fz_make(c, &v[TILED_64]) && fz_compare_bits(c, &v[BEST], &v[TILED_64]) &&
               compare(c, &by, FZ_APART_64, tolerance_64(c->p), &v[BEST], &v[PORTABLE_64], true);
    if (good && (all || seed % 4 == 2))
        good = fz_make(c, &v[OPEN]) && compare(c, &by, FZ_UNREAD, tolerance_64(c->p), &v[OPEN], &v[BEST], false) &&
               check_slope(c, &v[BEST], &v[OPEN]);
    if (good && (all || seed % 4 == 3))
        good =
            fz_make(c, &v[TILED_BODIES]) && compare(c, &by, FZ_APART, TOLERANCE_32, &v[NONE], &v[TILED_BODIES], true);
    if (good && (all || seed % 4 == 3))
        good = fz_make(c, &v[CHUNKED]) && compare(c, &by, FZ_APART, TOLERANCE_32, &v[NONE], &v[CHUNKED], true);
    if (good && (all || seed % 4 == 1))
        good = fz_make(c, &v[PAPER]) && compare(c, &by, FZ_APART, TOLERANCE_PAPER, &v[NONE], &v[PAPER], true);
    if (good && (all || seed % 4 == 3))
        good =
            fz_make(c, &v[PAPER_BYTES]) && compare(c, &by, FZ_APART, TOLERANCE_PAPER, &v[NONE], &v[PAPER_BYTES], true);
    if (good && (all || seed % 2 == 0))
        good = fz_check_budgets(c, &v[NONE], all);
    return good;
}

void fz_check(const fz_program *program, bool all, fz_counts *rules, fz_end *out_end) {
    fz_style single = {0}, twice = {.in_double = true}, open = {.in_double = true, .open = true};
    fz_variant v[] = {
        fz_variant_of("the file as read", NULL, AS_READ, single),
        fz_variant_of("none", "none", NULL, single),
        fz_variant_of("exact", "exact", NULL, single),
        fz_variant_of("portable", "portable", NULL, single),
        fz_variant_of("none in double", "none", NULL, twice),
        fz_variant_of("the file as read in double", NULL, AS_READ, open),
        fz_variant_of("exact in double", "exact", NULL, twice),
        fz_variant_of("portable in double", "portable", NULL, twice),
        fz_variant_of("exact in bodies", "exact", IN_BODIES, single),
        fz_variant_of("tiled", "tiled", NULL, single),
        fz_variant_of("tiled in double", "tiled", NULL, twice),
        fz_variant_of("tiled in bodies", "tiled", TILED_IN_BODIES, single),
        fz_variant_of("chunked", "chunked", NULL, single),
        fz_variant_of("paper", "paper", NULL, single),
        fz_variant_of("paper with bytes", "paper", NULL, single),
    };
    fz_case c = {program, rules, out_end, tc_arena_create()};
    v[TC_COUNT(v) - 1].budget.dropout = "mask";
    *out_end = (fz_end){FZ_PASSED, ""};
    run_checks(&c, v, all);
    for (size_t i = 0; i < TC_COUNT(v); i++)
        fz_variant_fini(&v[i]);
    tc_arena_destroy(c.arena);
}
