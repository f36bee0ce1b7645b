/* window.h: the attributes of a sliding window, with auto_pad, as convolutions and pools take it. */
#ifndef TEMPO_BIND_WINDOW_H
#define TEMPO_BIND_WINDOW_H
#include "../../kernels/common/window.h"
#include "util.h"

/* From dims 2 on of operand 0 and of result 0; kernel[rank - 2]. TC_UNSUPPORTED above three spatial dims. */
tc_status rt_window(rt_binder *binder, const tc_node *node, const rt_launch *launch, const int64_t *kernel,
                    tk_window *out_window);
#endif
