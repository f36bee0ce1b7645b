/* dims.c: integers with symbols. An expression is a polynomial: a sum of terms, each a coefficient times a product of
 * atoms. An atom is a symbol, or an operation outside polynomials (floor division, max, min) of two dims. Atoms,
 * products and polynomials are interned in the pool and terms are sorted: equal expressions are one object. Terms,
 * degree and nesting are limited; an expression beyond a limit is unknown, so that no file can make this slow. */
#include "dims.h"
#include "compiler/base/base.h"
#include <limits.h>
#include <string.h>

enum { MAX_TERMS = 48, MAX_DEGREE = 12, MAX_WEIGHT = 256, MAX_SPLITS = 3, MAX_TRIED = 2 };

/* The common head of all interned objects. */
typedef struct item {
    struct item *next;
    uint64_t hash;
} item;

typedef struct set {
    item **buckets;
    size_t n_buckets, count;
} set;

/* All values under symbols >= 1; INT64_MIN and INT64_MAX stand for no bound. */
typedef struct range {
    int64_t lo, hi;
} range;

typedef enum atom_kind { SYMBOL, FLOOR_DIV, MAX, MIN } atom_kind;

typedef struct atom {
    item item;
    atom_kind kind;
    uint32_t id;      /* order of creation: the order within products */
    uint32_t weight;  /* number of symbols in its printed form */
    const char *name; /* SYMBOL */
    tc_dim a, b;      /* the others */
    range range;
} atom;

typedef struct product {
    item item;
    uint32_t degree, weight;
    const atom *const *atoms; /* sorted by id */
    range range;
} product;

typedef struct term {
    int64_t coef; /* not 0 */
    const product *product;
} term;

struct tc_expr {
    item item;
    uint32_t n_terms, weight;
    const term *terms; /* sorted by product_compare */
    range range;
};

struct tc_dim_pool {
    tc_arena *arena;
    set atoms, products, exprs;
    uint32_t n_atoms;
    const product *one; /* the empty product: the constant term's */
    tc_map *fresh;      /* base of fresh symbols -> the number after the last one; NULL: there are none */
};

/* A polynomial under construction. */
typedef struct poly {
    uint32_t n;
    bool failed;
    term terms[MAX_TERMS];
} poly;

static const tc_expr unknown_expr;

tc_dim tc_dim_unknown(void) { return (tc_dim){0, &unknown_expr}; }
bool tc_dim_is_unknown(tc_dim d) { return d.sym == &unknown_expr; }

bool tc_dim_equal(tc_dim a, tc_dim b) {
    if (a.sym != b.sym)
        return false;
    return a.sym ? a.sym != &unknown_expr : a.value == b.value;
}

/* --- interning -------------------------------------------------------------------------------- */

static void set_add(tc_dim_pool *pool, set *s, item *it) {
    if (s->count >= s->n_buckets) {
        size_t n = s->n_buckets ? s->n_buckets * 2 : 64;
        item **buckets = TC_NEW_ARRAY(pool->arena, item *, n);
        for (size_t i = 0; i < s->n_buckets; i++)
            for (item *at = s->buckets[i], *next; at; at = next) {
                next = at->next;
                at->next = buckets[at->hash & (n - 1)];
                buckets[at->hash & (n - 1)] = at;
            }
        s->buckets = buckets;
        s->n_buckets = n;
    }
    item **bucket = &s->buckets[it->hash & (s->n_buckets - 1)];
    it->next = *bucket;
    *bucket = it;
    s->count++;
}

static const item *set_first(const set *s, uint64_t hash) {
    return s->n_buckets ? s->buckets[hash & (s->n_buckets - 1)] : NULL;
}

static bool same_dim(tc_dim a, tc_dim b) { return a.sym == b.sym && (a.sym || a.value == b.value); }

