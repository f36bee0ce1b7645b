#!/usr/bin/env python3
"""No file that is read is written over, and no two outputs go to one file, whatever paths lead there: exit code 64, and
nothing is written.

usage: written.py TEMPO_RUN TEMPOC
"""
import os
import sys

import numpy as np
import onnx
from onnx import numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from programs import check, finish, path, told  # noqa: E402
from tool import TOOL  # noqa: E402

TEMPOC, TEMPO_RUN = os.path.abspath(sys.argv[2]), os.path.abspath(TOOL)


def make():
    """A model with an external file, rules, inputs; links to each, and a folder under two names."""
    w = np.ones(6, "f4")
    tensor = numpy_helper.from_array(w, "w")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Add", ["x", "w"], ["y"]),
         onnx.helper.make_node("ReduceSum", ["y"], ["loss"], keepdims=0)], "g",
        [onnx.helper.make_tensor_value_info("x", 1, [6])],
        [onnx.helper.make_tensor_value_info("loss", 1, [])], [tensor])
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    t = made.graph.initializer[0]
    t.ClearField("raw_data")
    t.data_location = onnx.TensorProto.EXTERNAL
    t.external_data.add(key="location", value="w.json")
    os.mkdir(path("real"))
    os.symlink("real", path("other"))
    files = {"m.json": made.SerializeToString(), "w.json": w.tobytes(), "rules.json": b""}
    for name, data in files.items():
        with open(path(f"real/{name}"), "wb") as file:
            file.write(data)
    np.savez(path("real/in.npz"), x=w)
    os.symlink("real/m.json", path("model-link.json"))
    os.link(path("real/rules.json"), path("rules-link.json"))


def contents():
    found = {}
    for name in os.listdir(path("real")):
        with open(path(f"real/{name}"), "rb") as file:
            found[name] = file.read()
    return found


def refused(tool, *args, says):
    before = contents()
    told(tool, *args, code=64, says=("would write over", says), timeout=60, cwd=path("real"))
    check(contents() == before, f"something was written: {args}")


def fine(tool, *args):
    told(tool, *args, timeout=60, cwd=path("real"))


make()
compile_it = (TEMPOC, "m.json", "--rules=rules.json")
refused(*compile_it, "-o", "../model-link.json", says="read: m.json")
refused(*compile_it, "-o", "w.json", says="w.json")
refused(*compile_it, "-o", "../other/w.json", says="w.json")
refused(*compile_it, "-o", "../rules-link.json", says="rules.json")
refused(*compile_it, "--report=m.json", says="--report")
refused(*compile_it, "--report=./w.json", says="--report")
refused(*compile_it, "--report=rules.json", says="--report")
refused(*compile_it, "-o", "new.json", "--report=../other/.//new.json", says="the file of -o")
run_it = (TEMPO_RUN, "m.json", "--inputs", "in.npz")
for option in ("--outputs", "--profile"):
    for read in ("m.json", "w.json", "in.npz"):
        refused(*run_it, option, f"../other/{read}", says=option)
refused(*run_it, "--outputs", "new.npz", "--profile", "../other/new.npz", says="the file of --outputs")
# Near misses: other files, files that are there but nobody reads, and what is no file.
fine(*compile_it, "-o", "new.onnx", "--report=new.json")
fine(*compile_it, "-o", "new.onnx", "--report=new.json", "-q")
fine(*compile_it, "-o", "/dev/null", "-q")
fine(*compile_it, "-o", "-", "--emit=text", "--report=new.json")
fine(*run_it, "--outputs", "out.npz", "--profile", "out.json")
fine(*run_it, "--outputs", "out.npz", "--profile", "out.json")
finish()
