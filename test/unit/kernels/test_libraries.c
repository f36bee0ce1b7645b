/* test_libraries.c: each call of the products' and the threads' library fails in turn, in a process of its own: the
 * product is right, or the queue has a fault. Loops in a child of fork, and threads that cannot be. */
#include "test/unit/kernel_test.h"
#include "kernels/attention/attention.h"
#include "kernels/common/parallel.h"
#include "kernels/matmul/primitive.h"
#include "kernels/matmul/sgemm.h"
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int calls, fails_at = -1;
static bool fails(void) { return calls++ == fails_at; }

/* The function NAME, whose call number fails_at returns `failure` and does nothing. */
#define WRAP(type, name, failure, parameters, arguments)                                                               \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters { return fails() ? (failure) : __real_##name arguments; }
#define WRAP_DNNL(name, parameters, arguments) WRAP(dnnl_status_t, dnnl_##name, with, parameters, arguments)

static dnnl_status_t with; /* what a call fails with */
WRAP_DNNL(sgemm,
          (char ta, char tb, dnnl_dim_t m, dnnl_dim_t n, dnnl_dim_t k, float alpha, const float *a, dnnl_dim_t lda,
           const float *b, dnnl_dim_t ldb, float beta, float *c, dnnl_dim_t ldc),
          (ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc))
WRAP_DNNL(engine_create, (dnnl_engine_t * engine, dnnl_engine_kind_t kind, size_t i), (engine, kind, i))
WRAP_DNNL(memory_desc_init_by_strides,
          (dnnl_memory_desc_t * md, int rank, const dnnl_dims_t dims, dnnl_data_type_t type, const dnnl_dims_t strides),
          (md, rank, dims, type, strides))
WRAP_DNNL(matmul_desc_init,
          (dnnl_matmul_desc_t * of, const dnnl_memory_desc_t *a, const dnnl_memory_desc_t *b,
           const dnnl_memory_desc_t *bias, const dnnl_memory_desc_t *out),
          (of, a, b, bias, out))
WRAP_DNNL(primitive_attr_create, (dnnl_primitive_attr_t * attr), (attr))
WRAP_DNNL(primitive_attr_set_scratchpad_mode, (dnnl_primitive_attr_t attr, dnnl_scratchpad_mode_t mode), (attr, mode))
WRAP_DNNL(primitive_attr_set_post_ops, (dnnl_primitive_attr_t attr, const_dnnl_post_ops_t ops), (attr, ops))
WRAP_DNNL(post_ops_create, (dnnl_post_ops_t * ops), (ops))
WRAP_DNNL(primitive_desc_create,
          (dnnl_primitive_desc_t * pd, const_dnnl_op_desc_t of, const_dnnl_primitive_attr_t attr, dnnl_engine_t engine,
           const_dnnl_primitive_desc_t hint),
          (pd, of, attr, engine, hint))
WRAP_DNNL(primitive_create, (dnnl_primitive_t * primitive, const_dnnl_primitive_desc_t pd), (primitive, pd))
WRAP_DNNL(memory_create, (dnnl_memory_t * memory, const dnnl_memory_desc_t *md, dnnl_engine_t engine, void *at),
          (memory, md, engine, at))
WRAP_DNNL(stream_create, (dnnl_stream_t * stream, dnnl_engine_t engine, unsigned flags), (stream, engine, flags))
WRAP_DNNL(stream_wait, (dnnl_stream_t stream), (stream))
WRAP_DNNL(primitive_execute,
          (const_dnnl_primitive_t primitive, dnnl_stream_t stream, int n, const dnnl_exec_arg_t *args),
          (primitive, stream, n, args))
WRAP(int, pthread_create, 11, (pthread_t * thread, const pthread_attr_t *attr, void *(*run)(void *), void *user),
     (thread, attr, run, user))
WRAP(void *, mmap64, MAP_FAILED, (void *at, size_t size, int protection, int flags, int fd, off_t offset),
     (at, size, protection, flags, fd, offset))

/* What becomes of some work in a child, where its call n fails: UNREACHED, it has fewer; WRONG is a wrong result in
 * silence. */
enum { RIGHT, FAULT, WRONG, UNREACHED };

static int in_child(int (*work)(void), int n) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        calls = 0, fails_at = n;
        int outcome = work();
        _exit(calls <= n ? UNREACHED : outcome);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

enum { M = 9, N = 7, K = 70 };
static const tk_product ones = {.batch = 1, .m = M, .n = N, .k = K, .lda = K, .ldb = N, .alpha = 1};

/* Of ones, so that each element is `sum`; what is there before is none. */
static int judge(tk_queue *q, const float *out, int n, float sum) {
    uint32_t launch;
    if (tk_queue_take_fault(q, &launch) != TK_OK)
        return FAULT;
    for (int i = 0; i < n; i++)
        if (out[i] != sum)
            return WRONG;
    return RIGHT;
}

static float a[K * K], b[K * K], out[M * K];

static int multiply(void) {
    use_threads(2);
    tk_product_run(queue(), out, a, b, &ones, TK_F32, NULL);
    return judge(queue(), out, M * N, K);
}

static int multiply_by_primitives(void) {
    static char workspace[1 << 16] __attribute__((aligned(64)));
    use_threads(2);
    if (!tk_product_run_primitives(queue(), out, a, b, &ones, TK_F32, workspace, sizeof workspace / 2))
        tk_product_run(queue(), out, a, b, &ones, TK_F32, NULL);
    return judge(queue(), out, M * N, K);
}

/* Products inside of a loop: faults are those of the queue that the loop is on. */
static int attend(void) {
    static float workspace[1 << 18] __attribute__((aligned(64)));
    tk_attention of = {.dtype = TK_F32, .items = 2, .s = 3, .t = 4, .d = 4, .e = 4, .scale = 1};
    tk_attention_dense(&of);
    use_threads(2);
    tk_attention_run(queue(), (tk_attention_results){.y = out}, (tk_attention_operands){.q = a, .kt = b, .v = a}, &of,
                     (tk_number){0}, (tk_seed){0}, workspace);
    return judge(queue(), out, 24, 1);
}

static int get_ready(void) {
    use_threads(2);
    return tk_queue_ready(queue()) == TK_OK ? multiply() : FAULT;
}

TEST(each_call_fails) {
    static int (*const works[])(void) = {multiply, multiply_by_primitives, attend, get_ready};
    static const dnnl_status_t failures[] = {dnnl_out_of_memory, dnnl_runtime_error};
    for (int i = 0; i < K * K; i++)
        a[i] = b[i] = 1;
    for (size_t w = 0; w < sizeof works / sizeof works[0]; w++)
        for (size_t f = 0; f < sizeof failures / sizeof failures[0]; f++) {
            int outcomes[4] = {0};
            with = failures[f];
            for (int n = 0; outcomes[UNREACHED] == 0; n++)
                outcomes[in_child(works[w], n)]++;
            assert_int_equal(outcomes[WRONG], 0);
            assert_true(outcomes[FAULT] > 0);
        }
}

TEST(forks) {
    use_threads(3);
    assert_int_equal(tk_queue_ready(queue()), TK_OK);
    tk_product many = ones;
    many.batch = 64, many.a_at.step = many.b_at.step = 0;
    static float results[64 * M * N];
    tk_product_run(queue(), results, a, b, &many, TK_F32, NULL);
    assert_int_equal(in_child(multiply, -1), RIGHT);
    assert_int_equal(multiply(), RIGHT);
}
