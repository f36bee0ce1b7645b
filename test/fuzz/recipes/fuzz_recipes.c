/* fuzz_recipes.c: random training graphs through the recipes none, exact, tiled and portable: differential fuzzing.
 *
 *     fuzz_recipes [--seed=N] [--count=N] [--seconds=N] [--from=N] [--graph=N] [--failures=N] [--demand] [--print]
 *
 * Graph k of a seed is always the same: --graph=K checks it alone, with every check, and --print writes it. Graphs
 * are checked in a process of their own, so that one that crashes, asserts or hangs is told like any other failure:
 * made smaller and written to fuzz_recipes-SEED-K.onnxt. --demand also fails when a rule that is_demanded never fired,
 * or too many graphs said nothing. */
#include "recipe_check.h"
#include "compiler/base/base.h"
#include "passes/pass/pass.h"
#include "passes/rules/rules.h"
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HANG = 60, ENDS = FZ_BUDGET + 1 }; /* seconds for one graph */

/* What both processes know. */
typedef struct shared {
    uint64_t graph; /* being checked */
    uint64_t failures, checked, ends[ENDS], nodes;
    fz_counts rules, ops;
} shared;

typedef struct options {
    uint64_t seed, count, from, failures;
    double seconds;
    bool one, demand, print;
} options;

