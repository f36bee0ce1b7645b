/* restore_no_grad.c: what PyTorch computed under torch.no_grad. Its calls say nothing of that, but their stack traces
 * may: the exporter keeps such a region as a module of its own, and traces through that module's text.
 *
 *   File "<eval_with_key>.42", line 5, in forward
 *     linear_1 = torch.ops.aten.linear.default(x, p_m_b_weight, p_m_b_bias);  x = p_m_b_weight = None
 *
 * Regions of autocast look the same but for the names of what they read (arg6_1), as do modules that were traced
 * before; there a parameter has another name than in the call. The trace is no contract: it is told, and --stop
 * decides.
 */
#include "../../compiler/onnx_io.h"
#include "../../compiler/ops.h"
#include "restore_stop.h"
#include <ctype.h>
#include <string.h>

typedef struct region {
    bool told;  /* something that it reads has the program's name */
    bool other; /* something has a name of its own */
} region;

/* The region that the call's stack trace ends in, by its name, and the statement there; NULL: in none. */
static const char *region_of(const tc_restore *r, const tc_restore_call *call, const char **out_statement) {
    static const char file[] = "File \"", key[] = "<eval_with_key>.";
    const char *text = tc_node_metadata(call->nodes[0], "pkg.torch.onnx.stack_trace"), *last = NULL;
    for (const char *at = text ? strstr(text, file) : NULL; at; at = strstr(at + 1, file))
        last = at + sizeof file - 1;
    if (!last || strncmp(last, key, sizeof key - 1) != 0)
        return NULL;
    const char *line = strchr(last, '\n'), *arguments = line ? strstr(line, " = torch.ops.") : NULL;
    *out_statement = arguments ? strchr(arguments, '(') : NULL;
    return *out_statement ? tc_arena_strndup(r->arena, last, strcspn(last, "\"")) : NULL;
}

/* "arg6_1" */
static bool is_own_name(const char *name) {
    if (strncmp(name, "arg", 3) != 0 || !isdigit((unsigned char)name[3]))
        return false;
    name += 3 + strspn(name + 3, "0123456789");
    return name[0] == '_' && isdigit((unsigned char)name[1]);
}

/* The program's name of what is made outside of the region: a parameter, or the result of a call. */
static bool is_outside(const tc_stops *s, const tc_restore_call *call, const char *name, const char *where) {
    const tc_words *words = tc_words_of(s, call);
    const tc_torch_input *input = s->r->signature ? tc_map_get(s->r->signature->by_token, name) : NULL;
    uintptr_t at = (uintptr_t)tc_map_get(s->r->by_result, name);
    const char *statement, *from = at ? region_of(s->r, &s->r->calls[at - 1], &statement) : NULL;
    bool read = false;
    for (size_t i = 0; i < words->n; i++)
        read = read || strcmp(words->names[i], name) == 0;
    return read && ((input && input->target) || (at && (!from || strcmp(from, where) != 0)));
}

static void read_statement(const tc_stops *s, const tc_restore_call *call, const char *where, const char *at,
                           region *to) {
    const char *end = at + strcspn(at, ";\n");
    while (at < end) {
        size_t n = 0;
        while (isalnum((unsigned char)at[n]) || at[n] == '_')
            n++;
        const char *name = tc_arena_strndup(s->r->arena, at, n);
        to->other = to->other || is_own_name(name);
        to->told = to->told || (n && is_outside(s, call, name, where));
        at += n ? n : 1;
    }
}

/* The value is read where gradients are wanted. */
static bool leaves(const tc_stops *s, const tc_value *value, const char *where) {
    TC_FOR_USES(use, value) {
        const tc_restore_call *reader = tc_call_of(s, use->user);
        const char *statement, *from = reader ? region_of(s->r, reader, &statement) : NULL;
        if (!tc_node_is(use->user, TC_TEMPO_DOMAIN, "StopGradient") && (!from || strcmp(from, where) != 0))
            return true;
    }
    return false;
}

void tc_tell_no_grad(const tc_stops *s) {
    tc_map *regions = tc_map_create(s->r->arena);
    const char *statement, **names = NULL;
    size_t n = 0, cap = 0;
    for (size_t c = 0; c < s->r->n; c++) {
        const char *where = region_of(s->r, &s->r->calls[c], &statement);
        region *to = where ? tc_map_get(regions, where) : NULL;
        if (where && !to)
            tc_map_set(regions, where, to = TC_NEW(s->r->arena, region));
        if (where)
            read_statement(s, &s->r->calls[c], where, statement, to);
    }
    for (size_t c = 0; c < s->r->n && tc_map_count(regions); c++) {
        const tc_restore_call *call = &s->r->calls[c];
        const char *where = region_of(s->r, call, &statement);
        const region *in = where ? tc_map_get(regions, where) : NULL;
        for (size_t i = 0; in && in->told && !in->other && i < call->n; i++)
            for (uint32_t k = 0; k < call->nodes[i]->n_outputs; k++) {
                const tc_value *value = call->nodes[i]->outputs[k];
                if (!value || !tc_map_get_ptr(s->carries, value) || !leaves(s, value, where))
                    continue;
                names = tc_arena_grow(s->r->arena, names, sizeof *names, &cap, n + 1);
                names[n++] = value->name;
            }
    }
    if (n == 0)
        return;
    tc_warn(s->r->env->ctx, NULL,
            "stack traces in the file say that PyTorch computed these without gradients, as under torch.no_grad, but "
            "gradients pass them: %s",
            tc_quote_list(s->r->env->ctx, names, n));
    tc_hint(s->r->env->ctx, "--stop=%s stops them", tc_quote(s->r->env->ctx, names[0]));
}
