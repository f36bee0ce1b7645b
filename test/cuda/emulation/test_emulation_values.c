/* test_emulation_values.c: CUDA's functions give on the emulated device what CUDA's and PTX's manuals say: expectations
 * are computed from these definitions here, or by hand. */
#include "emulation_calls.h"
#include "values.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARP = 32, N = 64 };

static int failures;
#define EXPECT(truth, ...)                                                                                             \
    do {                                                                                                               \
        if (!(truth)) {                                                                                                \
            printf("line %d: ", __LINE__);                                                                             \
            printf(__VA_ARGS__);                                                                                       \
            printf("\n");                                                                                              \
            failures++;                                                                                                \
        }                                                                                                              \
    } while (0)

/* Of a stream that runs when it is asked to. */
static struct {
    const char *name;
    emu_dim3 grid, block;
    size_t shared;
    void (*call)(const void *), (*release)(const void *);
    const void *f;
} queued;

void emu_queue(const char *name, emu_dim3 grid, emu_dim3 block, size_t shared, void *stream, const void *kernel,
               void (*call)(const void *), void (*release)(const void *), const void *f) {
    (void)stream, (void)kernel;
    queued.name = name, queued.grid = grid, queued.block = block, queued.shared = shared;
    queued.call = call, queued.release = release, queued.f = f;
}
static void wait(void) {
    emu_run(queued.name, queued.grid, queued.block, queued.shared, queued.call, queued.f);
    queued.release(queued.f);
    for (int i = 0; i < emu_findings(); i++)
        EXPECT(false, "finding: %s", emu_finding(i));
    emu_forget();
}

/* Memory of the device: written with `from`, or with nothing (NULL). */
static void *device(const void *from, size_t bytes) {
    void *p = emu_malloc(bytes, "operand");
    if (!p)
        perror("test_emulation_values"), exit(1);
    if (from)
        memcpy(p, from, bytes), emu_host_wrote(p, bytes);
    return p;
}
static void *zeros(size_t bytes) {
    void *p = device(NULL, bytes);
    memset(p, 0, bytes), emu_host_wrote(p, bytes);
    return p;
}
static void read_back(const void *p, size_t bytes) {
    const char *wrong = emu_unread(p, bytes);
    EXPECT(!wrong, "%s", wrong);
}

/* --- warps ------------------------------------------------------------------------------------------ */

static void test_shuffles(void) {
    uint32_t *out = device(NULL, SHUFFLES * WARP * sizeof *out);
    values_shuffles(out);
    wait();
    read_back(out, SHUFFLES * WARP * sizeof *out);
    for (int l = 0; l < WARP; l++) {
        const int from[SHUFFLES] = {
            (l + 3) % 32,                        /* the lane's number modulo the width */
            l / 8 * 8 + 5,                       /* of each part of 8 */
            l < 2 ? l : l - 2,                   /* the first ones keep their own */
            l % 16 < 3 ? l : l - 3,              /* of each part of 16 */
            l + 4 > 31 ? l : l + 4,              /* the last ones keep their own */
            l % 4 == 3 ? l : l + 1,              /* of each part of 4 */
            l ^ 16,                              /* halves change places */
            (l ^ 5) <= l / 8 * 8 + 7 ? l ^ 5 : l /* not beyond the part */
        };
        for (int i = 0; i < SHUFFLES; i++)
            EXPECT(out[i * WARP + l] == (uint32_t)(100 + from[i]), "shuffle %d, lane %d: %u", i, l, out[i * WARP + l]);
    }
    emu_free(out);
}

static void test_votes(void) {
    uint32_t *out = device(NULL, VOTES * WARP * sizeof *out);
    values_votes(out);
    wait();
    read_back(out, VOTES * WARP * sizeof *out);
    for (int l = 0; l < WARP; l++) {
        const uint32_t expected[VOTES] = {
            0x49249249, /* lanes 0, 3, 6, ... 30 */
            1,
            0,
            1,
            0,
            32 * 100 + 31 * 32 / 2,
            131,
            (uint32_t)-16,
            0xff,
            0, /* of 100 to 131: no bit is in all */
            0x11111111u << l % 4,
            l < 16 ? 16 * 100 + 15 * 16 / 2 : 16 * 116 + 15 * 16 / 2,
        };
        for (int i = 0; i < VOTES; i++)
            EXPECT(out[i * WARP + l] == expected[i], "vote %d, lane %d: %08x", i, l, out[i * WARP + l]);
    }
    emu_free(out);
}

