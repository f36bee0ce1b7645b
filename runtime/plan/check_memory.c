/* check_memory.c: a run that checks its plan and its kernels. Free bytes of the arena hold FREE, which is NaN in every
 * float type; a canary follows each buffer and each workspace. Between launches all that is compared with the lives
 * that the plan states. */
#include "compiler/memory/memory.h"
#include "plan.h"
#include <string.h>

enum { FREE = 0xff, CANARY = 0xa7 };

/* A root in the arena with all that lies in it. */
typedef struct unit {
    uint32_t first, last; /* launches that it is live in, both inclusive; n_launches: to the end. first > last: none */
    size_t bytes;         /* before its canary */
    bool over, inherited; /* it lies over an operand of its first launch; a result of its last one lies over it */
    uint32_t next_born, next_dead; /* of the same first launch, of the same last one */
} unit;

struct rt_checks {
    unit *units;           /* [n_storages] by root */
    uint32_t *born, *dead; /* [n_launches + 1] the first unit of each chain */
};

void rt_make_checks(rt_plan *plan) {
    tc_arena *arena = plan->launcher.arena;
    plan->checks = TC_NEW(arena, rt_checks);
    plan->checks->units = TC_NEW_ARRAY(arena, unit, (size_t)plan->n_storages + 1);
    plan->checks->born = TC_NEW_ARRAY(arena, uint32_t, (size_t)plan->n_launches + 1);
    plan->checks->dead = TC_NEW_ARRAY(arena, uint32_t, (size_t)plan->n_launches + 1);
}

/* --- lives ------------------------------------------------------------------------------------ */

static void find_units(const rt_plan *plan) {
    unit *units = plan->checks->units;
    for (uint32_t i = 0; i < plan->n_storages; i++)
        units[i] = (unit){.first = UINT32_MAX, .bytes = plan->storages[i].bytes};
    for (uint32_t i = 0; i < plan->n_storages; i++) {
        const tc_plan_buffer *b = &plan->problem.buffers[i];
        unit *u = &units[rt_storage_root(plan, &plan->storages[i])->root];
        if (plan->storages[i].home != RT_ARENA)
            continue;
        u->first = b->first < u->first ? b->first : u->first;
        u->last = b->last > u->last ? b->last : u->last;
    }
}

/* The canary follows the larger of two that lie over each other. */
static void find_heirs(const rt_plan *plan) {
    unit *units = plan->checks->units;
    for (uint32_t i = 0; i < plan->problem.n_choices; i++) {
        const tc_plan_choice *c = &plan->problem.choices[i];
        unit *from = &units[rt_storage_root(plan, &plan->storages[c->operand])->root];
        unit *to = &units[rt_storage_root(plan, &plan->storages[c->result])->root];
        if (!c->taken || from->last != c->op || to->first != c->op)
            continue;
        from->inherited = to->over = true;
        to->bytes = from->bytes > to->bytes ? from->bytes : to->bytes;
    }
}

static void chain_units(const rt_plan *plan) {
    rt_checks *c = plan->checks;
    for (uint32_t i = 0; i <= plan->n_launches; i++)
        c->born[i] = c->dead[i] = TC_PLAN_NONE;
    for (uint32_t i = 0; i < plan->n_storages; i++) {
        unit *u = &c->units[i];
        if (u->first > u->last)
            continue;
        u->next_born = c->born[u->first];
        u->next_dead = c->dead[u->last];
        c->born[u->first] = c->dead[u->last] = i;
    }
}

void rt_begin_checks(const rt_plan *plan) {
    find_units(plan);
    find_heirs(plan);
    chain_units(plan);
    memset(plan->shared->memory, FREE, plan->packing.bytes);
}

/* --- bytes ------------------------------------------------------------------------------------ */

static unsigned char *place_of(const rt_plan *plan, uint32_t root) {
    return plan->shared->memory + plan->problem.buffers[root].offset;
}

static size_t room_of(const rt_plan *plan, uint32_t root) { return (size_t)plan->problem.buffers[root].bytes; }