static const atom *atom_intern(tc_dim_pool *pool, const atom *wanted) {
    uint64_t hash = tc_hash_bytes(&wanted->kind, sizeof wanted->kind, 1);
    if (wanted->name)
        hash = tc_hash_bytes(wanted->name, strlen(wanted->name), hash);
    const void *parts[] = {wanted->a.sym, wanted->b.sym};
    int64_t values[] = {wanted->a.sym ? 0 : wanted->a.value, wanted->b.sym ? 0 : wanted->b.value};
    hash = tc_hash_bytes(values, sizeof values, tc_hash_bytes(parts, sizeof parts, hash));
    for (const item *it = set_first(&pool->atoms, hash); it; it = it->next) {
        const atom *have = (const atom *)it;
        if (it->hash == hash && have->kind == wanted->kind && same_dim(have->a, wanted->a) &&
            same_dim(have->b, wanted->b) && (!have->name || strcmp(have->name, wanted->name) == 0))
            return have;
    }
    atom *made = TC_NEW(pool->arena, atom);
    *made = *wanted;
    made->item.hash = hash;
    made->id = pool->n_atoms++;
    if (wanted->name)
        made->name = tc_arena_strdup(pool->arena, wanted->name);
    set_add(pool, &pool->atoms, &made->item);
    return made;
}

/* --- ranges ----------------------------------------------------------------------------------- */

static bool unbounded(int64_t v) { return v == INT64_MIN || v == INT64_MAX; }

static int64_t bound_add(int64_t a, int64_t b, int64_t if_unbounded) {
    int64_t sum;
    return unbounded(a) || unbounded(b) || __builtin_add_overflow(a, b, &sum) ? if_unbounded : sum;
}

static range range_add(range a, range b) {
    return (range){bound_add(a.lo, b.lo, INT64_MIN), bound_add(a.hi, b.hi, INT64_MAX)};
}

static int64_t bound_mul(int64_t a, int64_t b) {
    int64_t result;
    if (a == 0 || b == 0)
        return 0;
    if (unbounded(a) || unbounded(b) || __builtin_mul_overflow(a, b, &result))
        return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
    return result;
}

static range range_mul(range a, range b) {
    int64_t ends[] = {bound_mul(a.lo, b.lo), bound_mul(a.lo, b.hi), bound_mul(a.hi, b.lo), bound_mul(a.hi, b.hi)};
    range r = {ends[0], ends[0]};
    for (int i = 1; i < 4; i++) {
        r.lo = ends[i] < r.lo ? ends[i] : r.lo;
        r.hi = ends[i] > r.hi ? ends[i] : r.hi;
    }
    return r;
}

static range range_of(tc_dim d) { return d.sym ? d.sym->range : (range){d.value, d.value}; }

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

static range atom_range(atom_kind kind, tc_dim a, tc_dim b) {
    range x = range_of(a), y = range_of(b);
    if (kind == MAX)
        return (range){max64(x.lo, y.lo), max64(x.hi, y.hi)};
    if (kind == MIN)
        return (range){min64(x.lo, y.lo), min64(x.hi, y.hi)};
    if (y.lo >= 1 && x.lo >= 0)
        return (range){unbounded(y.hi) ? 0 : floor_div(x.lo, y.hi),
                       unbounded(x.hi) ? INT64_MAX : floor_div(x.hi, y.lo)};
    return (range){INT64_MIN, INT64_MAX};
}

/* --- products --------------------------------------------------------------------------------- */

static const product *product_intern(tc_dim_pool *pool, uint32_t degree, const atom *const *atoms) {
    uint64_t hash = tc_hash_bytes(atoms, degree * sizeof *atoms, 2);
    for (const item *it = set_first(&pool->products, hash); it; it = it->next) {
        const product *have = (const product *)it;
        if (it->hash == hash && have->degree == degree &&
            (degree == 0 || memcmp(have->atoms, atoms, degree * sizeof *atoms) == 0))
            return have;
    }
    product *made = TC_NEW(pool->arena, product);
    const atom **copy = TC_NEW_ARRAY(pool->arena, const atom *, degree);
    made->item.hash = hash;
    made->degree = degree;
    made->atoms = copy;
    made->range = (range){1, 1};
    for (uint32_t i = 0; i < degree; i++) {
        copy[i] = atoms[i];
        made->weight += atoms[i]->weight;
        made->range = range_mul(made->range, atoms[i]->range);
    }
    set_add(pool, &pool->products, &made->item);
    return made;
}

/* Negative when a comes first: higher degree, then the lower atoms. The order is kept by multiplication. */
static int product_compare(const product *a, const product *b) {
    if (a->degree != b->degree)
        return a->degree > b->degree ? -1 : 1;
    for (uint32_t i = 0; i < a->degree; i++)
        if (a->atoms[i] != b->atoms[i])
            return a->atoms[i]->id < b->atoms[i]->id ? -1 : 1;
    return 0;
}

