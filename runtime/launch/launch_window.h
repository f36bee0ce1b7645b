/* launch_window.h: the attributes of a sliding window, with auto_pad, as convolutions and pools take it. */
#ifndef TEMPO_LAUNCH_WINDOW_H
#define TEMPO_LAUNCH_WINDOW_H
#include "../../kernels/common/window.h"
#include "launch_util.h"

/* From dims 2 on of operand 0 and of result 0; kernel[rank - 2]. TC_UNSUPPORTED above three spatial dims. */
tc_status rt_window(rt_launcher *launcher, const tc_node *node, const rt_launch *launch, const int64_t *kernel,
                    tk_window *out_window);
#endif
