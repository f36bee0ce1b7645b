/* session_test.h: what the tests of sessions share: a graph in ONNX text becomes an open session. */
#ifndef SESSION_TEST_H
#define SESSION_TEST_H
#include "cases.h"
#include "runtime/session/session.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where sessions compute: the CPU, unless the test is compiled for another device. */
#ifdef TEST_OTHER_DEVICE
#include "programs/tempo-run/run.h"
#define TEST_DEVICE rt_devices[0]
#else
#define TEST_DEVICE (&rt_device_cpu)
#endif

/* `graph` is one in text: its name, inputs, outputs and nodes, of these opsets, behind
 * which more of the header may stand. */
static inline tempo_status try_open(const rt_hooks *hooks, const char *opsets, const char *graph,
                                    const tempo_options *options, tempo_session **out_session) {
    char path[] = "/tmp/session_testXXXXXX.onnxt";
    int fd = mkstemps(path, 6);
    FILE *file = fdopen(fd, "w");
    fprintf(file, "<ir_version: 10, opset_import: %s>\n%s", opsets, graph);
    fclose(file);
    tempo_status status = rt_open(path, options, hooks, out_session);
    unlink(path);
    return status;
}

static inline void ok(const tempo_session *s, tempo_status status) {
    if (status != TEMPO_OK)
        print_error("%s", tempo_message(s));
    assert_int_equal(status, TEMPO_OK);
}

static inline void fails(const tempo_session *s, tempo_status expected, tempo_status status,
                         const char *part_of_message) {
    assert_int_equal(status, expected);
    if (!strstr(tempo_message(s), part_of_message))
        print_error("%s", tempo_message(s));
    assert_non_null(strstr(tempo_message(s), part_of_message));
}

/* `threads` 0: one per core. */
static inline tempo_session *open_with(const rt_hooks *hooks, const char *opsets, const char *graph, int threads) {
    tempo_session *session;
    tempo_status status = try_open(hooks, opsets, graph, &(tempo_options){.threads = threads}, &session);
    ok(session, status);
    return session;
}

static inline tempo_session *open_on(const rt_device *device, const char *graph, int threads) {
    return open_with(&(rt_hooks){.device = device}, "[\"\" : 21]", graph, threads);
}

static inline tempo_session *open_text(const char *graph, int threads) { return open_on(TEST_DEVICE, graph, threads); }
#endif