/* NULL beyond the limit. */
static const product *product_mul(tc_dim_pool *pool, const product *a, const product *b) {
    if (a->degree + b->degree > MAX_DEGREE)
        return NULL;
    const atom *atoms[MAX_DEGREE];
    uint32_t i = 0, j = 0, n = 0;
    while (i < a->degree || j < b->degree) {
        bool from_a = j == b->degree || (i < a->degree && a->atoms[i]->id <= b->atoms[j]->id);
        atoms[n++] = from_a ? a->atoms[i++] : b->atoms[j++];
    }
    return product_intern(pool, n, atoms);
}

/* a / b, or NULL when b does not divide a. */
static const product *product_div(tc_dim_pool *pool, const product *a, const product *b) {
    const atom *atoms[MAX_DEGREE];
    uint32_t j = 0, n = 0;
    for (uint32_t i = 0; i < a->degree; i++) {
        if (j < b->degree && a->atoms[i] == b->atoms[j])
            j++;
        else
            atoms[n++] = a->atoms[i];
    }
    return j == b->degree ? product_intern(pool, n, atoms) : NULL;
}

/* --- polynomials ------------------------------------------------------------------------------ */

static void poly_add(poly *p, int64_t coef, const product *factors) {
    uint32_t lo = 0, hi = p->n;
    if (coef == 0 || p->failed)
        return;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (product_compare(p->terms[mid].product, factors) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    term *at = &p->terms[lo];
    if (lo < p->n && at->product == factors) {
        p->failed = __builtin_add_overflow(at->coef, coef, &at->coef);
        if (at->coef == 0 && !p->failed) {
            p->n--;
            memmove(at, at + 1, (p->n - lo) * sizeof *at);
        }
        return;
    }
    p->failed = p->n == MAX_TERMS;
    if (p->failed)
        return;
    memmove(at + 1, at, (p->n - lo) * sizeof *at);
    *at = (term){coef, factors};
    p->n++;
}

static void poly_add_scaled(poly *p, const term *terms, uint32_t n, int64_t factor) {
    for (uint32_t i = 0; i < n; i++) {
        int64_t coef;
        p->failed = p->failed || __builtin_mul_overflow(terms[i].coef, factor, &coef);
        if (p->failed)
            return;
        poly_add(p, coef, terms[i].product);
    }
}

static void poly_set(poly *p, const tc_dim_pool *pool, tc_dim d) {
    p->n = 0;
    p->failed = tc_dim_is_unknown(d);
    if (d.sym)
        poly_add_scaled(p, d.sym->terms, d.sym->n_terms, 1);
    else
        poly_add(p, d.value, pool->one);
}

static tc_dim poly_dim(tc_dim_pool *pool, const poly *p) {
    if (p->failed)
        return tc_dim_unknown();
    if (p->n == 0)
        return tc_dim_const(0);
    if (p->n == 1 && p->terms[0].product->degree == 0)
        return tc_dim_const(p->terms[0].coef);
    uint64_t hash = 3;
    uint32_t weight = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        hash = tc_hash_bytes(&p->terms[i].coef, sizeof p->terms[i].coef, hash);
        hash = tc_hash_bytes(&p->terms[i].product, sizeof p->terms[i].product, hash);
        weight += 1 + p->terms[i].product->weight;
    }
    if (weight > MAX_WEIGHT)
        return tc_dim_unknown();
    for (const item *it = set_first(&pool->exprs, hash); it; it = it->next) {
        const tc_expr *have = (const tc_expr *)it;
        bool same = it->hash == hash && have->n_terms == p->n;
        for (uint32_t i = 0; same && i < p->n; i++)
            same = have->terms[i].coef == p->terms[i].coef && have->terms[i].product == p->terms[i].product;
        if (same)
            return (tc_dim){0, have};
    }
    tc_expr *made = TC_NEW(pool->arena, tc_expr);
    term *terms = TC_NEW_ARRAY(pool->arena, term, p->n);
    memcpy(terms, p->terms, p->n * sizeof *terms);
    *made = (tc_expr){.item = {NULL, hash}, .n_terms = p->n, .weight = weight, .terms = terms};
    for (uint32_t i = 0; i < p->n; i++)
        made->range = range_add(made->range, range_mul((range){terms[i].coef, terms[i].coef}, terms[i].product->range));
    set_add(pool, &pool->exprs, &made->item);
    return (tc_dim){0, made};
}