/* --- numbers ---------------------------------------------------------------------------------------- */

static void test_bits(void) {
    static const uint64_t expected[BITS] = {
        0xbf800000,
        0x40490fdb,
        0xc0000000,
        0x3f800000,
        0x3ff0000000000000,
        0x7ff0000000000000,
        17,
        9,
        7,
        39,
        32,
        31,
        31,
        0x48000000,
        3,
        3,
        0x23456789,
        0x6789abcd,
        0x01234567,
        0x77441122,
        0x80ff7f00,
        0xffff0000,
        0,
    };
    uint64_t *out = device(NULL, sizeof expected);
    values_bits(out);
    wait();
    read_back(out, sizeof expected);
    for (int i = 0; i < BITS; i++)
        EXPECT(out[i] == expected[i], "bits %d: %llx", i, (unsigned long long)out[i]);
    emu_free(out);
}

static void test_numbers(void) {
    const double third = (double)0x1.555556p-2f;
    const double expected[NUMBERS] = {
        1, 1, 1, 3, 5, 0x1p-11 + 0x1p-24, 0x1p-11, third, (double)0x1.6a09e6p+0f, third, 1, 0, 3, 0, 2, 2147483647,
    };
    double *out = device(NULL, sizeof expected);
    values_numbers(out);
    wait();
    read_back(out, sizeof expected);
    for (int i = 0; i < NUMBERS; i++)
        EXPECT(out[i] == expected[i], "number %d: %.9g", i, out[i]);
    emu_free(out);
}

static double exactly(int which, double x) {
    return which == 0   ? exp2(x)
           : which == 1 ? 1 / x
           : which == 2 ? 1 / sqrt(x)
           : which == 3 ? log2(x)
           : which == 4 ? tanh(x)
                        : exp(x);
}

/* How far the numbers are off, as parts of the bound: between these two. */
static void check_approximations(emu_error mode, double least, double most) {
    static const double bounds[APPROXIMATIONS] = {0x1p-22, 0x1p-23, 0x1.84p-23, 0x1p-22, 0x1p-11, 0x1p-22};
    float in[N], *x, *out = device(NULL, APPROXIMATIONS * sizeof in);
    for (int i = 0; i < N; i++)
        in[i] = 0.13f * (float)(i + 1);
    x = device(in, sizeof in);
    emu_ex2_error = mode;
    values_approximations(out, x, N);
    wait();
    emu_ex2_error = EMU_EXACT;
    read_back(out, APPROXIMATIONS * sizeof in);
    for (int k = 0; k < APPROXIMATIONS; k++)
        for (int i = 0; i < N; i++) {
            const double y = exactly(k, (double)in[i]);
            const double absolute = k == 3 && in[i] > 0.5f && in[i] < 2 ? 1 : fabs(y);
            const double off = ((double)out[k * N + i] - y) / (absolute * bounds[k]);
            /* A result is rounded, half an ulp at most; __expf is off by its argument's rounding, too. */
            const double slack = 0x1p-24 * (fabs(y) / absolute) / bounds[k] + (k == 5 ? (double)in[i] : 0);
            EXPECT(off >= least - slack && off <= most + slack, "approximation %d of %g: %g of the bound", k,
                   (double)in[i], off);
        }
    emu_free(x), emu_free(out);
}

static void test_approximations(void) {
    check_approximations(EMU_EXACT, 0, 0);
    check_approximations(EMU_ABOVE, 1, 1);
    check_approximations(EMU_BELOW, -1, -1);
    check_approximations(EMU_EITHER, -1, 1);
}

/* --- atomics, places -------------------------------------------------------------------------------- */

static void test_atomics(void) {
    const uint32_t start_32[ATOMICS] = {5, 3, 1000, 0, 0xffffffff, 0, 1, 0};
    const int32_t start_signed[3] = {0, -500, 500};
    uint32_t *a = device(start_32, sizeof start_32);
    int32_t *s = device(start_signed, sizeof start_signed);
    unsigned long long *l = zeros(3 * sizeof *l);
    values_atomics(a, s, l);
    wait();
    const uint32_t expected[ATOMICS] = {5 + 127 * 64, 127, 0, 0xffffffff, 0xffff0000, 0, 7, 9};
    for (int i = 0; i < ATOMICS; i++)
        EXPECT(a[i] == expected[i], "atomic %d: %u", i, a[i]);
    EXPECT(s[0] == -127 * 64 && s[1] == -73 && s[2] == -200, "signed atomics: %d %d %d", s[0], s[1], s[2]);
    EXPECT(l[0] == (unsigned long long)(127 * 64) << 32 && l[1] == 127ull << 40 && l[2] == 1ull << 50,
           "atomics of 8 bytes: %llx %llx %llx", l[0], l[1], l[2]);
    emu_free(a), emu_free(s), emu_free(l);
}

