/* reference.h: every kernel a second time, as its definition reads: one element at a time, in double precision,
 * integers modulo 2^64, rounded once at the end. No blocks, no vector code, no sums in parts; nothing of *_cpu.c is
 * called. A device with this table runs a whole graph on them (tempoc --verify), a hundred times slower than on the
 * CPU's. Results may lie over the same operands as there. */
#ifndef TK_REFERENCE_H
#define TK_REFERENCE_H
#include "../common/types.h"
#include "../queue.h"
#include "../table.h"
#include <stdlib.h>

extern const tk_table tk_table_reference;

#define TK_DECLARE_REFERENCE(name, parameters, arguments) void tk_reference_##name parameters;
TK_KERNELS(TK_DECLARE_REFERENCE)
TK_FUSED_KERNELS(TK_DECLARE_REFERENCE)

/* n doubles, which the caller frees; NULL, and a fault, where memory is out. */
double *tk_reference_room(tk_queue *q, int64_t n);
/* The same with the elements of an operand in them. `data` NULL: zeros. */
double *tk_reference_numbers(tk_queue *q, const void *data, int64_t n, tk_dtype dtype);

/* Element i of any type becomes `value`: floats are rounded, integers cut and held to their range. */
void tk_reference_put(void *out, tk_dtype dtype, int64_t i, double value);
/* Element i of an integer type or bool becomes the low bits of `value`. */
void tk_reference_put_int(void *out, tk_dtype dtype, int64_t i, uint64_t value);
/* The part that a dropout drops: 0 where nothing is dropped; negative, and a fault, where it is no ratio. */
double tk_reference_ratio(tk_queue *q, bool drops, tk_number ratio);
/* Whether element i of a draw is kept. */
bool tk_reference_kept(const tk_draw *draw, double ratio, int64_t i);
/* A row of pointwise.def at one point, or its slope there. */
double tk_reference_point(tk_pointwise_row row, double x, double alpha, bool of_slope);
/* Where each operand of a broadcast has the element of result i. */
void tk_reference_places(const tk_bcast *bc, int64_t i, int64_t places[TK_BCAST_MAX]);
#endif
