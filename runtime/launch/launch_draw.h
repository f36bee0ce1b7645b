/* launch_draw.h: the random operands that dropout nodes of ai.tempo have: ratio, one number, and seed, int64[2] =
 * {seed, step}. */
#ifndef TEMPO_LAUNCH_DRAW_H
#define TEMPO_LAUNCH_DRAW_H
#include "../../kernels/common/philox.h"
#include "../launch.h"

/* What node `node` draws from the seed at hand; when the launch runs. */
tk_draw rt_draw(const rt_arg *seed, uint32_t node);

/* TC_BAD_INPUT or TC_UNSUPPORTED unless operands `ratio` and `seed` are absent or as said above. */
tc_status rt_expect_draw(rt_launcher *launcher, const tc_node *node, const rt_launch *launch, uint32_t ratio,
                         uint32_t seed);
#endif
