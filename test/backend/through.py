"""ONNX's node cases as tempoc compiles them: each model goes through pipelines without a backward pass, and what comes
out is a folder of cases like the first, FOLDER-PIPELINE, with the same inputs and expected outputs.

compiled_cases(tempoc, folder) makes all of them, once for all tests that run them, on whatever device: who comes first
makes them, and others wait. They are made again where tempoc, onnx or what is here is another.
"""
import concurrent.futures
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess

import numpy as np
import onnx

import make_cases

# Two ways through the passes: what users get, and the same with the bodies of ai.tempo ops in their place.
PIPELINES = {"forward": ["--recipe=forward"],
             "lowered": ["--passes=upgrade,inline,shapes,canonicalize,dropout,raise,canonicalize,lower,canonicalize"]}


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
    """Makes the folder `target`; returns {case: why tempoc refused it}."""
    def one(name):
        return compile_case(tempoc, options, os.path.join(folder, name), os.path.join(target, name))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return {name: why for name, why in zip(names, pool.map(one, names)) if why}


def check(folder, names):
    """{case: why onnx's checker refuses it}"""
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


def stamp_of(*files):
    """What tells whether a thing that was made of the files, onnx and numpy would come out the same."""
    stamp = hashlib.sha256(f"{onnx.__version__} {np.__version__}".encode())
    for path in files:
        with open(path, "rb") as file:
            stamp.update(hashlib.sha256(file.read()).digest())
    return stamp.hexdigest()


def read_stamped(path, stamp):
    """The dict that write_stamped left there; None: there is none, or it has another stamp."""
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    return found if found["stamp"] == stamp else None


def write_stamped(path, stamp, found):
    """After all that it tells of: whoever is interrupted leaves none."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump({"stamp": stamp, **found}, file)
    os.replace(path + ".new", path)


def make(folder):
    path, stamp = os.path.join(folder, "made.json"), stamp_of(make_cases.__file__)
    if not read_stamped(path, stamp):
        shutil.rmtree(folder, ignore_errors=True)
        make_cases.main(folder)
        write_stamped(path, stamp, {})


def compile_all(tempoc, folder):
    """{"failed": {pipeline: {case: why tempoc refused it}}, "refused": {case: why the checker refuses what was compiled
    of it}}; cases that it refuses as they are do not count."""
    make(folder)
    names = sorted(name for name in os.listdir(folder) if os.path.isdir(os.path.join(folder, name)))
    known, failed, refused = check(folder, names), {}, {}
    for pipeline, options in PIPELINES.items():
        target = f"{folder}-{pipeline}"
        shutil.rmtree(target, ignore_errors=True)
        failed[pipeline] = compile_cases(tempoc, options, folder, names, target)
        refused = {**check(target, names), **refused}
    return {"failed": failed, "refused": {name: why for name, why in refused.items() if name not in known}}


@contextlib.contextmanager
def compiled_cases(tempoc, folder):
    """What compile_all found, now or when another test made the same; until the end nobody makes the folders anew."""
    os.makedirs(os.path.dirname(os.path.abspath(folder)), exist_ok=True)
    path, stamp = f"{folder}.json", stamp_of(tempoc, make_cases.__file__, __file__)
    with open(f"{folder}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        while not (found := read_stamped(path, stamp)):
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not read_stamped(path, stamp):
                if os.path.exists(path):
                    os.remove(path)
                write_stamped(path, stamp, compile_all(tempoc, folder))
            fcntl.flock(lock, fcntl.LOCK_SH)  # lets others in between, who may have another tempoc
        yield found
