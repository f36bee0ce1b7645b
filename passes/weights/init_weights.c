/* init_weights.c: element i of a weight is number i of a stream that seed and name decide: SplitMix64 (Steele, Lea,
 * Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014), whose state is a counter. The name goes in by
 * FNV-1a (Fowler, Noll, Vo). */
#include "init_weights.h"

#define STEP UINT64_C(0x9E3779B97F4A7C15)

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

static uint64_t stream_of(int64_t seed, const char *name) {
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001B3);
    return mix(hash ^ mix((uint64_t)seed + STEP));
}

tc_tensor *tc_uniform_weight(tc_model *model, tc_dtype dtype, int rank, const int64_t *dims, double bound, int64_t seed,
                             const char *name) {
    tc_tensor *tensor = tc_tensor_create(model, dtype, rank, dims, NULL);
    uint64_t stream = stream_of(seed, name);
    tensor->name = name;
    for (uint64_t i = 0; i < tensor->count; i++) {
        double unit = (double)(mix(stream + (i + 1) * STEP) >> 40) * 0x1p-24; /* in [0, 1) */
        tc_element_set(dtype, (void *)(uintptr_t)tensor->data, i, bound * (2 * unit - 1));
    }
    return tensor;
}
