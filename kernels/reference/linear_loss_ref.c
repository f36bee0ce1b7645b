/* linear_loss_ref.c: the loss of linear_loss.h and its gradients by their definition: a row at a time, in double. */
#include "../loss/linear_loss.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double weight_at(const double *weights, int64_t i) { return weights ? weights[i] : 1; }

static double element_of_w(const double *w, const tk_linear_loss *s, int64_t k, int64_t c) {
    return s->trans_w ? w[c * s->hidden + k] : w[k * s->classes + c];
}

static void scores_of(double *z, const double *x, tk_linear_loss_operands in, const tk_linear_loss *s) {
    for (int64_t c = 0; c < s->classes; c++) {
        z[c] = in.b ? ((const double *)in.b)[c] : 0;
        for (int64_t k = 0; k < s->hidden; k++)
            z[c] += x[k] * element_of_w(in.w, s, k, c);
    }
}

/* The row's loss; scores become their gradient. */
static double row_of(double *z, int64_t label, const double *weights, const tk_linear_loss *s) {
    double largest = -INFINITY, sum = 0, loss = 0, share = s->smoothing / (double)s->classes;
    for (int64_t c = 0; c < s->classes; c++)
        largest = fmax(largest, z[c]);
    for (int64_t c = 0; c < s->classes; c++)
        sum += exp(z[c] - largest);
    double lse = largest + log(sum), mass = 2 * s->square * lse;
    for (int64_t c = 0; c < s->classes; c++) {
        double target = share * weight_at(weights, c) + (c == label ? s->share * weight_at(weights, c) : 0);
        loss += target == 0 ? 0 : target * (lse - z[c]);
        mass += target;
    }
    for (int64_t c = 0; c < s->classes; c++) {
        double target = share * weight_at(weights, c) + (c == label ? s->share * weight_at(weights, c) : 0);
        z[c] = exp(z[c] - lse) * mass - target;
    }
    return loss + s->square * lse * lse;
}

static void add_gradients(tk_linear_loss_results out, double *dx, const double *dz, const double *x,
                          tk_linear_loss_operands in, const tk_linear_loss *s) {
    double *dw = out.dw, *db = out.db;
    for (int64_t c = 0; c < s->classes; c++) {
        for (int64_t k = 0; k < s->hidden; k++) {
            if (dw)
                dw[s->trans_w ? c * s->hidden + k : k * s->classes + c] += dz[c] * x[k];
            dx[k] += dz[c] * element_of_w(in.w, s, k, c);
        }
        if (db)
            db[c] += dz[c];
    }
}

static bool is_ignored(const tk_linear_loss *s, int64_t label) { return s->has_ignored && label == s->ignored; }

static tk_status divisor_of(const int64_t *labels, const double *weights, const tk_linear_loss *s, double *out) {
    *out = 0;
    for (int64_t i = 0; i < s->rows; i++) {
        if (is_ignored(s, labels[i]))
            continue;
        if (labels[i] < 0 || labels[i] >= s->classes)
            return TK_BAD_INDEX;
        *out += weight_at(weights, labels[i]);
    }
    *out = s->reduction == TK_LOSS_MEAN ? *out : 1;
    return TK_OK;
}

tk_status tk_linear_loss_ref(tk_linear_loss_results out, tk_linear_loss_operands in, const tk_linear_loss *s) {
    const int64_t *labels = in.labels;
    const double *x = in.x, *dloss = in.dloss;
    double divisor, total = 0, *loss = out.loss;
    bool each = s->reduction == TK_LOSS_NONE;
    if (divisor_of(labels, in.weights, s, &divisor) != TK_OK)
        return TK_BAD_INDEX;
    double *z = malloc((size_t)(s->classes + s->hidden + 1) * sizeof *z), *dx = z + s->classes;
    if (!z)
        return TK_NO_MEMORY;
    for (int64_t i = 0; out.dw && i < s->classes * s->hidden; i++)
        ((double *)out.dw)[i] = 0;
    for (int64_t i = 0; out.db && i < s->classes; i++)
        ((double *)out.db)[i] = 0;
    for (int64_t i = 0; i < s->rows; i++) {
        const double *row = x + i * s->hidden;
        double own = 0, scale = (dloss ? dloss[each ? i : 0] : 1) / divisor;
        memset(dx, 0, (size_t)s->hidden * sizeof *dx);
        if (!is_ignored(s, labels[i])) {
            scores_of(z, row, in, s);
            own = row_of(z, labels[i], in.weights, s);
            for (int64_t c = 0; c < s->classes; c++)
                z[c] *= scale;
            add_gradients(out, dx, z, row, in, s);
        }
        if (out.dx)
            memcpy((double *)out.dx + i * s->hidden, dx, (size_t)s->hidden * sizeof *dx);
        if (each)
            loss[i] = own;
        total += own;
    }
    if (!each)
        *loss = total / divisor;
    free(z);
    return TK_OK;
}
