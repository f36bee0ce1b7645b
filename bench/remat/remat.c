/* remat.c: how much dearer a schedule gets that fits a part of the memory, for problems in files and several seeds.
 *
 *     remat [--seeds=N] [--work=N] [--fixed-order] FILE.csv PERCENT... [FILE.csv PERCENT...]...
 *
 * Rows of a file are nodes in their given order: id,cost,size,inputs (ids with spaces between); each makes one value.
 * Lines that begin with '#' and the first other one are passed over. A budget is a part of the given schedule's peak.
 */
#include "compiler/remat/remat.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct table {
    tc_remat_problem problem;
    tc_remat_node *nodes;
    tc_remat_value *values;
    uint32_t *steps, *own; /* [nodes] `own`: each node's number, as its only output */
    bool *read;            /* [nodes] by another */
    uint32_t room;
} table;

static void fail(const char *what, const char *file) {
    fprintf(stderr, "remat: %s: %s\n", file, what);
    exit(1);
}

static void *grown(void *old, size_t bytes) {
    void *new = realloc(old, bytes);
    if (!new)
        fail("out of memory", "realloc");
    return new;
}

static uint32_t *parse_inputs(table *t, char *text, uint32_t *out_n, const char *file) {
    uint32_t *inputs = grown(NULL, strlen(text) * sizeof *inputs + 1), n = 0;
    for (char *word = strtok(text, " \r\n"); word; word = strtok(NULL, " \r\n")) {
        unsigned long id = strtoul(word, NULL, 10);
        if (id >= t->problem.n_nodes)
            fail("an input is no earlier row", file);
        t->read[id] = true;
        inputs[n++] = (uint32_t)id;
    }
    *out_n = n;
    return inputs;
}

static void add_row(table *t, char *line, const char *file) {
    unsigned long id;
    unsigned long long cost, size;
    int at = 0;
    if (sscanf(line, "%lu,%llu,%llu,%n", &id, &cost, &size, &at) != 3 || id != t->problem.n_nodes)
        fail("a row is not id,cost,size,inputs, with ids from 0 on", file);
    uint32_t n = t->problem.n_nodes;
    if (n == t->room) {
        t->room = 2 * n + 64;
        t->nodes = grown(t->nodes, t->room * sizeof *t->nodes);
        t->values = grown(t->values, t->room * sizeof *t->values);
        t->steps = grown(t->steps, t->room * sizeof *t->steps);
        t->own = grown(t->own, t->room * sizeof *t->own);
        t->read = grown(t->read, t->room * sizeof *t->read);
    }
    t->nodes[n] = (tc_remat_node){.cost = cost, .n_outputs = 1};
    t->nodes[n].inputs = parse_inputs(t, line + at, &t->nodes[n].n_inputs, file);
    t->values[n] = (tc_remat_value){size, false};
    t->steps[n] = t->own[n] = n;
    t->read[n] = false;
    t->problem.n_nodes++;
}

static void read_table(table *t, const char *file) {
    size_t room = 0;
    char *line = NULL;
    bool heading = true;
    FILE *in = fopen(file, "r");
    if (!in)
        fail(strerror(errno), file);
    *t = (table){0};
    while (getline(&line, &room, in) > 0) {
        if (line[0] == '#')
            continue;
        if (!heading)
            add_row(t, line, file);
        heading = false;
    }
    free(line);
    fclose(in);
    for (uint32_t n = 0; n < t->problem.n_nodes; n++) {
        t->nodes[n].outputs = &t->own[n];
        t->values[n].is_output = !t->read[n];
    }
    uint32_t n = t->problem.n_nodes;
    t->problem = (tc_remat_problem){t->nodes, t->values, n, n, t->steps, n};
    const char *wrong = tc_remat_check(&t->problem);
    if (wrong)
        fail(wrong, file);
}

static void free_table(table *t) {
    for (uint32_t n = 0; n < t->problem.n_nodes; n++)
        free((void *)t->nodes[n].inputs);
    free(t->nodes);
    free(t->values);
    free(t->steps);
    free(t->own);
    free(t->read);
}

static double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

#define MOST_SEEDS 64

static void search_row(const table *t, const char *name, double percent, tc_remat_options options, uint64_t n_seeds) {
    tc_remat_live plain;
    double dearer[MOST_SEEDS], most_percent = 0, seconds = seconds_now();
    uint64_t met = 0, work = 0;
    if (tc_remat_simulate(&t->problem, t->steps, t->problem.n_steps, NULL, &plain) != TC_REMAT_OK)
        fail("sizes or costs are too large", name);
    options.budget = (uint64_t)((double)plain.peak_bytes * percent / 100);
    for (uint64_t seed = 0; seed < n_seeds; seed++) {
        tc_remat_outcome outcome;
        options.seed = seed;
        if (tc_remat_search(&t->problem, &options, &outcome) != TC_REMAT_OK)
            fail("the search fails", name);
        double got = 100 * (double)outcome.best.live.peak_bytes / (double)plain.peak_bytes;
        dearer[seed] = 100 * ((double)outcome.best.live.cost / (double)plain.cost - 1);
        most_percent = got > most_percent ? got : most_percent;
        met += outcome.met;
        work += outcome.work;
        tc_remat_schedule_free(&outcome.best);
    }
    seconds = (seconds_now() - seconds) / (double)n_seeds;
    qsort(dearer, n_seeds, sizeof *dearer, compare_doubles);
    printf("%-12s %6u %7g %5llu/%-2llu %8.2f %9.3f %9.3f %9.3f %8.2f %8.2f\n", name, t->problem.n_nodes, percent,
           (unsigned long long)met, (unsigned long long)n_seeds, most_percent, dearer[0], dearer[n_seeds / 2],
           dearer[n_seeds - 1], seconds, (double)work / (double)n_seeds / 1e6);
    fflush(stdout);
}

int main(int argc, char **argv) {
    tc_remat_options options = {0};
    uint64_t n_seeds = 1;
    char name[16] = "";
    table t = {0};
    printf("%-12s %6s %7s %8s %8s %9s %9s %9s %8s %8s\n", "file", "nodes", "budget%", "met", "peak%", "cost+%",
           "median", "worst", "seconds", "Mmoves");
    for (int i = 1; i < argc; i++) {
        char *end;
        double percent = strtod(argv[i], &end);
        if (strncmp(argv[i], "--seeds=", 8) == 0)
            n_seeds = strtoull(argv[i] + 8, NULL, 10) % (MOST_SEEDS + 1);
        else if (strncmp(argv[i], "--work=", 7) == 0)
            options.work = strtoull(argv[i] + 7, NULL, 10);
        else if (strcmp(argv[i], "--fixed-order") == 0)
            options.fixed_order = true;
        else if (*end == '\0' && n_seeds > 0)
            search_row(&t, name, percent, options, n_seeds);
        else {
            const char *slash = strrchr(argv[i], '/'), *base = slash ? slash + 1 : argv[i];
            free_table(&t);
            read_table(&t, argv[i]);
            snprintf(name, sizeof name, "%.*s", (int)strcspn(base, "."), base);
        }
    }
    free_table(&t);
    return 0;
}
