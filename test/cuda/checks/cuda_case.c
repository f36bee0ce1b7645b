/* cuda_case.c: operands on the host and on the emulated device, comparisons, and the main function of all checks. */
#include "cuda_case.h"
#include "kernels/reference/reference.h"
#include "kernels/cuda/table_cuda.h"
#include "runtime/device/device.h"
#include "test/cuda/emulation/emulation_host.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int side;
const tk_table *const tables[SIDES] = {&tk_table_reference, &tk_table_cuda};
tk_queue *queues[SIDES];

const tk_dtype all_floats[] = {TK_F32, TK_F64, TK_F16, TK_BF16, 0};
const tk_dtype all_numbers[] = {TK_F32, TK_F64, TK_F16, TK_BF16, TK_I8,  TK_U8, TK_I16,
                                TK_U16, TK_I32, TK_U32, TK_I64,  TK_U64, 0};
const tk_dtype all_types[] = {TK_F32, TK_F64, TK_F16, TK_BF16, TK_I8,  TK_U8,   TK_I16,
                              TK_U16, TK_I32, TK_U32, TK_I64,  TK_U64, TK_BOOL, 0};

static const char *check_name;
static int n_compared, n_wrong;
static tk_status faults[SIDES];

void wrong(const char *format, ...) {
    va_list args;
    if (++n_wrong > 20)
        return;
    va_start(args, format);
    fprintf(stderr, "WRONG %s, order %u: ", check_name, emu_order);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

/* --- memory: given back when a check ends --------------------------------------------------------- */

enum { MOST = 65536 };
static struct {
    void *memory[MOST];
    int sides[MOST], n;
} taken;

static void *take(int on, size_t bytes) {
    if (taken.n == MOST)
        fprintf(stderr, "more than %d operands in check %s\n", MOST, check_name), abort();
    void *memory = on == HOST ? aligned_alloc(64, (bytes + 64) / 64 * 64) : rt_device_cuda.alloc(queues[DEVICE], bytes);
    if (!memory)
        fprintf(stderr, "no memory for check %s\n", check_name), abort();
    taken.memory[taken.n] = memory;
    taken.sides[taken.n++] = on;
    return memory;
}

void pairs_give_back(void) {
    while (taken.n > 0) {
        void *memory = taken.memory[--taken.n];
        if (taken.sides[taken.n] == HOST)
            free(memory);
        else
            rt_device_cuda.free(queues[DEVICE], memory);
    }
}

void *workspace(size_t bytes) { return bytes == 0 ? NULL : take(side, bytes); }

/* --- operands ----------------------------------------------------------------------------------- */

static size_t bytes_of(pair p) { return (size_t)p.n * tk_size(p.dtype); }

pair pair_result(tk_dtype dtype, int64_t n) {
    pair p = {.n = n, .dtype = dtype};
    for (int s = HOST; s < SIDES; s++)
        p.at[s] = take(s, bytes_of(p));
    memset(p.at[HOST], 0xa5, bytes_of(p));
    return p;
}

pair pair_of(tk_dtype dtype, int64_t n, const void *elements) {
    pair p = pair_result(dtype, n);
    memcpy(p.at[HOST], elements, bytes_of(p));
    rt_device_cuda.upload(queues[DEVICE], p.at[DEVICE], elements, bytes_of(p));
    return p;
}

pair pair_numbers(tk_dtype dtype, int64_t n, const double *numbers) {
    void *elements = calloc((size_t)n + 1, tk_size(dtype));
    for (int64_t i = 0; i < n; i++)
        tk_reference_put(elements, dtype, i, numbers[i]);
    pair p = pair_of(dtype, n, elements);
    free(elements);
    return p;
}

static uint64_t drawn;
static double draw(void) { /* from 0 to 1 */
    drawn = drawn * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(drawn >> 11) * 0x1p-53;
}

pair pair_random(tk_dtype dtype, int64_t n, double low, double high) {
    double *numbers = calloc((size_t)n + 1, sizeof *numbers);
    for (int64_t i = 0; i < n; i++) {
        numbers[i] = low + (high - low) * draw();
        if (dtype == TK_BOOL)
            numbers[i] = numbers[i] < (low + high) / 2;
        else if (!tk_is_float(dtype))
            numbers[i] = floor(numbers[i]);
    }
    pair p = pair_numbers(dtype, n, numbers);
    free(numbers);
    return p;
}

pair pair_copy(pair p) { return pair_of(p.dtype, p.n, p.at[HOST]); }

pair pair_from(pair p, int64_t first) {
    for (int s = HOST; s < SIDES; s++)
        p.at[s] = (char *)p.at[s] + (size_t)first * tk_size(p.dtype);
    p.n -= first;
    return p;
}

/* --- running and comparing ------------------------------------------------------------------------ */

void wait_for_both(void) {
    uint32_t launch;
    tk_status now[SIDES] = {tk_queue_take_fault(queues[HOST], &launch), rt_device_cuda.wait(queues[DEVICE], &launch)};
    for (int s = HOST; s < SIDES; s++)
        faults[s] = faults[s] == TK_OK ? now[s] : faults[s];
    if (now[DEVICE] == TK_DEVICE_FAILED)
        wrong("the device failed: %s", rt_device_cuda.failure(queues[DEVICE]));
}

void expect_fault(tk_status status, const char *what) {
    for (int s = HOST; s < SIDES; s++)
        if (faults[s] != status)
            wrong("%s: fault %d on the %s, expected %d", what, (int)faults[s], s == HOST ? "host" : "device",
                  (int)status);
    faults[HOST] = faults[DEVICE] = TK_OK;
}

static void *downloaded(pair p) {
    void *elements = malloc(bytes_of(p) + 1);
    rt_device_cuda.download(queues[DEVICE], elements, p.at[DEVICE], bytes_of(p));
    return elements;
}

double device_number(pair p, int64_t i) {
    void *elements = downloaded(p);
    double number = tk_get(elements, p.dtype, i);
    free(elements);
    return number;
}

void pair_share(pair p) { rt_device_cuda.download(queues[DEVICE], p.at[HOST], p.at[DEVICE], bytes_of(p)); }

void pair_same(pair a, pair b, const char *text) {
    void *x = downloaded(a), *y = downloaded(b);
    const size_t size = tk_size(a.dtype);
    n_compared++;
    for (int64_t i = 0; i < a.n; i++) {
        const bool none = tk_is_float(a.dtype) && isnan(tk_get(x, a.dtype, i)) && isnan(tk_get(y, a.dtype, i));
        if (memcmp((char *)x + (size_t)i * size, (char *)y + (size_t)i * size, size) != 0 && !none) {
            wrong("%s: type %d, element %lld of %lld is %.9g, but the other one is %.9g", text, (int)a.dtype,
                  (long long)i, (long long)a.n, tk_get(x, a.dtype, i), tk_get(y, a.dtype, i));
            break;
        }
    }
    free(x), free(y);
}

static double ulp(double x, tk_dtype dtype) {
    int bits = dtype == TK_F64 ? 52 : dtype == TK_F32 ? 23 : dtype == TK_F16 ? 10 : 7;
    int least = dtype == TK_F16 ? -14 : dtype == TK_F64 ? -1022 : -126, exponent;
    frexp(x, &exponent);
    return ldexp(1, (exponent - 1 > least ? exponent - 1 : least) - bits);
}

static bool near(double want, double got, double allowed) {
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got))
        return want == got;
    return fabs(got - want) <= allowed;
}

