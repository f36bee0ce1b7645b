/* test_emulation.c: the emulation finds each defect of defects.h, calls it by its kind, names the kernel and the line,
 * and says nothing of the right twin, in every order of threads. */
#include "defects.h"
#include "emulation_state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;
static void fail(const char *name, unsigned order, const char *what, const char *detail) {
    printf("%s, order %u: %s %s\n", name, order, what, detail);
    failures++;
}

/* The double of a stream: at once. */
void emu_queue(const char *name, emu_dim3 grid, emu_dim3 block, size_t shared, void *stream, const void *kernel,
               void (*call)(const void *), void (*release)(const void *), const void *f) {
    (void)stream, (void)kernel;
    emu_run(name, grid, block, shared, call, f);
    release(f);
}

static void *operand(const char *name, size_t bytes, size_t written) {
    void *p = emu_malloc(bytes, name);
    if (!p)
        perror("test_emulation"), exit(1);
    memset(p, 0, written);
    emu_host_wrote(p, written);
    return p;
}

static bool has_spans(const char *name) { return !strcmp(name, "not_operand") || !strcmp(name, "written_input"); }

typedef void defect(bool wrong, const defect_operands *o);

/* Runs one twin; what was found of the expected beginning, else what was found first, else "". Where a race's reader
 * comes first, it is told of a byte that nobody wrote before it is told of the race. */
static void run(defect *launch, const char *name, bool wrong, unsigned order, const char *expected, char found[1024]) {
    const size_t floats = DEFECT_N * sizeof(float);
    defect_operands o = {.bytes = operand("bytes", DEFECT_N, DEFECT_N),
                         .in = operand("in", floats, floats),
                         .counter = operand("counter", sizeof(unsigned), sizeof(unsigned)),
                         .unwritten = operand("unwritten", floats, 0),
                         .out = operand("out", floats, 0)};
    const emu_span spans[] = {{o.in, floats, false}, {o.out, floats, true}};
    emu_allow(spans, has_spans(name) ? 2 : 0);
    emu_order = order;
    launch(wrong, &o);
    snprintf(found, 1024, "%s", emu_findings() > 0 ? emu_finding(0) : "");
    for (int i = emu_findings() - 1; i >= 0; i--)
        if (strncmp(emu_finding(i), expected, strlen(expected)) == 0)
            snprintf(found, 1024, "%s", emu_finding(i));
    emu_allow(NULL, 0);
    emu_forget();
    emu_free(o.bytes), emu_free(o.in), emu_free(o.counter), emu_free(o.unwritten), emu_free(o.out);
    if (emu_findings() > 0)
        fail(name, order, "afterwards:", emu_finding(0));
}

static void check(defect *launch, const char *name, const char *kind, unsigned order) {
    char found[1024], expected[128];
    snprintf(expected, sizeof expected, "%s in (%s<true>): ", kind, name);
    run(launch, name, false, order, expected, found);
    if (found[0])
        fail(name, order, "the right twin:", found);
    run(launch, name, true, order, expected, found);
    if (strncmp(found, expected, strlen(expected)) != 0)
        fail(name, order, "wrong, but found was:", found[0] ? found : "nothing");
    /* Kinds that are about a place in the code tell it. */
    static const char *const placeless[] = {"invalid launch", "unfinished copy"};
    bool told = strstr(found, "defects.cu:") || strstr(found, "at line ");
    for (size_t i = 0; i < sizeof placeless / sizeof *placeless; i++)
        told = told || strcmp(kind, placeless[i]) == 0;
    if (!told)
        fail(name, order, "no line in:", found);
}

int main(void) {
    static const unsigned orders[] = {0, 1, 12345};
    int checked = 0;
    emu_quiet = true;
    emu_most_accesses = 1 << 16;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        if (i == 2)
            emu_counter = UINT32_MAX >> 4; /* stamps begin anew */
#define CHECK(name, kind) check(defect_##name, #name, kind, orders[i]), checked++;
        DEFECTS(CHECK)
    }
    int local = 0;
    emu_free(&local);
    if (emu_findings() != 1 || strncmp(emu_finding(0), "bad free in no kernel: ", 23) != 0)
        fail("bad free", 0, "found:", emu_findings() > 0 ? emu_finding(0) : "nothing");
    printf("%d defects and twins, %d failures\n", checked, failures);
    return failures > 0;
}
