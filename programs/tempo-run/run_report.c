/* run_report.c: the reports that tempo-run prints: outputs, memory, times, kernels. */
#include "run.h"
#include "kernels/common/types.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

double run_number(const tempo_tensor *t, uint64_t i) { return tk_get(t->data, (tk_dtype)t->dtype, (int64_t)i); }

static void format_type(char *text, size_t size, const tempo_tensor *t) {
    size_t n = (size_t)snprintf(text, size, "%s", tempo_dtype_text(t->dtype));
    for (int d = 0; d < t->rank && n < size; d++)
        n += (size_t)snprintf(text + n, size - n, "%s%" PRId64, d == 0 ? "[" : ",", t->dims[d]);
    if (t->rank > 0 && n < size)
        snprintf(text + n, size - n, "]");
}

void run_print_outputs(FILE *out, const rt_array *outputs, size_t n) {
    char type[128];
    int width = 0;
    for (size_t i = 0; i < n; i++)
        width = (int)strlen(outputs[i].name) > width ? (int)strlen(outputs[i].name) : width;
    for (size_t i = 0; i < n; i++) {
        const tempo_tensor *t = &outputs[i].tensor;
        format_type(type, sizeof type, t);
        fprintf(out, "%-*s  %s", width, outputs[i].name, type);
        if (t->bytes == tempo_dtype_size(t->dtype))
            fprintf(out, "  %.9g", run_number(t, 0));
        fputc('\n', out);
    }
}

static void print_bytes(FILE *out, uint64_t bytes, const char *what, const char *note) {
    fprintf(out, "%16" PRIu64 " %10.2f MiB  %s%s%s\n", bytes, (double)bytes / 1048576.0, what, note[0] ? "  " : "",
            note);
}

#define MOST_LIVE 12

void run_print_memory(FILE *out, const tempo_memory *m) {
    fprintf(out, "memory, in bytes:\n");
    print_bytes(out, m->parameters, "parameters, in the model's file", "");
    print_bytes(out, m->inputs, "inputs", "");
    print_bytes(out, m->outputs, "outputs, in the arena where computed", "");
    print_bytes(out, m->arena, "arena: all that is computed, one allocation", "");
    print_bytes(out, m->lower_bound, "lower bound: the most bytes live at one time", "");
    print_bytes(out, m->saved, "saved: held between forward and backward pass", "");
    fprintf(out, "live at the peak, %s%s:\n", m->peak_node[0] ? "during " : "at the end of the run", m->peak_node);
    uint64_t rest = 0;
    for (size_t i = 0; i < m->n_live; i++)
        if (i < MOST_LIVE)
            print_bytes(out, m->live[i].bytes, m->live[i].name, m->live[i].type);
        else
            rest += m->live[i].bytes;
    if (m->n_live > MOST_LIVE) {
        char what[40];
        snprintf(what, sizeof what, "%zu others", m->n_live - MOST_LIVE);
        print_bytes(out, rest, what, "");
    }
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void run_print_times(FILE *out, double *seconds, size_t n) {
    qsort(seconds, n, sizeof *seconds, compare_doubles);
    fprintf(out, "%zu runs: min %.3f ms, median %.3f ms, max %.3f ms\n", n, 1e3 * seconds[0],
            1e3 * (n % 2 ? seconds[n / 2] : (seconds[n / 2 - 1] + seconds[n / 2]) / 2), 1e3 * seconds[n - 1]);
}

void run_list_kernels(FILE *out, rt_device_kind kind) {
    for (size_t i = 0; i < rt_kernel_count(); i++) {
        const rt_kernel_row *row = rt_kernel_at(i);
        if (row->dtypes[kind] == 0)
            continue;
        fprintf(out, "%s%s%s:", row->domain, row->domain[0] ? "." : "", row->op);
        for (int dtype = 0; dtype < TC_DTYPE_COUNT; dtype++)
            if (row->dtypes[kind] >> dtype & 1)
                fprintf(out, " %s", tc_dtype_name((tc_dtype)dtype));
        fputc('\n', out);
    }
}

void run_list_devices(FILE *out) {
    char text[256];
    for (size_t i = 0; rt_devices[i]; i++) {
        const rt_device *device = rt_devices[i];
        int number = 0;
        for (; device->describe && device->describe(number, text, sizeof text); number++)
            fprintf(out, "%s:%d  %s\n", device->name, number, text);
        if (!device->describe)
            fprintf(out, "%s\n", device->name);
        else if (number == 0)
            fprintf(out, "%s  none found here\n", device->name);
    }
}

void run_print_products(FILE *out, const tempo_session *session) {
    const rt_device *device = session->shared.device;
    size_t bytes = device->products ? device->products(session->shared.queue, NULL, 0) : 0;
    char *text = bytes > 0 ? malloc(bytes + 1) : NULL;
    if (text) {
        device->products(session->shared.queue, text, bytes + 1);
        fprintf(out, "products and their algorithms:\n%s", text);
        free(text);
    } else {
        fprintf(out, "products: no library chose an algorithm on device '%s'\n", device->name);
    }
}
