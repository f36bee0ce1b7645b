/* checkpoint.h: the weights in a checkpoint of ONNX Runtime's training tools, which its training graphs take as inputs:
 * one flatbuffer, with "ODTC" at byte 4; and those in its .onnx_adapter files, with "TORT" there, which take the place
 * of a graph's inputs of the same names (RunOptions.add_active_adapter). */
#ifndef TC_CHECKPOINT_H
#define TC_CHECKPOINT_H
#include "compiler/ir/ir.h"

#define TC_ADAPTER_MARK "TORT"
bool tc_is_checkpoint(const void *bytes, size_t size);
bool tc_is_adapter(const void *bytes, size_t size);
/* Of either kind: all parameters, trained and frozen ones, in the order of the file; optimizer states are left out.
 * Tensors and dims are in the context's arena. Names and elements are borrowed from `bytes`, where elements lie at any
 * address. Time and memory are linear in `size`, whatever the bytes are. TC_BAD_INPUT names the malformed tensor and
 * the byte. TC_UNSUPPORTED: another version, strings, or elements outside the file. TC_LIMIT: names and ranks beyond
 * those of models. */
tc_status tc_checkpoint_read(tc_ctx *ctx, const void *bytes, size_t size, tc_tensor **out_tensors, size_t *out_n);
/* Writes an adapter, of version 1 and for version 1 of a model, from tensors with names and elements. It appears whole
 * or not at all. TC_IO where the system says no, TC_LIMIT where it would take 2 GiB. adapter_write.c */
tc_status tc_adapter_write(tc_ctx *ctx, const char *path, const tc_tensor *tensors, size_t n);
#endif
