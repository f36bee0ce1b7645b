/* along_cpu.c: ops that walk along one axis: ArgMax, ArgMin, CumSum. Outer indices go to threads. */
#include "../common/element.h"
#include "../common/parallel.h"
#include "reduce.h"

#define COLUMNS 64 /* whose sums run side by side */

typedef struct along_ctx {
    void *out;
    const void *inp;
    int64_t n, inner;
    bool flag[2]; /* largest, last; or exclusive, reverse */
    void (*fn)(const struct along_ctx *c, int64_t outer);
} along_ctx;
typedef void (*along_fn)(const along_ctx *c, int64_t outer);

#define TEMPLATE "../reduce/along_tmpl.h"
#include "../common/each_float.h"
#define TEMPLATE "../reduce/along_tmpl.h"
#include "../common/each_int.h"

static const struct {
    tk_dtype dtype;
    along_fn arg, cumsum;
} kernels[] = {
    {TK_F32, arg_f32, cumsum_f32},    {TK_F64, arg_f64, cumsum_f64}, {TK_F16, arg_f16, cumsum_f16},
    {TK_BF16, arg_bf16, cumsum_bf16}, {TK_I8, arg_i8, cumsum_i8},    {TK_U8, arg_u8, cumsum_u8},
    {TK_I16, arg_i16, cumsum_i16},    {TK_U16, arg_u16, cumsum_u16}, {TK_I32, arg_i32, cumsum_i32},
    {TK_U32, arg_u32, cumsum_u32},    {TK_I64, arg_i64, cumsum_i64}, {TK_U64, arg_u64, cumsum_u64},
};

static int find(tk_dtype dtype) {
    int n = (int)(sizeof kernels / sizeof kernels[0]);
    for (int i = 0; i < n; i++)
        if (kernels[i].dtype == dtype)
            return i;
    return -1;
}

static void range(void *ctx, tk_share share) {
    const along_ctx *c = ctx;
    for (int64_t i = share.begin; i < share.end; i++)
        c->fn(c, i);
}

bool tk_arg_has(tk_dtype dtype) { return find(dtype) >= 0; }

void tk_arg(tk_queue *q, int64_t *out, const void *inp, int64_t outer, int64_t n, int64_t inner, bool largest,
            bool last, tk_dtype dtype) {
    along_ctx c = {out, inp, n, inner, {largest, last}, kernels[find(dtype)].arg};
    tk_parallel_for(q, outer, TK_GRAIN / (n * inner + 1) + 1, range, &c);
}

bool tk_cumsum_has(tk_dtype dtype) { return find(dtype) >= 0; }

size_t tk_cumsum_workspace(int64_t lanes, int64_t n, tk_dtype dtype) {
    (void)lanes, (void)n, (void)dtype;
    return 0;
}

void tk_cumsum(tk_queue *q, void *out, const void *inp, int64_t outer, int64_t n, int64_t inner, bool exclusive,
               bool reverse, tk_dtype dtype, void *workspace) {
    (void)workspace;
    along_ctx c = {out, inp, n, inner, {exclusive, reverse}, kernels[find(dtype)].cumsum};
    tk_parallel_for(q, outer, TK_GRAIN / (n * inner + 1) + 1, range, &c);
}
