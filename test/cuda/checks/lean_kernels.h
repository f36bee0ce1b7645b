/* lean_kernels.h: the kernels that a transformer's step spends its time on besides products, each with what it must
 * move: one table for those who count their accesses on the emulated device (check_sectors.c), and who time them on a
 * GPU (gpu/gpu_rates.c). */
#ifndef LEAN_KERNELS_H
#define LEAN_KERNELS_H
#include "kernels/table.h"

enum { LEAN_ELEMENTS = 6, LEAN_COLUMNS = 4, LEAN_ROWS = 3, LEAN_HEADS = 16 };

/* Operands of any of them, in the device's memory. The first half of `element` and of `column`, the last of `element`
 * and all of `row` are filled with numbers between -1 and 1; results go to the others. */
typedef struct lean_case {
    tk_queue *q;
    const tk_table *table;
    tk_dtype dtype;
    int64_t rows, n;
    void *element[LEAN_ELEMENTS]; /* [rows, n] of dtype */
    void *column[LEAN_COLUMNS];   /* [n] of dtype */
    void *row[LEAN_ROWS];         /* [rows] floats */
    void *wide;                   /* [rows, n] floats */
    void *byte;                   /* [rows, n] bytes of 0 and 1 */
    void *label, *place;          /* [rows] int64: from 0 to n - 1; from 0 to rows - 1, each of them once */
    void *seed, *ratio;           /* int64[2], and a float of 0.1 */
    void *workspace;
} lean_case;

typedef struct lean_kernel {
    const char *name;
    void (*run)(const lean_case *c);
    size_t (*workspace)(const lean_case *c); /* NULL: none */
    /* So many arrays of each kind are read or written once at least, over them all. */
    int elements, columns, rows, wides, bytes, labels;
    /* What may be asked for at 256 rows, to the above with columns read by every row: more than 1 where sums of parts,
     * which grow no further with more rows, are written and read again. 0: 1. */
    double traffic;
    double sectors; /* as many of them as the bytes have, or so many times more; 0: 1 */
    bool halves;    /* it is for types of 16 bits alone */
} lean_kernel;

extern const lean_kernel lean_kernels[]; /* ended by a NULL name */

/* Takes and fills the memory of a case on a device whose queue has started; false: there is not so much. */
bool lean_open(lean_case *c, tk_queue *q, tk_dtype dtype, int64_t rows, int64_t n);
void lean_close(lean_case *c);
/* Takes the workspace of a kernel, which `run` may be called of then; false: there is not so much. */
bool lean_prepare(lean_case *c, const lean_kernel *kernel);
/* The least bytes to and from memory, with each column `reads` times. */
double lean_bytes(const lean_case *c, const lean_kernel *kernel, int64_t reads);
#endif