static bool close_enough(pair p, const void *device, int64_t i, bounds b) {
    size_t size = tk_size(p.dtype);
    if (memcmp((const char *)p.at[HOST] + (size_t)i * size, (const char *)device + (size_t)i * size, size) == 0)
        return true;
    if (!tk_is_float(p.dtype))
        return false;
    double want = tk_get(p.at[HOST], p.dtype, i), got = tk_get(device, p.dtype, i);
    return near(want, got, b.absolute + b.relative * fabs(want) + b.ulps * ulp(want, p.dtype));
}

/* bad of the device's elements differ, the first of them from `want`. */
static void tell(pair p, const char *text, const void *device, int64_t bad, int64_t first, double want) {
    if (bad > 0)
        wrong("%s: type %d, %lld of %lld elements differ, element %lld is %.9g and should be %.9g", text, (int)p.dtype,
              (long long)bad, (long long)p.n, (long long)first, tk_get(device, p.dtype, first), want);
}

static void no_faults(const char *text) {
    n_compared++;
    if (faults[HOST] != TK_OK || faults[DEVICE] != TK_OK)
        expect_fault(TK_OK, text);
}

void pair_compare(pair p, bounds b, const char *format, ...) {
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    no_faults(text);
    void *device = downloaded(p);
    int64_t bad = 0, first = 0;
    for (int64_t i = p.n; i-- > 0;)
        if (!close_enough(p, device, i, b))
            bad++, first = i;
    tell(p, text, device, bad, first, bad > 0 ? tk_get(p.at[HOST], p.dtype, first) : 0);
    free(device);
}

