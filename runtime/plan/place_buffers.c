/* place_buffers.c: from launches and storages to a problem of compiler/pack, and from its solution to offsets in the
 * arena. Lives follow the order of the launches: the compiler's decisions about memory are kept. */
#include "compiler/memory/memory.h"
#include "plan.h"
#include <stdlib.h>
#include <string.h>

static uint32_t index_of(const rt_plan *plan, const rt_storage *s) { return (uint32_t)(s - plan->storages); }

static void add_buffers(rt_plan *plan) {
    tc_plan_problem *p = &plan->problem;
    for (uint32_t i = 0; i < plan->n_storages; i++) {
        const rt_storage *s = &plan->storages[i];
        bool ours = s->home == RT_ARENA;
        p->buffers[i] = (tc_plan_buffer){.bytes = ours ? s->bytes : 0,
                                         .align = RT_ALIGN,
                                         .first = ours ? s->launch : 0,
                                         .last = ours ? s->launch : 0};
    }
    for (uint32_t i = 0; i < plan->n_launches; i++)
        p->ops[i].workspace = plan->launches[i].workspace_bytes;
}

static void set_roots(rt_plan *plan) {
    for (uint32_t i = 0; i < plan->n_storages; i++) {
        const rt_storage *s = &plan->storages[i];
        plan->problem.buffers[i].root = s->home == RT_ARENA && s->root != i ? s->root : TC_PLAN_NONE;
        plan->problem.buffers[i].at = s->at;
    }
}

static void find_lives(rt_plan *plan) {
    tc_plan_buffer *buffers = plan->problem.buffers;
    for (uint32_t i = 0; i < plan->n_launches; i++) {
        const tc_node *node = plan->launches[i].node;
        for (uint32_t k = 0; k < node->n_inputs; k++) {
            tc_read read = tc_operand_read(node, k);
            bool touches = read == TC_READ_ELEMENTS || read == TC_READ_VIEW; /* views may be copied after all */
            const rt_storage *s = touches ? rt_plan_storage(plan, tc_input(node, k)) : NULL;
            if (s && s->home == RT_ARENA)
                buffers[index_of(plan, s)].last = i;
        }
    }
    for (uint32_t i = 0; i < plan->graph->n_outputs; i++) {
        const rt_storage *s = rt_plan_storage(plan, plan->graph->outputs[i]);
        if (s->home == RT_ARENA)
            buffers[index_of(plan, s)].last = plan->n_launches;
    }
}

/* --- results over operands -------------------------------------------------------------------- */

/* Whether only operands that the result may lie over read the bytes of operand k. Whether it dies there is the packer's
 * question. */
static bool is_read_alone(const rt_plan *plan, const rt_launch *launch, uint32_t result, uint32_t k) {
    const rt_storage *root = rt_plan_root(plan, tc_input(launch->node, k));
    return root->home == RT_ARENA && rt_only_marked_read(plan, launch, result, root);
}

static void offer(rt_plan *plan, uint32_t at, uint32_t result, size_t *cap) {
    const rt_launch *launch = &plan->launches[at];
    tc_plan_problem *p = &plan->problem;
    uint32_t to = index_of(plan, rt_plan_storage(plan, launch->node->outputs[result]));
    uint32_t k = launch->over ? launch->over[result] : 0;
    for (uint32_t end = launch->over ? k + 1 : 64; k < end && k < launch->n_in; k++) {
        if (!rt_may_lie_over(launch, result, k) || !rt_in(launch, k) || !is_read_alone(plan, launch, result, k))
            continue;
        uint32_t from = index_of(plan, rt_plan_storage(plan, tc_input(launch->node, k)));
        p->choices = tc_arena_grow(plan->launcher.arena, p->choices, sizeof *p->choices, cap, (size_t)p->n_choices + 1);
        p->choices[p->n_choices++] = (tc_plan_choice){at, to, from, false};
    }
}

/* The choices offered depend on the roots. */
static void offer_all(rt_plan *plan) {
    size_t cap = plan->cap_choices;
    plan->problem.n_choices = 0;
    for (uint32_t at = 0; at < plan->n_launches; at++) {
        const rt_launch *launch = &plan->launches[at];
        const uint32_t results = launch->view_of >= 0 ? 0 : launch->over ? launch->n_out : RT_INPLACE;
        for (uint32_t result = 0; result < results; result++)
            if ((launch->over || launch->inplace[result] != 0) && rt_out(launch, result) &&
                rt_plan_storage(plan, launch->node->outputs[result])->home == RT_ARENA)
                offer(plan, at, result, &cap);
    }
    plan->cap_choices = cap;
}

