/* plan_problem.h: memory to be planned, as numbers alone: operations in their order, buffers with their lives, and
 * which may lie in or over which. Runtime and passes state their memory as such a problem. simulate says how much is
 * live when, pack gives each buffer a place in one arena, check verifies both. This folder includes nothing of ours. */
#ifndef TC_PLAN_PROBLEM_H
#define TC_PLAN_PROBLEM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TC_PLAN_NONE UINT32_MAX

/* Bytes that operations share. A buffer with a root has no place of its own: it lies `at` bytes after its root's first,
 * and the root lives as long as any that lies in it. Chains of roots are fine, circles are not. */
typedef struct tc_plan_buffer {
    uint64_t bytes; /* as needed; its place is a multiple of `align` long */
    uint64_t align; /* a power of two */
    uint32_t first,
        last;        /* the operations that it is live in, both inclusive; last may be n_ops: to the end and beyond */
    uint32_t root;   /* TC_PLAN_NONE, or the buffer that this one lies in */
    uint64_t at;     /* bytes from the root's begin; at + bytes is no more than the root's bytes */
    uint64_t offset; /* out: in the arena, a multiple of `align` where there is no root */
} tc_plan_buffer;

/* One step. Its workspace is live in it alone. */
typedef struct tc_plan_op {
    uint64_t workspace; /* bytes; placed like a buffer, aligned to the problem's `align` */
    uint64_t offset;    /* out: of the workspace */
    uint64_t cost;      /* of the operation, in a unit that the problem's maker chooses; 0: not used */
} tc_plan_op;

/* Operation `op` may write `result` over `operand`. This helps only where the operand's last operation and the result's
 * first is `op`, both have roots of the same size and begin where these do; otherwise the choice is ignored. */
typedef struct tc_plan_choice {
    uint32_t op, result, operand; /* an index of `ops`, two of `buffers` */
    bool taken;                   /* out: both lie at one offset */
} tc_plan_choice;

typedef struct tc_plan_problem {
    tc_plan_op *ops;
    uint32_t n_ops;
    tc_plan_buffer *buffers;
    uint32_t n_buffers;
    tc_plan_choice *choices; /* of one result, the better one first */
    uint32_t n_choices;
    uint64_t align;  /* of workspaces: a power of two */
    uint64_t enough; /* an arena of so many bytes is small enough; 0: the smaller the better */
} tc_plan_problem;

/* The live bytes at each operation, with as many results over operands as possible. No packing needs fewer bytes than
 * `peak_bytes`. */
typedef struct tc_plan_live {
    uint64_t peak_bytes;
    uint32_t peak; /* the first operation at which that much is live */
    uint64_t cost; /* of all operations */
} tc_plan_live;

typedef struct tc_plan_packing {
    uint64_t bytes;      /* of the arena */
    tc_plan_live live;   /* at best */
    tc_plan_live chosen; /* with the choices as they are taken */
    uint64_t work;       /* the work done: a count, the same on every machine */
} tc_plan_packing;

typedef enum tc_plan_status { TC_PLAN_OK, TC_PLAN_MEMORY, TC_PLAN_TOO_BIG, TC_PLAN_INVALID } tc_plan_status;

static inline uint64_t tc_plan_round(uint64_t bytes, uint64_t align) { return (bytes + align - 1) & ~(align - 1); }

/* Takes the first choice for each result that still can be taken: sets `taken` of all. plan_simulate.c */
tc_plan_status tc_plan_take_choices(tc_plan_problem *problem);

/* The sum of all live bytes, for the choices as they are taken. TC_PLAN_TOO_BIG: all buffers together have 2^63 bytes
 * and more. TC_PLAN_INVALID: an index, a life, an alignment or a root that no problem may have. plan_simulate.c */
tc_plan_status tc_plan_simulate(const tc_plan_problem *problem, tc_plan_live *out_live);

/* Sets offsets and `taken`: buffers that are live together do not overlap, but for a result over its operand. `limit`
 * bounds the work, in visits of spans (about 10 ns each): 0 is the usual. The same problem gets the same places on
 * every machine. plan_pack.c */
tc_plan_status tc_plan_pack(tc_plan_problem *problem, uint64_t limit, tc_plan_packing *out_packing);

/* Checks places step by step and pair by pair: slow, and sharing no code with the packer. Returns NULL, or the mistake
 * and its two buffers (a buffer, or n_buffers + an operation for its workspace). plan_check.c */
const char *tc_plan_check(const tc_plan_problem *problem, uint64_t arena_bytes, uint32_t out_pair[2]);
/* The most that is live at one step, counted step by step from `taken` alone. plan_check.c */
uint64_t tc_plan_count_live(const tc_plan_problem *problem, uint32_t *out_peak);
#endif
