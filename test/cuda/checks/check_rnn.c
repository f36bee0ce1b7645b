/* check_rnn.c: recurrent layers and their gradients on the emulated device: every cell, direction, layout and set of
 * operands, sequences that end before the batch does, several chunks of steps, in each float type. */
#include "kernels/rnn/rnn_cuda.h"
#include "test/lib/rnn_case.h"
#include "cuda_case.h"
#include <math.h>

typedef struct arrays {
    pair of[ARRAYS], gradient[OPERANDS], lens;
} arrays;

static arrays draw(const layer_case *c) {
    const tk_rnn *s = &c->s;
    arrays a;
    int64_t n[ARRAYS];
    double lens[64];
    rnn_sizes(s, n);
    for (int i = 0; i < ARRAYS; i++) {
        double most = i == R ? 1.5 / sqrt((double)s->hidden) : 1;
        a.of[i] = i == Y || i == H || i == C ? pair_result(s->dtype, n[i]) : pair_random(s->dtype, n[i], -most, most);
        if (i < OPERANDS)
            a.gradient[i] = pair_result(s->dtype, n[i]);
    }
    for (int64_t i = 0; i < s->batch; i++)
        lens[i] = (double)((i * 2 + 1) % (s->steps + 1));
    a.lens = pair_numbers(TK_I32, s->batch, lens);
    return a;
}

static void *of(const layer_case *c, const arrays *a, int i) { return c->absent >> i & 1 ? NULL : AT(a->of[i]); }
static void *gradient_of(const layer_case *c, const arrays *a, int i) {
    return (c->absent | c->no_result) >> i & 1 ? NULL : AT(a->gradient[i]);
}

static tk_rnn_operands operands_of(const layer_case *c, const arrays *a) {
    return (tk_rnn_operands){of(c, a, X),  of(c, a, W),  of(c, a, R), of(c, a, B), c->lens ? AT(a->lens) : NULL,
                             of(c, a, H0), of(c, a, C0), of(c, a, P)};
}

/* Within `tolerance` of the largest element. */
static void near_all(const layer_case *c, const char *what, int which, pair p, double tolerance) {
    double largest = 0.1;
    for (int64_t i = 0; i < p.n; i++)
        largest = fmax(largest, fabs(tk_get(p.at[HOST], p.dtype, i)));
    pair_compare(p, (bounds){.absolute = tolerance * largest},
                 "%s %d of cell %d, type %d, directions %d, backward %d, batch first %d", what, which, (int)c->s.cell,
                 (int)c->s.dtype, c->s.directions, c->s.backward, c->s.batch_first);
}

/* The layer, and its gradient by its Y. */
static void layer(const layer_case *c, const arrays *a) {
    for (side = HOST; side < SIDES; side++)
        tables[side]->rnn_run(queues[side], (tk_rnn_results){of(c, a, Y), of(c, a, H), of(c, a, C)}, operands_of(c, a),
                              &c->s, workspace(tables[side]->rnn_workspace(&c->s, 1)));
    wait_for_both();
    for (int i = Y; i <= C; i++)
        if (!(c->absent >> i & 1))
            near_all(c, "result", i, a->of[i], rnn_tolerances[c->s.dtype]);
}

static void one(layer_case c) {
    arrays a = draw(&c);
    layer(&c, &a);
    pair_share(a.of[Y]);
    for (side = HOST; side < SIDES; side++) {
        const tk_rnn_back back = {AT(a.of[Y]), of(&c, &a, DY), of(&c, &a, DH), of(&c, &a, DC)};
        const tk_rnn_gradients out = {gradient_of(&c, &a, X), gradient_of(&c, &a, W),  gradient_of(&c, &a, R),
                                      gradient_of(&c, &a, B), gradient_of(&c, &a, H0), gradient_of(&c, &a, C0),
                                      gradient_of(&c, &a, P)};
        tables[side]->rnn_grad_run(queues[side], out, operands_of(&c, &a), back, &c.s,
                                   workspace(tables[side]->rnn_grad_workspace(&c.s, 1)));
    }
    wait_for_both();
    for (int i = 0; i < OPERANDS; i++)
        if (!((c.absent | c.no_result) >> i & 1))
            near_all(&c, "gradient", i, a.gradient[i], rnn_tolerances[c.s.dtype]);
    pairs_give_back();
}

