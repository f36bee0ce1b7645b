/* html.h: the parts of the HTML report. */
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
void tc_html_cell(page *p, const char *text, const char *class);
void tc_html_amount_cell(page *p, tc_amount amount);
/* The section with the curve of live bytes. curve.c */
void tc_html_curve(page *p);
/* The plan of --memory-budget: live bytes over the time of a run, and the recomputed nodes. plan_figure.c */
void tc_html_plan(page *p);
/* The curve of --pareto: extra time over the budget. pareto_figure.c */
void tc_html_pareto(page *p);
#endif
