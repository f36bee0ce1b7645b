/* test_rnn.c: recurrent layers and their gradients against their definition in double precision, which central
 * differences of its own results hold: every cell, direction, layout and set of operands, in each float type, between
 * guard bands, the same bits at 1 and 3 threads. ONNX's own cases and PyTorch's layers hold the definition:
 * test/backend, test/autodiff. */
#include "test/unit/kernel_test.h"
#include "kernels/common/element.h"
#include "kernels/rnn/rnn.h"
#include "test/lib/rnn_case.h"

/* Elements as stored, and as doubles. */
typedef struct numbers {
    double *exact;
    void *stored;
    int64_t n;
} numbers;

typedef struct arrays {
    numbers of[ARRAYS], gradient[OPERANDS];
    int32_t *lens;
} arrays;

static size_t bytes_of(const numbers *x, tk_dtype dtype) { return (size_t)x->n * tk_size(dtype); }

static numbers zeros(int64_t n, tk_dtype dtype) {
    numbers x = {calloc((size_t)n + 1, sizeof(double)), NULL, n};
    x.stored = alloc_guarded(bytes_of(&x, dtype), 0);
    memset(x.stored, 0, bytes_of(&x, dtype));
    return x;
}

static void drop_numbers(numbers *x, tk_dtype dtype) {
    free_guarded(x->stored, bytes_of(x, dtype));
    free(x->exact);
}

static arrays draw(const layer_case *c) {
    const tk_rnn *s = &c->s;
    arrays a;
    int64_t n[ARRAYS];
    uint64_t state = 11;
    rnn_sizes(s, n);
    for (int i = 0; i < ARRAYS; i++) {
        a.of[i] = zeros(n[i], s->dtype);
        for (int64_t k = 0; k < n[i]; k++) {
            tk_put(a.of[i].stored, s->dtype, k, any_number(&state) * (i == R ? 1.5 / sqrt((double)s->hidden) : 1.0));
            a.of[i].exact[k] = tk_get(a.of[i].stored, s->dtype, k);
        }
        if (i < OPERANDS)
            a.gradient[i] = zeros(n[i], s->dtype);
    }
    a.lens = calloc((size_t)s->batch + 1, sizeof *a.lens);
    for (int64_t i = 0; i < s->batch; i++)
        a.lens[i] = (int32_t)((i * 2 + 1) % (s->steps + 1));
    return a;
}

static void drop(arrays *a, tk_dtype dtype) {
    for (int i = 0; i < ARRAYS; i++)
        drop_numbers(&a->of[i], dtype);
    for (int i = 0; i < OPERANDS; i++)
        drop_numbers(&a->gradient[i], dtype);
    free(a->lens);
}

static void *of(const layer_case *c, const numbers *x, int i, bool exact) {
    if (c->absent >> i & 1)
        return NULL;
    return exact ? (void *)x->exact : x->stored;
}

static tk_rnn_operands operands_of(const layer_case *c, const arrays *a, bool exact) {
    const numbers *x = a->of;
    return (tk_rnn_operands){of(c, &x[X], X, exact),   of(c, &x[W], W, exact),   of(c, &x[R], R, exact),
                             of(c, &x[B], B, exact),   c->lens ? a->lens : NULL, of(c, &x[H0], H0, exact),
                             of(c, &x[C0], C0, exact), of(c, &x[P], P, exact)};
}

static tk_rnn_results results_of(const layer_case *c, const arrays *a, bool exact) {
    return (tk_rnn_results){of(c, &a->of[Y], Y, exact), of(c, &a->of[H], H, exact), of(c, &a->of[C], C, exact)};
}

static tk_rnn_back back_of(const layer_case *c, const arrays *a, bool exact) {
    return (tk_rnn_back){of(c, &a->of[Y], Y, exact), of(c, &a->of[DY], DY, exact), of(c, &a->of[DH], DH, exact),
                         of(c, &a->of[DC], DC, exact)};
}

