/* long_run.c: a model, run over and over in one session, each time on another batch, of lengths that change among
 * eight -> plans made and resident bytes, and whether both are as they ought to be. long_run MODEL RUNS
 *
 * A training run is hundreds of thousands of steps long: memory that a step leaks ends it. Every size with a name is 2,
 * but for "seq", which is the length; integers are drawn from 0 and 1, so that they are good as ids, masks and labels.
 * The process must be as large after the last run as after the first hundred, and have made a plan for each length.
 * Exit code 1 when not. */
#include "compiler/ir/ops.h"
#include "runtime/session/session.h"
#include "test/unit/random_below.h"
#include "test/unit/resident.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTHS = 8, SETTLED = 100, MAX_INPUTS = 16 };
#define SLACK (UINT64_C(1) << 20) /* bytes: pages that an allocator keeps */

static uint32_t state = 7;
static uint32_t draw(uint32_t n) { return random_below(&state, n); }

/* Fills and binds one input; `memory` is what the one before lay in. */
static tempo_status bind(tempo_session *s, const rt_input *input, int64_t length, void **memory) {
    const tc_type *type = input->declared;
    int64_t dims[TC_MAX_RANK], count = 1;
    for (int i = 0; i < type->rank; i++) {
        const char *name = tc_dim_is_const(type->dims[i]) ? NULL : tc_dim_text(s->ctx.arena, type->dims[i]);
        dims[i] = !name ? type->dims[i].value : strcmp(name, "seq") == 0 ? length : 2;
        count *= dims[i];
    }
    size_t bytes = (size_t)count * tempo_dtype_size((tempo_dtype)type->dtype);
    free(*memory);
    *memory = malloc(bytes + 1);
    if (!*memory)
        return TEMPO_LIMIT;
    for (int64_t i = 0; i < count; i++)
        tc_element_set(type->dtype, *memory, (uint64_t)i, draw(2));
    tempo_tensor tensor = {(tempo_dtype)type->dtype, type->rank, dims, *memory, bytes};
    return tempo_bind(s, input->value->name, &tensor);
}

static tempo_status run(tempo_session *s, long runs, uint64_t *out_settled) {
    void *memory[MAX_INPUTS] = {NULL};
    size_t n = tempo_input_count(s);
    tempo_status status = n <= MAX_INPUTS ? TEMPO_OK : TEMPO_USAGE;
    for (long i = 0; i < runs && status == TEMPO_OK; i++) {
        int64_t length = 4 + (int64_t)(i < LENGTHS ? i : draw(LENGTHS));
        tempo_info info;
        tempo_tensor output;
        for (size_t k = 0; k < n && status == TEMPO_OK; k++)
            if (strcmp(s->inputs[k].value->name, TC_SEED_INPUT) != 0)
                status = bind(s, &s->inputs[k], length, &memory[k]);
        tempo_seed(s, 1, (uint64_t)i);
        if (status == TEMPO_OK)
            status = tempo_run(s);
        for (size_t k = 0; status == TEMPO_OK && tempo_output_info(s, k, &info); k++)
            status = tempo_output(s, info.name, &output);
        if (i == SETTLED)
            *out_settled = resident();
    }
    for (size_t k = 0; k < MAX_INPUTS; k++)
        free(memory[k]);
    return status;
}

int main(int argc, char **argv) {
    tempo_session *s;
    long runs = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
    if (runs <= SETTLED) {
        fprintf(stderr, "usage: long_run MODEL RUNS (more than %d)\n", SETTLED);
        return 64;
    }
    uint64_t settled = 0;
    tempo_status status = tempo_open(argv[1], &(tempo_options){.threads = 1}, &s);
    if (status == TEMPO_OK)
        status = run(s, runs, &settled);
    if (status != TEMPO_OK) {
        fputs(s ? tempo_message(s) : "long_run: out of memory\n", stderr);
        return (int)status;
    }
    uint64_t at_end = resident(), plans = s->plans_made;
    printf("%ld runs, %llu plans, %.2f MiB resident after %d runs, %.2f MiB at the end\n", runs,
           (unsigned long long)plans, (double)settled / 0x1p20, SETTLED, (double)at_end / 0x1p20);
    tempo_close(s);
    return plans == LENGTHS && at_end <= settled + SLACK ? 0 : 1;
}