/* --- parts of a whole ------------------------------------------------------------------------- */

static rt_storage *part_storage(const rt_plan *plan, const rt_launch *launch, uint32_t k) {
    const tc_value *value = launch->parts == RT_RESULTS ? launch->node->outputs[k] : tc_input(launch->node, k);
    bool is_there = launch->parts == RT_RESULTS ? rt_out(launch, k) != NULL : rt_in(launch, k) != NULL;
    return is_there ? rt_plan_storage(plan, value) : NULL;
}

static rt_storage *whole_storage(const rt_plan *plan, const rt_launch *launch) {
    const tc_node *node = launch->node;
    return rt_plan_storage(plan, launch->parts == RT_RESULTS ? tc_input(node, 0) : node->outputs[0]);
}

/* A part may lie in the whole if it is the arena's and in nothing else. Results of a kernel are aligned. The mean over
 * ranks replaces the newest elements, and nothing that was there before. */
static bool may_lie_in(const rt_plan *plan, const rt_launch *launch, const rt_storage *part, size_t at) {
    const rt_storage *whole = whole_storage(plan, launch);
    if (launch->parts == RT_RESULTS ? part->averaged : rt_storage_root(plan, whole)->averaged)
        return false;
    return part->home == RT_ARENA && part->root == index_of(plan, part) && part->bytes > 0 &&
           (launch->parts == RT_RESULTS || at % RT_ALIGN == 0) && rt_storage_root(plan, whole) != part;
}

/* Puts the launch's parts in their whole, or takes them out again. Returns how many there are. */
static uint32_t set_parts(rt_plan *plan, const rt_launch *launch, bool in) {
    uint32_t n = launch->parts == RT_RESULTS ? launch->n_out : launch->n_in, set = 0;
    uint32_t whole = index_of(plan, whole_storage(plan, launch));
    bool view = launch->view_of >= 0 || launch->constant;
    if (view || rt_storage_root(plan, &plan->storages[whole])->home != RT_ARENA)
        return 0;
    for (uint32_t k = 0; k < n; k++) {
        rt_storage *part = part_storage(plan, launch, k);
        if (!part || (in ? !may_lie_in(plan, launch, part, launch->part_at[k]) : part->root != whole))
            continue;
        part->root = in ? whole : index_of(plan, part);
        part->at = in ? launch->part_at[k] : 0;
        set++;
    }
    return set;
}

/* The most bytes live at one time with the parts as they are. */
static tc_plan_status measure(rt_plan *plan, uint64_t *out_bytes) {
    tc_plan_live live = {0};
    set_roots(plan);
    offer_all(plan);
    tc_plan_status status = tc_plan_take_choices(&plan->problem);
    if (status == TC_PLAN_OK)
        status = tc_plan_simulate(&plan->problem, &live);
    *out_bytes = live.peak_bytes;
    return status;
}

static uint32_t set_all_parts(rt_plan *plan, bool in) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->n_launches; i++)
        n += plan->launches[i].parts != RT_NO_PARTS && set_parts(plan, &plan->launches[i], in) > 0;
    return n;
}

#define MOST_VISITS 20000000 /* of storages, to look at launches one by one */

/* Parts lie in their whole where that does not raise the live bytes: the whole lives as long as any of them. Returns
 * with the roots set in the problem, and choices offered. */
static tc_plan_status choose_parts(rt_plan *plan, uint32_t *out_n) {
    uint64_t separate, all, one;
    tc_plan_status status = measure(plan, &separate);
    *out_n = status == TC_PLAN_OK ? set_all_parts(plan, true) : 0;
    if (*out_n == 0)
        return status;
    status = measure(plan, &all);
    if (status != TC_PLAN_OK || all <= separate)
        return status;
    set_all_parts(plan, false);
    bool one_by_one = (uint64_t)*out_n * ((uint64_t)plan->n_storages + plan->n_launches) <= MOST_VISITS;
    *out_n = 0;
    for (uint32_t i = 0; one_by_one && i < plan->n_launches; i++) {
        const rt_launch *launch = &plan->launches[i];
        if (launch->parts == RT_NO_PARTS || set_parts(plan, launch, true) == 0)
            continue;
        status = measure(plan, &one);
        if (status != TC_PLAN_OK)
            return status;
        if (one <= separate)
            ++*out_n;
        else
            set_parts(plan, launch, false);
    }
    return measure(plan, &one);
}