void pair_compare_exact(pair p, const double *exact, double ulps, const double *absolute, const char *format, ...) {
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    no_faults(text);
    void *device = downloaded(p);
    int64_t bad = 0, first = 0;
    for (int64_t i = p.n; i-- > 0;)
        if (!near(exact[i], tk_get(device, p.dtype, i), absolute[i] + ulps * ulp(exact[i], p.dtype)))
            bad++, first = i;
    tell(p, text, device, bad, first, bad > 0 ? exact[first] : 0);
    free(device);
}

/* --- all checks ----------------------------------------------------------------------------------- */

static void run_check(const cuda_check *check) {
    int before = emu_findings();
    check_name = check->name;
    drawn = 1;
    check->run();
    wait_for_both();
    faults[HOST] = faults[DEVICE] = TK_OK;
    pairs_give_back();
    if (emu_findings() > before)
        wrong("the emulation found %d things", emu_findings() - before);
}

static bool open_devices(void) {
    tc_arena *arena = tc_arena_create();
    tc_ctx ctx = {.arena = arena, .tool = "check", .file = ""};
    queues[HOST] = tk_queue_create(1, 1);
    queues[DEVICE] = rt_device_cuda.open(1, 1);
    bool open = rt_device_cuda.start(&ctx, queues[DEVICE], 0) == TC_OK;
    if (!open)
        tc_diags_print(&ctx, stderr);
    tc_arena_destroy(arena);
    return open;
}

/* All checks run in each order of threads, and with each way in which a GPU may round what is approximate. */
static const struct {
    unsigned order;
    emu_error ex2;
    bool truncates;
} hows[] = {{0, EMU_EXACT, false}, {1, EMU_ABOVE, true}, {20221203, EMU_BELOW, false}};

/* With a name: only checks whose names begin so. */
int main(int argc, char **argv) {
    if (!open_devices())
        return 1;
    for (size_t h = 0; h < sizeof hows / sizeof *hows; h++) {
        emu_order = hows[h].order;
        emu_ex2_error = hows[h].ex2;
        emu_truncate = hows[h].truncates;
        for (const cuda_check *check = checks; check->name; check++)
            if (argc < 2 || strncmp(check->name, argv[1], strlen(argv[1])) == 0)
                run_check(check);
    }
    printf("%d comparisons, %d wrong, %d findings\n", n_compared, n_wrong, emu_findings());
    tk_queue_destroy(queues[HOST]);
    rt_device_cuda.close(queues[DEVICE]);
    return n_wrong > 0 || emu_findings() > 0;
}