/* Blocks of grid (3, 2, 2), in the order that they had their turns in. */
static void run_places(unsigned order, unsigned char turns[12]) {
    enum { BLOCKS = 12, THREADS = 24 };
    uint32_t *out = device(NULL, BLOCKS * THREADS * sizeof *out);
    unsigned *ticket = zeros(sizeof *ticket);
    emu_order = order;
    values_places(out, ticket);
    wait();
    emu_order = 0;
    read_back(out, BLOCKS * THREADS * sizeof *out);
    for (unsigned i = 0; i < BLOCKS * THREADS; i++)
        EXPECT((out[i] & 0xffffff) == (i / THREADS << 8 | i % THREADS), "place %u: %08x", i, out[i]);
    for (unsigned b = 0; b < BLOCKS; b++)
        turns[b] = (unsigned char)(out[b * THREADS] >> 24);
    emu_free(out), emu_free(ticket);
}

static void test_orders(void) {
    static const unsigned char up[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    static const unsigned char down[12] = {11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
    unsigned char turns[12], again[12], other[12];
    run_places(0, turns);
    EXPECT(memcmp(turns, up, sizeof up) == 0, "order 0 does not ascend");
    run_places(1, turns);
    EXPECT(memcmp(turns, down, sizeof down) == 0, "order 1 does not descend");
    run_places(7, turns), run_places(7, again), run_places(8, other);
    EXPECT(memcmp(turns, again, sizeof turns) == 0, "one seed, two orders");
    EXPECT(memcmp(turns, other, sizeof turns) != 0, "two seeds, one order");
    EXPECT(memcmp(turns, up, sizeof up) != 0 && memcmp(turns, down, sizeof down) != 0, "a seed does not shuffle");
}

/* --- tensor cores ----------------------------------------------------------------------------------- */

/* Fragments as the PTX manual states them for mma.m16n8k16 and m16n8k8 (tf32): of element i of a lane, its row and
 * column in A (16 x k), B (k x 8) and C (16 x 8). */
typedef struct place {
    int row, column;
} place;
static place place_a(int lane, int i, bool tf32) {
    const int group = lane >> 2, in_group = lane % 4;
    if (tf32)
        return (place){i == 0 || i == 2 ? group : group + 8, i < 2 ? in_group : in_group + 4};
    return (place){i < 2 || (i >= 4 && i < 6) ? group : group + 8, in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0)};
}
static place place_b(int lane, int i, bool tf32) {
    const int group = lane >> 2, in_group = lane % 4;
    return tf32 ? (place){i == 0 ? in_group : in_group + 4, group}
                : (place){in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0), group};
}
static place place_c(int lane, int i) { return (place){i < 2 ? lane >> 2 : (lane >> 2) + 8, lane % 4 * 2 + (i & 1)}; }

/* Small whole numbers and halves, which each type has: the bits. */
static uint32_t encode(float x, emu_operand type) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (type == EMU_TF32)
        return bits;
    if (type == EMU_BF16)
        return bits >> 16;
    const uint32_t exponent = bits >> 23 & 255;
    return x == 0 ? 0 : bits >> 31 << 15 | (exponent - 112) << 10 | (bits >> 13 & 1023);
}

static uint32_t state = 1;
static float small(void) {
    state = state * 1664525 + 1013904223;
    return (float)((int)(state >> 24) - 128) * 0.5f;
}

typedef struct matrices {
    float a[16][16], b[16][8], c[16][8], d[16][8];
} matrices;

