/* recipe_generate.c: the program of a seed. Inputs first, then 3 to 30 rows of the tables, then a loss that all ends
 * lead to, so that nothing which was built is dead; some values on the way are outputs as well. */
#include "recipe_build.h"
#include <string.h>

enum { MOST_NODES = 90, MOST_TERMS = 12 };

static void add_inputs(gen *g) {
    fz_dim batch = fz_symbol(g, 0), steps = fz_symbol(g, 1), width = fz_size(1 + fz_below(g, 5)),
           other = fz_symbol(g, 3);
    int how = fz_below(g, 10);
    fz_dim shapes[][3] = {{batch, steps, width}, {batch, width, steps}, {batch, width, width}};
    fz_input(g, FZ_FLOAT, 3, how < 6 ? shapes[0] : how < 8 ? shapes[1] : shapes[2], -1.25, 1.25);
    if (fz_chance(g, 30))
        fz_input(g, FZ_FLOAT, 2, (fz_dim[]){batch, width}, -1.25, 1.25);
    if (fz_chance(g, 20))
        fz_input(g, FZ_FLOAT, 3, (fz_dim[]){batch, fz_size(1), width}, -1.25, 1.25);
    if (g->loose) /* a size that is that of the batch or 1, which only the run knows */
        fz_input(g, FZ_FLOAT, 3, (fz_dim[]){other, steps, width}, -1.25, 1.25);
    /* Something to be trained before everything else. */
    int x = 0;
    fz_dim last = fz_last(g, x, 1), out = fz_size(1 + fz_below(g, 5));
    if (last.symbol == 0)
        fz_matmul(g, x, fz_weight(g, 2, (fz_dim[]){last, out}));
    else
        fz_binary(g, "Add", x, fz_weight(g, 2, (fz_dim[]){width, fz_size(1)}), 2.5);
}

/* --- the loss --------------------------------------------------------------------------------- */

static int weighted(gen *g, int x) {
    fz_value v = *fz_at(g, x);
    fz_dim dims[FZ_RANK];
    for (int i = 0; i < v.rank; i++)
        dims[i] = v.dims[i].symbol != 0 ? fz_size(1) : v.dims[i];
    return fz_either(g, "Mul", x, fz_weight(g, v.rank, dims), v.high * 1.25);
}

/* Cross entropy over the last dim, in either of its two spellings. */
static int entropy(gen *g, int x) {
    fz_value v = *fz_at(g, x);
    int64_t classes = v.dims[1].size;
    fz_dim none = {0, 0}, at[FZ_RANK];
    int rank = 0;
    for (int i = 0; i < v.rank; i++)
        if (i != 1)
            at[rank++] = v.dims[i];
    int labels = fz_input(g, FZ_INT, rank, at, 0, (double)classes);
    const char *attrs = FZ_ONE_OF(g, "", "reduction = \"sum\"", "ignore_index = 0, reduction = \"sum\"");
    if (fz_chance(g, 60))
        return fz_call(g, "SoftmaxCrossEntropyLoss", attrs, FZ_IN(x, labels), FZ_FLOAT, 0, &none, 100);
    int log = fz_unary(g, "LogSoftmax", "axis = 1", x, 40);
    return fz_call(g, "NegativeLogLikelihoodLoss", attrs, FZ_IN(log, labels), FZ_FLOAT, 0, &none, 100);
}

/* One number of a value. */
static int term(gen *g, int x) {
    fz_dim none = {0, 0};
    x = fz_calm(g, x);
    int how = fz_below(g, 10);
    if (how < 2 && fz_at(g, x)->rank >= 2 && fz_at(g, x)->dims[1].symbol == 0)
        return entropy(g, x);
    if (how < 5)
        x = fz_binary(g, "Mul", x, x, fz_at(g, x)->high * fz_at(g, x)->high);
    else if (how < 8)
        x = weighted(g, x);
    if (fz_at(g, x)->rank == 0)
        return x;
    return fz_call(g, fz_chance(g, 70) ? "ReduceMean" : "ReduceSum", "keepdims = 0", FZ_IN(x), FZ_FLOAT, 0, &none, 100);
}

static int find_ends(const gen *g, int ends[MOST_TERMS]) {
    int n = 0;
    for (int i = g->p->n_values; i-- > 0 && n < MOST_TERMS;)
        if (g->p->values[i].from == 'v' && g->p->values[i].kind == FZ_FLOAT && !fz_is_read(g->p, i))
            ends[n++] = i;
    for (int i = g->p->n_values; n == 0 && i-- > 0;) /* all lead to integers and booleans */
        if (g->p->values[i].from == 'v' && g->p->values[i].kind == FZ_FLOAT)
            ends[n++] = i;
    return n;
}

static void add_loss(gen *g, int n, int terms[MOST_TERMS]) {
    fz_dim none = {0, 0};
    for (int i = 0; i < n; i++)
        terms[i] = term(g, terms[i]);
    g->p->loss = fz_call(g, "Sum", NULL, n, terms, FZ_FLOAT, 0, &none, 0);
    g->p->values[g->p->loss].output = true;
}

static void add_outputs(gen *g) {
    for (int n = fz_below(g, 4); n > 0; n--) {
        int value = fz_pick(g, fz_chance(g, 85) ? FZ_FLOAT : FZ_BOOL, 0, 6);
        if (value != NONE && fz_at(g, value)->from == 'v')
            g->p->values[value].output = true;
    }
}

void fz_generate(uint64_t seed, fz_program *out_program) {
    gen g = {.p = out_program, .state = seed};
    g.p->n_values = g.p->n_nodes = 0;
    g.p->seed = seed;
    for (int i = 0; i < FZ_SYMBOLS; i++)
        g.sizes[i] = fz_chance(&g, 20) ? 1 : 2 + fz_below(&g, 3);
    g.symbolic = fz_chance(&g, 50);
    g.loose = fz_chance(&g, 15);
    g.sizes[3] = fz_chance(&g, 50) ? 1 : g.sizes[0];
    add_inputs(&g);
    int rows = 3 + fz_below(&g, 28);
    for (int tries = 0; rows > 0 && tries < 200 && g.p->n_nodes < MOST_NODES; tries++)
        rows -= fz_chance(&g, 25) ? 3 * fz_add_one(&g, fz_patterns, fz_n_patterns) : fz_add_one(&g, fz_ops, fz_n_ops);
    int ends[MOST_TERMS], n = find_ends(&g, ends);
    add_outputs(&g);
    add_loss(&g, n, ends);
}
