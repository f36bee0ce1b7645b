/* test_devices.c: sessions on two emulated devices in one process: called in turn by one thread, and by another thread
 * than the one that opened them. CUDA's calls go to the device that the calling thread has chosen. */
#define OWN_MAIN
#include "test/cuda/doubles/cuda_work.h"
#include "test/cuda/emulation/emulated_device.h"
#include "test/unit/session_test.h"
#include <pthread.h>

enum { N = 4, RUNS = 3 }; /* launch by launch, recorded, replayed */

static const char graph[] = "g (float[2,2] x, float[2,2] w) => (float[2,2] y) { p = MatMul(x, w) y = Tanh(p) }";
static tempo_session *opened(int number) {
    return open_with(&(rt_hooks){.device = &rt_device_emulated, .device_number = number}, "[\"\" : 21]", graph, 1);
}

/* As pthreads call it: NULL where a run gives what it should. */
static void *ran(void *session) {
    static float zeros[N], weights[N] = {1, 0, 0, 1};
    static const int64_t dims[] = {2, 2};
    tempo_tensor x = {TEMPO_FLOAT, 2, dims, zeros, sizeof zeros}, w = x, y;
    w.data = weights;
    if (tempo_bind(session, "x", &x) == TEMPO_OK && tempo_bind(session, "w", &w) == TEMPO_OK &&
        tempo_run(session) == TEMPO_OK && tempo_output(session, "y", &y) == TEMPO_OK)
        return memcmp(y.data, zeros, sizeof zeros) == 0 ? NULL : session;
    print_error("%s", tempo_message(session));
    return session;
}

TEST(in_turn) {
    tempo_session *first = opened(0), *second = opened(1);
    for (int i = 0; i < RUNS; i++) {
        assert_null(ran(first));
        assert_null(ran(second));
    }
    tempo_close(first);
    assert_null(ran(second));
    tempo_close(second);
}

TEST(by_another_thread) {
    tempo_session *s = opened(1);
    for (int i = 0; i < RUNS; i++) {
        pthread_t thread;
        void *wrong;
        assert_int_equal(pthread_create(&thread, NULL, ran, s), 0);
        assert_int_equal(pthread_join(thread, &wrong), 0);
        assert_null(wrong);
    }
    tempo_close(s);
}

int main(void) {
    setenv("EMU_DEVICES", "2", 1);
    return run_all_tests(NULL, NULL);
}
