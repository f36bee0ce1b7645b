/* table_cpu.c: the table of the CPU's kernels. */
#include "table.h"

#define ENTRY(name, parameters, arguments) .name = tk_##name,
const tk_table tk_table_cpu = {TK_KERNELS(ENTRY) TK_WORKSPACES(ENTRY)};