static tk_rnn_gradients gradients_of(const layer_case *c, const arrays *a, bool exact) {
    const numbers *g = a->gradient;
    return (tk_rnn_gradients){of(c, &g[X], X, exact), of(c, &g[W], W, exact),   of(c, &g[R], R, exact),
                              of(c, &g[B], B, exact), of(c, &g[H0], H0, exact), of(c, &g[C0], C0, exact),
                              of(c, &g[P], P, exact)};
}

/* Within `tolerance` of the largest element. */
static void near_all(const layer_case *c, const char *what, int which, const numbers *x, double tolerance) {
    double largest = 0.1;
    for (int64_t i = 0; i < x->n; i++)
        largest = fmax(largest, fabs(x->exact[i]));
    for (int64_t i = 0; i < x->n && !(c->absent >> which & 1); i++) {
        double y = tk_get(x->stored, c->s.dtype, i);
        if (!(fabs(y - x->exact[i]) <= tolerance * largest))
            fail_msg("%s %d of cell %d: element %lld is %.9g, expected %.9g", what, which, (int)c->s.cell, (long long)i,
                     y, x->exact[i]);
    }
}

static void run_on(int threads, const layer_case *c, const arrays *a) {
    const tk_rnn *s = &c->s;
    use_threads(threads);
    size_t bytes = tk_rnn_workspace(s, threads), back = tk_rnn_grad_workspace(s, threads);
    void *workspace = alloc_guarded(bytes, 0);
    assert_int_equal(FAULT_OF(tk_rnn_run(queue(), results_of(c, a, false), operands_of(c, a, false), s, workspace)),
                     TK_OK);
    free_guarded(workspace, bytes);
    workspace = alloc_guarded(back, 0);
    assert_int_equal(FAULT_OF(tk_rnn_grad_run(queue(), gradients_of(c, a, false), operands_of(c, a, false),
                                              back_of(c, a, false), s, workspace)),
                     TK_OK);
    free_guarded(workspace, back);
}

static void one(layer_case c) {
    double tolerance = rnn_tolerances[c.s.dtype];
    arrays a = draw(&c), again;
    tk_rnn exact = c.s;
    exact.dtype = TK_F64;
    assert_int_equal(tk_rnn_ref(results_of(&c, &a, true), operands_of(&c, &a, true), &exact), TK_OK);
    assert_int_equal(
        tk_rnn_grad_ref(gradients_of(&c, &a, true), operands_of(&c, &a, true), back_of(&c, &a, true), &exact), TK_OK);
    run_on(1, &c, &a);
    for (int i = Y; i <= C; i++)
        near_all(&c, "result", i, &a.of[i], tolerance);
    for (int i = 0; i < OPERANDS; i++)
        near_all(&c, "gradient", i, &a.gradient[i], tolerance);
    again = draw(&c);
    run_on(3, &c, &again);
    for (int i = Y; i <= C; i++)
        assert_memory_equal(a.of[i].stored, again.of[i].stored, bytes_of(&a.of[i], c.s.dtype));
    for (int i = 0; i < OPERANDS; i++)
        assert_memory_equal(a.gradient[i].stored, again.gradient[i].stored, bytes_of(&a.gradient[i], c.s.dtype));
    drop(&again, c.s.dtype);
    drop(&a, c.s.dtype);
}

TEST(every) {
    for (int cell = 0; cell < 4; cell++)
        for (int way = 0; way < RNN_WAYS; way += 1 + way % 2)
            one(rnn_way(cell, way));
}

/* Other functions, each direction its own, and peepholes. */
TEST(functions) {
    for (int cell = 0; cell < 4; cell++)
        for (int way = 0; way < 54; way += 5) {
            layer_case c = rnn_functions(cell, way, 2);
            c.s.dtype = TK_F64;
            one(c);
        }
}

/* Several chunks of steps, several tiles and shares, and lengths of the vector code's tails. */
TEST(sizes) {
    for (int cell = 0; cell < 4; cell++)
        for (int batch_first = 0; batch_first < 2; batch_first++) {
            bool chunks = cell == 3 && !batch_first;
            layer_case c = chunks ? of_cell(cell, 40, 65, 9, 131) : of_cell(cell, 7, 33, 17, 131);
            c.s.batch_first = batch_first;
            c.s.directions = 2;
            c.lens = batch_first;
            one(c);
            c = of_cell(cell, 3, 1, 1, 1);
            one(c);
        }
}

