#!/usr/bin/env python3
"""Exports the structure of BERT-Large in training mode, dropout on, with the loss of its masked language model: a file
without its 1.3 GB of weights, which names the file where they would be.

usage: export_large.py OUT.onnx [LAYERS]      default: 24 layers
Inputs are ids and labels, [batch, 512], with the batch left open. tempoc reports, plans and compiles it without the
weights; ./demo and the tables of README.md show it. Needs what export.py needs, and 8 GB of memory. Not needed to
build, test or run Tempo.
"""
import sys
import warnings

import onnx
import onnx_ir
import torch
import transformers as tf

from export import Task

SEQUENCE, WEIGHTS = 512, "weights.bin"


def build(layers):
    config = tf.BertConfig(hidden_size=1024, num_hidden_layers=layers, num_attention_heads=16, intermediate_size=4096,
                           attn_implementation="eager")
    model = tf.BertForMaskedLM(config)
    torch.manual_seed(7)
    with torch.no_grad():  # no two parameters are equal: the exporter merges none
        for p in model.parameters():
            p.normal_()
    return Task(model, ["input_ids", "labels"]).train()


def without_weights(model):
    """Lets each parameter lie in a file that is not there; constants of the graph stay."""
    offset = 0
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if tensor.dtype == onnx_ir.DataType.FLOAT and tensor.size > 1:
            value.const_value = onnx_ir.ExternalTensor(WEIGHTS, offset, tensor.nbytes, tensor.dtype,
                                                       shape=tensor.shape, name=name)
            offset += tensor.nbytes
    return onnx_ir.to_proto(model)


def lighten(model):
    """Leaves out where in the module a node is from, types that tempoc infers, and the signature: the exporter has
    transposed and renamed half of the parameters in it, which nobody can tell without their values. Without it, all
    that is a float is trained: the same 394 tensors."""
    for node in model.graph.node:
        del node.metadata_props[:]
    for field in (model.graph.value_info, model.metadata_props, model.graph.metadata_props):
        del field[:]


def main(path, layers=24):
    ids = torch.zeros(2, SEQUENCE, dtype=torch.int64)
    batch = torch.export.Dim("batch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.onnx.export(build(layers), (ids, ids.clone()), input_names=["ids", "labels"],
                                     output_names=["loss"], opset_version=18, dynamo=True, verbose=False,
                                     dynamic_shapes={"args": ({0: batch}, {0: batch})})
    model = without_weights(exported.model)
    lighten(model)
    onnx.save(model, path)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(sys.argv[1], *map(int, sys.argv[2:]))
