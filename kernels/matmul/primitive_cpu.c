/* primitive_cpu.c: primitives of oneDNN by the form of their tile. The table has sets of a few places; where a set is
 * full, the least recently used primitive that is not in use makes room. */
#include "primitive.h"
#ifdef TK_HAVE_DNNL
#include "../common/parallel.h"
#include "../common/room.h"
#include "sgemm.h"
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SETS = 128, PLACES = 8, WORDS = 9 };

#define CODE_BYTES ((size_t)8 << 20) /* the library needs as much to make a primitive, or crashes: 2 MiB were seen */

typedef struct form_key {
    int64_t words[WORDS];
} form_key;

struct tk_primitive {
    form_key key;
    dnnl_primitive_t primitive;
    dnnl_memory_desc_t a, b, out, scratch;
    int64_t users, asked; /* under the lock; its last use, counted in takes */
    bool is_kept;         /* in the table; else it goes with its last user */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static dnnl_engine_t engine; /* under the lock, and never destroyed: primitives of the table need it */
static tk_primitive *table[SETS][PLACES];
static int64_t takes;

/* A child of fork begins with no users in the table. */
static void take_lock(void) { pthread_mutex_lock(&lock); }
static void give_lock(void) { pthread_mutex_unlock(&lock); }
static bool forks_know;
static void tell_forks(void) { forks_know = pthread_atfork(take_lock, give_lock, give_lock) == 0; }

static bool keep_lock_in_forks(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    return pthread_once(&once, tell_forks) == 0 && forks_know;
}

bool tk_primitive_fast(tk_dtype dtype) {
    int isa = dnnl_cpu_isa_avx512_core_bf16; /* a set of bits; those of AMX are more */
    return dtype == TK_BF16 && ((int)dnnl_get_effective_cpu_isa() & isa) == isa && tk_sgemm_works();
}

/* --- making ----------------------------------------------------------------------------------- */

#define NEXT(call) status = status == dnnl_success ? (call) : status

/* Of a matrix [rows, columns], which is stored [columns, rows] if transposed. The step between rows matters only where
 * there are several, and the library refuses a small one. */
static dnnl_status_t describe(dnnl_memory_desc_t *md, int64_t rows, int64_t columns, int64_t ld, bool transposed,
                              tk_dtype dtype) {
    int64_t stored_rows = transposed ? columns : rows, width = transposed ? rows : columns;
    int64_t step = stored_rows == 1 && ld < width ? width : ld;
    dnnl_dims_t dims = {rows, columns}, strides = {transposed ? 1 : step, transposed ? step : 1};
    return dnnl_memory_desc_init_by_strides(md, 2, dims, dtype == TK_BF16 ? dnnl_bf16 : dnnl_f32, strides);
}

static dnnl_status_t set_attributes(dnnl_primitive_attr_t attr, dnnl_post_ops_t ops, const tk_tile_form *form) {
    float alpha = (float)form->alpha;
    dnnl_status_t status = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (alpha != 1)
        NEXT(dnnl_primitive_attr_set_output_scales(attr, 1, 0, &alpha));
    if (form->beta != 0)
        NEXT(dnnl_post_ops_append_sum(ops, (float)form->beta));
    NEXT(dnnl_primitive_attr_set_post_ops(attr, ops));
    return status;
}

static dnnl_status_t make_primitive(tk_primitive *p, const dnnl_matmul_desc_t *of, dnnl_primitive_attr_t attr) {
    dnnl_primitive_desc_t made = NULL;
    dnnl_status_t status = dnnl_primitive_desc_create(&made, of, attr, engine, NULL);
    const dnnl_memory_desc_t *scratch =
        status == dnnl_success ? dnnl_primitive_desc_query_md(made, dnnl_query_scratchpad_md, 0) : NULL;
    if (scratch)
        p->scratch = *scratch;
    NEXT(scratch ? dnnl_primitive_create(&p->primitive, made) : dnnl_runtime_error);
    dnnl_primitive_desc_destroy(made);
    return status;
}

static dnnl_status_t make(tk_primitive *p, const tk_tile_form *form) {
    dnnl_matmul_desc_t of;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t status = engine ? dnnl_success : dnnl_engine_create(&engine, dnnl_cpu, 0);
    NEXT(describe(&p->a, form->m, form->k, form->lda, form->trans_a, form->in));
    NEXT(describe(&p->b, form->k, form->n, form->ldb, form->trans_b, form->in));
    NEXT(describe(&p->out, form->m, form->n, form->ldc, false, form->out));
    NEXT(dnnl_matmul_desc_init(&of, &p->a, &p->b, NULL, &p->out));
    NEXT(dnnl_primitive_attr_create(&attr));
    NEXT(dnnl_post_ops_create(&ops));
    NEXT(set_attributes(attr, ops, form));
    NEXT(make_primitive(p, &of, attr));
    dnnl_post_ops_destroy(ops);
    dnnl_primitive_attr_destroy(attr);
    return status;
}

static void destroy(tk_primitive *p) {
    dnnl_primitive_destroy(p->primitive);
    free(p);
}

/* A primitive for one thread; the lock is held. */
static tk_status create(const tk_tile_form *form, const form_key *key, tk_primitive **out_primitive) {
    tk_primitive *p = tk_has_room(CODE_BYTES) ? calloc(1, sizeof *p) : NULL;
    *out_primitive = NULL;
    if (!p)
        return TK_NO_MEMORY;
    p->key = *key;
    int threads = tk_library_threads(1);
    dnnl_status_t status = make(p, form);
    tk_library_threads(threads);
    if (status == dnnl_success) {
        *out_primitive = p;
        return TK_OK;
    }
    destroy(p);
    return status == dnnl_unimplemented || status == dnnl_invalid_arguments ? TK_OK : TK_NO_MEMORY;
}

/* --- the table -------------------------------------------------------------------------------- */

static form_key key_of(const tk_tile_form *form) {
    form_key key = {{form->m, form->n, form->k, form->lda, form->ldb, form->ldc}};
    key.words[6] = (int64_t)form->in << 16 | (int64_t)form->out << 8 | form->trans_a << 1 | form->trans_b;
    memcpy(&key.words[7], &form->alpha, sizeof form->alpha);
    memcpy(&key.words[8], &form->beta, sizeof form->beta);
    return key;
}

static tk_primitive **set_of(const form_key *key) {
    uint64_t hash = 0;
    for (size_t i = 0; i < WORDS; i++)
        hash = (hash ^ (uint64_t)key->words[i]) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
    return table[hash % SETS];
}

/* The place of the key's primitive, or else the one to make it in; NULL: all are in use by others. */
static tk_primitive **place_of(const form_key *key) {
    tk_primitive **set = set_of(key), **best = NULL;
    for (int i = 0; i < PLACES; i++)
        if (set[i] && memcmp(&set[i]->key, key, sizeof *key) == 0)
            return set + i;
    for (int i = 0; i < PLACES; i++) {
        bool is_free = !set[i] || set[i]->users == 0;
        if (is_free && (!best || (*best && (!set[i] || set[i]->asked < (*best)->asked))))
            best = set + i;
    }
    return best;
}

tk_status tk_primitive_take(const tk_tile_form *form, tk_primitive **out_primitive) {
    form_key key = key_of(form);
    tk_status status = TK_OK;
    *out_primitive = NULL;
    if (!keep_lock_in_forks())
        return TK_NO_MEMORY;
    pthread_mutex_lock(&lock);
    tk_primitive **place = place_of(&key);
    tk_primitive *p = place ? *place : NULL;
    if (!p || memcmp(&p->key, &key, sizeof key) != 0) {
        tk_primitive *made;
        status = create(form, &key, &made);
        if (made && place) {
            if (p)
                destroy(p);
            *place = made;
            made->is_kept = true;
        }
        p = made;
    }
    if (p)
        p->users++, p->asked = ++takes;
    pthread_mutex_unlock(&lock);
    *out_primitive = p;
    return status;
}

void tk_primitive_give(tk_primitive *p) {
    if (!p)
        return;
    pthread_mutex_lock(&lock);
    bool is_last = --p->users == 0 && !p->is_kept;
    pthread_mutex_unlock(&lock);
    if (is_last)
        destroy(p);
}

/* --- running ---------------------------------------------------------------------------------- */

size_t tk_primitive_scratch(const tk_primitive *p) { return dnnl_memory_desc_get_size(&p->scratch); }

enum { OPERANDS = 4 };

static bool run_on(const tk_primitive *p, dnnl_stream_t stream, const dnnl_memory_desc_t *const *of, void *const *at) {
    static const int names[OPERANDS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD};
    dnnl_exec_arg_t args[OPERANDS];
    dnnl_status_t status = dnnl_success;
    for (int i = 0; i < OPERANDS; i++) {
        args[i] = (dnnl_exec_arg_t){names[i], NULL};
        NEXT(dnnl_memory_create(&args[i].memory, of[i], engine, at[i]));
    }
    NEXT(dnnl_primitive_execute(p->primitive, stream, OPERANDS, args));
    NEXT(dnnl_stream_wait(stream));
    for (int i = 0; i < OPERANDS; i++)
        dnnl_memory_destroy(args[i].memory);
    return status == dnnl_success;
}

bool tk_primitive_run(const tk_primitive *p, void *out, const void *a, const void *b, void *scratch) {
    const dnnl_memory_desc_t *of[OPERANDS] = {&p->a, &p->b, &p->out, &p->scratch};
    void *at[OPERANDS] = {(void *)(uintptr_t)a, (void *)(uintptr_t)b, out, scratch};
    dnnl_stream_t stream = NULL;
    int threads = tk_library_threads(1);
    bool good =
        dnnl_stream_create(&stream, engine, dnnl_stream_default_flags) == dnnl_success && run_on(p, stream, of, at);
    dnnl_stream_destroy(stream);
    tk_library_threads(threads);
    return good;
}
#else
bool tk_primitive_fast(tk_dtype dtype) { return (void)dtype, false; }
tk_status tk_primitive_take(const tk_tile_form *form, tk_primitive **out_primitive) {
    return (void)form, *out_primitive = NULL, TK_OK;
}
void tk_primitive_give(tk_primitive *p) { (void)p; }
size_t tk_primitive_scratch(const tk_primitive *p) { return (void)p, (size_t)0; }
bool tk_primitive_run(const tk_primitive *p, void *out, const void *a, const void *b, void *scratch) {
    return (void)p, (void)out, (void)a, (void)b, (void)scratch, false;
}
#endif