/* d of the device for m's operands; x(row, column) of the 16-bit types are pairs in a register. */
static void multiply(matrices *m, emu_operand type) {
    const bool tf32 = type == EMU_TF32;
    const int per = tf32 ? 1 : 2;
    uint32_t a[WARP * 4] = {0}, b[WARP * 2] = {0};
    float c[WARP * 4];
    for (int l = 0; l < WARP; l++) {
        for (int i = 0; i < 4 * per; i++) {
            const place p = place_a(l, i, tf32);
            a[l * 4 + i / per] |= encode(m->a[p.row][p.column], type) << 16 * (i % per);
        }
        for (int i = 0; i < 2 * per; i++) {
            const place p = place_b(l, i, tf32);
            b[l * 2 + i / per] |= encode(m->b[p.row][p.column], type) << 16 * (i % per);
        }
        for (int i = 0; i < 4; i++)
            c[l * 4 + i] = m->c[place_c(l, i).row][place_c(l, i).column];
    }
    uint32_t *on_a = device(a, sizeof a), *on_b = device(b, sizeof b);
    float *on_c = device(c, sizeof c), *d = device(NULL, sizeof c);
    values_mma(d, on_a, on_b, on_c, (int)type);
    wait();
    read_back(d, sizeof c);
    for (int l = 0; l < WARP; l++)
        for (int i = 0; i < 4; i++)
            m->d[place_c(l, i).row][place_c(l, i).column] = d[l * 4 + i];
    emu_free(on_a), emu_free(on_b), emu_free(on_c), emu_free(d);
}

static void test_products(void) {
    for (int type = EMU_BF16; type <= EMU_TF32; type++) {
        const int depth = type == EMU_TF32 ? 8 : 16;
        matrices m;
        for (int i = 0; i < 16; i++)
            for (int k = 0; k < 16; k++)
                m.a[i][k] = small();
        for (int k = 0; k < 16; k++)
            for (int j = 0; j < 8; j++)
                m.b[k][j] = small(), m.c[k][j] = small();
        multiply(&m, (emu_operand)type);
        for (int i = 0; i < 16; i++)
            for (int j = 0; j < 8; j++) {
                double sum = (double)m.c[i][j]; /* exact: quarters below 2^20 */
                for (int k = 0; k < depth; k++)
                    sum += (double)m.a[i][k] * (double)m.b[k][j];
                EXPECT((double)m.d[i][j] == sum, "type %d, row %d, column %d: %g, not %g", type, i, j,
                       (double)m.d[i][j], sum);
            }
    }
}

/* 1 + 0.75 ulp: rounded up, or cut. Subnormal halves are numbers. */
static void test_rounding(void) {
    matrices m;
    memset(&m, 0, sizeof m);
    m.c[0][0] = 1, m.c[1][0] = -1;
    m.a[0][0] = 0x1p-12f, m.a[0][1] = 0x1p-13f, m.b[0][0] = m.b[1][0] = 0x1p-12f;
    m.a[1][0] = -0x1p-12f, m.a[1][1] = -0x1p-13f;
    multiply(&m, EMU_BF16);
    EXPECT(m.d[0][0] == 1 + 0x1p-23f && m.d[1][0] == -1 - 0x1p-23f, "rounded: %a %a", (double)m.d[0][0],
           (double)m.d[1][0]);
    emu_truncate = true;
    multiply(&m, EMU_BF16);
    emu_truncate = false;
    EXPECT(m.d[0][0] == 1 && m.d[1][0] == -1, "cut: %a %a", (double)m.d[0][0], (double)m.d[1][0]);

    uint32_t a[WARP * 4] = {0}, b[WARP * 2] = {0};
    const float c[WARP * 4] = {0};
    a[0] = 0x0001, b[0] = 0x4000; /* 2^-24 and 2, both in the first row and column */
    uint32_t *on_a = device(a, sizeof a), *on_b = device(b, sizeof b);
    float *on_c = device(c, sizeof c), *d = device(NULL, sizeof c);
    values_mma(d, on_a, on_b, on_c, EMU_F16);
    wait();
    EXPECT(d[0] == 0x1p-23f, "the smallest half times 2: %a", (double)d[0]);
    emu_free(on_a), emu_free(on_b), emu_free(on_c), emu_free(d);
}