/* --- the whole -------------------------------------------------------------------------------- */

static void *copy_of(tc_arena *arena, const void *items, size_t n, size_t size) {
    void *copy = tc_arena_alloc(arena, n + 1, size);
    return n > 0 ? memcpy(copy, items, n * size) : copy;
}

/* With the parts that were chosen, and, where that is not near the bound, without any: the better one stays. */
static tc_plan_status pack(rt_plan *plan) {
    tc_plan_problem *p = &plan->problem;
    tc_arena *arena = plan->launcher.arena;
    uint32_t n_parts;
    tc_plan_packing other;
    tc_plan_status status = choose_parts(plan, &n_parts);
    if (status == TC_PLAN_OK)
        status = tc_plan_pack(p, 0, &plan->packing);
    if (status != TC_PLAN_OK || n_parts == 0 ||
        plan->packing.bytes <= plan->packing.live.peak_bytes + plan->packing.live.peak_bytes / 1000)
        return status;
    tc_plan_problem packed = *p;
    packed.ops = copy_of(arena, p->ops, p->n_ops, sizeof *p->ops);
    packed.buffers = copy_of(arena, p->buffers, p->n_buffers, sizeof *p->buffers);
    packed.choices = copy_of(arena, p->choices, p->n_choices, sizeof *p->choices);
    rt_storage *storages = copy_of(arena, plan->storages, plan->n_storages, sizeof *storages);
    set_all_parts(plan, false);
    set_roots(plan);
    offer_all(plan);
    status = tc_plan_pack(p, 0, &other);
    other.work += plan->packing.work;
    if (status == TC_PLAN_OK && other.bytes < plan->packing.bytes) {
        plan->packing = other;
        return status;
    }
    plan->packing.work = other.work;
    *p = packed;
    plan->cap_choices = packed.n_choices;
    for (uint32_t i = 0; i < plan->n_storages; i++) {
        plan->storages[i].root = storages[i].root;
        plan->storages[i].at = storages[i].at;
    }
    return status;
}

/* Room for canaries, in a plan that otherwise equals the one without: the same parts, and the same results over
 * operands. */
static tc_plan_status pack_with_canaries(rt_plan *plan) {
    tc_plan_problem *p = &plan->problem;
    uint32_t n = p->n_choices;
    p->n_choices = 0;
    for (uint32_t i = 0; i < n; i++)
        if (p->choices[i].taken)
            p->choices[p->n_choices++] = p->choices[i];
    for (uint32_t i = 0; i < plan->n_storages; i++)
        if (plan->storages[i].home == RT_ARENA && p->buffers[i].root == TC_PLAN_NONE)
            p->buffers[i].bytes = rt_aligned(plan->storages[i].bytes) + RT_ALIGN;
    for (uint32_t i = 0; i < plan->n_launches; i++)
        if (p->ops[i].workspace > 0)
            p->ops[i].workspace = rt_aligned(plan->launches[i].workspace_bytes) + RT_ALIGN;
    rt_make_checks(plan);
    return tc_plan_pack(p, 0, &plan->packing);
}

tc_status rt_place_buffers(tc_ctx *ctx, rt_plan *plan) {
    tc_arena *arena = plan->launcher.arena;
    plan->problem = (tc_plan_problem){
        .ops = TC_NEW_ARRAY(arena, tc_plan_op, (size_t)plan->n_launches + 1),
        .n_ops = plan->n_launches,
        .buffers = TC_NEW_ARRAY(arena, tc_plan_buffer, (size_t)plan->n_storages + 1),
        .n_buffers = plan->n_storages,
        .align = RT_ALIGN,
    };
    add_buffers(plan);
    find_lives(plan);
    tc_plan_status status = pack(plan);
    if (status == TC_PLAN_OK && plan->shared->check_memory)
        status = pack_with_canaries(plan);
    switch (status) {
    case TC_PLAN_OK: return TC_OK;
    case TC_PLAN_MEMORY:
        tc_out_of_memory(plan->n_launches * sizeof(tc_plan_op)); /* an error would read as an unknown size */
    case TC_PLAN_TOO_BIG:
        return tc_error(ctx, TC_LIMIT, NULL, "the buffers of this graph need more bytes than can be addressed");
    case TC_PLAN_INVALID: break;
    }
    return tc_error(ctx, TC_BUG, NULL, "the lives of this graph's buffers make no sense");
}
