/* measured_costs.c: reads a table of times (CSV, RFC 4180) line by line into two maps: by name, and by op and types. */
#include "measured_costs.h"
#include "compiler/base/base.h"
#include "compiler/ir/ops.h"
#include <string.h>

enum { NODE, OP, OPERANDS, RESULT, RUNS, TIME, FIELDS };
static const char *const head[FIELDS] = {"node", "op", "operands", "result", "runs", "nanoseconds"};

typedef struct named_time {
    const char *key; /* of its op and types */
    uint64_t time;
} named_time;

typedef struct kind {
    uint64_t sum, rows; /* of all rows of one key */
} kind;

struct tc_measured {
    tc_map *by_name; /* -> named_time */
    tc_map *by_kind; /* key -> kind */
};

/* --- lines -------------------------------------------------------------------------------------- */

typedef struct reader {
    tc_ctx *ctx;
    const char *path, *at, *end;
    size_t line, began; /* of the next line; of the current row: quoted names may hold line breaks */
} reader;

static tc_status malformed(reader *r, const char *what) {
    tc_error(r->ctx, TC_BAD_INPUT, NULL, "%s:%zu: %s", tc_quote(r->ctx, r->path), r->began, what);
    tc_hint(r->ctx, "tempo-run MODEL --profile=FILE.csv writes such files");
    return TC_BAD_INPUT;
}

/* The characters of a quoted field, after its first quote: two quotes are one. */
static tc_status quoted(reader *r, const char **out_text) {
    const char *start = r->at, *quote = start;
    while ((quote = memchr(quote, '"', (size_t)(r->end - quote))) && quote + 1 < r->end && quote[1] == '"')
        quote += 2;
    if (!quote)
        return malformed(r, "a quote is not closed");
    char *text = tc_arena_alloc(r->ctx->arena, (size_t)(quote - start) + 1, 1);
    size_t n = 0;
    for (const char *c = start; c < quote; c += *c == '"' ? 2 : 1) {
        r->line += *c == '\n';
        text[n++] = *c;
    }
    r->at = quote + 1;
    *out_text = text;
    return TC_OK;
}

static tc_status field(reader *r, const char **out_text) {
    if (r->at < r->end && *r->at == '"') {
        r->at++;
        return quoted(r, out_text);
    }
    const char *start = r->at;
    while (r->at < r->end && !strchr(",\r\n", *r->at))
        r->at++;
    *out_text = tc_arena_strndup(r->ctx->arena, start, (size_t)(r->at - start));
    return TC_OK;
}

/* One row, and the end of its line. */
static tc_status fields(reader *r, const char *out_texts[FIELDS]) {
    r->began = r->line;
    for (int i = 0; i < FIELDS; i++) {
        TC_TRY(field(r, &out_texts[i]));
        bool ends = r->at == r->end || *r->at == '\n' || *r->at == '\r';
        if (ends != (i == FIELDS - 1) || (!ends && *r->at != ','))
            return malformed(r, "expected node,op,operands,result,runs,nanoseconds");
        r->at += !ends;
    }
    r->at += r->at < r->end && *r->at == '\r';
    if (r->at < r->end && *r->at++ != '\n')
        return malformed(r, "a carriage return within a line");
    r->line++;
    return TC_OK;
}

/* --- rows --------------------------------------------------------------------------------------- */

/* Functions are named by the operands they take: DotProductAttention_b1s1 is DotProductAttention. */
static const char *key_of(tc_arena *arena, const char *op, const char *operands, const char *result) {
    return tc_arena_printf(arena, "%.*s (%s) -> %s", (int)strcspn(op, "_"), op, operands, result);
}

static bool number(const char *text, uint64_t *out_number) {
    uint64_t n = 0;
    const char *c = text;
    for (; *c >= '0' && *c <= '9' && n <= TC_MEASURED_MOST; c++)
        n = 10 * n + (uint64_t)(*c - '0');
    *out_number = n;
    return c > text && *c == '\0' && n <= TC_MEASURED_MOST;
}

/* Of several rows of one name the first counts. */
static void add_row(tc_measured *m, tc_arena *arena, const char *const texts[FIELDS], uint64_t time) {
    const char *key = key_of(arena, texts[OP], texts[OPERANDS], texts[RESULT]);
    kind *k = tc_map_get(m->by_kind, key);
    if (!k)
        tc_map_set(m->by_kind, key, k = TC_NEW(arena, kind));
    k->sum += time < (UINT64_C(1) << 62) - k->sum ? time : 0;
    k->rows++;
    if (tc_map_get(m->by_name, texts[NODE]))
        return;
    named_time *named = TC_NEW(arena, named_time);
    *named = (named_time){key, time};
    tc_map_set(m->by_name, texts[NODE], named);
}

