/* test_linear_loss.c: the loss of a product's rows, chunk by chunk, against its definition in double precision, which
 * central differences of its own loss hold: every combination of what the op knows, in each float type, between guard
 * bands, the same bits at 1, 2 and 3 threads. */
#include "test/unit/kernel_test.h"
#include "kernels/common/element.h"
#include "kernels/loss/linear_loss.h"

enum { IGNORED = -100 };

/* What a case has. Operands as doubles and as stored; results of the definition and of the kernel. */
typedef struct loss_case {
    tk_linear_loss s;
    bool b, weights, dloss;
    double ignored_part; /* of the labels */
} loss_case;

typedef struct numbers {
    double *exact;
    void *stored;
    size_t bytes;
    int64_t n;
} numbers;

static numbers zeros(int64_t n, tk_dtype dtype) {
    numbers x = {calloc((size_t)n + 1, sizeof(double)), NULL, (size_t)n * tk_size(dtype), n};
    x.stored = alloc_guarded(x.bytes, 0);
    memset(x.stored, 0, x.bytes);
    return x;
}

/* Numbers as the type holds them, in [low, high). */
static numbers drawn(int64_t n, tk_dtype dtype, double low, double high, uint64_t *state) {
    numbers x = zeros(n, dtype);
    for (int64_t i = 0; i < n; i++) {
        tk_put(x.stored, dtype, i, low + (high - low) * (any_number(state) + 1) / 2);
        x.exact[i] = tk_get(x.stored, dtype, i);
    }
    return x;
}

static void drop_numbers(numbers x) {
    free_guarded(x.stored, x.bytes);
    free(x.exact);
}

/* Within `tolerance` of the largest element, or of `least`, the size of the terms that it is a sum of. */
static void near_all(const char *what, numbers got, tk_dtype dtype, double tolerance, double least) {
    double largest = least;
    for (int64_t i = 0; i < got.n; i++)
        largest = fmax(largest, fabs(got.exact[i]));
    for (int64_t i = 0; i < got.n; i++) {
        double y = tk_get(got.stored, dtype, i);
        if (!(fabs(y - got.exact[i]) <= tolerance * largest) && !(isnan(y) && isnan(got.exact[i])))
            fail_msg("%s: element %lld is %.9g, expected %.9g", what, (long long)i, y, got.exact[i]);
    }
}

typedef struct operands {
    numbers x, w, b, weights, dloss;
    int64_t *labels;
} operands;

static operands draw_operands(const loss_case *c) {
    const tk_linear_loss *s = &c->s;
    uint64_t state = 7;
    bool each = s->reduction == TK_LOSS_NONE;
    operands in = {drawn(s->rows * s->hidden, s->dtype, -2, 2, &state),
                   drawn(s->classes * s->hidden, s->dtype, -1, 1, &state),
                   drawn(s->classes, s->dtype, -1, 1, &state),
                   drawn(s->classes, s->loss_dtype, 0.25, 2, &state),
                   drawn(each ? s->rows : 1, s->loss_dtype, 0.5, 2, &state),
                   calloc((size_t)s->rows + 1, sizeof(int64_t))};
    for (int64_t i = 0; i < s->rows; i++) {
        bool ignored = s->has_ignored && any_number(&state) < 2 * c->ignored_part - 1;
        in.labels[i] = ignored ? IGNORED : (int64_t)((any_number(&state) + 1) / 2 * (double)s->classes);
    }
    return in;
}

static tk_linear_loss_operands exact_of(const loss_case *c, const operands *in) {
    return (tk_linear_loss_operands){in->x.exact,
                                     in->w.exact,
                                     in->labels,
                                     c->b ? in->b.exact : NULL,
                                     c->weights ? in->weights.exact : NULL,
                                     c->dloss ? in->dloss.exact : NULL};
}

static tk_linear_loss_operands stored_of(const loss_case *c, const operands *in) {
    return (tk_linear_loss_operands){in->x.stored,
                                     in->w.stored,
                                     in->labels,
                                     c->b ? in->b.stored : NULL,
                                     c->weights ? in->weights.stored : NULL,
                                     c->dloss ? in->dloss.stored : NULL};
}

static void run_on(int threads, tk_linear_loss_results out, tk_linear_loss_operands in, const tk_linear_loss *s) {
    use_threads(threads);
    size_t bytes = tk_linear_loss_workspace(s, threads);
    void *workspace = alloc_guarded(bytes, 0);
    assert_int_equal(FAULT_OF(tk_linear_loss_run(queue(), out, in, s, workspace)), TK_OK);
    free_guarded(workspace, bytes);
}

