/* defects.h: kernels with one defect each, and their right twins: what the emulation must find (C and C++). */
#ifndef DEFECTS_H
#define DEFECTS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

enum { DEFECT_N = 1000 }; /* elements of each operand */
typedef struct defect_operands {
    uint8_t *bytes; /* written by the host, as all but the last two */
    float *in;
    unsigned *counter; /* 1 element, 0 */
    float *unwritten, *out;
    void *stream;
} defect_operands;

/* NAME, and the kind of the finding where it is wrong. Told, and it goes on; or the launch ends. */
#define DEFECTS(X)                                                                                                     \
    X(missing_barrier, "race")                                                                                         \
    X(warp_barrier, "race")                                                                                            \
    X(one_buffer, "race")                                                                                              \
    X(byte_behind, "out of bounds")                                                                                    \
    X(byte_before, "out of bounds")                                                                                    \
    X(shared_behind, "out of bounds")                                                                                  \
    X(misaligned, "misaligned")                                                                                        \
    X(struct_behind, "out of bounds")                                                                                  \
    X(filled_behind, "out of bounds")                                                                                  \
    X(unwritten_global, "uninitialised")                                                                               \
    X(unwritten_shared, "uninitialised")                                                                               \
    X(unwritten_static, "uninitialised")                                                                               \
    X(blocks_write, "race between blocks")                                                                             \
    X(blocks_read, "race between blocks")                                                                              \
    X(neighbour_bytes, "race")                                                                                         \
    X(diverging_barrier, "barrier divergence")                                                                         \
    X(named_barrier, "race")                                                                                           \
    X(waiting_forever, "deadlock")                                                                                     \
    X(barrier_of_nobody, "invalid barrier")                                                                            \
    X(missing_wait, "copy still under way")                                                                            \
    X(early_wait, "copy still under way")                                                                              \
    X(unfinished_copy, "unfinished copy")                                                                              \
    X(shuffle_mask, "bad mask")                                                                                        \
    X(shuffle_source, "undefined shuffle")                                                                             \
    X(diverging_warp, "warp divergence")                                                                               \
    X(float_atomic, "order")                                                                                           \
    X(plain_count, "race")                                                                                             \
    X(not_operand, "not an operand")                                                                                   \
    X(written_input, "not an operand")                                                                                 \
    X(part_of_warp, "part of a warp")                                                                                  \
    X(global_matrix, "not shared memory")                                                                              \
    X(divided_by_zero, "crash")                                                                                        \
    X(endless, "endless")                                                                                              \
    X(large_block, "invalid launch")                                                                                   \
    X(large_shared, "invalid launch")

#define DEFECT_DECLARE(name, kind) void defect_##name(bool wrong, const defect_operands *o);
DEFECTS(DEFECT_DECLARE)

#ifdef __cplusplus
}
#endif
#endif
