/* check_loss.c: the losses of classification and their gradient on the emulated device: with and without weights and
 * ignored labels, of few and of many classes, and of so many places that several blocks add them up. */
#include "cuda_case.h"
#include <stdio.h>
#include <stdlib.h>

static const struct {
    int64_t batch, classes, inner;
} shapes[] = {{1, 1, 1}, {5, 3, 1}, {33, 10, 1}, {2, 1000, 1}, {2, 1503, 1}, {2, 8203, 1}, {2, 7, 5}, {40, 4, 60}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* A loss is a few units; a sum's error grows with it. */
static bounds of(tk_dtype dtype) {
    return tk_is_half(dtype) ? (bounds){.ulps = 1}
           : dtype == TK_F64 ? (bounds){.relative = 1e-13, .absolute = 1e-13}
                             : (bounds){.relative = 1e-6, .absolute = 1e-6};
}

/* Labels, every fourth of them the ignored one. */
static pair labels_of(const tk_loss *s) {
    const int64_t n = s->batch * s->inner;
    double *labels = malloc((size_t)n * sizeof *labels);
    for (int64_t i = 0; i < n; i++)
        labels[i] = s->has_ignored && i % 4 == 3 ? (double)s->ignored : (double)(i * 7919 % s->classes);
    pair p = pair_numbers(s->label_dtype, n, labels);
    free(labels);
    return p;
}

static void loss_case(const tk_loss *s, bool has_weights, const char *text) {
    const int64_t places = s->batch * s->inner, n = places * s->classes;
    const int64_t results = s->reduction == TK_LOSS_NONE ? places : 1;
    pair x = pair_random(s->dtype, n, -4, 4), log_prob = pair_result(s->dtype, n), labels = labels_of(s),
         weights = has_weights ? pair_random(s->dtype, s->classes, 0.25, 2) : (pair){.n = 0},
         loss = pair_result(s->dtype, results), again = pair_result(s->dtype, results),
         dloss = pair_random(s->dtype, results, 0.5, 2), dx = pair_result(s->dtype, n);
    ON_BOTH(cross_entropy, AT(loss), AT(log_prob), AT(x), AT(labels), AT(weights), s,
            workspace(OF_TABLE(cross_entropy_workspace)(s)));
    pair_compare(loss, of(s->dtype), "loss of %s", text);
    pair_compare(log_prob, of(s->dtype), "log prob of %s", text);
    ON_BOTH(cross_entropy, AT(again), NULL, AT(x), AT(labels), AT(weights), s,
            workspace(OF_TABLE(cross_entropy_workspace)(s)));
    pair_same(again, loss, "loss without log prob");
    ON_BOTH(cross_entropy, AT(again), AT(x), AT(x), AT(labels), AT(weights), s,
            workspace(OF_TABLE(cross_entropy_workspace)(s)));
    pair_same(again, loss, "loss with log prob over scores");
    pair_same(x, log_prob, "log prob over scores");
    pair_share(log_prob);
    ON_BOTH(nll_loss, AT(loss), AT(log_prob), AT(labels), AT(weights), s,
            workspace(OF_TABLE(cross_entropy_workspace)(s)));
    pair_compare(loss, of(s->dtype), "loss of log prob, %s", text);
    ON_BOTH(cross_entropy_grad, AT(dx), AT(dloss), AT(log_prob), AT(labels), AT(weights), s,
            workspace(OF_TABLE(cross_entropy_grad_workspace)(s)));
    pair_compare(dx, of(s->dtype), "gradient of %s", text);
    ON_BOTH(cross_entropy_grad, AT(log_prob), AT(dloss), AT(log_prob), AT(labels), AT(weights), s,
            workspace(OF_TABLE(cross_entropy_grad_workspace)(s)));
    pair_same(log_prob, dx, "gradient over log prob");
}

static void losses(void) {
    static const tk_reduction_kind kinds[] = {TK_LOSS_NONE, TK_LOSS_SUM, TK_LOSS_MEAN};
    for (const tk_dtype *t = all_floats; *t; t++)
        for (int i = 0; i < N_SHAPES; i++)
            for (int k = 0; k < 3; k++) {
                const bool is_odd = (i + k) % 2 != 0;
                const tk_loss s = {.batch = shapes[i].batch,
                                   .classes = shapes[i].classes,
                                   .inner = shapes[i].inner,
                                   .reduction = kinds[k],
                                   .has_ignored = !is_odd,
                                   .ignored = -100,
                                   .dtype = *t,
                                   .label_dtype = is_odd ? TK_I32 : TK_I64};
                char text[64];
                snprintf(text, sizeof text, "%d x %d x %d, kind %d", (int)s.batch, (int)s.classes, (int)s.inner, k);
                loss_case(&s, k > 0 && i != 1, text);
            }
}

/* A label that is none; and labels that are all ignored, of which the mean is no number. */
static void bad_labels(void) {
    static const double none[] = {0, 5, 1}, below[] = {0, 1, -1}, ignored[] = {4, 4, 4}, *const kinds[] = {none, below};
    for (const tk_dtype *t = all_floats; *t; t++)
        for (int k = 0; k < 3; k++)
            for (int64_t inner = 1; inner < 4; inner += 2) {
                tk_loss s = {.batch = 3 / inner,
                             .classes = 5,
                             .inner = inner,
                             .reduction = (tk_reduction_kind)k,
                             .dtype = *t,
                             .label_dtype = TK_I64};
                pair x = pair_random(*t, 15, -4, 4), loss = pair_result(*t, 3), log_prob = pair_random(*t, 15, -4, 0),
                     dloss = pair_random(*t, 3, 0, 1), dx = pair_result(*t, 15);
                for (int bad = 0; bad < 2; bad++) {
                    pair labels = pair_numbers(TK_I64, 3, kinds[bad]);
                    ON_BOTH(cross_entropy, AT(loss), NULL, AT(x), AT(labels), NULL, &s,
                            workspace(OF_TABLE(cross_entropy_workspace)(&s)));
                    expect_fault(TK_BAD_INDEX, "cross entropy");
                    ON_BOTH(nll_loss, AT(loss), AT(log_prob), AT(labels), NULL, &s,
                            workspace(OF_TABLE(cross_entropy_workspace)(&s)));
                    expect_fault(TK_BAD_INDEX, "loss of log prob");
                    ON_BOTH(cross_entropy_grad, AT(dx), AT(dloss), AT(log_prob), AT(labels), NULL, &s,
                            workspace(OF_TABLE(cross_entropy_grad_workspace)(&s)));
                    expect_fault(TK_BAD_INDEX, "gradient");
                }
                pair labels = pair_numbers(TK_I64, 3, ignored);
                loss = pair_result(*t, k == TK_LOSS_NONE ? 3 : 1);
                s.has_ignored = true, s.ignored = 4;
                ON_BOTH(cross_entropy, AT(loss), NULL, AT(x), AT(labels), NULL, &s,
                        workspace(OF_TABLE(cross_entropy_workspace)(&s)));
                pair_compare(loss, (bounds){0}, "loss of ignored labels, kind %d", k);
                ON_BOTH(cross_entropy_grad, AT(dx), AT(dloss), AT(log_prob), AT(labels), NULL, &s,
                        workspace(OF_TABLE(cross_entropy_grad_workspace)(&s)));
                pair_compare(dx, (bounds){0}, "gradient of ignored labels, kind %d", k);
            }
}

const cuda_check checks[] = {{"losses", losses}, {"bad_labels", bad_labels}, {NULL, NULL}};