static void test_ldmatrix(void) {
    uint16_t in[4 * 64];
    for (int i = 0; i < 4 * 64; i++)
        in[i] = (uint16_t)i;
    uint16_t *x = device(in, sizeof in);
    for (int n = 1; n <= 4; n *= 2)
        for (int trans = 0; trans < 2; trans++) {
            uint32_t *out = device(NULL, (size_t)(n * WARP) * sizeof *out);
            values_ldmatrix(out, x, n, trans);
            wait();
            for (int l = 0; l < WARP; l++)
                for (int i = 0; i < n; i++)
                    for (int h = 0; h < 2; h++) {
                        /* The manual: lane l has row l / 4, elements 2 (l % 4) and the next; columns with .trans. */
                        const int row = l / 4, column = l % 4 * 2 + h;
                        const uint16_t expected = in[i * 64 + (trans ? column * 8 + row : row * 8 + column)];
                        EXPECT((uint16_t)(out[l * n + i] >> 16 * h) == expected, "x%d, trans %d, lane %d, matrix %d", n,
                               trans, l, i);
                    }
            emu_free(out);
        }
    emu_free(x);
}

/* --- memory ----------------------------------------------------------------------------------------- */

static void test_copies(void) {
    float in[3 * 4 * WARP];
    for (int i = 0; i < 3 * 4 * WARP; i++)
        in[i] = (float)(i + 1);
    float *x = device(in, sizeof in), *out = device(NULL, sizeof in);
    values_copies(out, x);
    wait();
    read_back(out, sizeof in);
    for (int i = 0; i < 3 * 4 * WARP; i++) {
        const float expected = i >= 2 * 4 * WARP && i % 4 > 0 ? 0 : in[i]; /* filled up with 0 */
        EXPECT(out[i] == expected, "copy %d: %g", i, (double)out[i]);
    }
    emu_free(x), emu_free(out);
}

static void count(int stride, int shared, uint64_t units, uint64_t ideal) {
    float *x = zeros(33 * 32 * sizeof *x), *out = device(NULL, WARP * sizeof *out);
    emu_counting = true;
    values_strided(out, x, stride, shared);
    wait();
    emu_counting = false;
    /* Of global memory 4 sectors are the result's. */
    const uint64_t found = shared ? emu_last.wavefronts : emu_last.sectors - 4;
    const uint64_t least = shared ? emu_last.ideal_wavefronts : emu_last.ideal_sectors - 4;
    EXPECT(found == units && least == ideal, "stride %d, shared %d: %llu of %llu", stride, shared,
           (unsigned long long)found, (unsigned long long)least);
    EXPECT(shared ? emu_last.shared_accesses == WARP && emu_last.bytes_read == 0
                  : emu_last.shared_accesses == 0 && emu_last.bytes_read == 128 && emu_last.bytes_written == 128,
           "stride %d, shared %d: accesses", stride, shared);
    emu_free(x), emu_free(out);
}

static void test_counts(void) {
    count(1, 0, 4, 4);
    count(2, 0, 8, 4);
    count(8, 0, 32, 4); /* a sector for each lane */
    count(1, 1, 1, 1);
    count(2, 1, 2, 1);
    count(32, 1, 32, 1); /* one bank for all */
    count(33, 1, 1, 1);
}

static void test_memory(void) {
    unsigned char *p = emu_malloc(1001, "bytes");
    EXPECT(p && (uintptr_t)p % 256 == 0 && p[0] == 0xff && p[1000] == 0xff, "memory of 1001 bytes");
    EXPECT(emu_is_device(p, 1001) && !emu_is_device(p, 1002) && !emu_is_device(p - 1, 1), "its bounds");
    emu_host_wrote(p + 10, 20);
    EXPECT(!emu_unread(p + 10, 20), "bytes 10 to 29 were written");
    const char *wrong = emu_unread(p + 10, 21);
    EXPECT(wrong && strcmp(wrong, "byte 20 of 21 was never written (byte 30 of bytes)") == 0, "%s", wrong);
    wrong = emu_unread(p, 1002);
    EXPECT(wrong && strstr(wrong, "are not of one allocation"), "%s", wrong);
    emu_free(p);
    EXPECT(!emu_is_device(p, 1), "after it was freed");
    EXPECT(!emu_malloc(SIZE_MAX / 2, "too much"), "more than there is");
    /* Addresses come round when all were used. */
    for (int i = 0; i < 10; i++) {
        void *large = emu_malloc((size_t)1 << 20, "large");
        EXPECT(large, "allocation %d", i);
        emu_free(large);
    }
    EXPECT(emu_findings() == 0, "a finding of memory");
}

int main(void) {
    test_shuffles();
    test_votes();
    test_bits();
    test_numbers();
    test_approximations();
    test_atomics();
    test_orders();
    test_products();
    test_rounding();
    test_ldmatrix();
    test_copies();
    test_counts();
    test_memory();
    printf("%d failures\n", failures);
    return failures > 0;
}
