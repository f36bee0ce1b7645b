/* tempo_compile.c: tempo_compile of tempo.h: a command in, its results as values out. The result owns one arena, in
 * which diagnostics are, and what was written to streams of memory. */
#include "command.h"
#include <locale.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT, DUMPS, MESSAGES, MODEL, REPORT, STREAMS };

/* A stream whose bytes are memory. */
typedef struct memory {
    FILE *stream;
    char *bytes; /* NULL: there is none; a zero stands at their end */
    size_t size;
    tc_held held;
} memory;

typedef struct result {
    tempo_compiled shown; /* first: what the caller has is this */
    tc_ctx ctx;
    memory streams[STREAMS];
} result;

typedef struct call {
    const tempo_compile_request *request;
    result *result;
} call;

/* --- streams of memory ------------------------------------------------------------------------ */

static void drop(void *user) {
    memory *m = user;
    if (m->stream)
        fclose(m->stream);
    free(m->bytes);
    *m = (memory){0};
}

static FILE *open_memory(memory *m) {
    m->stream = open_memstream(&m->bytes, &m->size);
    if (!m->stream)
        tc_out_of_memory(1);
    tc_hold(&m->held, drop, m);
    return m->stream;
}

static void settle(memory *m) {
    if (!m->stream)
        return;
    bool good = !ferror(m->stream);
    good = fclose(m->stream) == 0 && good;
    m->stream = NULL;
    if (!good)
        tc_out_of_memory(m->size);
}

/* --- the work --------------------------------------------------------------------------------- */

/* The caller's words after the name of a program, as options.h reads them. */
static char **words_of(tc_ctx *ctx, const tempo_compile_request *q) {
    char **words = TC_NEW_ARRAY(ctx->arena, char *, q->n_options + 2);
    words[0] = tc_arena_strdup(ctx->arena, ctx->tool);
    for (size_t i = 0; i < q->n_options; i++)
        words[i + 1] = tc_arena_strdup(ctx->arena, q->options[i]);
    return words;
}

static tc_status refuse_printed(tc_ctx *ctx, const tc_command *c, const tc_arguments *arguments) {
    if (arguments->done || c->list_passes || c->list_rules || c->check_rules)
        return tc_error(ctx, TC_USAGE, NULL, "options that print and exit are tempoc's alone");
    if (arguments->count > 0)
        return tc_error(ctx, TC_USAGE, NULL, "unexpected %s", tc_quote(ctx, arguments->items[0]));
    if ((c->output && strcmp(c->output, "-") == 0) || (c->input && strcmp(c->input, "-") == 0))
        return tc_error(ctx, TC_USAGE, NULL, "expected the name of a file, not -");
    return TC_OK;
}

static tc_status take_options(tc_ctx *ctx, const tempo_compile_request *q, FILE *text, tc_command *c) {
    tc_arguments arguments;
    TC_TRY(tc_options_parse(ctx, &tc_command_table, (int)q->n_options + 1, words_of(ctx, q), text, c, &arguments));
    c->input = q->path;
    TC_TRY(refuse_printed(ctx, c, &arguments));
    return q->path || q->bytes ? tc_command_check(ctx, c) : tc_error(ctx, TC_USAGE, NULL, "no model given");
}

static tc_status compile(const call *of, tc_command *c, const tc_file *file) {
    const tempo_compile_request *q = of->request;
    memory *streams = of->result->streams;
    const tc_watcher watcher = {.stop = q->stop, .gives_up = q->stop != NULL};
    const tc_command_results to = {.text = streams[TEXT].stream,
                                   .dumps = open_memory(&streams[DUMPS]),
                                   .model = q->wants_model ? open_memory(&streams[MODEL]) : NULL,
                                   .json = q->wants_report ? open_memory(&streams[REPORT]) : NULL,
                                   .watcher = &watcher};
    return tc_command_run(&of->result->ctx, c, file, &to);
}

