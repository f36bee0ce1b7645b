/* diag.c: the list of diagnostics of a context, and its printing. */
#include "diag.h"
#include "compiler/ir/ir.h"
#include "utf8.h"
#include <string.h>

enum { QUOTE_LIMIT = 120 };

void tc_ctx_init(tc_ctx *ctx, const char *tool) { *ctx = (tc_ctx){.arena = tc_arena_create(), .tool = tool}; }

void tc_ctx_fini(tc_ctx *ctx) {
    tc_arena_destroy(ctx->arena);
    *ctx = (tc_ctx){0};
}

const char *tc_quote(tc_ctx *ctx, const char *text) {
    size_t n = strlen(text), done = 0;
    char *out = tc_arena_alloc(ctx->arena, (n < QUOTE_LIMIT ? n : QUOTE_LIMIT) * 4 + 4, 1), *p = out;
    while (done < n) {
        size_t size = tc_utf8_printable(text + done, n - done);
        if (done + (size ? size : 1) > QUOTE_LIMIT)
            break; /* never cut inside a character */
        if (size)
            memcpy(p, text + done, size);
        else
            snprintf(p, 5, "\\x%02X", (unsigned char)text[done]);
        p += size ? size : 4;
        done += size ? size : 1;
    }
    if (done < n)
        memcpy(p, "...", 4);
    return out;
}

const char *tc_quote_list(tc_ctx *ctx, const char *const *names, size_t n) {
    const char *text = "";
    for (size_t i = 0; i < n && i < TC_LIST_FEW; i++)
        text = tc_arena_printf(ctx->arena, "%s%s%s", text, i ? ", " : "", tc_quote(ctx, names[i]));
    return n > TC_LIST_FEW ? tc_arena_printf(ctx->arena, "%s and %zu more", text, n - TC_LIST_FEW) : text;
}

static tc_diag *add_one(tc_ctx *ctx) {
    ctx->diags = tc_arena_grow(ctx->arena, ctx->diags, sizeof *ctx->diags, &ctx->cap_diags, ctx->n_diags + 1);
    return &ctx->diags[ctx->n_diags++];
}

static void add(tc_ctx *ctx, tc_severity severity, tc_status status, const tc_node *node, const char *fmt,
                va_list args) {
    *add_one(ctx) = (tc_diag){
        .severity = severity,
        .status = status,
        .pass = ctx->pass,
        .node = node ? tc_quote(ctx, tc_node_label(node)) : NULL,
        .op = node ? tc_quote(ctx, node->op_type) : NULL,
        .message = tc_arena_vprintf(ctx->arena, fmt, args),
    };
}

tc_status tc_error(tc_ctx *ctx, tc_status status, const tc_node *node, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    add(ctx, TC_ERROR, status, node, fmt, args);
    va_end(args);
    return status;
}

tc_status tc_error_at(tc_ctx *ctx, tc_status status, const char *where, const char *excerpt, const char *fmt,
                      va_list args) {
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
    va_list args;
    va_start(args, fmt);
    ctx->diags[ctx->n_diags - 1].hint = tc_arena_vprintf(ctx->arena, fmt, args);
    va_end(args);
}

static const char *copy(tc_ctx *ctx, const char *text) { return text ? tc_arena_strdup(ctx->arena, text) : NULL; }

void tc_diags_add(tc_ctx *ctx, const tc_diag *diags, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const tc_diag *d = &diags[i];
        *add_one(ctx) = (tc_diag){d->severity,        d->status,           copy(ctx, d->pass),
                                  copy(ctx, d->node), copy(ctx, d->op),    copy(ctx, d->message),
                                  copy(ctx, d->hint), copy(ctx, d->where), copy(ctx, d->excerpt)};
    }
}

/* Messages hold names from the file: no byte of them may move the terminal's cursor or break the line. */
static void put_clean(FILE *out, const char *text) {
    for (size_t left = strlen(text), size; left > 0; text += size, left -= size) {
        size = tc_utf8_printable(text, left);
        if (size || *text == '\n')
            fwrite(text, 1, size ? size : 1, out);
        else
            fprintf(out, "\\x%02X", (unsigned char)*text);
        size = size ? size : 1;
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
