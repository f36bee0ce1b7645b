/* adapt.h: adapters beside products: y = x W + b becomes y + s dropout(x) A^T B^T, where W is frozen and A [rank, in]
 * and B [out, rank] are trained. LoRA: s = alpha / rank (Hu et al., ICLR 2022); rsLoRA: s = alpha / sqrt(rank)
 * (Kalajdzievski 2023); DoRA: each column of W + s B A has a trained norm `magnitude` [out], and the norm that it is
 * divided by passes no gradient (Liu et al., ICML 2024). Numbers and names are those of PEFT. */
#ifndef TC_ADAPT_H
#define TC_ADAPT_H
#include "passes/pass/pass.h"

/* The settings of one --lora=RANK[,alpha=A][,dropout=P][,dora][,rslora]:GLOB, or of an adapter's file. */
typedef struct tc_lora {
    int64_t rank;
    double alpha, dropout;
    bool dora, rslora;
    const char *glob; /* of the weight's name, or that of its module, in PyTorch or in the file; NULL: any */
} tc_lora;

/* Reads the text of one --lora; TC_USAGE with a message. */
tc_status tc_lora_parse(tc_ctx *ctx, const char *text, tc_lora *out_lora);
/* The factor s. */
double tc_lora_scale(const tc_lora *lora);

/* An adapter as a file has it. The caller's memory, for as long as the compilation lasts. */
typedef struct tc_adapter_part {
    const char *module;                 /* "model.layers.0.self_attn.q_proj", in PyTorch's or in the file's names */
    const tc_tensor *a, *b, *magnitude; /* [rank, in], [out, rank], [out]; magnitude NULL: no DoRA */
    double alpha;                       /* alpha_pattern may set it for a module alone */
} tc_adapter_part;
typedef struct tc_adapter_saved {
    const char *name; /* of a parameter of modules_to_save: "score.weight" */
    const tc_tensor *tensor;
} tc_adapter_saved;
typedef struct tc_adapter {
    const char *path;
    tc_lora settings; /* for all parts, but for rank, which a part's tensors show, and alpha */
    const tc_adapter_part *parts;
    size_t n;
    const tc_adapter_saved *saved; /* weights that are trained whole */
    size_t n_saved;
} tc_adapter;

/* A weight that has an adapter, by names of the graph: an initializer is called "<module>.lora_A.weight",
 * "<module>.lora_B.weight", "<module>.lora_magnitude_vector", as in PEFT's files after "base_model.model.". A module
 * that the file stores several times has an entry for each copy, with the same three names. In the context's arena. */
typedef struct tc_adapted {
    const char *module;
    const char *weight;            /* the frozen initializer */
    const char *a, *b, *magnitude; /* magnitude NULL: no DoRA */
    bool turned;                   /* the initializer is [in, out], PyTorch's Linear is [out, in] */
    tc_lora lora;                  /* its settings; glob NULL */
} tc_adapted;

/* Gives the graph's weight of that name the elements that the adapter has saved; `summary`: of a compilation of the
 * graph's model. TC_BAD_INPUT where there is no such weight, or one of another shape. saved_modules.c */
tc_status tc_put_saved(tc_ctx *ctx, const tc_summary *summary, const tc_adapter *adapter, const tc_adapter_saved *saved,
                       tc_graph *graph, tc_value **out_value);

/* TC_UNSUPPORTED where a weight cannot take its adapter: another node than a product reads it, or two modules have it.
 */
tc_status tc_check_merge(tc_ctx *ctx, const tc_model *model, const tc_adapted *adapted, size_t n);
typedef struct tc_lora_tensors {
    const tc_tensor *a, *b, *magnitude; /* magnitude NULL: no DoRA */
} tc_lora_tensors;
/* Makes the weight of `model`, by its name there, the one that has the adapter in it, after tc_check_merge.
 * TC_UNSUPPORTED where there is none of that name; TC_BAD_INPUT and TC_IO where its elements cannot be read. merge.c */
tc_status tc_merge_adapter(tc_ctx *ctx, tc_model *model, const tc_adapted *adapted, const tc_lora_tensors *tensors);
#endif
