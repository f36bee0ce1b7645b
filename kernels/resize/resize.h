/* resize.h: a walk over several axes at once; each place of the result is a weighted sum of neighbouring places of the
 * operand. It computes ONNX's Resize (nearest, linear, cubic, antialias) and, by transposed tables, its gradient.
 * Arrays are [outer, axes..., inner]. Places and weights are computed once, on the host, an axis at a time
 * (resize_taps.c), and are the same for every device. */
#ifndef TK_RESIZE_H
#define TK_RESIZE_H
#include "../common/vector.h"
#include "../kernel.h"
#include <math.h>

enum { TK_RESIZE_AXES = 8 };

/* Of one place of the result: `count` places of the operand from `first` on, with the weights from `weights` on. count
 * 0: the place lies outside of the crop. */
typedef struct tk_tap {
    int32_t first, count, weights;
} tk_tap;

typedef struct tk_resize_axis {
    int64_t inp, out;
    const tk_tap *taps;  /* [out], a table of the device's */
    const void *weights; /* of the element type's type of computation, tk_wide */
} tk_resize_axis;

typedef struct tk_resize {
    int64_t outer, inner;
    int n_axes; /* 1 at least */
    tk_resize_axis axes[TK_RESIZE_AXES];
    uint64_t outside; /* bits of the elements that lie outside along some axis */
    bool picks;       /* every place of the result is one element of the operand, unchanged: any element type will do */
} tk_resize;

/* --- which places, with which weights --------------------------------------------------------- */

typedef enum tk_resize_mode { TK_RESIZE_NEAREST, TK_RESIZE_LINEAR, TK_RESIZE_CUBIC } tk_resize_mode;
/* coordinate_transformation_mode, and nearest_mode, in the words of ONNX. */
typedef enum tk_resize_places {
    TK_HALF_PIXEL,
    TK_HALF_PIXEL_SYMMETRIC,
    TK_PYTORCH_HALF_PIXEL,
    TK_ALIGN_CORNERS,
    TK_ASYMMETRIC,
    TK_TF_HALF_PIXEL_FOR_NN,
    TK_TF_CROP_AND_RESIZE,
} tk_resize_places;
typedef enum tk_resize_rounding { TK_PREFER_FLOOR, TK_PREFER_CEIL, TK_FLOOR, TK_CEIL } tk_resize_rounding;

typedef struct tk_resize_rule {
    tk_resize_mode mode;
    tk_resize_places places;
    tk_resize_rounding rounding; /* of nearest */
    double cubic_a;
    bool antialias, exclude_outside;
} tk_resize_rule;

/* R. Keys, "Cubic convolution interpolation for digital image processing", 1981. */
TK_INLINE double tk_cubic_weight(double a, double distance) {
    const double d = fabs(distance);
    if (d <= 1)
        return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

/* One axis of `inp` places that becomes one of `out`, `scale` times as long, about; of TF_CROP_AND_RESIZE the part
 * [begin, end] of it, in parts of its length. */
typedef struct tk_resize_span {
    int64_t inp, out;
    double scale, begin, end;
} tk_resize_span;

/* For each place of the result the places that it reads and their weights: `taps` [out]. Returns how many weights there
 * are; `weights` NULL: how many there may be. inp is 1 at least. */
int64_t tk_resize_taps(tk_tap *taps, double *weights, const tk_resize_rule *rule, const tk_resize_span *span);
/* The same seen from the operand, for the gradient: for each of its `inp` places the places of the result that read it,
 * and with weight 0 those in between that do not. As above. */
int64_t tk_resize_turn(tk_tap *turned, double *turned_weights, int64_t inp, const tk_tap *taps, const double *weights,
                       int64_t out);

/* clang-format off */
#define TK_RESIZE_KERNELS(K) \
    /* Any float type; where all is picked, any type at all. */ \
    K(resize_run, (tk_queue *q, void *out, const void *inp, const tk_resize *resize, tk_dtype dtype, \
      void *workspace), (q, out, inp, resize, dtype, workspace))
#define TK_RESIZE_WORKSPACES(W) \
    W(resize_workspace, (const tk_resize *resize, tk_dtype dtype, int slots), (resize, dtype, slots))
/* clang-format on */

TK_RESIZE_KERNELS(TK_DECLARE_KERNEL)
TK_RESIZE_WORKSPACES(TK_DECLARE_WORKSPACE)
#endif