static void one(loss_case c) {
    static const double tolerances[] = {[TK_F32] = 3e-6, [TK_F64] = 1e-13, [TK_F16] = 2e-3, [TK_BF16] = 1.6e-2};
    tk_linear_loss *s = &c.s;
    double tolerance = tolerances[s->dtype];
    operands in = draw_operands(&c);
    numbers loss = zeros(s->reduction == TK_LOSS_NONE ? s->rows : 1, s->loss_dtype),
            dx = zeros(s->rows * s->hidden, s->dtype), dw = zeros(s->classes * s->hidden, s->dtype),
            db = zeros(s->classes, s->dtype), again = zeros(s->classes * s->hidden, s->dtype);
    tk_linear_loss_results out = {loss.stored, dx.stored, s->wants_dw ? dw.stored : NULL,
                                  s->wants_db ? db.stored : NULL};
    assert_int_equal(
        tk_linear_loss_ref((tk_linear_loss_results){loss.exact, dx.exact, dw.exact, db.exact}, exact_of(&c, &in), s),
        TK_OK);
    run_on(2, out, stored_of(&c, &in), s);
    near_all("loss", loss, s->loss_dtype, s->loss_dtype == TK_F16 ? 1e-3 : tolerance, 1);
    near_all("dx", dx, s->dtype, tolerance, 0.1);
    if (s->wants_dw)
        near_all("dw", dw, s->dtype, tolerance, 0.1);
    if (s->wants_db)
        near_all("db", db, s->dtype, tolerance, 0.1);
    for (int threads = 1; threads <= 3; threads += 2) {
        out.dx = threads == 1 ? in.x.stored : out.dx; /* over x */
        tk_linear_loss_operands from = stored_of(&c, &in);
        numbers copy = zeros(s->rows * s->hidden, s->dtype);
        if (threads == 1) {
            memcpy(copy.stored, in.x.stored, copy.bytes);
            run_on(threads, out, from, s);
            assert_memory_equal(in.x.stored, dx.stored, dx.bytes);
            memcpy(in.x.stored, copy.stored, copy.bytes);
            out.dx = dx.stored;
        } else if (s->wants_dw) {
            out.dw = again.stored;
            run_on(threads, out, from, s);
            assert_memory_equal(again.stored, dw.stored, dw.bytes);
        }
        drop_numbers(copy);
    }
    drop_numbers(loss), drop_numbers(dx), drop_numbers(dw), drop_numbers(db), drop_numbers(again);
    drop_numbers(in.x), drop_numbers(in.w), drop_numbers(in.b), drop_numbers(in.weights), drop_numbers(in.dloss);
    free(in.labels);
}

/* Bits of `what`: trans_w, ignored, b, weights, dloss, smoothing, squares, and what gradients are wanted. */
static void every(int64_t rows, int64_t hidden, int64_t classes, tk_dtype dtype, tk_dtype loss_dtype) {
    for (unsigned what = 0; what < 256; what++)
        for (int reduction = TK_LOSS_NONE; reduction <= TK_LOSS_MEAN; reduction++)
            one((loss_case){.s = {.rows = rows,
                                  .hidden = hidden,
                                  .classes = classes,
                                  .trans_w = what & 1,
                                  .reduction = (tk_reduction_kind)reduction,
                                  .has_ignored = what & 2,
                                  .ignored = IGNORED,
                                  .share = what & 32 ? 0.75 : 1,
                                  .smoothing = what & 32 ? 0.125 : 0,
                                  .square = what & 64 ? 0.0625 : 0,
                                  .wants_dw = !(what & 128),
                                  .wants_db = (what & 4) && !(what & 128),
                                  .dtype = dtype,
                                  .loss_dtype = loss_dtype,
                                  .label_dtype = TK_I64},
                            .b = what & 4,
                            .weights = what & 8,
                            .dloss = what & 16,
                            .ignored_part = 0.4});
}

TEST(float) {
    every(19, 5, 70, TK_F32, TK_F32);
    every(1, 3, 1, TK_F32, TK_F32);
}

TEST(double) { every(23, 6, 33, TK_F64, TK_F64); }

TEST(16_bits) {
    every(21, 7, 66, TK_F16, TK_F16);
    every(21, 7, 66, TK_BF16, TK_F32);
    every(9, 3, 20, TK_F32, TK_F16);
    every(9, 3, 20, TK_F64, TK_F64);
}

static tk_linear_loss plain(int64_t rows, int64_t hidden, int64_t classes) {
    return (tk_linear_loss){.rows = rows,
                            .hidden = hidden,
                            .classes = classes,
                            .trans_w = true,
                            .reduction = TK_LOSS_MEAN,
                            .has_ignored = true,
                            .ignored = IGNORED,
                            .share = 1,
                            .wants_dw = true,
                            .wants_db = true,
                            .dtype = TK_F32,
                            .loss_dtype = TK_F32,
                            .label_dtype = TK_I64};
}