static tc_dim atom_dim(tc_dim_pool *pool, const atom *a) {
    poly p = {0};
    poly_add(&p, 1, product_intern(pool, 1, &a));
    return poly_dim(pool, &p);
}

/* The atom that the dim is, or NULL. */
static const atom *dim_atom(tc_dim d) {
    if (!d.sym || d.sym->n_terms != 1 || d.sym->terms[0].coef != 1 || d.sym->terms[0].product->degree != 1)
        return NULL;
    return d.sym->terms[0].product->atoms[0];
}

static uint32_t dim_weight(tc_dim d) { return d.sym ? d.sym->weight : 1; }

static tc_dim opaque(tc_dim_pool *pool, atom_kind kind, tc_dim a, tc_dim b) {
    atom wanted = {
        .kind = kind, .weight = 1 + dim_weight(a) + dim_weight(b), .a = a, .b = b, .range = atom_range(kind, a, b)};
    if (wanted.weight > MAX_WEIGHT)
        return tc_dim_unknown();
    return atom_dim(pool, atom_intern(pool, &wanted));
}

tc_dim_pool *tc_dim_pool_create(tc_arena *arena) {
    tc_dim_pool *pool = TC_NEW(arena, tc_dim_pool);
    pool->arena = arena;
    pool->one = product_intern(pool, 0, NULL);
    return pool;
}

tc_dim tc_dim_symbol(tc_dim_pool *pool, const char *name) {
    atom wanted = {.kind = SYMBOL, .weight = 1, .name = name, .range = {1, INT64_MAX}};
    return atom_dim(pool, atom_intern(pool, &wanted));
}

/* Fresh symbols of one base are numbered on from the last one, so that thousands of them take linear time. */
tc_dim tc_dim_fresh(tc_dim_pool *pool, const char *base) {
    uint32_t before = pool->n_atoms;
    tc_dim d = tc_dim_symbol(pool, base);
    if (pool->n_atoms > before)
        return d;
    if (!pool->fresh)
        pool->fresh = tc_map_create(pool->arena);
    uintptr_t number = (uintptr_t)tc_map_get(pool->fresh, base);
    while (pool->n_atoms == before)
        d = tc_dim_symbol(pool, tc_arena_printf(pool->arena, "%s_%ju", base, (uintmax_t)++number));
    tc_map_set(pool->fresh, tc_arena_strdup(pool->arena, base), (void *)number);
    return d;
}

/* --- arithmetic ------------------------------------------------------------------------------- */

static tc_dim add_scaled(tc_dim_pool *pool, tc_dim a, tc_dim b, int64_t factor) {
    int64_t scaled, sum;
    if (tc_dim_is_const(a) && tc_dim_is_const(b)) {
        if (__builtin_mul_overflow(b.value, factor, &scaled) || __builtin_add_overflow(a.value, scaled, &sum))
            return tc_dim_unknown();
        return tc_dim_const(sum);
    }
    if (tc_dim_is_unknown(a) || tc_dim_is_unknown(b))
        return tc_dim_unknown();
    poly p, q;
    poly_set(&p, pool, a);
    poly_set(&q, pool, b);
    poly_add_scaled(&p, q.terms, q.n, factor);
    return poly_dim(pool, &p);
}

tc_dim tc_dim_add(tc_dim_pool *pool, tc_dim a, tc_dim b) { return add_scaled(pool, a, b, 1); }
tc_dim tc_dim_sub(tc_dim_pool *pool, tc_dim a, tc_dim b) { return add_scaled(pool, a, b, -1); }

static void poly_mul(tc_dim_pool *pool, poly *p, const poly *a, const poly *b) {
    *p = (poly){.failed = a->failed || b->failed};
    for (uint32_t i = 0; i < a->n && !p->failed; i++)
        for (uint32_t j = 0; j < b->n && !p->failed; j++) {
            int64_t coef;
            const product *m = product_mul(pool, a->terms[i].product, b->terms[j].product);
            p->failed = !m || __builtin_mul_overflow(a->terms[i].coef, b->terms[j].coef, &coef);
            if (!p->failed)
                poly_add(p, coef, m);
        }
}