/* The first of bytes from `from` to `to` that is another; `to`: there is none. */
static size_t find_other(const unsigned char *bytes, size_t from, size_t to, unsigned char expected) {
    if (from < to && bytes[from] == expected && memcmp(bytes + from, bytes + from + 1, to - from - 1) == 0)
        return to;
    while (from < to && bytes[from] == expected)
        from++;
    return from;
}

/* The arena's root that the value lies in, or TC_PLAN_NONE. */
static uint32_t root_of(const rt_plan *plan, const tc_value *value) {
    const rt_storage *s = rt_plan_root(plan, value);
    return s && s->home == RT_ARENA ? s->root : TC_PLAN_NONE;
}

static uint32_t operand_root(const rt_plan *plan, const rt_launch *launch, uint32_t k) {
    tc_read read = rt_in(launch, k) ? tc_operand_read(launch->node, k) : TC_READ_NOTHING;
    bool touches = read == TC_READ_ELEMENTS || read == TC_READ_VIEW;
    return touches ? root_of(plan, tc_input(launch->node, k)) : TC_PLAN_NONE;
}

static uint32_t result_root(const rt_plan *plan, const rt_launch *launch, uint32_t k) {
    return rt_out(launch, k) ? root_of(plan, launch->node->outputs[k]) : TC_PLAN_NONE;
}

static const char *buffer_name(tc_ctx *ctx, const rt_plan *plan, uint32_t root) {
    return tc_quote(ctx, plan->storages[root].value->name);
}

static tc_status check_canary(tc_ctx *ctx, const rt_plan *plan, const tc_node *node, uint32_t root, bool before) {
    size_t bytes = plan->checks->units[root].bytes, room = room_of(plan, root);
    size_t other = find_other(place_of(plan, root), bytes, room, CANARY);
    if (other == room)
        return TC_OK;
    return tc_error(ctx, TC_BUG, node, "byte %zu after the %zu bytes of buffer '%s' was written %s", other - bytes,
                    bytes, buffer_name(ctx, plan, root), before ? "before this node ran" : "by this node");
}

/* --- before a launch -------------------------------------------------------------------------- */

static tc_status check_live(tc_ctx *ctx, const rt_plan *plan, uint32_t at, const tc_value *value, uint32_t root,
                            const char *does) {
    const unit *u = &plan->checks->units[root];
    if (u->first <= at && at <= u->last)
        return TC_OK;
    const char *from = u->first < plan->n_launches ? tc_node_label(plan->launches[u->first].node) : "nowhere";
    const char *to = u->last < plan->n_launches ? tc_node_label(plan->launches[u->last].node) : "the end";
    return tc_error(ctx, TC_BUG, plan->launches[at].node,
                    "%s '%s' while buffer '%s' is free: it is live from node '%s' to node '%s'", does,
                    tc_quote(ctx, value->name), buffer_name(ctx, plan, root), tc_quote(ctx, from), tc_quote(ctx, to));
}

static tc_status check_operands(tc_ctx *ctx, const rt_plan *plan, uint32_t at) {
    const rt_launch *launch = &plan->launches[at];
    for (uint32_t k = 0; k < launch->n_in; k++) {
        uint32_t root = operand_root(plan, launch, k);
        if (root == TC_PLAN_NONE)
            continue;
        TC_TRY(check_live(ctx, plan, at, tc_input(launch->node, k), root, "reads"));
        TC_TRY(check_canary(ctx, plan, launch->node, root, true));
    }
    return TC_OK;
}

/* Bytes that become live were free, all of them: otherwise another buffer lives there, or a kernel wrote out of
 * bounds. */
static tc_status bear(tc_ctx *ctx, const rt_plan *plan, uint32_t at) {
    const rt_checks *c = plan->checks;
    for (uint32_t i = c->born[at]; i != TC_PLAN_NONE; i = c->units[i].next_born) {
        const unit *u = &c->units[i];
        size_t room = room_of(plan, i), other = u->over ? room : find_other(place_of(plan, i), 0, room, FREE);
        if (other < room)
            return tc_error(ctx, TC_BUG, plan->launches[at].node,
                            "byte %zu of buffer '%s', which begins to live here, was written while it was free", other,
                            buffer_name(ctx, plan, i));
        memset(place_of(plan, i) + u->bytes, CANARY, room - u->bytes);
    }
    return TC_OK;
}