static tc_status compile_file(const call *of) {
    const tempo_compile_request *q = of->request;
    tc_ctx *ctx = &of->result->ctx;
    tc_command c = {0};
    tc_written written[TC_COMMAND_WRITES];
    tc_file file = {.data = q->bytes, .size = q->size};
    tc_held held;
    TC_TRY(take_options(ctx, q, open_memory(&of->result->streams[TEXT]), &c));
    ctx->file = tc_arena_strdup(ctx->arena, q->name ? q->name : q->path ? q->path : "model");
    c.input = q->path ? q->path : ctx->file;
    tc_command_written(&c, written);
    TC_TRY(tc_written_enter(ctx, written, TC_COMMAND_WRITES));
    if (q->bytes)
        return compile(of, &c, &file);
    TC_TRY(tc_file_open(ctx, q->path, &file));
    tc_file_hold(&file, &held);
    tc_status status = compile(of, &c, &file);
    tc_let_go(&held);
    tc_file_close(&file);
    return status;
}

static tc_status work(void *user) {
    const call *of = user;
    tc_status status = compile_file(of);
    for (int i = 0; i < STREAMS; i++)
        settle(&of->result->streams[i]);
    return status;
}

/* --- the result ------------------------------------------------------------------------------- */

static void show_diagnostics(result *r) {
    tc_ctx *ctx = &r->ctx;
    tempo_diagnostic *all = TC_NEW_ARRAY(ctx->arena, tempo_diagnostic, ctx->n_diags + 1);
    for (size_t i = 0; i < ctx->n_diags; i++) {
        const tc_diag *d = &ctx->diags[i];
        all[i] = (tempo_diagnostic){(tempo_severity)d->severity,
                                    (tempo_status)d->status,
                                    d->where ? d->where : ctx->file,
                                    d->pass,
                                    d->op,
                                    d->node,
                                    d->message,
                                    d->hint};
    }
    r->shown.diagnostics = all;
    r->shown.n_diagnostics = ctx->n_diags;
}

static const char *text_of(const result *r, int stream) {
    return r->streams[stream].bytes ? r->streams[stream].bytes : "";
}

static tc_status run(void *user) {
    call *of = user;
    result *r = of->result;
    tc_ctx_init(&r->ctx, "tempoc");
    tc_status status = tc_attempt_told(&r->ctx, work, of);
    show_diagnostics(r);
    tc_diags_print(&r->ctx, open_memory(&r->streams[MESSAGES]));
    settle(&r->streams[MESSAGES]);
    r->shown.text = text_of(r, TEXT);
    r->shown.dumps = text_of(r, DUMPS);
    r->shown.messages = text_of(r, MESSAGES);
    r->shown.model = r->streams[MODEL].size > 0 ? r->streams[MODEL].bytes : NULL;
    r->shown.model_size = r->streams[MODEL].size;
    r->shown.report = r->streams[REPORT].size > 0 ? r->streams[REPORT].bytes : NULL;
    return status;
}

static const tempo_diagnostic no_memory = {.severity = TEMPO_ERROR, .status = TEMPO_LIMIT, .message = "out of memory"};
/* What stands for a result where there is no memory even for that. It is never written. */
static tempo_compiled no_result = {.text = "",
                                   .dumps = "",
                                   .messages = "tempoc: error: out of memory\n",
                                   .diagnostics = &no_memory,
                                   .n_diagnostics = 1};

tempo_status tempo_compile(const tempo_compile_request *request, tempo_compiled **out_compiled) {
    call of = {request, calloc(1, sizeof(result))};
    locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0); /* numbers have points, whatever the caller's are */
    const tc_failure *failure = NULL;
    tc_status status = TC_LIMIT;
    bool begins = of.result && plain;
    if (begins) {
        locale_t own = uselocale(plain);
        status = tc_attempt(run, &of, &failure);
        tc_written_leave();
        uselocale(own);
    }
    if (plain)
        freelocale(plain);
    if (begins && !failure) {
        *out_compiled = &of.result->shown;
    } else { /* what the result had is released */
        *out_compiled = &no_result;
        free(of.result);
    }
    return (tempo_status)status;
}

void tempo_compiled_free(tempo_compiled *compiled) {
    result *r = (result *)compiled;
    if (!compiled || compiled == &no_result)
        return;
    for (int i = 0; i < STREAMS; i++)
        drop(&r->streams[i]);
    if (r->ctx.arena)
        tc_ctx_fini(&r->ctx);
    free(r);
}
