/* cuda_case.h: a kernel of the CUDA device, emulated, beside the reference kernel of the same name on the same
 * operands. A check is a function that makes operands, runs a kernel on both sides and compares:
 *
 *     pair x = pair_random(dtype, n, -3, 3), y = pair_result(dtype, n);
 *     ON_BOTH(softmax, AT(y), AT(x), shape, dtype);
 *     pair_compare(y, (bounds){.relative = 1e-6}, "softmax n %lld", (long long)n);
 *
 * A program has the checks of one family, listed as `checks`; `main` (cuda_case.c) runs each of them with threads in
 * ascending, descending and shuffled order. What the emulation finds fails the check that it happened in. Operands are
 * given back when the check ends. */
#ifndef CUDA_CASE_H
#define CUDA_CASE_H
#include "kernels/common/types.h"
#include "kernels/table.h"
#include <stdbool.h>

typedef struct cuda_check {
    const char *name;
    void (*run)(void);
} cuda_check;
extern const cuda_check checks[]; /* ended by a NULL name */

enum { HOST, DEVICE, SIDES };

/* Elements on both sides. */
typedef struct pair {
    void *at[SIDES];
    int64_t n;
    tk_dtype dtype;
} pair;

/* Gives all operands back that there are: between the cases of a check with many. */
void pairs_give_back(void);

extern int side; /* of the call that ON_BOTH makes */
extern const tk_table *const tables[SIDES];
extern tk_queue *queues[SIDES];

/* The kernel `name` with these arguments behind the queue, once a side; AT(pair) is the side's bytes, WORKSPACE(bytes)
 * so many bytes of the side's. Waits for the device. */
#define ON_BOTH(name, ...)                                                                                             \
    do {                                                                                                               \
        for (side = HOST; side < SIDES; side++)                                                                        \
            tables[side]->name(queues[side], __VA_ARGS__);                                                             \
        wait_for_both();                                                                                               \
    } while (0)
#define AT(pair) ((pair).at[side])
/* The function of the side's table with this name. */
#define OF_TABLE(name) (tables[side]->name)
void wait_for_both(void);
/* Of the side that runs, until the check ends; NULL for none. */
void *workspace(size_t bytes);

/* n elements: numbers between low and high (integers for integer types), the same on both sides and in every run; for
 * bool 0 and 1. */
pair pair_random(tk_dtype dtype, int64_t n, double low, double high);
/* These n elements, in the type's own bytes. */
pair pair_of(tk_dtype dtype, int64_t n, const void *elements);
/* Of one type, each from a number. */
pair pair_numbers(tk_dtype dtype, int64_t n, const double *numbers);
/* n elements for a kernel to write: on the device they count as unwritten. */
pair pair_result(tk_dtype dtype, int64_t n);
/* A copy of both sides: for kernels that write over operands. */
pair pair_copy(pair p);
/* The elements from `first` on: for bases that are no multiple of 16 bytes. */
pair pair_from(pair p, int64_t first);

/* |device - host| <= absolute + relative |host| + ulps of the type (for 16 bits); both NaN, or the same infinity, is
 * equal too. All 0: the same bits, but for NaN's. */
typedef struct bounds {
    double relative, absolute, ulps;
} bounds;
/* Compares all elements; a difference is printed with the text, and the check has failed. */
__attribute__((format(printf, 3, 4))) void pair_compare(pair p, bounds b, const char *format, ...);
/* Both have the same bits on the device, but for NaN's: what two kernels promise of each other. */
void pair_same(pair a, pair b, const char *text);
/* The host's elements become the device's: operands of a second kernel, which differ by what the first one rounded. */
void pair_share(pair p);
/* The device's side against `exact`, n numbers: within so many ulps of the type at each, and `absolute`, n more. */
__attribute__((format(printf, 5, 6))) void pair_compare_exact(pair p, const double *exact, double ulps,
                                                              const double *absolute, const char *format, ...);
/* The faults of the two sides since the last call are `status` each. */
void expect_fault(tk_status status, const char *what);
/* The check has failed. */
__attribute__((format(printf, 1, 2))) void wrong(const char *format, ...);

/* Element i of the device's side as a number. */
double device_number(pair p, int64_t i);

/* All element types of a kind, ended by 0. */
extern const tk_dtype all_floats[], all_numbers[], all_types[];
#endif
