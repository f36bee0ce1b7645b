/* check_sectors.c: what the lean kernels ask of memory, counted on the emulated device: bytes beside the least that
 * their operands have, those that lanes of a warp ask for together counted once; sectors of 32 bytes beside the least
 * for the bytes asked for, and passes over the banks of shared memory. Fails where more than 1.05 of the least is asked
 * for. */
#include "runtime/device/device.h"
#include "test/cuda/emulation/emulation_host.h"
#include "lean_kernels.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MOST 1.05

enum { ROWS = 256, WIDTH = 1024 };

static int n_wrong;

static double ratio(uint64_t a, uint64_t b) { return b > 0 ? (double)a / (double)b : 1; }

static double or_1(double x) { return x > 0 ? x : 1; }

static void count(lean_case *c, const lean_kernel *kernel) {
    uint32_t launch;
    if (!lean_prepare(c, kernel)) {
        printf("%s: no memory\n", kernel->name), n_wrong++;
        return;
    }
    memset(&emu_total, 0, sizeof emu_total);
    emu_counting = true;
    kernel->run(c);
    const tk_status status = rt_device_cuda.wait(c->q, &launch);
    emu_counting = false;
    const double sectors = ratio(emu_total.sectors, emu_total.ideal_sectors);
    const double asked = (double)(emu_total.bytes_read + emu_total.bytes_written),
                 moved = 32.0 * (double)emu_total.sectors;
    const double bytes = (asked < moved ? asked : moved) / lean_bytes(c, kernel, c->rows);
    const bool good = status == TK_OK && emu_total.sectors > 0 && sectors <= MOST * or_1(kernel->sectors) &&
                      bytes <= MOST * or_1(kernel->traffic);
    printf("%-24s %4d %12.3f %12.3f %12.3f%s\n", kernel->name, (int)tk_size(c->dtype) * 8, bytes, sectors,
           ratio(emu_total.wavefronts, emu_total.ideal_wavefronts), good ? "" : "  WRONG");
    n_wrong += !good;
}

/* With a name: only kernels whose names begin so. */
int main(int argc, char **argv) {
    static const tk_dtype types[] = {TK_BF16, TK_F32};
    tc_arena *arena = tc_arena_create();
    tc_ctx ctx = {.arena = arena, .tool = "check_sectors", .file = ""};
    tk_queue *q = rt_device_cuda.open(1, 1);
    if (rt_device_cuda.start(&ctx, q, 0) != TC_OK)
        return tc_diags_print(&ctx, stderr), 1;
    printf("%-24s %4s %12s %12s %12s\n", "kernel", "bits", "bytes", "sectors", "bank passes");
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        lean_case c;
        if (!lean_open(&c, q, types[t], ROWS, WIDTH))
            return fprintf(stderr, "no memory\n"), 1;
        for (const lean_kernel *kernel = lean_kernels; kernel->name; kernel++)
            if ((argc < 2 || strncmp(kernel->name, argv[1], strlen(argv[1])) == 0) &&
                (!kernel->halves || tk_is_half(types[t])))
                count(&c, kernel);
        lean_close(&c);
    }
    printf("to the least of each; %d wrong, %d findings\n", n_wrong, emu_findings());
    rt_device_cuda.close(q);
    tc_arena_destroy(arena);
    return n_wrong > 0 || emu_findings() > 0;
}
