/* norm.h: normalizations (ONNX LayerNormalization, RMSNormalization, BatchNormalization, InstanceNormalization,
 * GroupNormalization, LRN) and the gradients of the first two. float and double; sums in double. */
#ifndef TK_NORM_H
#define TK_NORM_H
#include "../kernel.h"

/* LayerNormalization (centered) and RMSNormalization, which takes no mean off, see their operand as [rows, n]. */
typedef struct tk_norm_rows {
    int64_t rows, n;
    double epsilon;
    bool centered;
    tk_dtype dtype, stat_dtype; /* of elements; of mean and inv_std */
} tk_norm_rows;

/* inp, out, xhat [rows, n]; scale, bias [n]; mean, inv_std [rows]. xhat, mean, inv_std and bias may be NULL; out may be
 * inp. inv_std = 1 / sqrt(variance + epsilon), or of the mean square; xhat = (inp - mean) inv_std; out = xhat scale +
 * bias. */
void tk_norm(void *out, void *xhat, void *mean, void *inv_std, const void *inp, const void *scale, const void *bias,
             const tk_norm_rows *s);
/* out = xhat scale + bias: the bits of tk_norm's out. bias may be NULL; out may be xhat. */
void tk_scale_bias(void *out, const void *xhat, const void *scale, const void *bias, const tk_norm_rows *s);

/* dinp [rows, n]; dscale, dbias [n]; each may be NULL; dinp may be dout, inp or xhat. From inp with the statistics that
 * tk_norm gave (mean NULL where it takes none off), or from its xhat: the same bits, where dtype and stat_dtype are the
 * same. scale may be 0 anywhere. workspace: tk_norm_grad_workspace bytes, where dscale or dbias is wanted. */
size_t tk_norm_grad_workspace(const tk_norm_rows *s);
void tk_norm_grad(void *dinp, void *dscale, void *dbias, const void *dout, const void *inp, const void *scale,
                  const void *mean, const void *inv_std, const tk_norm_rows *s, void *workspace);
void tk_norm_xhat_grad(void *dinp, void *dscale, void *dbias, const void *dout, const void *xhat, const void *scale,
                       const void *inv_std, const tk_norm_rows *s, void *workspace);

/* inp, out [batch, channels, inner]; the others [channels], all of dtype. */
void tk_batch_norm(void *out, const void *inp, const void *scale, const void *bias, const void *mean,
                   const void *variance, int64_t batch, int64_t channels, int64_t inner, double epsilon,
                   tk_dtype dtype);
/* The same with the batch's own mean and (population) variance; new_x = x momentum + the batch's (1 - momentum); NULL:
 * not wanted. */
void tk_batch_norm_train(void *out, void *new_mean, void *new_variance, const void *inp, const void *scale,
                         const void *bias, const void *mean, const void *variance, int64_t batch, int64_t channels,
                         int64_t inner, double epsilon, double momentum, tk_dtype dtype);

/* inp, out [batch, channels, inner], normalized over each of `groups` groups of channels; scale, bias [channels].
 * InstanceNormalization: groups = channels. */
void tk_group_norm(void *out, const void *inp, const void *scale, const void *bias, int64_t batch, int64_t channels,
                   int64_t groups, int64_t inner, double epsilon, tk_dtype dtype);

/* out = inp / (bias + alpha / size sum of the squares of `size` channels around)^beta; [batch, channels, inner]. */
void tk_lrn(void *out, const void *inp, int64_t batch, int64_t channels, int64_t inner, int64_t size, double alpha,
            double beta, double bias, tk_dtype dtype);

/* Definitions in double precision, whatever s says of types. bias, mean and inv_std may be NULL. */
void tk_norm_ref(double *out, double *mean, double *inv_std, const double *inp, const double *scale, const double *bias,
                 const tk_norm_rows *s);
void tk_norm_grad_ref(double *dinp, double *dscale, double *dbias, const double *dout, const double *inp,
                      const double *scale, const tk_norm_rows *s);
#endif
