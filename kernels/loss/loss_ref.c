/* loss_ref.c: SoftmaxCrossEntropyLoss by its definition. */
#include "loss.h"
#include <math.h>

void tk_cross_entropy_ref(double *loss, const double *scores, const int64_t *labels, const double *weights,
                          const tk_loss *s) {
    double total = 0, weight_total = 0;
    for (int64_t i = 0; i < s->batch * s->inner; i++) {
        const double *x = scores + i / s->inner * s->classes * s->inner + i % s->inner;
        double sum = 0, each = 0;
        for (int64_t k = 0; k < s->classes; k++)
            sum += exp(x[k * s->inner]);
        if (!s->has_ignored || labels[i] != s->ignored) {
            double weight = weights ? weights[labels[i]] : 1;
            each = -weight * (x[labels[i] * s->inner] - log(sum));
            weight_total += weight;
        }
        total += each;
        if (s->reduction == TK_LOSS_NONE)
            loss[i] = each;
    }
    if (s->reduction != TK_LOSS_NONE)
        *loss = s->reduction == TK_LOSS_MEAN ? total / weight_total : total;
}
