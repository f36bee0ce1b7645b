/* embedded.h: text files that embed.c made part of the program. Add files to the lists in passes/meson.build. */
#ifndef TC_EMBEDDED_H
#define TC_EMBEDDED_H
#include <stddef.h>

typedef struct tc_embedded {
    const char *name; /* the file's name without folder: "canonical.rules"; NULL ends the table */
    const char *text; /* NUL-terminated */
    size_t size;      /* without the NUL */
} tc_embedded;

extern const tc_embedded tc_embedded_report[]; /* passes/report: page.css */
extern const tc_embedded tc_embedded_rules[];  /* passes/rules/texts */
#endif