static tc_status check_results(tc_ctx *ctx, const rt_plan *plan, uint32_t at) {
    const rt_launch *launch = &plan->launches[at];
    for (uint32_t k = 0; k < launch->n_out; k++) {
        uint32_t root = result_root(plan, launch, k);
        if (root != TC_PLAN_NONE)
            TC_TRY(check_live(ctx, plan, at, launch->node->outputs[k], root, "writes"));
    }
    return TC_OK;
}

static tc_status begin_workspace(tc_ctx *ctx, const rt_plan *plan, uint32_t at) {
    const rt_launch *launch = &plan->launches[at];
    size_t bytes = launch->workspace_bytes, room = (size_t)plan->problem.ops[at].workspace;
    unsigned char *workspace = plan->shared->memory + plan->problem.ops[at].offset;
    size_t other = find_other(workspace, 0, room, FREE);
    if (other < room)
        return tc_error(ctx, TC_BUG, launch->node, "byte %zu of its workspace was written while it was free", other);
    memset(workspace + bytes, CANARY, room - bytes);
    return TC_OK;
}

/* --- after a launch --------------------------------------------------------------------------- */

static tc_status check_written(tc_ctx *ctx, const rt_plan *plan, uint32_t at) {
    const rt_launch *launch = &plan->launches[at];
    for (uint32_t k = 0; k < launch->n_in + launch->n_out; k++) {
        bool operand = k < launch->n_in;
        uint32_t root = operand ? operand_root(plan, launch, k) : result_root(plan, launch, k - launch->n_in);
        bool gone = operand && root != TC_PLAN_NONE && plan->checks->units[root].inherited &&
                    plan->checks->units[root].last == at;
        if (root != TC_PLAN_NONE && !gone)
            TC_TRY(check_canary(ctx, plan, launch->node, root, false));
    }
    return TC_OK;
}

static tc_status end_workspace(tc_ctx *ctx, const rt_plan *plan, uint32_t at) {
    const rt_launch *launch = &plan->launches[at];
    size_t bytes = launch->workspace_bytes, room = (size_t)plan->problem.ops[at].workspace;
    unsigned char *workspace = plan->shared->memory + plan->problem.ops[at].offset;
    size_t other = find_other(workspace, bytes, room, CANARY);
    if (other < room)
        return tc_error(ctx, TC_BUG, launch->node, "byte %zu after the %zu bytes of its workspace was written",
                        other - bytes, bytes);
    memset(workspace, FREE, room);
    return TC_OK;
}

static void bury(const rt_plan *plan, uint32_t at) {
    const rt_checks *c = plan->checks;
    for (uint32_t i = c->dead[at]; i != TC_PLAN_NONE; i = c->units[i].next_dead)
        if (!c->units[i].inherited)
            memset(place_of(plan, i), FREE, room_of(plan, i));
}

/* Buffers that live to the end. */
static tc_status check_rest(tc_ctx *ctx, const rt_plan *plan) {
    const rt_checks *c = plan->checks;
    for (uint32_t i = c->dead[plan->n_launches]; i != TC_PLAN_NONE; i = c->units[i].next_dead) {
        size_t bytes = c->units[i].bytes, room = room_of(plan, i);
        size_t other = find_other(place_of(plan, i), bytes, room, CANARY);
        if (other < room)
            return tc_error(ctx, TC_BUG, NULL, "byte %zu after the %zu bytes of buffer '%s' was written by some node",
                            other - bytes, bytes, buffer_name(ctx, plan, i));
    }
    return TC_OK;
}

tc_status rt_check_step(tc_ctx *ctx, const rt_plan *plan, uint32_t at) {
    if (at > 0) {
        TC_TRY(check_written(ctx, plan, at - 1));
        TC_TRY(end_workspace(ctx, plan, at - 1));
        bury(plan, at - 1);
    }
    if (at == plan->n_launches)
        return check_rest(ctx, plan);
    TC_TRY(check_operands(ctx, plan, at));
    TC_TRY(bear(ctx, plan, at));
    TC_TRY(check_results(ctx, plan, at));
    return begin_workspace(ctx, plan, at);
}
