/* emulation_findings.c: what was found wrong, each thing once, with the line of the kernel. */
#include "emulation_state.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct finding {
    uint64_t key;
    const char *kind, *kernel;
    char *text;
} finding;

bool emu_quiet;
const char *emu_kernel = "no kernel";
int emu_found_now;
static finding *findings;
static int n_findings, findings_room;
static bool failed;

int emu_findings(void) { return n_findings; }
const char *emu_finding(int i) { return findings[i].text; }
bool emu_complained(const char *part) {
    for (int i = 0; i < n_findings; i++)
        if (strstr(findings[i].text, part))
            return true;
    return false;
}
bool emu_failed(void) { return failed; }
void emu_set_failed(void) { failed = true; }

void emu_forget(void) {
    for (int i = 0; i < n_findings; i++)
        free(findings[i].text);
    free(findings);
    findings = NULL;
    n_findings = findings_room = 0;
    failed = false;
}

bool emu_is_new(uint64_t key, const char *kind) {
    for (int i = 0; i < n_findings; i++)
        if (findings[i].key == key && strcmp(findings[i].kind, kind) == 0 &&
            strcmp(findings[i].kernel, emu_kernel) == 0)
            return false;
    return true;
}

void emu_found(uint64_t key, const char *kind, const char *format, ...) {
    if (!emu_is_new(key, kind))
        return;
    char text[1024];
    int at = snprintf(text, sizeof text, "%s in %.200s: ", kind, emu_kernel);
    va_list args;
    va_start(args, format);
    vsnprintf(text + at, sizeof text - (size_t)at, format, args);
    va_end(args);
    if (n_findings == findings_room) {
        findings_room = 2 * findings_room + 16;
        findings = realloc(findings, (size_t)findings_room * sizeof *findings);
    }
    char *copy = findings ? strdup(text) : NULL;
    if (!copy)
        perror("emulation: findings"), abort();
    findings[n_findings++] = (finding){key, kind, emu_kernel, copy};
    emu_found_now++;
    if (!emu_quiet)
        fprintf(stderr, "emulation: %s\n", text);
}

void emu_misused(const char *who, const char *format, ...) {
    const char *kernel = emu_kernel;
    char text[512];
    uint64_t key = 0;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (const char *c = text; *c; c++)
        key = key * 31 + (unsigned char)*c;
    emu_kernel = who;
    emu_found(key, "misuse", "%s", text);
    emu_kernel = kernel;
}

/* Takes "/a/b/c.cu:12 (discriminator 3)" for "c.cu:12". */
static const char *shorten(char *line) {
    line[strcspn(line, "\n")] = 0;
    char *end = strstr(line, " (");
    if (end)
        *end = 0;
    const char *slash = strrchr(line, '/');
    return slash ? slash + 1 : line;
}

const char *emu_where(uintptr_t pc) {
    static char where[512];
    char command[128], line[512];
    snprintf(where, sizeof where, "?");
    snprintf(command, sizeof command, "addr2line -i -e /proc/%d/exe 0x%" PRIxPTR " 2>/dev/null", (int)getpid(), pc - 1);
    fflush(NULL); /* or what is not written yet may be written twice */
    FILE *lines = pc ? popen(command, "r") : NULL;
    if (!lines)
        return where;
    /* Innermost first: the emulation's own names are nobody's fault, and three levels tell enough. */
    size_t at = 0;
    int levels = 0;
    while (fgets(line, sizeof line, lines)) {
        const char *place = shorten(line);
        if (strncmp(place, "emulation", 9) == 0 || levels == 3)
            continue;
        levels++;
        if (at < sizeof where - 1)
            at += (size_t)snprintf(where + at, sizeof where - at, "%s%s", at > 0 ? ", called at " : "", place);
    }
    pclose(lines);
    return where;
}
