/* peft_names.h: which weights PEFT's adapters are, by the structure of names. PEFT puts a module's own weights under
 * "base_layer" and its adapters' beside that ("q.base_layer.weight", "q.lora_A.default.weight"), a copy that is trained
 * beside "original_module" ("head.modules_to_save.default.weight"), and its model, which is frozen, under "base_model",
 * with prompts beside it ("prompt_encoder.default.embedding.weight"). */
#ifndef TC_PEFT_NAMES_H
#define TC_PEFT_NAMES_H
#include "passes/pass/pass.h"

typedef enum tc_peft_kind {
    TC_PEFT_OUTSIDE, /* in no model of PEFT's */
    TC_PEFT_ALIKE,   /* likewise, with an adapter's name */
    TC_PEFT_ADAPTER, /* trained */
    TC_PEFT_BASE,    /* frozen */
    TC_PEFT_AROUND,  /* beside adapters that stand in no base_model: the model that was given to PEFT may have it */
    TC_PEFT_UNSURE,  /* in a model of PEFT's, under a name that no method of peft_names.def has */
} tc_peft_kind;

/* What the names of a file show. */
typedef struct tc_peft tc_peft;

/* Reads the names of parameters, PyTorch's where the file has them. `model` is as in the file. */
void tc_peft_read(tc_pass_env *env, const tc_model *model);

/* The kind of an initializer of that name; `learned`: whether the file says that it is a parameter. */
tc_peft_kind tc_peft_kind_of(const tc_pass_env *env, const char *initializer, tc_learned learned);

/* The selected weights by kinds, those that options of the command line did not ask for; names of initializers. */
typedef struct tc_peft_found {
    const char **names[TC_PEFT_UNSURE + 1]; /* of BASE those that are frozen, of others those that are trained */
    size_t n[TC_PEFT_UNSURE + 1], cap[TC_PEFT_UNSURE + 1];
} tc_peft_found;
void tc_peft_add(tc_arena *arena, tc_peft_found *found, tc_peft_kind kind, const char *name);

/* Tells by which names adapters are known; TC_USAGE with the choices if the names leave open what is trained. */
tc_status tc_peft_settle(tc_pass_env *env, const tc_peft_found *found);
#endif
