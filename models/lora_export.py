#!/usr/bin/env python3
"""Exports a small Llama of characters as one exports for inference, without a loss: models/lora-llama, after
tempo-train taught it Genesis.

usage: lora_export.py OUT.onnx
Needs what export.py needs. Not needed to build, test or run Tempo.
"""
import sys
import warnings

import torch
import transformers as tf
from train_export import lighten


def main(path):
    torch.manual_seed(7)
    model = tf.LlamaForCausalLM(tf.LlamaConfig(
        vocab_size=128, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=128, max_position_embeddings=64, use_cache=False, tie_word_embeddings=False,
        attn_implementation="eager")).eval()
    ids = torch.randint(32, 127, (3, 32))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (ids,), path, input_names=["input_ids"], output_names=["logits"], dynamo=True,
                          optimize=False, external_data=False, verbose=False,
                          dynamic_shapes={"input_ids": {0: "batch", 1: "sequence"}})
    lighten(path, small=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