/* Sums are held to a range. */
TEST(clip) {
    for (int cell = 0; cell < 4; cell++) {
        layer_case c = of_cell(cell, 4, 2, 3, 5);
        c.s.clip = 0.25;
        arrays a = draw(&c);
        tk_rnn exact = c.s;
        exact.dtype = TK_F64;
        tk_rnn_ref(results_of(&c, &a, true), operands_of(&c, &a, true), &exact);
        void *workspace = malloc(tk_rnn_workspace(&c.s, 2));
        tk_rnn_run(queue(), results_of(&c, &a, false), operands_of(&c, &a, false), &c.s, workspace);
        near_all(&c, "result", Y, &a.of[Y], 1e-5);
        free(workspace);
        drop(&a, c.s.dtype);
    }
}

/* No steps: the states are what they were. A length that is out of range is a fault. */
TEST(edges) {
    float x[6] = {0}, w[4] = {1, 2, 3, 4}, h0[2] = {0.5F, -2}, y[6], h[2];
    layer_case c = of_cell(0, 0, 1, 2, 2);
    void *workspace = malloc(tk_rnn_workspace(&c.s, 2) + 4096);
    tk_rnn_operands in = {.x = x, .w = w, .r = w, .h0 = h0};
    assert_int_equal(FAULT_OF(tk_rnn_run(queue(), (tk_rnn_results){y, h, NULL}, in, &c.s, workspace)), TK_OK);
    assert_memory_equal(h, h0, sizeof h);
    for (int32_t length = -1; length <= 4; length += 5) {
        c = of_cell(0, 3, 1, 2, 2);
        in.lens = &length;
        assert_int_equal(FAULT_OF(tk_rnn_run(queue(), (tk_rnn_results){y, h, NULL}, in, &c.s, workspace)),
                         TK_BAD_VALUE);
        assert_int_equal(tk_rnn_ref((tk_rnn_results){y, h, NULL}, in, &c.s), TK_BAD_VALUE);
    }
    free(workspace);
}

/* The sum of all results, each element times what its gradient is. */
static double loss_of(const layer_case *c, arrays *a) {
    double sum = 0;
    assert_int_equal(tk_rnn_ref(results_of(c, a, true), operands_of(c, a, true), &c->s), TK_OK);
    for (int i = Y; i <= C; i++)
        for (int64_t k = 0; k < a->of[i].n && !(c->absent >> i & 1); k++)
            sum += a->of[i].exact[k] * a->of[DY + i - Y].exact[k];
    return sum;
}

TEST(definition) {
    for (int cell = 0; cell < 4; cell++)
        for (int way = 0; way < 8; way++) {
            layer_case c = of_cell(cell, 4, 2, 3, 3);
            c.s.dtype = TK_F64;
            c.s.directions = 1 + way % 2;
            c.s.batch_first = way / 2 % 2;
            c.lens = way / 4;
            c.absent &= c.s.cell == TK_RNN_LSTM ? ~(1u << P) : ~0u;
            arrays a = draw(&c);
            tk_rnn_grad_ref(gradients_of(&c, &a, true), operands_of(&c, &a, true), back_of(&c, &a, true), &c.s);
            for (int i = 0; i < OPERANDS; i++)
                for (int64_t k = 0; k < a.of[i].n && !(c.absent >> i & 1); k++) {
                    double *x = &a.of[i].exact[k], was = *x, step = 1e-5;
                    *x = was + step;
                    double up = loss_of(&c, &a);
                    *x = was - step;
                    double slope = (up - loss_of(&c, &a)) / (2 * step);
                    *x = was;
                    if (fabs(slope - a.gradient[i].exact[k]) > 1e-8)
                        fail_msg("cell %d, way %d, operand %d: %.12g, expected %.12g", cell, way, i,
                                 a.gradient[i].exact[k], slope);
                }
            drop(&a, c.s.dtype);
        }
}