/* Many classes: chunks are bounded by their bytes. Nothing ignored, some, all, no rows at all. */
TEST(sizes) {
    static const double parts[] = {0, 0.85, 1};
    for (size_t i = 0; i < 3; i++)
        one((loss_case){.s = plain(300, 40, 3000), .b = true, .ignored_part = parts[i]});
    tk_linear_loss s = plain(0, 4, 5);
    float loss = 0, w[20] = {0}, dw[20], db[5];
    memset(dw, 1, sizeof dw);
    run_on(1, (tk_linear_loss_results){&loss, NULL, dw, db}, (tk_linear_loss_operands){.x = w, .w = w, .labels = w},
           &s);
    assert_true(isnan(loss)); /* 0 / 0, as PyTorch has it */
    for (int i = 0; i < 20; i++)
        assert_true(dw[i] == 0 && db[i % 5] == 0);
}

TEST(chunk) {
    static const struct {
        int64_t rows, hidden, classes;
    } shapes[] = {{65536, 1024, 30522}, {8192, 768, 50257}, {4096, 4096, 256000}, {7, 16, 100}, {100, 16, 100}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        tk_linear_loss s = plain(shapes[i].rows, shapes[i].hidden, shapes[i].classes);
        int64_t chunk = tk_linear_loss_chunk(&s);
        assert_true(chunk >= 1 && chunk <= s.rows && chunk <= s.hidden);
        assert_true(chunk * s.classes * 4 <= (int64_t)32 << 20);
    }
}

/* Where rows are ignored, what they hold does not matter. */
TEST(ignored_rows) {
    tk_linear_loss s = plain(3, 2, 3);
    float x[] = {1, 2, NAN, INFINITY, 3, -1}, w[] = {1, 0, 0, 1, 1, 1}, loss, dx[6], dw[6], db[3];
    int64_t labels[] = {2, IGNORED, 0};
    run_on(2, (tk_linear_loss_results){&loss, dx, dw, db}, (tk_linear_loss_operands){.x = x, .w = w, .labels = labels},
           &s);
    assert_true(isfinite(loss) && dx[2] == 0 && dx[3] == 0);
    for (int i = 0; i < 6; i++)
        assert_true(isfinite(dx[i]) && isfinite(dw[i]));
}

TEST(bad_label) {
    tk_linear_loss s = plain(1, 1, 2);
    float x = 1, w[2] = {1, 2}, loss;
    int64_t labels[] = {2, -1};
    for (int i = 0; i < 2; i++) {
        size_t bytes = tk_linear_loss_workspace(&s, 2);
        void *workspace = malloc(bytes);
        assert_int_equal(FAULT_OF(tk_linear_loss_run(queue(), (tk_linear_loss_results){.loss = &loss},
                                                     (tk_linear_loss_operands){.x = &x, .w = w, .labels = labels + i},
                                                     &s, workspace)),
                         TK_BAD_INDEX);
        free(workspace);
    }
}

/* The definition itself: its gradients are those of its loss, by central differences. */
static double loss_of(const loss_case *c, const operands *in) {
    double loss = 0, *each = calloc((size_t)c->s.rows + 1, sizeof *each);
    assert_int_equal(tk_linear_loss_ref((tk_linear_loss_results){.loss = each}, exact_of(c, in), &c->s), TK_OK);
    if (c->s.reduction == TK_LOSS_NONE)
        for (int64_t i = 0; i < c->s.rows; i++)
            loss += each[i] * (c->dloss ? in->dloss.exact[i] : 1);
    else
        loss = *each * (c->dloss ? *in->dloss.exact : 1);
    free(each);
    return loss;
}

static void compare_slopes(const loss_case *c, const operands *in, numbers of, const double *gradient) {
    const double step = 1e-6;
    for (int64_t i = 0; i < of.n; i++) {
        double at = of.exact[i], after, before;
        of.exact[i] = at + step;
        after = loss_of(c, in);
        of.exact[i] = at - step;
        before = loss_of(c, in);
        of.exact[i] = at;
        assert_true(fabs((after - before) / (2 * step) - gradient[i]) <= 1e-7);
    }
}

TEST(definition) {
    for (unsigned what = 0; what < 3 * 128; what++) {
        loss_case c = {.s = plain(5, 3, 4), .b = true, .weights = what & 1, .dloss = what & 2, .ignored_part = 0.3};
        c.s.dtype = c.s.loss_dtype = TK_F64;
        c.s.trans_w = what & 4;
        c.s.smoothing = what & 8 ? 0.2 : 0;
        c.s.square = what & 16 ? 0.3 : 0;
        c.s.has_ignored = what & 32;
        c.s.reduction = (tk_reduction_kind)(what / 128);
        operands in = draw_operands(&c);
        double loss[5], dx[15], dw[12], db[4];
        tk_linear_loss_ref((tk_linear_loss_results){loss, dx, dw, db}, exact_of(&c, &in), &c.s);
        compare_slopes(&c, &in, in.x, dx);
        compare_slopes(&c, &in, in.w, dw);
        compare_slopes(&c, &in, in.b, db);
        drop_numbers(in.x), drop_numbers(in.w), drop_numbers(in.b), drop_numbers(in.weights), drop_numbers(in.dloss);
        free(in.labels);
    }
}
