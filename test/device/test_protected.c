/* test_protected.c: a test of the tests: memory of the protected device is out of the host's reach between kernels, and
 * what passes through it comes back as it was. */
#include "test/unit/cases.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include "programs/tempo-run/run.h"

enum { N = 5 };

static int signal_of(void (*body)(float *), float *memory) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* a sanitizer would tell of it */
        body(memory);
        _exit(0);
    }
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void read_one(float *memory) {
    volatile float x = memory[0];
    (void)x;
}
static void write_one(float *memory) { *(volatile float *)memory = 1; }

TEST(only_kernels_reach_it) {
    const rt_device *device = rt_devices[0];
    tk_queue *q = device->open(2, 2);
    const float x[N] = {-2, -1, 0, 1, 2};
    float y[N] = {0};
    float *in = device->alloc(q, sizeof x), *out = device->alloc(q, sizeof x);
    assert_false(device->host_memory);
    assert_true((uintptr_t)in % 64 == 0 && (uintptr_t)out % 64 == 0);
    device->upload(q, in, x, sizeof x);
    device->kernels->copy(q, out, in, sizeof x);
    assert_int_equal(signal_of(read_one, out), SIGSEGV);
    assert_int_equal(signal_of(write_one, in), SIGSEGV);
    device->download(q, y, out, sizeof y);
    assert_memory_equal(x, y, sizeof x);
    device->free(q, in), device->free(q, out);
    device->close(q);
}

TEST(faults_come_at_the_end) {
    const rt_device *device = rt_devices[0];
    tk_queue *q = device->open(1, 1);
    const int64_t sizes[] = {3, 4}, dims[] = {3, 5};
    uint32_t launch = 0;
    int64_t *at = device->alloc(q, sizeof sizes);
    device->upload(q, at, sizes, sizeof sizes);
    tk_queue_begin(q, 7);
    device->kernels->check_sizes(q, at, 2, dims);
    tk_queue_begin(q, 8);
    device->kernels->check_sizes(q, at, 2, dims);
    assert_int_equal(device->wait(q, &launch), TK_BAD_VALUE);
    assert_int_equal(launch, 7);
    assert_int_equal(device->wait(q, &launch), TK_OK);
    device->free(q, at);
    device->close(q);
}
