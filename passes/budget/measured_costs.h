/* measured_costs.h: reads the table that `tempo-run --profile=FILE.csv` writes (programs/tempo-run/run_times.c):
 *     node,op,operands,result,runs,nanoseconds
 * A node is looked up by name, or by its op and the types of its operands and first result. */
#ifndef TC_MEASURED_COSTS_H
#define TC_MEASURED_COSTS_H
#include "compiler/ir/ir.h"

#define TC_MEASURED_MOST (UINT64_C(1) << 50) /* nanoseconds: thirteen days */

typedef struct tc_measured tc_measured;

/* The table in the context's arena. TC_IO: the file cannot be read; TC_BAD_INPUT: an invalid line, which is named. */
tc_status tc_measured_read(tc_ctx *ctx, const char *path, const tc_measured **out_measured);

/* The nanoseconds of the row with that node's name, op and types; else the mean of all rows with its op and types;
 * UINT64_MAX: there is none. If the node's types are not static, name and op suffice. */
uint64_t tc_measured_time(const tc_measured *measured, const tc_node *node);
#endif