tc_dim tc_dim_mul(tc_dim_pool *pool, tc_dim a, tc_dim b) {
    int64_t value;
    if ((!a.sym && a.value == 0) || (!b.sym && b.value == 0))
        return tc_dim_const(0);
    if (tc_dim_is_unknown(a) || tc_dim_is_unknown(b))
        return tc_dim_unknown();
    if (tc_dim_is_const(a) && tc_dim_is_const(b))
        return __builtin_mul_overflow(a.value, b.value, &value) ? tc_dim_unknown() : tc_dim_const(value);
    poly p, x, y;
    poly_set(&x, pool, a);
    poly_set(&y, pool, b);
    poly_mul(pool, &p, &x, &y);
    return poly_dim(pool, &p);
}

/* a = q * b exactly: long division by leading terms. False when a remainder stays. */
static bool exact_div(tc_dim_pool *pool, tc_dim a, tc_dim b, tc_dim *out_quotient) {
    poly rest, divisor, quotient = {0};
    poly_set(&rest, pool, a);
    poly_set(&divisor, pool, b);
    for (int steps = 0; rest.n && steps < MAX_TERMS; steps++) {
        const product *m = product_div(pool, rest.terms[0].product, divisor.terms[0].product);
        int64_t by = divisor.terms[0].coef, coef = rest.terms[0].coef;
        if (!m || (by == -1 && coef == INT64_MIN) || coef % by != 0)
            return false;
        poly part = {0}, covered;
        poly_add(&part, coef / by, m);
        poly_add(&quotient, coef / by, m);
        poly_mul(pool, &covered, &part, &divisor);
        poly_add_scaled(&rest, covered.terms, covered.n, -1);
        if (rest.failed || covered.failed || quotient.failed)
            return false;
    }
    *out_quotient = poly_dim(pool, &quotient);
    return rest.n == 0;
}

/* floor(a / by), by > 0: whole multiples come out, floor(floor(x/y)/z) = floor(x/(y*z)), the rest is opaque. */
static tc_dim div_const(tc_dim_pool *pool, tc_dim a, int64_t by) {
    poly whole = {0}, rest = {0}, p;
    poly_set(&p, pool, a);
    for (uint32_t i = 0; i < p.n; i++) {
        int64_t q = floor_div(p.terms[i].coef, by);
        poly_add(&whole, q, p.terms[i].product);
        poly_add(&rest, p.terms[i].coef - q * by, p.terms[i].product);
    }
    tc_dim q = poly_dim(pool, &whole), r = poly_dim(pool, &rest);
    range bounds = range_of(r);
    if (bounds.lo >= 0 && bounds.hi < by)
        return q;
    for (uint32_t i = 0; r.sym && i < r.sym->n_terms; i++) {
        const term *t = &r.sym->terms[i];
        const atom *inner = t->product->degree == 1 ? t->product->atoms[0] : NULL;
        int64_t both;
        if (t->coef != 1 || !inner || inner->kind != FLOOR_DIV || inner->b.sym || inner->b.value < 1 ||
            __builtin_mul_overflow(inner->b.value, by, &both))
            continue;
        poly others = rest;
        poly_add(&others, -1, t->product);
        tc_dim scaled = tc_dim_mul(pool, poly_dim(pool, &others), inner->b);
        return tc_dim_add(pool, q, div_const(pool, tc_dim_add(pool, inner->a, scaled), both));
    }
    return tc_dim_add(pool, q, tc_dim_is_unknown(r) ? r : opaque(pool, FLOOR_DIV, r, tc_dim_const(by)));
}

tc_dim tc_dim_div(tc_dim_pool *pool, tc_dim a, tc_dim b) {
    tc_dim quotient;
    if (tc_dim_is_unknown(a) || tc_dim_is_unknown(b) || (!b.sym && b.value == 0))
        return tc_dim_unknown();
    if (tc_dim_is_const(a) && a.value == 0)
        return a;
    if (tc_dim_is_const(a) && tc_dim_is_const(b))
        return a.value == INT64_MIN && b.value == -1 ? tc_dim_unknown() : tc_dim_const(floor_div(a.value, b.value));
    if (exact_div(pool, a, b, &quotient))
        return quotient;
    if (tc_dim_is_const(b)) {
        if (b.value > 0)
            return div_const(pool, a, b.value);
        if (b.value == INT64_MIN)
            return tc_dim_unknown();
        return div_const(pool, tc_dim_sub(pool, tc_dim_const(0), a), -b.value);
    }
    if (range_of(a).lo >= 0 && tc_dim_less(a, b) == 1)
        return tc_dim_const(0);
    return opaque(pool, FLOOR_DIV, a, b);
}

