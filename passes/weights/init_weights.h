/* init_weights.h: numbers of weights that passes make, the same on every machine and in every compilation. */
#ifndef TC_INIT_WEIGHTS_H
#define TC_INIT_WEIGHTS_H
#include "compiler/ir/ir.h"

/* A tensor of a float type and that name, uniform in [-bound, bound). Seed, name and place of an element alone decide
 * its number. With bound 1 / sqrt(inputs) it is what PyTorch's nn.Linear begins with: kaiming_uniform_ with
 * a = sqrt(5) for its weight, and the same bound for its bias. In the model's arena. */
tc_tensor *tc_uniform_weight(tc_model *model, tc_dtype dtype, int rank, const int64_t *dims, double bound, int64_t seed,
                             const char *name);
#endif