static void every(void) {
    static const unsigned no_result[] = {0, 1u << X | 1u << P, 1u << W | 1u << B, 1u << R | 1u << H0 | 1u << C0};
    for (int cell = 0; cell < 4; cell++)
        for (int way = 0; way < RNN_WAYS; way += 1 + way % 2) {
            layer_case c = rnn_way(cell, way);
            c.no_result = no_result[(way + way / 4) % 4];
            one(c);
        }
}

/* Other functions, each direction its own, and peepholes. */
static void functions(void) {
    for (int cell = 0; cell < 4; cell++)
        for (int way = 0; way < 54; way += 5) {
            layer_case c = rnn_functions(cell, way, 3);
            c.s.dtype = way % 3 ? TK_F64 : TK_F32;
            c.s.batch_first = way % 4 > 1;
            one(c);
        }
}

/* Several blocks of threads; chunks of several steps, of one, and of all; no steps, no items. */
static void shapes(void) {
    const int64_t before = tk_cuda_rnn_bytes;
    for (int cell = 0; cell < 4; cell++)
        for (int64_t bytes = 1; bytes <= 16384; bytes *= 16384) {
            layer_case c = of_cell(cell, 5, 9, 7, 33);
            tk_cuda_rnn_bytes = bytes;
            c.s.directions = 2;
            c.lens = bytes > 1;
            one(c);
            one(of_cell(cell, 3, 1, 1, 1));
            one(of_cell(cell, 0, 2, 3, 2));
            one(of_cell(cell, 2, 0, 3, 2));
        }
    tk_cuda_rnn_bytes = before;
}

/* Sums are held to a range. */
static void clip(void) {
    for (int cell = 0; cell < 4; cell++) {
        layer_case c = of_cell(cell, 4, 2, 3, 5);
        c.s.clip = 0.25;
        arrays a = draw(&c);
        layer(&c, &a);
        pairs_give_back();
    }
}

/* A sequence that ends before its begin, or behind the batch's end, which the backward direction begins with. */
static void faults(void) {
    for (int cell = 0; cell < 4; cell++)
        for (double length = -1; length <= 4; length += 5) {
            const double lens[] = {2, length};
            layer_case c = of_cell(cell, 3, 2, 2, 2);
            c.s.directions = 2;
            c.lens = true;
            arrays a = draw(&c);
            a.lens = pair_numbers(TK_I32, 2, lens);
            for (side = HOST; side < SIDES; side++)
                tables[side]->rnn_run(queues[side], (tk_rnn_results){of(&c, &a, Y), NULL, NULL}, operands_of(&c, &a),
                                      &c.s, workspace(tables[side]->rnn_workspace(&c.s, 1)));
            wait_for_both();
            expect_fault(TK_BAD_VALUE, "a length out of range");
            for (side = HOST; side < SIDES; side++)
                tables[side]->rnn_grad_run(queues[side], (tk_rnn_gradients){.dx = AT(a.gradient[X])},
                                           operands_of(&c, &a), (tk_rnn_back){.y = AT(a.of[DY]), .dy = AT(a.of[DY])},
                                           &c.s, workspace(tables[side]->rnn_grad_workspace(&c.s, 1)));
            wait_for_both();
            expect_fault(TK_BAD_VALUE, "a length out of range, of a gradient");
            pairs_give_back();
        }
}

const cuda_check checks[] = {{"every", every}, {"functions", functions}, {"shapes", shapes},
                             {"clip", clip},   {"faults", faults},       {NULL, NULL}};
