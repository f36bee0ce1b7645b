/* diag.c: the list of diagnostics of a context, and its printing. */
#include "diag.h"
#include "ir.h"
#include <stdlib.h>
#include <string.h>

enum { QUOTE_LIMIT = 120 };

void tc_ctx_init(tc_ctx *ctx, const char *tool) { *ctx = (tc_ctx){.arena = tc_arena_create(), .tool = tool}; }

void tc_ctx_fini(tc_ctx *ctx) {
    tc_arena_destroy(ctx->arena);
    *ctx = (tc_ctx){0};
}

const char *tc_quote(tc_ctx *ctx, const char *text) {
    size_t n = strlen(text), kept = n < QUOTE_LIMIT ? n : QUOTE_LIMIT;
    while (kept < n && kept && ((unsigned char)text[kept] & 0xC0) == 0x80)
        kept--; /* never cut inside a UTF-8 sequence */
    char *out = tc_arena_alloc(ctx->arena, kept * 4 + 4, 1), *p = out;
    for (size_t i = 0; i < kept; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c == 0x7F)
            p += snprintf(p, 5, "\\x%02X", c);
        else
            *p++ = (char)c;
    }
    if (kept < n)
        memcpy(p, "...", 4);
    return out;
}

static void add(tc_ctx *ctx, tc_severity severity, tc_status status, const tc_node *node, const char *fmt, va_list args) {
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    char *message = tc_arena_alloc(ctx->arena, (size_t)(n < 0 ? 0 : n) + 1, 1);
    if (n > 0)
        vsnprintf(message, (size_t)n + 1, fmt, again);
    va_end(again);
    ctx->diags = tc_arena_grow(ctx->arena, ctx->diags, sizeof *ctx->diags, &ctx->cap_diags, ctx->n_diags + 1);
    ctx->diags[ctx->n_diags++] = (tc_diag){
        .severity = severity,
        .status = status,
        .pass = ctx->pass,
        .node = node ? tc_quote(ctx, tc_node_label(node)) : NULL,
        .op = node ? tc_quote(ctx, node->op_type) : NULL,
        .message = message,
    };
}

tc_status tc_error(tc_ctx *ctx, tc_status status, const tc_node *node, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    add(ctx, TC_ERROR, status, node, fmt, args);
    va_end(args);
    return status;
}

tc_status tc_error_at(tc_ctx *ctx, tc_status status, const char *where, const char *excerpt, const char *fmt, va_list args) {
    add(ctx, TC_ERROR, status, NULL, fmt, args);
    ctx->diags[ctx->n_diags - 1].where = where;
    ctx->diags[ctx->n_diags - 1].excerpt = excerpt;
    return status;
}

void tc_warn(tc_ctx *ctx, const tc_node *node, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    add(ctx, TC_WARNING, TC_OK, node, fmt, args);
    va_end(args);
}

void tc_note(tc_ctx *ctx, const tc_node *node, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    add(ctx, TC_NOTE, TC_OK, node, fmt, args);
    va_end(args);
}

void tc_hint(tc_ctx *ctx, const char *fmt, ...) {
    TC_ASSERT(ctx->n_diags > 0);
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    char *text = tc_arena_alloc(ctx->arena, (size_t)(n < 0 ? 0 : n) + 1, 1);
    if (n > 0)
        vsnprintf(text, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(args);
    ctx->diags[ctx->n_diags - 1].hint = text;
}

/* Messages hold names from the file: no byte of them may move the terminal's cursor or break the line. */
static void put_clean(FILE *out, const char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if ((c < 0x20 && c != '\n') || c == 0x7F)
            fprintf(out, "\\x%02X", c);
        else
            fputc(c, out);
    }
}

void tc_diags_print(tc_ctx *ctx, FILE *out) {
    static const char *const words[] = {"note", "warning", "error"};
    for (size_t i = 0; i < ctx->n_diags; i++) {
        const tc_diag *d = &ctx->diags[i];
        put_clean(out, d->where ? d->where : ctx->file ? tc_quote(ctx, ctx->file) : ctx->tool);
        fprintf(out, ": %s: ", words[d->severity]);
        if (d->node)
            fprintf(out, "%s \"%s\": ", d->op, d->node);
        put_clean(out, d->message);
        if (d->pass)
            fprintf(out, " [%s]", d->pass);
        if (d->hint) {
            fputs("; hint: ", out);
            put_clean(out, d->hint);
        }
        fputc('\n', out);
        if (d->excerpt)
            put_clean(out, d->excerpt);
    }
    ctx->n_diags = 0;
}

_Noreturn void tc_bug(const char *file, int line, const char *what) {
    fprintf(stderr, "bug: %s:%d: assertion failed: %s\n", file, line, what);
    exit(TC_BUG);
}
