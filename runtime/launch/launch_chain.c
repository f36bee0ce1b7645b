/* launch_chain.c: a chain of elementwise nodes (fuse_chains.h) to the kernel of kernels/elementwise/chain.h. */
#include "launch_draw.h"
#include "launch_util.h"

typedef struct chain_params {
    const rt_chain *chain;
} chain_params;

static void *result_of(const rt_launch *launch, int index) {
    return index < 0 ? NULL : rt_data(rt_out(launch, (uint32_t)index));
}

tk_chain rt_chain_of(const rt_launch *launch, const rt_chain *chain, const void *first) {
    tk_chain c = {.first = first, .n = launch->out[0].count, .n_links = chain->n_links, .dtype = launch->out[0].dtype};
    for (int i = 0; i < chain->n_links; i++) {
        const rt_link *from = &chain->links[i];
        tk_link *to = &c.links[i];
        *to = from->link;
        to->operand = from->operand < 0 ? NULL : launch->in[from->operand].data;
        to->ratio = rt_ratio(from->ratio < 0 ? NULL : &launch->in[from->ratio], 0);
        to->seed.pair = from->seed < 0 ? NULL : launch->in[from->seed].data;
        to->store = result_of(launch, from->result);
        to->mask = result_of(launch, from->mask);
    }
    return c;
}

static bool is_number(const rt_launch *launch, int index) {
    return index < 0 || (tk_is_float(launch->in[index].dtype) && launch->in[index].count == 1);
}

tc_status rt_expect_chain(rt_launcher *launcher, const tc_node *node, const rt_launch *launch, const rt_chain *chain) {
    for (int i = 0; i < chain->n_links; i++)
        TC_TRY(rt_expect(launcher, node, is_number(launch, chain->links[i].ratio)));
    return TC_OK;
}

uint64_t rt_chain_inplace(const rt_launch *launch, const rt_chain *chain, int at) {
    uint64_t bits = 1;
    for (int i = 0; i <= at; i++)
        if (chain->links[i].operand >= 0 && chain->links[i].operand < 64)
            bits |= UINT64_C(1) << chain->links[i].operand;
    return bits & rt_inplace(launch, launch->n_in < 64 ? launch->n_in : 64);
}

static void run_chain(tk_queue *q, const rt_launch *launch) {
    const tk_chain c = rt_chain_of(launch, ((const chain_params *)launch->params)->chain, launch->in[0].data);
    launch->kernels->chain_run(q, &c);
}

tc_status rt_launch_chain(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    chain_params *p = RT_PARAMS(launcher, chain_params);
    const rt_chains *chains = launcher->chains ? tc_map_get_ptr(launcher->chains, node) : NULL;
    if (!chains)
        return rt_no_kernel(launcher, node, launch);
    p->chain = &chains->before;
    TC_TRY(rt_expect_chain(launcher, node, launch, p->chain));
    launch->params = p;
    launch->run = run_chain;
    for (int i = 0; i < p->chain->n_links; i++) {
        int result = p->chain->links[i].result;
        if (result >= 0 && result < RT_INPLACE)
            launch->inplace[result] = rt_chain_inplace(launch, p->chain, i);
    }
    return TC_OK;
}
