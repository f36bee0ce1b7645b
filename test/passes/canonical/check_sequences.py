#!/usr/bin/env python3
"""check_sequences.py TEMPOC GRAPH.onnxt: canonicalize changes no value of a graph of sequences, by ONNX Runtime on
both."""
import sys

import numpy as np

from compare import by_onnxruntime
from programs import check, finish, path, run

tempoc, graph = sys.argv[1:]
given = {"x": np.random.default_rng(3).standard_normal((2, 5)).astype(np.float32), "place": np.array(3)}
values = []
for passes in ("", "shapes,canonicalize"):
    run(tempoc, graph, "--passes=" + passes, "-q", "-o", path("out.onnx"))
    values.append(by_onnxruntime(path("out.onnx"), given))
for name, want in values[0].items():
    check(np.array_equal(want, values[1][name]), name)
finish()
