/* restore_no_grad.c: values that PyTorch computed under torch.no_grad. Its calls do not say so, but their stack
 * traces may: the exporter keeps such a region as a module of its own, and traces through that module's text.
 *
 *   File "<eval_with_key>.42", line 5, in forward
 *     linear_1 = torch.ops.aten.linear.default(x, p_m_b_weight, p_m_b_bias);  x = p_m_b_weight = None
 * Regions of autocast, and modules that were traced before, look the same except for the names of their operands
 * (arg6_1); there a parameter has another name than in the call. The trace is no contract, so the pass only reports
 * it, and --stop decides. */
#include "compiler/onnx/onnx.h"
#include "compiler/ir/ops.h"
#include "restore_stop.h"
#include <ctype.h>
#include <string.h>

typedef struct region {
    bool named; /* some operand has the program's name */
    bool other; /* some operand has a name of its own */
} region;

/* The end of a call's stack trace. */
typedef struct place {
    const char *region;    /* the region's name; NULL: none */
    const char *statement; /* the arguments of the call there */
} place;

static place place_of(const tc_restore *r, const tc_restore_call *call) {
    static const char file[] = "File \"", key[] = "<eval_with_key>.";
    const char *text = tc_node_metadata(call->nodes[0], "pkg.torch.onnx.stack_trace"), *last = NULL;
    for (const char *at = text ? strstr(text, file) : NULL; at; at = strstr(at + 1, file))
        last = at + sizeof file - 1;
    if (!last || strncmp(last, key, sizeof key - 1) != 0)
        return (place){0};
    const char *line = strchr(last, '\n'), *arguments = line ? strstr(line, " = torch.ops.") : NULL;
    const char *statement = arguments ? strchr(arguments, '(') : NULL;
    return statement ? (place){tc_arena_strndup(r->arena, last, strcspn(last, "\"")), statement} : (place){0};
}

/* For every call, in the order of s->r->calls. */
static place *all_places(const tc_restore *r) {
    place *places = TC_NEW_ARRAY(r->arena, place, r->n + 1);
    for (size_t c = 0; c < r->n; c++)
        places[c] = place_of(r, &r->calls[c]);
    return places;
}

static bool is_in(const place *at, const char *where) { return at->region && strcmp(at->region, where) == 0; }

/* "arg6_1" */
static bool is_own_name(const char *name) {
    if (strncmp(name, "arg", 3) != 0 || !isdigit((unsigned char)name[3]))
        return false;
    name += 3 + strspn(name + 3, "0123456789");
    return name[0] == '_' && isdigit((unsigned char)name[1]);
}

/* The program's name of a value from outside of the region: a parameter, or the result of a call. `read`: the names
 * that the call reads. */
static bool is_outside(const tc_restore *r, const place *places, const tc_map *read, const char *name,
                       const char *where) {
    if (!tc_map_get(read, name))
        return false;
    const tc_torch_input *input = r->signature ? tc_map_get(r->signature->by_token, name) : NULL;
    uintptr_t at = (uintptr_t)tc_map_get(r->by_result, name);
    return (input && input->target) || (at && !is_in(&places[at - 1], where));
}

static void read_statement(const tc_stops *s, const place *places, size_t c, region *to) {
    const tc_words *words = tc_words_of(s, &s->r->calls[c]);
    const char *at = places[c].statement, *end = at + strcspn(at, ";\n");
    tc_map *read = tc_map_create(s->r->arena);
    for (size_t i = 0; i < words->n; i++)
        tc_map_set(read, words->names[i], to);
    while (at < end) {
        size_t n = 0;
        while (isalnum((unsigned char)at[n]) || at[n] == '_')
            n++;
        const char *name = tc_arena_strndup(s->r->arena, at, n);
        to->other = to->other || is_own_name(name);
        to->named = to->named || (n && is_outside(s->r, places, read, name, places[c].region));
        at += n ? n : 1;
    }
}

/* The value has a reader that needs gradients. */
static bool leaves(const tc_stops *s, const place *places, const tc_value *value, const char *where) {
    TC_FOR_USES(use, value) {
        const tc_restore_call *reader = tc_call_of(s, use->user);
        bool inside = reader && is_in(&places[reader - s->r->calls], where);
        if (!tc_node_is(use->user, TC_TEMPO_DOMAIN, "StopGradient") && !inside)
            return true;
    }
    return false;
}

void tc_tell_no_grad(const tc_stops *s) {
    tc_map *regions = tc_map_create(s->r->arena);
    const place *places = all_places(s->r);
    const char **names = NULL;
    size_t n = 0, cap = 0;
    for (size_t c = 0; c < s->r->n; c++) {
        const char *where = places[c].region;
        region *to = where ? tc_map_get(regions, where) : NULL;
        if (where && !to)
            tc_map_set(regions, where, to = TC_NEW(s->r->arena, region));
        if (where)
            read_statement(s, places, c, to);
    }
    for (size_t c = 0; c < s->r->n && tc_map_count(regions); c++) {
        const tc_restore_call *call = &s->r->calls[c];
        const char *where = places[c].region;
        const region *in = where ? tc_map_get(regions, where) : NULL;
        for (size_t i = 0; in && in->named && !in->other && i < call->n; i++)
            for (uint32_t k = 0; k < call->nodes[i]->n_outputs; k++) {
                const tc_value *value = call->nodes[i]->outputs[k];
                if (!value || !tc_map_get_ptr(s->carries, value) || !leaves(s, places, value, where))
                    continue;
                names = tc_arena_grow(s->r->arena, names, sizeof *names, &cap, n + 1);
                names[n++] = value->name;
            }
    }
    if (n == 0)
        return;
    tc_warn(s->r->env->ctx, NULL,
            "by the file's stack traces, PyTorch computed these without gradients, as under torch.no_grad, "
            "but gradients pass them: %s",
            tc_quote_list(s->r->env->ctx, names, n));
    tc_hint(s->r->env->ctx, "--stop=%s stops them", tc_quote(s->r->env->ctx, names[0]));
}
