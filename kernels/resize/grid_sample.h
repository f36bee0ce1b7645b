/* grid_sample.h: values of an input at given places between its elements (ONNX GridSample, PyTorch's grid_sample). inp
 * is [batch, channels, spatial...], grid [batch, places, axes]: for each place a coordinate for each axis, the last
 * axis first; -1 and 1 are the ends of the input. out is [batch, channels, places]. */
#ifndef TK_GRID_SAMPLE_H
#define TK_GRID_SAMPLE_H
#include "resize.h"

enum { TK_GRID_AXES = 3, TK_GRID_TAPS = 4 };
typedef enum tk_grid_padding { TK_GRID_ZEROS, TK_GRID_BORDER, TK_GRID_REFLECTION } tk_grid_padding;

typedef struct tk_grid_sample {
    int64_t batch, channels, places;
    int n_axes; /* 1 to 3 */
    int64_t dims[TK_GRID_AXES];
    tk_resize_mode mode; /* nearest takes halves to the even place */
    tk_grid_padding padding;
    bool align_corners; /* -1 and 1 are the middles of the elements at the ends, not their outer sides */
} tk_grid_sample;

/* clang-format off */
#define TK_GRID_KERNELS(K) \
    /* Any float type, one for all. A coordinate that is NaN gives one of the input's elements, or zero. */ \
    K(grid_sample_run, (tk_queue *q, void *out, const void *inp, const void *grid, const tk_grid_sample *sample, \
      tk_dtype dtype), (q, out, inp, grid, sample, dtype))
/* clang-format on */

TK_GRID_KERNELS(TK_DECLARE_KERNEL)
#endif
