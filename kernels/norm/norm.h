/* norm.h: normalizations (ONNX LayerNormalization, RMSNormalization, BatchNormalization, InstanceNormalization,
 * GroupNormalization, LRN) and the gradient of LayerNormalization. float and double; sums in double. */
#ifndef TK_NORM_H
#define TK_NORM_H
#include "../kernel.h"

/* inp, out [rows, n]; scale, bias [n], bias may be NULL. mean, inv_std [rows], in stat_dtype, may be NULL.
 * inv_std = 1 / sqrt(variance + epsilon); out = (inp - mean) inv_std scale + bias. out may be inp. */
void tk_layer_norm(void *out, void *mean, void *inv_std, const void *inp, const void *scale, const void *bias,
                   int64_t rows, int64_t n, double epsilon, tk_dtype dtype, tk_dtype stat_dtype);

/* dinp [rows, n]; dscale, dbias [n]; each of the three may be NULL. mean, inv_std as tk_layer_norm gave them.
 * workspace: tk_layer_norm_grad_workspace bytes, where dscale or dbias is wanted. */
size_t tk_layer_norm_grad_workspace(int64_t rows, int64_t n);
void tk_layer_norm_grad(void *dinp, void *dscale, void *dbias, const void *dout, const void *inp, const void *scale,
                        const void *mean, const void *inv_std, int64_t rows, int64_t n, tk_dtype dtype,
                        tk_dtype stat_dtype, void *workspace);

/* out = inp / sqrt(mean(inp^2) + epsilon) scale; [rows, n], scale [n]. */
void tk_rms_norm(void *out, const void *inp, const void *scale, int64_t rows, int64_t n, double epsilon,
                 tk_dtype dtype);

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

/* Definitions in double precision. mean and inv_std may be NULL. */
void tk_layer_norm_ref(double *out, double *mean, double *inv_std, const double *inp, const double *scale,
                       const double *bias, int64_t rows, int64_t n, double epsilon);
void tk_layer_norm_grad_ref(double *dinp, double *dscale, double *dbias, const double *dout, const double *inp,
                            const double *scale, int64_t rows, int64_t n, double epsilon);
#endif
