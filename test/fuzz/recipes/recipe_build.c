/* recipe_build.c: see build.h. */
#include "recipe_build.h"
#include <math.h>
#include <string.h>

/* --- chance ----------------------------------------------------------------------------------- */

uint64_t fz_next(gen *g) { /* splitmix64 */
    uint64_t z = (g->state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

int fz_below(gen *g, int n) { return (int)(fz_next(g) >> 33) % n; }
bool fz_chance(gen *g, int percent) { return fz_below(g, 100) < percent; }

/* --- values ----------------------------------------------------------------------------------- */

fz_dim fz_symbol(gen *g, int symbol) { return (fz_dim){g->sizes[symbol], g->symbolic ? symbol + 1 : 0}; }
fz_dim fz_fresh(gen *g, int64_t size) { return (fz_dim){size, g->symbolic ? --g->fresh : 0}; }

static int add_value(gen *g, char from, fz_kind kind, int rank, const fz_dim *dims) {
    fz_value *v = &g->p->values[g->p->n_values];
    *v = (fz_value){.from = from, .kind = kind, .rank = rank, .node = NONE};
    memcpy(v->dims, dims, (size_t)rank * sizeof *dims);
    return g->p->n_values++;
}

int fz_input(gen *g, fz_kind kind, int rank, const fz_dim *dims, double low, double high) {
    int value = add_value(g, 'x', kind, rank, dims);
    g->p->values[value].low = low;
    g->p->values[value].high = high;
    return value;
}

int fz_weight(gen *g, int rank, const fz_dim *dims) {
    int value = add_value(g, 'w', FZ_FLOAT, rank, dims);
    g->p->values[value].low = -1.25;
    g->p->values[value].high = 1.25;
    return value;
}

int fz_number(gen *g, double number) {
    fz_dim none = {0, 0};
    if (fz_chance(g, 15)) {
        char attrs[FZ_ATTRS];
        snprintf(attrs, sizeof attrs, "value = @ {%.17g}", number);
        return fz_call(g, "Constant", attrs, 0, NULL, FZ_FLOAT, 0, &none, fabs(number));
    }
    int value = add_value(g, 'c', FZ_FLOAT, 0, &none);
    fz_value *v = &g->p->values[value];
    v->given[0] = number;
    v->n_given = 1;
    v->high = fabs(number);
    return value;
}

int fz_ints(gen *g, int n, const int64_t *values) {
    fz_dim dim = fz_size(n);
    int value = add_value(g, 'c', FZ_INT, n >= 0, &dim), count = n < 0 ? 1 : n;
    for (int i = 0; i < count; i++)
        g->p->values[value].given[i] = (double)values[i];
    g->p->values[value].n_given = count;
    return value;
}

int fz_true(gen *g) {
    fz_dim none = {0, 0};
    int value = add_value(g, 'c', FZ_BOOL, 0, &none);
    g->p->values[value].given[0] = 1;
    g->p->values[value].n_given = 1;
    return value;
}

/* --- nodes ------------------------------------------------------------------------------------ */

int fz_node_add(gen *g, const char *op, const char *attrs, int n_in, const int *in) {
    fz_node *n = &g->p->nodes[g->p->n_nodes];
    *n = (fz_node){.op = op, .n_in = n_in};
    snprintf(n->attrs, sizeof n->attrs, "%s", attrs ? attrs : "");
    if (n_in > 0)
        memcpy(n->in, in, (size_t)n_in * sizeof *in);
    return g->p->n_nodes++;
}

int fz_result(gen *g, int node, fz_kind kind, int rank, const fz_dim *dims, double bound) {
    int value = add_value(g, 'v', kind, rank, dims);
    fz_node *n = &g->p->nodes[node];
    g->p->values[value].node = node;
    g->p->values[value].high = bound;
    n->out[n->n_out++] = value;
    return value;
}

int fz_call(gen *g, const char *op, const char *attrs, int n_in, const int *in, fz_kind kind, int rank,
            const fz_dim *dims, double bound) {
    return fz_result(g, fz_node_add(g, op, attrs, n_in, in), kind, rank, dims, bound);
}

int fz_unary(gen *g, const char *op, const char *attrs, int x, double bound) {
    fz_value v = *fz_at(g, x);
    return fz_call(g, op, attrs, FZ_IN(x), v.kind, v.rank, v.dims, bound);
}

static bool is_one(fz_dim d) { return d.size == 1 && d.symbol == 0; }

static fz_dim joined(gen *g, fz_dim a, fz_dim b) {
    if ((a.size == b.size && a.symbol == b.symbol) || is_one(b))
        return a;
    if (is_one(a))
        return b;
    if (a.symbol == 0 || b.symbol == 0)
        return a.symbol == 0 ? a : b; /* a number that is not 1 */
    return fz_fresh(g, a.size > b.size ? a.size : b.size);
}

int fz_joined(gen *g, int a, int b, fz_dim *out_dims) {
    fz_value x = *fz_at(g, a), y = *fz_at(g, b);
    int rank = x.rank > y.rank ? x.rank : y.rank;
    for (int i = 1; i <= rank; i++)
        out_dims[rank - i] = i > x.rank   ? y.dims[y.rank - i]
                             : i > y.rank ? x.dims[x.rank - i]
                                          : joined(g, x.dims[x.rank - i], y.dims[y.rank - i]);
    return rank;
}

int fz_binary(gen *g, const char *op, int a, int b, double bound) {
    fz_dim dims[FZ_RANK];
    int rank = fz_joined(g, a, b, dims);
    return fz_call(g, op, NULL, FZ_IN(a, b), fz_at(g, a)->kind, rank, dims, bound);
}

int fz_either(gen *g, const char *op, int a, int b, double bound) {
    return fz_chance(g, 50) ? fz_binary(g, op, a, b, bound) : fz_binary(g, op, b, a, bound);
}

int fz_compare(gen *g, const char *op, int a, int b) {
    fz_dim dims[FZ_RANK];
    int rank = fz_joined(g, a, b, dims);
    return fz_call(g, op, NULL, FZ_IN(a, b), FZ_BOOL, rank, dims, 1);
}

int fz_transpose(gen *g, int x, const int *perm) {
    fz_value v = *fz_at(g, x);
    char attrs[FZ_ATTRS] = "perm = [";
    fz_dim dims[FZ_RANK];
    for (int i = 0; i < v.rank; i++) {
        size_t n = strlen(attrs);
        snprintf(attrs + n, sizeof attrs - n, "%s%d%s", i ? ", " : "", perm[i], i + 1 == v.rank ? "]" : "");
        dims[i] = v.dims[perm[i]];
    }
    return fz_call(g, "Transpose", attrs, FZ_IN(x), v.kind, v.rank, dims, v.high);
}

int fz_reshape(gen *g, int x, int n, const int64_t *target, const fz_dim *dims) {
    return fz_call(g, "Reshape", NULL, FZ_IN(x, fz_ints(g, n, target)), fz_at(g, x)->kind, n, dims, fz_at(g, x)->high);
}

int fz_reduce(gen *g, const char *op, int x, int axis, bool keep, double bound) {
    fz_value v = *fz_at(g, x);
    fz_dim dims[FZ_RANK];
    int at = v.rank + axis, rank = 0;
    int64_t axes = fz_chance(g, 70) ? axis : at;
    int which = fz_ints(g, 1, &axes);
    for (int i = 0; i < v.rank; i++)
        if (i != at || keep)
            dims[rank++] = i == at ? fz_size(1) : v.dims[i];
    return fz_call(g, op, keep ? FZ_ONE_OF(g, "", "keepdims = 1") : "keepdims = 0", FZ_IN(x, which), FZ_FLOAT, rank,
                   dims, bound);
}

/* Leading dims broadcast. */
int fz_matmul(gen *g, int a, int b) {
    fz_value x = *fz_at(g, a), y = *fz_at(g, b);
    int rank = x.rank > y.rank ? x.rank : y.rank;
    fz_dim dims[FZ_RANK];
    for (int i = 3; i <= rank; i++)
        dims[rank - i] = i > x.rank   ? y.dims[y.rank - i]
                         : i > y.rank ? x.dims[x.rank - i]
                                      : joined(g, x.dims[x.rank - i], y.dims[y.rank - i]);
    dims[rank - 2] = x.dims[x.rank - 2];
    dims[rank - 1] = y.dims[y.rank - 1];
    return fz_call(g, "MatMul", NULL, FZ_IN(a, b), FZ_FLOAT, rank, dims,
                   x.high * y.high * (double)x.dims[x.rank - 1].size);
}

int fz_calm(gen *g, int x) {
    double bound = fz_at(g, x)->high;
    if (bound <= CALM)
        return x;
    if (bound > 1e4 || fz_chance(g, 50))
        return fz_unary(g, "Tanh", NULL, x, 1);
    double factor = ldexp(1, -(int)ceil(log2(bound / 4)));
    return fz_binary(g, "Mul", x, fz_number(g, factor), bound * factor);
}

/* --- choosing --------------------------------------------------------------------------------- */

bool fz_same_dim(const gen *g, fz_dim a, fz_dim b) { return a.size == b.size && (g->loose || a.symbol == b.symbol); }

bool fz_broadcasts(gen *g, int a, int b) {
    const fz_value *x = fz_at(g, a), *y = fz_at(g, b);
    for (int i = 1; i <= x->rank && i <= y->rank; i++) {
        fz_dim p = x->dims[x->rank - i], q = y->dims[y->rank - i];
        if (!fz_same_dim(g, p, q) && !is_one(p) && !is_one(q) && !(g->loose && (p.size == 1 || q.size == 1)))
            return false;
    }
    return true;
}

int fz_pick(gen *g, fz_kind kind, int least_rank, int most_rank) {
    for (int tries = 0; tries < 24; tries++) {
        double u = (double)fz_below(g, 1000) / 1000;
        int value = g->p->n_values - 1 - (int)(u * u * (double)g->p->n_values);
        const fz_value *v = fz_at(g, value);
        if (v->kind == kind && v->from != 'c' && v->rank >= least_rank && v->rank <= most_rank && fz_count(v) <= 600 &&
            (v->from != 'v' || strcmp(g->p->nodes[v->node].op, "Constant") != 0))
            return value;
    }
    return NONE;
}

static int weight_for(gen *g, int a) {
    fz_value v = *fz_at(g, a);
    int rank = v.rank == 0 ? 0 : fz_chance(g, 60) ? 1 : 1 + fz_below(g, v.rank);
    fz_dim dims[FZ_RANK];
    for (int i = 0; i < rank; i++) {
        fz_dim d = v.dims[v.rank - rank + i];
        dims[i] = d.symbol != 0 || fz_chance(g, 20) ? fz_size(1) : d;
    }
    return fz_weight(g, rank, dims);
}

int fz_partner(gen *g, int a) {
    int how = fz_below(g, 100);
    for (int tries = 0; how < 45 && tries < 8; tries++) {
        int b = fz_pick(g, FZ_FLOAT, 0, 5);
        if (b != NONE && b != a && fz_broadcasts(g, a, b))
            return b;
    }
    if (how < 80)
        return weight_for(g, a);
    return how < 92 ? fz_number(g, 0.25 * (double)(fz_below(g, 16) - 8)) : a;
}

int fz_mask(gen *g, int x) {
    fz_value v = *fz_at(g, x);
    fz_dim dims[FZ_RANK];
    for (int tries = 0; tries < 4; tries++) {
        int b = fz_pick(g, FZ_BOOL, 0, v.rank);
        bool fits = b != NONE && fz_broadcasts(g, x, b);
        for (int i = 1; fits && i <= fz_at(g, b)->rank; i++)
            fits = fz_same_dim(g, v.dims[v.rank - i], fz_last(g, b, i)) || is_one(fz_last(g, b, i));
        if (fits)
            return b;
    }
    int rank = fz_below(g, v.rank + 1);
    for (int i = 0; i < rank; i++)
        dims[i] = fz_chance(g, 25) ? fz_size(1) : v.dims[v.rank - rank + i];
    return fz_input(g, FZ_BOOL, rank, dims, 0, 1);
}

/* --- tables ----------------------------------------------------------------------------------- */

bool fz_add_one(gen *g, const fz_row *rows, int n) {
    int sum = 0, row = 0;
    for (int i = 0; i < n; i++)
        sum += rows[i].weight;
    for (int at = fz_below(g, sum); at >= rows[row].weight; row++)
        at -= rows[row].weight;
    return rows[row].add(g, &rows[row]) != NONE;
}
