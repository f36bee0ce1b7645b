/* check_linear_loss.c: a classifier's product and its loss in one walk, on the emulated device: several chunks,
 * weights, smoothing, squares, labels that are ignored in whole and in part, W stored both ways. */
#include "cuda_case.h"
#include <math.h>
#include <stdlib.h>

typedef struct linear_case {
    int64_t rows, hidden, classes; /* a chunk has no more rows than `hidden` */
    bool trans_w, has_ignored, has_bias, has_weights;
    tk_reduction_kind reduction;
    double smoothing, square;
    const char *text;
} linear_case;

static const linear_case cases[] = {
    {1, 8, 3, true, false, false, false, TK_LOSS_MEAN, 0, 0, "one row"},
    {19, 8, 37, true, true, true, false, TK_LOSS_MEAN, 0, 0, "ignored labels, a bias"},
    {19, 8, 37, false, true, false, true, TK_LOSS_SUM, 0.1, 0, "weights and smoothing, W the other way"},
    {9, 16, 2100, true, false, true, true, TK_LOSS_NONE, 0, 1e-3, "many classes, squares, nothing reduced"},
    {21, 8, 300, true, true, true, true, TK_LOSS_MEAN, 0.2, 1e-3, "all at once"},
};
enum { N_CASES = sizeof cases / sizeof *cases };

/* Scores are sums of 16 products of numbers below 1; of 16 bits, their gradients are rounded on the way to the sums. */
static bounds of(tk_dtype dtype) {
    return dtype == TK_F16    ? (bounds){.ulps = 2, .absolute = 4e-3}
           : dtype == TK_BF16 ? (bounds){.ulps = 2, .absolute = 3e-2}
           : dtype == TK_F64  ? (bounds){.relative = 1e-12, .absolute = 1e-12}
                              : (bounds){.relative = 4e-6, .absolute = 4e-6};
}
static bounds of_loss(tk_dtype dtype) {
    return tk_is_half(dtype) ? (bounds){.relative = 1e-5, .absolute = 1e-5} : of(dtype);
}

static tk_linear_loss shape_of(const linear_case *c, tk_dtype dtype) {
    return (tk_linear_loss){.rows = c->rows,
                            .hidden = c->hidden,
                            .classes = c->classes,
                            .trans_w = c->trans_w,
                            .reduction = c->reduction,
                            .has_ignored = c->has_ignored,
                            .ignored = -100,
                            .share = 1 - c->smoothing,
                            .smoothing = c->smoothing,
                            .square = c->square,
                            .wants_dw = true,
                            .wants_db = c->has_bias,
                            .dtype = dtype,
                            .loss_dtype = tk_wide(dtype),
                            .label_dtype = c->has_bias ? TK_I64 : TK_I32};
}

static pair labels_of(const tk_linear_loss *s, bool all_ignored) {
    double *labels = malloc((size_t)s->rows * sizeof *labels);
    for (int64_t i = 0; i < s->rows; i++)
        labels[i] =
            all_ignored || (s->has_ignored && i % 3 == 1) ? (double)s->ignored : (double)(i * 7919 % s->classes);
    pair p = pair_numbers(s->label_dtype, s->rows, labels);
    free(labels);
    return p;
}

/* What ignored rows hold is not looked at. */
static pair rows_of_x(const tk_linear_loss *s) {
    const int64_t n = s->rows * s->hidden;
    double *numbers = malloc((size_t)n * sizeof *numbers);
    for (int64_t i = 0; i < n; i++)
        numbers[i] = s->has_ignored && i / s->hidden % 3 == 1 ? NAN : (double)((i * 7919 + 13) % 1000) / 500 - 1;
    pair p = pair_numbers(s->dtype, n, numbers);
    free(numbers);
    return p;
}

static void run(const tk_linear_loss *s, const linear_case *c, bool all_ignored, bool over_x) {
    const pair none = {.n = 0};
    const int64_t each = s->reduction == TK_LOSS_NONE ? s->rows : 1;
    pair x = rows_of_x(s), w = pair_random(s->dtype, s->hidden * s->classes, -1, 1), labels = labels_of(s, all_ignored),
         b = c->has_bias ? pair_random(s->dtype, s->classes, -1, 1) : none,
         weights = c->has_weights ? pair_random(s->loss_dtype, s->classes, 0.5, 2) : none,
         dloss = c->has_weights ? pair_random(s->loss_dtype, each, 0.5, 2) : none,
         loss = pair_result(s->loss_dtype, each), dx = over_x ? x : pair_result(s->dtype, x.n),
         dw = pair_result(s->dtype, w.n), db = c->has_bias ? pair_result(s->dtype, s->classes) : none;
    ON_BOTH(linear_loss_run, ((tk_linear_loss_results){AT(loss), AT(dx), AT(dw), AT(db)}),
            ((tk_linear_loss_operands){AT(x), AT(w), AT(labels), AT(b), AT(weights), AT(dloss)}), s,
            workspace(OF_TABLE(linear_loss_workspace)(s, 1)));
    pair_compare(loss, of_loss(s->loss_dtype), "loss of %s", c->text);
    pair_compare(dx, of(s->dtype), "dx of %s", c->text);
    pair_compare(dw, of(s->dtype), "dw of %s", c->text);
    if (c->has_bias)
        pair_compare(db, of(s->dtype), "db of %s", c->text);
}

static void losses(void) {
    for (const tk_dtype *t = all_floats; *t; t++)
        for (int i = 0; i < N_CASES; i++) {
            const tk_linear_loss s = shape_of(&cases[i], *t);
            run(&s, &cases[i], false, i % 2 != 0);
        }
}

/* No label counts: a sum is 0, and so are all gradients. No gradient is wanted: the loss is the same. */
static void little(void) {
    for (const tk_dtype *t = all_floats; *t; t++) {
        linear_case c = cases[1];
        c.reduction = TK_LOSS_SUM;
        tk_linear_loss s = shape_of(&c, *t);
        run(&s, &c, true, false);
        s.wants_dw = s.wants_db = false;
        s.loss_dtype = *t;
        pair x = rows_of_x(&s), w = pair_random(*t, s.hidden * s.classes, -1, 1), labels = labels_of(&s, false),
             loss = pair_result(*t, 1);
        ON_BOTH(linear_loss_run, ((tk_linear_loss_results){AT(loss), NULL, NULL, NULL}),
                ((tk_linear_loss_operands){AT(x), AT(w), AT(labels), NULL, NULL, NULL}), &s,
                workspace(OF_TABLE(linear_loss_workspace)(&s, 1)));
        pair_compare(loss, of(*t), "the loss alone");
        s.has_ignored = false; /* -100 is no label then */
        ON_BOTH(linear_loss_run, ((tk_linear_loss_results){AT(loss), NULL, NULL, NULL}),
                ((tk_linear_loss_operands){AT(x), AT(w), AT(labels), NULL, NULL, NULL}), &s,
                workspace(OF_TABLE(linear_loss_workspace)(&s, 1)));
        expect_fault(TK_BAD_INDEX, "a label that is none");
    }
}

const cuda_check checks[] = {{"losses", losses}, {"little", little}, {NULL, NULL}};
