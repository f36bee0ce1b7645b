/* launch_util.h: helpers of launch functions: axes into range, broadcasting plans, and messages for types without a
 * kernel. */
#ifndef TEMPO_LAUNCH_UTIL_H
#define TEMPO_LAUNCH_UTIL_H
#include "kernels/common/broadcast.h"
#include "kernels/common/places.h"
#include "launch.h"
#include "runtime/fuse/fuse.h"

/* TC_UNSUPPORTED: no kernel for these element types. */
tc_status rt_no_kernel(rt_launcher *launcher, const tc_node *node, const rt_launch *launch);

/* axis in [-rank, rank) (or rank itself, where one past the last is allowed) to [0, rank]; else TC_BAD_INPUT. */
tc_status rt_axis(rt_launcher *launcher, const tc_node *node, int64_t axis, int rank, bool past_end, int *out_axis);

/* TC_BAD_INPUT unless these shapes fit together. Shape inference has checked that: this keeps memory safe should it be
 * wrong. */
tc_status rt_expect(rt_launcher *launcher, const tc_node *node, bool holds);

/* A shape as broadcasting takes it. */
static inline tk_shape rt_shape(const rt_arg *arg) { return (tk_shape){arg->rank, arg->dims}; }

/* The bytes of an operand or result; NULL where it is absent. */
static inline void *rt_data(const rt_arg *arg) { return arg ? arg->data : NULL; }

/* The plan of broadcasting operands `first` and following to result 0; TC_BAD_INPUT when they don't fit. */
tc_status rt_broadcast(rt_launcher *launcher, const tc_node *node, const rt_launch *launch, uint32_t first, int count,
                       tk_bcast *out_bc);

/* Where the `n` items of a batch begin: `at`, in the launcher's arena, becomes a step where it is one, else a table.
 * `places` is in the launch's parameters. */
void rt_places(rt_launcher *launcher, const int64_t *at, int64_t n, tk_places *places);

/* The product of dims [begin, end). */
int64_t rt_product(const rt_arg *arg, int begin, int end);

/* The bits of launch->inplace[0] for operands [0, count) that have result 0's number of elements and bytes. */
uint64_t rt_inplace(const rt_launch *launch, uint32_t count);

/* --- chains of elementwise ops: launch_chain.c -------------------------------------------------- */
/* The chain as kernels take it, with the addresses of a run. */
tk_chain rt_chain_of(const rt_launch *launch, const rt_chain *chain, const void *first);
/* TC_BAD_INPUT unless its ratios are numbers. */
tc_status rt_expect_chain(rt_launcher *launcher, const tc_node *node, const rt_launch *launch, const rt_chain *chain);
/* The operands that a result of link `at` may lie over, of those that have result 0's size: an element of theirs is not
 * read any more when it is written. */
uint64_t rt_chain_inplace(const rt_launch *launch, const rt_chain *chain, int at);
#endif
