/* test_table_rows.c: rows are found by their bits, also among very many. */
#include "test/unit/cases.h"
#include "passes/torch/unfold/table_rows.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

TEST(order) {
    tc_arena *arena = tc_arena_create();
    const float rows[5][2] = {{1, 2}, {2, 1}, {1, 2}, {3, 3}, {2, 1}}, absent[2] = {1, 3};
    const size_t want[5] = {0, 1, 0, 2, 1};
    tc_table_rows *table = tc_table_rows_create(arena, TC_FLOAT, 2);
    assert_int_equal(tc_table_rows_find(table, rows[0]), SIZE_MAX);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(tc_table_rows_add(table, rows[i]), want[i]);
    assert_int_equal(tc_table_rows_count(table), 3);
    assert_memory_equal(tc_table_rows_at(table, 2), rows[3], sizeof rows[3]);
    assert_int_equal(tc_table_rows_find(table, rows[4]), 1);
    assert_int_equal(tc_table_rows_find(table, absent), SIZE_MAX);
    assert_false(tc_table_row_is_uniform(table, rows[0]));
    assert_true(tc_table_row_is_uniform(table, rows[3]));
    tc_arena_destroy(arena);
}

TEST(bits) {
    tc_arena *arena = tc_arena_create();
    const double rows[3][1] = {{0}, {-0.0}, {NAN}};
    tc_table_rows *table = tc_table_rows_create(arena, TC_DOUBLE, 1);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(tc_table_rows_add(table, rows[i]), i);
    assert_int_equal(tc_table_rows_add(table, rows[2]), 2); /* a NaN equals itself */
    assert_true(tc_table_row_is_uniform(table, rows[0]));   /* of one element */
    const uint16_t halves[2][2] = {{0x3c00, 0x3c00}, {0x3c00, 0xbc00}};
    table = tc_table_rows_create(arena, TC_FLOAT16, 2);
    assert_true(tc_table_row_is_uniform(table, halves[0]));
    assert_false(tc_table_row_is_uniform(table, halves[1]));
    tc_arena_destroy(arena);
}

TEST(many) {
    enum { MANY = 200000 };
    tc_arena *arena = tc_arena_create();
    float(*rows)[2] = malloc(MANY * sizeof *rows);
    assert_non_null(rows);
    tc_table_rows *table = tc_table_rows_create(arena, TC_FLOAT, 2);
    for (size_t i = 0; i < MANY; i++)
        rows[i][0] = (float)(i / 1000), rows[i][1] = (float)(i % 1000);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(tc_table_rows_add(table, rows[i]), i);
    for (size_t i = 0; i < MANY; i += 999)
        assert_int_equal(tc_table_rows_find(table, rows[i]), i);
    free(rows);
    tc_arena_destroy(arena);
}
