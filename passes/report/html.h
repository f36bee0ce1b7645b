/* html.h: the parts of the HTML report: html.c and curve.c. */
#ifndef TC_REPORT_HTML_H
#define TC_REPORT_HTML_H
#include "report.h"

typedef struct page {
    FILE *out;
    tc_ctx *ctx;
    const tc_report *report;
    const tc_account *before; /* NULL: not known, or the same as after */
} page;

/* Text between tags or in an attribute's quotes. */
void tc_html_put(FILE *out, const char *text);
/* The section with the curve of live bytes. */
void tc_html_curve(page *p);
#endif
