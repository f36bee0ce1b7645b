#!/usr/bin/env python3
"""check_sequences.py TEMPOC GRAPH.onnxt: canonicalize changes no value of a graph of sequences, by ONNX Runtime on
both."""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime as ort


def values(tempoc, graph, passes, feeds):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "out.onnx")
        subprocess.run([tempoc, graph, "--passes=" + passes, "-q", "-o", path], check=True)
        session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))


tempoc, graph = sys.argv[1:]
given = {"x": np.random.default_rng(3).standard_normal((2, 5)).astype(np.float32), "place": np.array(3)}
before, after = (values(tempoc, graph, passes, given) for passes in ("", "shapes,canonicalize"))
wrong = [name for name in before if not np.array_equal(before[name], after[name])]
print(f"{len(before)} values, wrong: {', '.join(wrong) or 'none'}")
sys.exit(1 if wrong or not before else 0)
