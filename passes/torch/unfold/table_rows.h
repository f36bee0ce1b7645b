/* table_rows.h: the rows of a table, collected from tensors that hold some of them, perhaps several times each. */
#ifndef TC_TABLE_ROWS_H
#define TC_TABLE_ROWS_H
#include "compiler/ir/ir.h"

typedef struct tc_table_rows tc_table_rows;

/* A table of rows of so many elements; in the arena. Added rows are borrowed. */
tc_table_rows *tc_table_rows_create(tc_arena *arena, tc_dtype dtype, size_t row_elements);
/* The number of an equal row; if there is none, the row is added at the end. */
size_t tc_table_rows_add(tc_table_rows *table, const void *row);
/* The number of an equal row; SIZE_MAX if there is none. */
size_t tc_table_rows_find(const tc_table_rows *table, const void *row);
size_t tc_table_rows_count(const tc_table_rows *table);
const void *tc_table_rows_at(const tc_table_rows *table, size_t number);
/* All elements of the row have the same bits, as in fresh and padding rows; such a row does not show its origin. */
bool tc_table_row_is_uniform(const tc_table_rows *table, const void *row);
#endif
