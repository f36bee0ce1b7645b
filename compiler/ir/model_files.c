/* model_files.c: the files that a model borrows bytes from, and the end of a model, which closes them. */
#include "compiler/base/base.h"
#include "ir.h"

void tc_model_keep(tc_model *model, const char *key, tc_file *file) {
    tc_held held;
    tc_file_hold(file, &held);
    if (!model->maps)
        model->maps = tc_map_create(model->arena);
    tc_file *copy = TC_NEW(model->arena, tc_file);
    *copy = *file;
    tc_map_set(model->maps, key, copy);
    tc_let_go(&held);
}

void tc_model_keep_file(tc_model *model, tc_file *file) {
    tc_held held;
    size_t n = model->maps ? tc_map_count(model->maps) : 0;
    tc_file_hold(file, &held);
    const char *key = tc_arena_printf(model->arena, "/file %zu", n);
    tc_let_go(&held);
    tc_model_keep(model, key, file);
}

void tc_model_destroy(tc_model *model) {
    if (!model)
        return;
    tc_let_go(&model->held);
    const void *key = NULL;
    void *file = NULL;
    for (size_t cursor = 0; model->maps && tc_map_next(model->maps, &cursor, &key, &file);)
        tc_file_close(file);
    tc_arena_destroy(model->arena);
}
