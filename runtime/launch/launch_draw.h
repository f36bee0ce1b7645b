/* launch_draw.h: the random operands that dropout nodes of ai.tempo have: ratio, one number, and seed, int64[2] =
 * {seed, step}. */
#ifndef TEMPO_LAUNCH_DRAW_H
#define TEMPO_LAUNCH_DRAW_H
#include "kernels/common/philox.h"
#include "kernels/common/types.h"
#include "kernels/dropout/dropout.h"
#include "launch.h"

/* The random numbers that a Dropout, or an attention with one, draws from the seed, whose place is known at the run: by
 * attribute `node`, `otherwise` where it is absent; or by attribute `seed` where the session draws as ONNX Runtime
 * does. TC_UNSUPPORTED where that has no seed. */
tc_status rt_dropout_draw(rt_launcher *launcher, const tc_node *node, uint32_t otherwise, tk_seed *out_draw);

/* The operands as kernels take them: a ratio, and the seed for `draw`; each may be NULL. */
tk_number rt_ratio(const rt_arg *ratio, double otherwise);
tk_seed rt_seed(const rt_arg *seed, tk_seed draw);

/* TC_BAD_INPUT or TC_UNSUPPORTED unless operands `ratio` and `seed` are absent or as said above. */
tc_status rt_expect_draw(rt_launcher *launcher, const tc_node *node, const rt_launch *launch, uint32_t ratio,
                         uint32_t seed);

/* A mask, operand or result, has a byte an element, or a bit (dropout.h); NULL: there is none. Kernels know bytes:
 * packing and unpacking bits takes so much workspace. */
bool rt_is_packed(const rt_arg *mask);
size_t rt_unpacked_bytes(const rt_arg *mask, int64_t elements);
/* TC_BAD_INPUT unless the mask is of so many elements. */
tc_status rt_expect_mask(rt_launcher *launcher, const tc_node *node, const rt_arg *mask, int64_t elements);
#endif
