/* side_channels.c: capacity and limits of side channels (side_channels.h). A stored x-hat has an error of u |xhat|,
 * where u is half a unit of the last digit. An x-hat computed from y by a division has the errors u |xhat| and u |y
 * / scale|, with |y / scale| <= |xhat| + |bias / scale|. Since x-hat is about 1, its error is about sqrt(2 +
 * limit^2) times that of a stored one. The same holds for the scale's gradient, a sum over x-hat: beside a gradient
 * of 1, for 4096 rows, its error is at most 2e-7 in float, 3e-3 in float16 and 8e-3 in bfloat16; a stored x-hat has
 * 7e-8, 5e-4 and 5e-3. */
#include "side_channels.h"
#include "compiler/ir/ops.h"
#include <math.h>
#include <string.h>

enum {
    GROWTH = 64, /* one channel of so many may become a side channel while the model is trained, */
    FEW = 8,     /* one of so many if there are few channels, */
    FEWEST = 4,  /* up to this number */
};

double tc_side_channel_limit(tc_dtype dtype) { return dtype == TC_BFLOAT16 ? 1 : dtype == TC_FLOAT16 ? 4 : 2; }

/* Numbers below the least normal one have fewer digits. The attribute is a float: for double it is the value of
 * float. */
double tc_side_channel_least(tc_dtype dtype) { return ldexp(1, dtype == TC_FLOAT16 ? -14 : -126); }

/* The value's elements in the file; NULL: not known. */
static const tc_tensor *contents(const tc_value *value, uint64_t n) {
    const tc_tensor *tensor = !value ? NULL : value->init ? value->init : tc_value_constant(value);
    return tensor && tensor->data && tc_dtype_is_float(tensor->dtype) && tensor->count == n ? tensor : NULL;
}

static int64_t count_sides(const tc_tensor *scale, const tc_tensor *bias) {
    double limit = tc_side_channel_limit(scale->dtype), least = tc_side_channel_least(scale->dtype);
    int64_t sum = 0;
    for (uint64_t i = 0; i < scale->count; i++) {
        double gamma = fabs(tc_tensor_get(scale, i)), beta = bias ? fabs(tc_tensor_get(bias, i)) : 0;
        sum += gamma < least || beta > limit * gamma;
    }
    return sum;
}

/* The number of channels; 0: it is not known. */
static int64_t count_channels(const tc_value *scale) {
    int64_t n = 1;
    int rank = tc_value_rank(scale);
    for (int i = 0; i < rank; i++) {
        tc_dim dim = scale->type->dims[i];
        if (!tc_dim_is_const(dim) || dim.value < 1 || dim.value > INT32_MAX / n)
            return 0;
        n *= dim.value;
    }
    return rank == TC_RANK_UNKNOWN ? 0 : n;
}

/* As far as the file shows. */
static int64_t sides_now(const tc_value *scale, const tc_value *bias, int64_t n) {
    const tc_tensor *gamma = contents(scale, (uint64_t)n);
    return gamma ? count_sides(gamma, contents(bias, (uint64_t)n)) : 0;
}

int64_t tc_side_channel_capacity(const tc_value *scale, const tc_value *bias) {
    int64_t n = count_channels(scale);
    int64_t few = (n + FEW - 1) / FEW, growth = (n + GROWTH - 1) / GROWTH;
    few = few < FEWEST ? few : FEWEST;
    return n == 0 ? 0 : sides_now(scale, bias, n) + (growth > few ? growth : few);
}

static bool keeps_y(const tc_node *node) {
    const char *op = node->op && strcmp(node->domain, TC_TEMPO_DOMAIN) == 0 ? node->op->name : "";
    return strcmp(op, "LayerNormalizationFromY") == 0 || strcmp(op, "RMSNormalizationFromY") == 0;
}

void tc_note_side_channels(tc_ctx *ctx, const tc_graph *graph) {
    long long norms = 0, channels = 0, room = 0;
    TC_FOR_NODES(node, graph) {
        const tc_value *scale = tc_input(node, 1);
        if (!keeps_y(node))
            continue;
        long long n = count_channels(scale), capacity = tc_attr_int(node, "capacity", 0),
                  now = sides_now(scale, tc_input(node, 2), n);
        norms++;
        channels += n;
        room += capacity;
        if (now > 0)
            tc_note(ctx, node,
                    "x-hat cannot be recomputed from y in %lld of %lld channels, which keep it; "
                    "up to %lld may",
                    now, n, capacity);
    }
    if (norms > 0)
        tc_note(ctx, NULL, "%lld normalizations keep y, and x-hat of up to %lld of their %lld channels", norms, room,
                channels);
}