/* --- comparison ------------------------------------------------------------------------------- */

static int64_t poly_upper(const poly *p, int splits);

/* The upper bound with the atom of term `at` (of coefficient c > 0 where min, < 0 where max) replaced by either
 * operand. */
static int64_t upper_with(const poly *p, uint32_t at, tc_dim operand, int64_t *constant, int splits) {
    poly q = *p;
    int64_t coef = p->terms[at].coef;
    poly_add(&q, -coef, p->terms[at].product);
    if (operand.sym)
        poly_add_scaled(&q, operand.sym->terms, operand.sym->n_terms, coef);
    else
        *constant = bound_mul(operand.value, coef);
    return q.failed ? INT64_MAX : poly_upper(&q, splits - 1);
}

static int64_t poly_upper(const poly *p, int splits) {
    range all = {0, 0};
    for (uint32_t i = 0; i < p->n; i++)
        all = range_add(all, range_mul((range){p->terms[i].coef, p->terms[i].coef}, p->terms[i].product->range));
    int64_t best = all.hi;
    int tried = 0;
    for (uint32_t i = 0; i < p->n && splits > 0 && tried < MAX_TRIED; i++) {
        const atom *a = p->terms[i].product->degree == 1 ? p->terms[i].product->atoms[0] : NULL;
        if (!a || a->kind != (p->terms[i].coef > 0 ? MIN : MAX))
            continue;
        tried++;
        for (int side = 0; side < 2; side++) {
            int64_t constant = 0, bound = upper_with(p, i, side ? a->b : a->a, &constant, splits);
            best = min64(best, bound_add(bound, constant, INT64_MAX));
        }
    }
    return best;
}

/* An upper bound of a - b; INT64_MAX: none known. */
static int64_t upper_difference(tc_dim a, tc_dim b) {
    poly p = {0};
    int64_t constant = 0;
    if (a.sym)
        poly_add_scaled(&p, a.sym->terms, a.sym->n_terms, 1);
    else
        constant = a.value;
    if (b.sym)
        poly_add_scaled(&p, b.sym->terms, b.sym->n_terms, -1);
    else if (__builtin_sub_overflow(constant, b.value, &constant))
        return INT64_MAX;
    return p.failed ? INT64_MAX : bound_add(poly_upper(&p, MAX_SPLITS), constant, INT64_MAX);
}

int tc_dim_less(tc_dim a, tc_dim b) {
    if (tc_dim_is_unknown(a) || tc_dim_is_unknown(b))
        return -1;
    if (tc_dim_is_const(a) && tc_dim_is_const(b))
        return a.value < b.value;
    if (upper_difference(a, b) < 0)
        return 1;
    return upper_difference(b, a) <= 0 ? 0 : -1;
}

/* A total order of dims, by content. */
static int dim_compare(tc_dim a, tc_dim b) {
    if (!a.sym || !b.sym)
        return a.sym ? -1 : b.sym ? 1 : (a.value > b.value) - (a.value < b.value);
    for (uint32_t i = 0; i < a.sym->n_terms && i < b.sym->n_terms; i++) {
        const term *x = &a.sym->terms[i], *y = &b.sym->terms[i];
        int order = product_compare(x->product, y->product);
        if (order || x->coef != y->coef)
            return order ? order : x->coef > y->coef ? -1 : 1;
    }
    return (a.sym->n_terms < b.sym->n_terms) - (a.sym->n_terms > b.sym->n_terms);
}

