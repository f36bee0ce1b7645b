/* launch_product.c: a product with ops around it (fuse_products.h) to the kernel of products. */
#include "runtime/fuse/fuse.h"
#include "launch_util.h"

static void run_fused(tk_queue *q, const rt_launch *launch) {
    const rt_fused_product *p = launch->params;
    tk_product product = p->product;
    product.bias = p->has_bias ? launch->in[2].data : NULL;
    product.add = p->has_add ? launch->in[2].data : NULL;
    product.beta = p->has_add ? 1 : 0;
    product.sums = product.sums_of ? launch->out[1].data : NULL;
    launch->kernels->product_run(q, launch->out[0].data, launch->in[0].data, launch->in[1].data, &product,
                                 launch->out[0].dtype, launch->workspace);
}

tc_status rt_launch_product(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    rt_fused_product *p = launcher->products ? tc_map_get_ptr(launcher->products, node) : NULL;
    if (!p)
        return rt_no_kernel(launcher, node, launch);
    launch->workspace_bytes = launcher->kernels->product_workspace(&p->product, launch->out[0].dtype, launcher->slots);
    launch->params = p;
    launch->run = run_fused;
    launch->inplace[0] = p->has_add ? UINT64_C(1) << 2 : 0;
    return TC_OK;
}
