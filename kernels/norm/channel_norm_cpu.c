/* channel_norm_cpu.c: normalizations by channel: batch, group, instance, local response. Channels or groups go to
 * threads. */
#include "../common/element.h"
#include "../common/parallel.h"
#include "norm.h"
#include <math.h>

typedef struct channel_ctx {
    tk_channel_results out;
    tk_channel_operands in;
    const tk_channels *s;
} channel_ctx;

#define TEMPLATE "../norm/channel_tmpl.h"
#include "../common/each_float.h"

static int64_t grain(int64_t elements) { return TK_GRAIN / 4 / (elements + 1) + 1; }

void tk_batch_norm(tk_queue *q, tk_channel_results out, tk_channel_operands in, const tk_channels *s) {
    channel_ctx c = {out, in, s};
    tk_parallel_for(q, s->channels, grain(s->batch * s->inner), TK_OF_FLOAT(s->dtype, batch_channels), &c);
}

void tk_group_norm(tk_queue *q, tk_channel_results out, tk_channel_operands in, const tk_channels *s) {
    channel_ctx c = {out, in, s};
    if (s->groups > 0)
        tk_parallel_for(q, s->batch * s->groups, grain(s->channels / s->groups * s->inner),
                        TK_OF_FLOAT(s->dtype, groups), &c);
}

void tk_lrn(tk_queue *q, tk_channel_results out, tk_channel_operands in, const tk_channels *s) {
    channel_ctx c = {out, in, s};
    tk_parallel_for(q, s->batch * s->channels, grain(s->inner * s->size * 4), TK_OF_FLOAT(s->dtype, lrn_channels), &c);
}
