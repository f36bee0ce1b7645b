/* devices.c: the devices of this build, and their names. */
#include "runtime/device/device.h"
#include <stdlib.h>
#include <string.h>

/* Whether `text` is NAME or NAME:N; N, or 0. */
static bool names_device(const char *text, const char *name, int *out_number) {
    size_t n = strlen(name);
    char *end;
    *out_number = 0;
    if (strncmp(text, name, n) != 0 || text[n] != ':')
        return strcmp(text, name) == 0;
    long number = text[n + 1] >= '0' && text[n + 1] <= '9' ? strtol(text + n + 1, &end, 10) : -1;
    *out_number = (int)number;
    return number >= 0 && number < 1024 && *end == '\0';
}

tc_status rt_find_device(tc_ctx *ctx, const char *text, const rt_device **out_device, int *out_number) {
    const char *names = "";
    int number;
    *out_number = 0;
    for (size_t i = 0; rt_devices[i]; i++) {
        const rt_device *device = *out_device = rt_devices[i];
        if (!text || (names_device(text, device->name, out_number) && (device->start || !strchr(text, ':'))))
            return TC_OK;
        names = tc_arena_printf(ctx->arena, "%s%s%s%s", names, i > 0 ? " or " : "", device->name,
                                device->start ? "[:N]" : "");
    }
    *out_device = NULL;
    if (!names_device(text, "cuda", &number) || strstr(names, "cuda"))
        return tc_error(ctx, TC_USAGE, NULL, "device '%s': expected %s%s", tc_quote(ctx, text), names,
                        strstr(names, "cuda") ? "" : ", or cuda in a build with CUDA");
    tc_error(ctx, TC_UNSUPPORTED, NULL, "this build has no CUDA; it runs on %s", names);
    tc_hint(ctx, "docs/start/install.md says how to build with nvcc");
    return TC_UNSUPPORTED;
}