/* max(a, b) or min(a, b), with absorption: max(a, min(a, b)) = a, max(a, max(a, b)) = max(a, b). */
static tc_dim choose(tc_dim_pool *pool, atom_kind kind, tc_dim a, tc_dim b) {
    if (tc_dim_is_unknown(a) || tc_dim_is_unknown(b))
        return tc_dim_unknown();
    if (tc_dim_equal(a, b))
        return a;
    int less = tc_dim_less(a, b);
    if (less < 0) {
        int more = tc_dim_less(b, a);
        less = more < 0 ? -1 : !more;
    }
    if (less >= 0)
        return (less == 1) == (kind == MAX) ? b : a;
    for (int side = 0; side < 2; side++) {
        tc_dim outer = side ? b : a, inner = side ? a : b;
        const atom *at = dim_atom(inner);
        if (at && (at->kind == MAX || at->kind == MIN) && (tc_dim_equal(at->a, outer) || tc_dim_equal(at->b, outer)))
            return at->kind == kind ? inner : outer;
    }
    return dim_compare(a, b) > 0 ? opaque(pool, kind, b, a) : opaque(pool, kind, a, b);
}

tc_dim tc_dim_max(tc_dim_pool *pool, tc_dim a, tc_dim b) { return choose(pool, MAX, a, b); }
tc_dim tc_dim_min(tc_dim_pool *pool, tc_dim a, tc_dim b) { return choose(pool, MIN, a, b); }

/* --- binding and printing --------------------------------------------------------------------- */

static tc_dim bind_atom(tc_dim_pool *pool, const atom *a, tc_dim_lookup lookup, void *user) {
    int64_t value;
    if (a->kind == SYMBOL)
        return lookup(user, a->name, &value) ? tc_dim_const(value) : tc_dim_symbol(pool, a->name);
    tc_dim x = tc_dim_substitute(pool, a->a, lookup, user), y = tc_dim_substitute(pool, a->b, lookup, user);
    return a->kind == FLOOR_DIV ? tc_dim_div(pool, x, y) : choose(pool, a->kind, x, y);
}

tc_dim tc_dim_substitute(tc_dim_pool *pool, tc_dim d, tc_dim_lookup lookup, void *user) {
    if (tc_dim_is_const(d) || tc_dim_is_unknown(d))
        return d;
    tc_dim sum = tc_dim_const(0);
    for (uint32_t i = 0; i < d.sym->n_terms; i++) {
        const term *t = &d.sym->terms[i];
        tc_dim part = tc_dim_const(t->coef);
        for (uint32_t j = 0; j < t->product->degree; j++)
            part = tc_dim_mul(pool, part, bind_atom(pool, t->product->atoms[j], lookup, user));
        sum = tc_dim_add(pool, sum, part);
    }
    return sum;
}

static const char *atom_text(tc_arena *arena, const atom *a) {
    if (a->kind == SYMBOL)
        return a->name;
    const char *x = tc_dim_text(arena, a->a), *y = tc_dim_text(arena, a->b);
    if (a->kind != FLOOR_DIV)
        return tc_arena_printf(arena, "%s(%s, %s)", a->kind == MAX ? "max" : "min", x, y);
    bool sum = a->a.sym && a->a.sym->n_terms > 1, simple = tc_dim_is_const(a->b) || dim_atom(a->b);
    return tc_arena_printf(arena, "floor(%s%s%s/%s%s%s)", sum ? "(" : "", x, sum ? ")" : "", simple ? "" : "(", y,
                           simple ? "" : ")");
}

const char *tc_dim_text(tc_arena *arena, tc_dim d) {
    if (tc_dim_is_const(d))
        return tc_arena_printf(arena, "%lld", (long long)d.value);
    if (tc_dim_is_unknown(d))
        return "?";
    const char *text = "";
    for (uint32_t i = 0; i < d.sym->n_terms; i++) {
        const term *t = &d.sym->terms[i];
        uint64_t size = t->coef < 0 ? 0 - (uint64_t)t->coef : (uint64_t)t->coef;
        const char *sign = i == 0 ? (t->coef < 0 ? "-" : "") : t->coef < 0 ? " - " : " + ";
        text = tc_arena_printf(arena, "%s%s", text, sign);
        bool number = size != 1 || t->product->degree == 0;
        if (number)
            text = tc_arena_printf(arena, "%s%llu", text, (unsigned long long)size);
        for (uint32_t j = 0; j < t->product->degree; j++)
            text =
                tc_arena_printf(arena, "%s%s%s", text, number || j ? "*" : "", atom_text(arena, t->product->atoms[j]));
    }
    return text;
}