static tc_status read_row(reader *r, tc_measured *m) {
    const char *texts[FIELDS];
    uint64_t runs, time;
    TC_TRY(fields(r, texts));
    if (!number(texts[RUNS], &runs) || runs == 0)
        return malformed(r,
                         tc_arena_printf(r->ctx->arena, "'%s' is not a number of runs", tc_quote(r->ctx, texts[RUNS])));
    if (!number(texts[TIME], &time))
        return malformed(r, tc_arena_printf(r->ctx->arena, "'%s' is not a number of nanoseconds up to 2^50",
                                            tc_quote(r->ctx, texts[TIME])));
    add_row(m, r->ctx->arena, texts, time);
    return TC_OK;
}

static tc_status read_head(reader *r) {
    const char *texts[FIELDS];
    TC_TRY(fields(r, texts));
    for (int i = 0; i < FIELDS; i++)
        if (strcmp(texts[i], head[i]) != 0)
            return malformed(r, "expected the head node,op,operands,result,runs,nanoseconds");
    return TC_OK;
}

tc_status tc_measured_read(tc_ctx *ctx, const char *path, const tc_measured **out_measured) {
    tc_measured *m = TC_NEW(ctx->arena, tc_measured);
    *m = (tc_measured){tc_map_create(ctx->arena), tc_map_create(ctx->arena)};
    *out_measured = m;
    tc_file file;
    tc_status status = tc_file_open(ctx, path, &file);
    if (status != TC_OK) {
        tc_hint(ctx, "--cost takes roofline, unit or a file that tempo-run MODEL --profile=FILE.csv wrote");
        return status;
    }
    tc_held held;
    tc_file_hold(&file, &held);
    reader r = {ctx, path, file.data, (const char *)file.data + file.size, 1, 1};
    status = read_head(&r);
    while (status == TC_OK && r.at < r.end)
        status = read_row(&r, m);
    tc_let_go(&held);
    tc_file_close(&file);
    return status;
}

/* --- nodes -------------------------------------------------------------------------------------- */

static bool is_static(const tc_node *node) {
    for (uint32_t i = 0; i < node->n_inputs + node->n_outputs; i++) {
        const tc_value *value = i < node->n_inputs ? tc_input(node, i) : tc_output(node, i - node->n_inputs);
        if (value && !tc_type_is_static(value->type))
            return false;
    }
    return true;
}

static const char *key_of_node(tc_arena *arena, const tc_node *node) {
    const char *operands = "";
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const tc_value *value = tc_input(node, i);
        operands = tc_arena_printf(arena, "%s%s%s", operands, i > 0 ? ", " : "",
                                   value ? tc_type_text(arena, value->type) : "");
    }
    const tc_value *result = tc_output(node, 0);
    return key_of(arena, node->op_type, operands, tc_type_text(arena, result ? result->type : NULL));
}

static bool same_op(const char *key, const char *other) {
    size_t length = strcspn(key, " ");
    return strncmp(key, other, length + 1) == 0;
}

/* A run that a plan added takes as long as the run that it copies, even if it lacks results. */
static const named_time *of_original(const tc_measured *m, tc_arena *arena, const char *label) {
    const char *suffix = strstr(label, "__rc");
    return suffix ? tc_map_get(m->by_name, tc_arena_strndup(arena, label, (size_t)(suffix - label))) : NULL;
}

uint64_t tc_measured_time(const tc_measured *m, const tc_node *node) {
    tc_arena *arena = tc_arena_create();
    const char *key = key_of_node(arena, node), *label = tc_node_label(node);
    const named_time *named = tc_map_get(m->by_name, label), *original = named ? NULL : of_original(m, arena, label);
    const kind *k = tc_map_get(m->by_kind, key);
    uint64_t time = UINT64_MAX;
    if (original && same_op(original->key, key))
        time = original->time;
    else if (named && (strcmp(named->key, key) == 0 || (!is_static(node) && same_op(named->key, key))))
        time = named->time;
    else if (k)
        time = k->sum / k->rows;
    tc_arena_destroy(arena);
    return time;
}