/* Ctrl-C ends it after the graph at hand; what was seen is told. Both processes of the terminal's group get it. */
static volatile sig_atomic_t interrupted;
static void interrupt(int number) {
    (void)number;
    interrupted = 1;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t graph_seed(uint64_t seed, uint64_t graph) {
    uint64_t z = seed * 0xD1342543DE82EF95u + graph * 0x9E3779B97F4A7C15u + 1;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* --- failures --------------------------------------------------------------------------------- */

static void write_program(const fz_program *p, FILE *out) {
    fz_style single = {0};
    for (int s = 1; s <= FZ_SYMBOLS; s++) {
        int64_t size = -1;
        for (int i = 0; i < p->n_values; i++)
            for (int d = 0; d < p->values[i].rank; d++)
                if (p->values[i].dims[d].symbol == s)
                    size = p->values[i].dims[d].size;
        if (size >= 0)
            fprintf(out, "# %s = %" PRId64 "\n", fz_symbols[s - 1], size);
    }
    fz_render(p, &single, out);
}

static void tell(const options *o, uint64_t graph, const fz_program *smaller, const char *what, const char *why) {
    char path[80];
    snprintf(path, sizeof path, "fuzz_recipes-%" PRIu64 "-%" PRIu64 ".onnxt", o->seed, graph);
    printf("FAIL graph %" PRIu64 ": %s: %s\n", graph, what, why);
    FILE *out = fopen(path, "w");
    if (out) {
        fprintf(out,
                "# %s: %s\n# the loss is v%d; made smaller from: fuzz_recipes --seed=%" PRIu64 " --graph=%" PRIu64 "\n",
                what, why, smaller->loss, o->seed, graph);
        write_program(smaller, out);
        fclose(out);
    }
    printf("     again: fuzz_recipes --seed=%" PRIu64 " --graph=%" PRIu64 "; made smaller (%d nodes): %s\n", o->seed,
           graph, fz_live_nodes(smaller), out ? path : "could not be written");
    fflush(stdout);
}

/* Fails in the same way: what is told begins alike. */
static bool fails_alike(void *user, const fz_program *p) {
    const fz_end *want = user;
    fz_end end;
    fz_check(p, true, NULL, &end);
    size_t length = strcspn(want->why, ":");
    return end.kind == want->kind && (want->kind != FZ_REFUSED || strncmp(end.why, want->why, length) == 0);
}

static bool crashes(void *user, const fz_program *p) {
    (void)user;
    fz_end end;
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        FILE *null = freopen("/dev/null", "w", stderr);
        alarm(HANG);
        fz_check(p, true, NULL, &end);
        _exit(null == NULL ? 0 : 0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* --- the process that checks ------------------------------------------------------------------ */

static void check_graph(const options *o, shared *s, uint64_t graph) {
    static fz_program program;
    fz_end end;
    fz_generate(graph_seed(o->seed, graph), &program);
    alarm(HANG);
    fz_check(&program, o->one, &s->rules, &end);
    s->checked++;
    s->ends[end.kind]++;
    for (int n = 0; n < program.n_nodes; n++)
        ++*fz_count_of(&s->ops, program.nodes[n].op);
    s->nodes += (uint64_t)program.n_nodes;
    if (o->one)
        printf("graph %" PRIu64 ": %s%s%s\n", graph, fz_end_names[end.kind], *end.why ? ": " : "", end.why);
    if (o->print)
        write_program(&program, stdout);
    if (!FZ_IS_FAILURE(end.kind))
        return;
    s->failures++;
    alarm(10 * HANG);
    fz_shrink(&program, fails_alike, &end);
    tell(o, graph, &program, fz_end_names[end.kind], end.why);
}

static bool is_over(const options *o, const shared *s, double start) {
    return interrupted || s->graph >= o->from + o->count || s->failures >= o->failures ||
           (o->seconds > 0 && now() - start >= o->seconds);
}

static void crashed(const options *o, shared *s, int status) {
    static fz_program program;
    char why[80];
    snprintf(why, sizeof why,
             WIFSIGNALED(status) ? WTERMSIG(status) == SIGALRM ? "it hangs" : "signal %d" : "exit code %d",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    s->failures++;
    fz_generate(graph_seed(o->seed, s->graph), &program);
    if (crashes(NULL, &program))
        fz_shrink(&program, crashes, NULL);
    tell(o, s->graph, &program, "the process ended", why);
    s->graph++;
}

static void check_graphs(const options *o, shared *s) {
    double start = now();
    while (!is_over(o, s, start)) {
        int status = 0;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            for (; !is_over(o, s, start); s->graph++)
                check_graph(o, s, s->graph);
            fflush(stdout);
            _exit(0);
        }
        if (child < 0 || waitpid(child, &status, 0) != child) {
            s->failures++;
            return;
        }
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            crashed(o, s, status);
    }
}

/* --- what was seen ---------------------------------------------------------------------------- */

/* Ops whose gradient is a builder; those with a rule: tc_gradient_rule_next. */
static const char *const built[] = {
#define GRADIENT(domain, op, operands, builder) domain[0] ? "" : #op,
#include "passes/gradients/gradients.def"
#undef GRADIENT
};

static void print_counts(const char *what, const fz_counts *c) {
    printf("%s:", what);
    for (int i = 0; i < c->n; i++)
        if (c->counts[i] > 0)
            printf(" %s %" PRIu64 "%s", c->names[i], c->counts[i], i + 1 < c->n ? "," : "");
    putchar('\n');
}

static void print_missing_op(shared *s, const char *op, int *n) {
    if (*op && *fz_count_of(&s->ops, op) == 0)
        printf("%s%s", (*n)++ ? ", " : "ops with a gradient that were not among them: ", op);
}

static void print_missing_ops(shared *s) {
    tc_ctx ctx;
    tc_options none = {0};
    tc_pass_env env = {.ctx = &ctx, .options = &none};
    tc_rule_set *rules = tc_rules_create();
    const char *domain, *op;
    int n = 0;
    tc_ctx_init(&ctx, "fuzz_recipes");
    for (size_t i = 0; i < TC_COUNT(built); i++)
        print_missing_op(s, built[i], &n);
    if (tc_rules_load(&env, NULL, false, rules) == TC_OK)
        for (size_t at = 0; tc_gradient_rule_next(rules, &at, &domain, &op);)
            print_missing_op(s, *domain ? "" : op, &n);
    if (n)
        putchar('\n');
    tc_rules_destroy(rules);
    tc_ctx_fini(&ctx);
}

/* Whether a line of the list of rules, behind its indent, is of a rule; else it lists ops that have a gradient. */
static bool is_rule(const char *name) { return *name >= 'a' && *name <= 'z' && !strchr(name, '.'); }

/* Whether a rule has to have fired. Those of canonical.rules, loss.rules, scores.rules and, but for one, maps.rules
 * need not: random graphs hold few of the spellings that they match; those of mixed.rules cannot, nor can the one that
 * is named: random graphs hold no 16 bits. */
static bool is_demanded(const char *file, const char *rule) {
    static const char *const files[] = {"canonical.rules", "loss.rules", "maps.rules", "mixed.rules", "scores.rules"};
    for (size_t i = 0; i < TC_COUNT(files); i++)
        if (strcmp(file, files[i]) == 0)
            return strcmp(rule, "scale_first") == 0;
    return strcmp(rule, "gelu_cast_tanh") != 0;
}

static int count_missing_rules(shared *s) {
    tc_ctx ctx;
    char *text = NULL, file[80] = "";
    size_t size = 0;
    int missing = 0;
    tc_ctx_init(&ctx, "fuzz_recipes");
    FILE *stream = open_memstream(&text, &size);
    bool listed = tc_rules_list(&ctx, stream) == TC_OK;
    fclose(stream);
    for (char *rest = text, *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        line[strcspn(line, *line == ' ' ? "" : ":")] = '\0';
        char *name = line + strspn(line, " ");
        if (*line != ' ')
            snprintf(file, sizeof file, "%s", line);
        name[strcspn(name, " ")] = '\0';
        if (*line != ' ' || !is_rule(name) || !is_demanded(file, name) || *fz_count_of(&s->rules, name) > 0)
            continue;
        printf("the rule %s of %s never fired\n", name, file);
        missing++;
    }
    free(text);
    tc_ctx_fini(&ctx);
    return listed ? missing : 1;
}

static int told(const options *o, shared *s) {
    printf("%" PRIu64 " graphs, %.1f nodes each:", s->checked,
           (double)s->nodes / (double)(s->checked ? s->checked : 1));
    for (int i = 0; i < ENDS; i++)
        if (s->ends[i])
            printf(" %" PRIu64 " %s;", s->ends[i], fz_end_names[i]);
    printf(" %" PRIu64 " failed\n", s->failures);
    if (o->one)
        return s->failures > 0;
    print_counts("ops", &s->ops);
    print_counts("rules and budgets", &s->rules);
    print_missing_ops(s);
    int missing = count_missing_rules(s);
    uint64_t silent = s->ends[FZ_SKIPPED] * 20, unsure = s->ends[FZ_UNSURE] * 20;
    bool idle = s->checked == 0 || silent > s->checked || unsure > s->checked;
    if (idle)
        puts("too many graphs say nothing");
    return s->failures > 0 || (o->demand && (missing > 0 || idle));
}

/* --- options ---------------------------------------------------------------------------------- */

static bool number(const char *arg, const char *name, uint64_t *out) {
    size_t length = strlen(name);
    if (strncmp(arg, name, length) != 0 || arg[length] != '=')
        return false;
    *out = strtoull(arg + length + 1, NULL, 10);
    return true;
}

static bool parse(int argc, char **argv, options *o) {
    uint64_t seconds = 0;
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (number(arg, "--graph", &o->from)) {
            o->one = true;
            o->count = 1;
        } else if (strcmp(arg, "--demand") == 0) {
            o->demand = true;
        } else if (strcmp(arg, "--print") == 0) {
            o->print = true;
        } else if (!number(arg, "--seed", &o->seed) && !number(arg, "--count", &o->count) &&
                   !number(arg, "--from", &o->from) && !number(arg, "--failures", &o->failures) &&
                   !number(arg, "--seconds", &seconds)) {
            fprintf(stderr, "fuzz_recipes: no option %s; see the head of fuzz_recipes.c\n", arg);
            return false;
        }
    }
    o->seconds = (double)seconds;
    return true;
}

int main(int argc, char **argv) {
    options o = {.seed = 1, .count = UINT64_MAX / 2, .failures = 1};
    if (!parse(argc, argv, &o))
        return TC_USAGE;
    if (o.count == UINT64_MAX / 2 && o.seconds <= 0)
        o.count = 1000;
    shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED)
        return TC_IO;
    s->graph = o.from;
    sigaction(SIGINT, &(struct sigaction){.sa_handler = interrupt, .sa_flags = SA_RESTART}, NULL);
    check_graphs(&o, s);
    return told(&o, s);
}
