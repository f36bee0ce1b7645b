/* adapter_file.h: adapters in files, for --lora-from: PEFT's folders (adapter_config.json, adapter_model.safetensors)
 * and ONNX Runtime's .onnx_adapter files. */
#ifndef TC_ADAPTER_FILE_H
#define TC_ADAPTER_FILE_H
#include "passes/adapt/adapt.h"
#include "runtime/files/files.h"

#define TC_ADAPTER_CONFIG "adapter_config.json"
#define TC_ADAPTER_TENSORS "adapter_model.safetensors"
#define TC_ADAPTER_PREFIX "base_model.model." /* before the names of modules in PEFT's files */
#define TC_ADAPTER_END ".onnx_adapter"        /* of a path: ONNX Runtime's format */

typedef struct tc_adapter_file {
    tc_adapter adapter; /* arrays and names in the context's arena */
    rt_weights weights; /* owns the elements */
} tc_adapter_file;

/* Reads options->lora_from (NULL: does nothing) and lets options->adapter be what it says. The settings are those of
 * PEFT's adapter_config.json; an .onnx_adapter has none: they are those of the only --lora, which is taken off then.
 * TC_USAGE where --lora is there too much or lacks; TC_BAD_INPUT and TC_UNSUPPORTED name file and tensor, or entry.
 * `out` may not be moved before it is closed; on failure there is nothing to close. */
tc_status tc_adapter_open(tc_ctx *ctx, tc_options *options, tc_adapter_file *out);
void tc_adapter_close(tc_adapter_file *file); /* of one that was not read, too */

/* The settings in PEFT's adapter_config.json, and the alpha of each part, whose modules are known. Each saved weight is
 * of a module of "modules_to_save", or is refused. adapter_config.c */
tc_status tc_adapter_config(tc_ctx *ctx, const char *path, tc_adapter *adapter, tc_adapter_part *parts);
/* TC_UNSUPPORTED: the tensor belongs to no adapter that is trained here. */
tc_status tc_adapter_refuse(tc_ctx *ctx, const tc_tensor *tensor);
#endif
