/* diag.h: how everything here fails. A function that can fail on user input returns tc_status and has added a
 * diagnostic to the context; TC_TRY passes it on. A failed TC_ASSERT is a bug. It ends the call at a recovery point
 * (recover.h), as running out of memory does. A status is also the exit code. */
#ifndef TC_DIAG_H
#define TC_DIAG_H
#include "arena.h"
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

typedef enum tc_status {
    TC_OK = 0,
    TC_MISMATCH = 1,    /* a comparison or test failed */
    TC_BAD_INPUT = 2,   /* malformed or invalid file, missing input */
    TC_UNSUPPORTED = 3, /* valid, but an op, opset or type we do not know */
    TC_LIMIT = 4,       /* a limit, memory or the budget */
    TC_IO = 5,          /* the operating system said no */
    TC_NUMERIC = 6,     /* NaN or infinity stopped a run */
    TC_USAGE = 64,      /* the command line */
    TC_BUG = 70,        /* a bug in Tempo */
} tc_status;

typedef enum tc_severity { TC_NOTE, TC_WARNING, TC_ERROR } tc_severity;

struct tc_node;
typedef struct tc_diag {
    tc_severity severity;
    tc_status status;
    const char *pass;      /* the pass that was running, or NULL */
    const char *node, *op; /* node name (or first output) and op type, or NULL */
    const char *message;   /* the mistake, the value at fault, and the expected one; lower case, no period */
    const char *hint;      /* the fix, or NULL */
    const char *where;     /* "NAME:LINE:COLUMN" for a mistake in a text, printed instead of the file; or NULL */
    const char *excerpt;   /* that line of the text with a caret below it, printed last; or NULL */
} tc_diag;

/* One compilation: its diagnostics and the names that locate them. Owned by the caller of the library. */
typedef struct tc_ctx {
    tc_arena *arena;  /* holds the diagnostics */
    const char *tool; /* "tempoc", "tempo-run": for usage errors */
    const char *file; /* the file that diagnostics name, or NULL */
    const char *pass; /* set by the pipeline */
    tc_diag *diags;
    size_t n_diags, cap_diags;
} tc_ctx;

void tc_ctx_init(tc_ctx *ctx, const char *tool);
void tc_ctx_fini(tc_ctx *ctx);

/* Adds an error and returns `status`, so that `return tc_error(...)` reads well. `node` may be NULL. */
tc_status tc_error(tc_ctx *ctx, tc_status status, const struct tc_node *node, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The same for a mistake at a place in a text. lexer.h makes `where` and `excerpt`; both live as long as the
 * context. */
tc_status tc_error_at(tc_ctx *ctx, tc_status status, const char *where, const char *excerpt, const char *fmt,
                      va_list args) __attribute__((format(printf, 5, 0)));
void tc_warn(tc_ctx *ctx, const struct tc_node *node, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void tc_note(tc_ctx *ctx, const struct tc_node *node, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Attaches a hint ("hint: ...") to the newest diagnostic. */
void tc_hint(tc_ctx *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Adds copies of diagnostics of another context. */
void tc_diags_add(tc_ctx *ctx, const tc_diag *diags, size_t n);

/* Prints `FILE: error: OP "NODE": MESSAGE [pass]` and `hint: ...`, control characters escaped, then forgets them. */
void tc_diags_print(tc_ctx *ctx, FILE *out);

/* Copies text for a message: control characters escaped, cut with "..." beyond 120 bytes. In the context's arena. */
const char *tc_quote(tc_ctx *ctx, const char *text);
/* Quoted names, the first few of them: "a, b, c and 4 more". In the context's arena. */
#define TC_LIST_FEW 3
const char *tc_quote_list(tc_ctx *ctx, const char *const *names, size_t n);

/* Ends the call at the innermost recovery point, with TC_BUG. recover.c */
_Noreturn void tc_bug(const char *file, int line, const char *what);
#define TC_ASSERT(cond) ((cond) ? (void)0 : tc_bug(__FILE__, __LINE__, #cond))
#define TC_TRY(expr)                                                                                                   \
    do {                                                                                                               \
        tc_status try_status_ = (expr);                                                                                \
        if (try_status_ != TC_OK)                                                                                      \
            return try_status_;                                                                                        \
    } while (0)
#define TC_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#endif
