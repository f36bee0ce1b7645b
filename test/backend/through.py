"""ONNX's node cases as tempoc compiles them: each model goes through a pipeline without a backward pass, and what comes
out is a folder of cases like the first, with the same inputs and expected outputs.

compile_cases(tempoc, options, cases, folder) makes it and returns what tempoc refused; check(folder) asks onnx's
checker what it thinks of the models. Both return {case: reason}.
"""
import concurrent.futures
import os
import re
import subprocess

import onnx


def compile_case(tempoc, options, source, target):
    os.makedirs(target, exist_ok=True)
    data, model = os.path.join(target, "test_data_set_0"), os.path.join(target, "model.onnx")
    if not os.path.exists(data):
        os.symlink(os.path.join(os.path.abspath(source), "test_data_set_0"), data)
    if os.path.exists(model):
        os.remove(model)
    done = subprocess.run([tempoc, os.path.join(source, "model.onnx"), "-o", model, "-q", "--verify-each", *options],
                          capture_output=True, text=True, timeout=60, check=False)
    if done.returncode == 0:
        return None
    said = done.stderr.splitlines()
    return re.sub(r"^.*?model\.onnx: error: ", "", said[0] if said else f"tempoc ended with {done.returncode}")


def compile_cases(tempoc, options, folder, names, target):
    def one(name):
        return compile_case(tempoc, options, os.path.join(folder, name), os.path.join(target, name))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return {name: why for name, why in zip(names, pool.map(one, names)) if why}


def check(folder, names):
    refused = {}
    for name in names:
        path = os.path.join(folder, name, "model.onnx")
        if not os.path.exists(path):
            continue
        try:
            onnx.checker.check_model(path, full_check=True)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
            refused[name] = " ".join(str(error).split())
    return refused
