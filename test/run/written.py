#!/usr/bin/env python3
"""No output of any program replaces a file that is read, another output, or what nothing of ours wrote for that option,
whatever paths, links and folders lead there: exit code 64, and nothing is written. What was written is replaced by the
next run. No pipe is waited for that nobody writes to or reads from, and no device but sinks is written to.

usage: written.py TEMPO_RUN TEMPOC TEMPO_TRAIN TEMPOC_PLAN
"""
import filecmp
import os
import shutil
import sys

import numpy as np
import onnx
from onnx import numpy_helper

from programs import bytes_of, check, finish, path, run, told, write

TEMPO_RUN, TEMPOC, TEMPO_TRAIN, TEMPOC_PLAN = map(os.path.abspath, sys.argv[1:5])
TRAIN = (TEMPO_TRAIN, "m.onnx", "-q", "--data=shards", "--eval-data=eval.npz", "--rules=rules", "--train-list=list",
         "--steps=2", "--batch=2", "--optimizer=sgd")
GO_ON = (*TRAIN, "--checkpoint=run", "--checkpoint-every=1", "--resume")
# A program with all that it reads; its outputs; files that it reads.
PROGRAMS = (
    ((TEMPOC, "m.onnx", "-q", "--rules=rules", "--train-list=list", "--cost=cost.csv", "--checkpoint=weights.npz"),
     ("-o", "--report"), ("m.onnx", "w.bin", "rules", "list", "cost.csv", "weights.npz")),
    ((TEMPO_RUN, "m.onnx", "--inputs=in.npz"), ("--outputs", "--profile"), ("m.onnx", "w.bin", "in.npz")),
    (GO_ON, ("--save", "--save-weights", "--log"),
     ("m.onnx", "w.bin", "shards/a.npz", "shards/b.npz", "eval.npz", "rules", "list", "run/step-2/state",
      "run/step-2/weights.safetensors", "run/step-1/optimizer.safetensors")),
    ((TEMPOC_PLAN, "in.csv"), ("--output",), ("in.csv",)),
)


def make():
    """What is read, a folder under a second name, links to each file; data that tempo-run itself wrote."""
    w = np.ones(6, "f4")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Mul", ["x", "w"], ["y"]),
         onnx.helper.make_node("ReduceSum", ["y"], ["loss"], keepdims=0)], "g",
        [onnx.helper.make_tensor_value_info("x", 1, ["n", 6])],
        [onnx.helper.make_tensor_value_info("loss", 1, [])], [numpy_helper.from_array(w, "w")])
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")
    os.makedirs(path("real/shards"))
    os.symlink("real", path("other"))
    os.chdir(path("real"))
    copy = b'<ir_version: 10, opset_import: ["" : 21]> g (float[n,6] z) => (float[n,6] x) { x = Identity (z) }'
    for name, data in (("m.onnx", made.SerializeToString()), ("w.bin", w.tobytes()), ("rules", b""), ("list", b"w\n"),
                       ("copy.onnxt", copy), ("notes", b"Dear diary\n"), ("page.json", b'{\n\t"name":\t"mine"\n}\n'),
                       ("in.csv", b"id,lower,upper,size\na,0,3,4096\n"),
                       ("cost.csv", b"node,op,operands,result,runs,nanoseconds\n")):
        write(name, data)
    np.savez("z.npz", z=np.ones((4, 6), "f4"))
    np.savez("weights.npz", w=w)
    for name in ("in.npz", "eval.npz", "shards/a.npz", "shards/b.npz"):
        run(TEMPO_RUN, "copy.onnxt", "--inputs=z.npz", "--outputs", name)
    run(*GO_ON)
    for _, _, files in PROGRAMS:
        for name in files:
            os.makedirs(os.path.dirname(path(f"soft/{name}")), exist_ok=True)
            os.makedirs(os.path.dirname(path(f"hard/{name}")), exist_ok=True)
            if not os.path.lexists(path(f"soft/{name}")):
                os.symlink(path(f"real/{name}"), path(f"soft/{name}"))
                if name != "w.bin":  # no model may name one with several links
                    os.link(name, path(f"hard/{name}"))


def contents():
    found = {}
    for folder, _, names in os.walk(path("real")):
        for name in names:
            if not os.path.islink(os.path.join(folder, name)) and os.path.isfile(os.path.join(folder, name)):
                found[os.path.join(folder, name)] = bytes_of(os.path.join(folder, name))
    return found


def refused(*command, code=64, says=()):
    before = contents()
    told(*command, code=code, says=says or (("would write over",) if code == 64 else ()), timeout=60)
    check(contents() == before, f"something was written: {command}")


def what_is_read():
    for command, options, files in PROGRAMS:
        for option in options:
            for name in files:
                ways = [f"../other/{name}", path(f"soft/{name}"), path(f"hard/{name}")]
                if option == "--report":  # its name says what it is
                    ways = [path(f"soft/{name}.json")]
                    os.symlink(path(f"real/{name}"), ways[0])
                for way in filter(os.path.exists, ways):
                    refused(*command, option, way)
    # Files of the very kind that the option writes, and an empty one, which any may replace.
    for command, name in (((TEMPOC, "m.onnx", "-o"), "m.onnx"), ((*TRAIN, "--save"), "m.onnx"),
                          ((TEMPO_RUN, "m.onnx", "--inputs=in.npz", "--outputs"), "in.npz"),
                          ((*TRAIN, "--log"), "rules"), ((TEMPOC, "m.onnx", "--rules=rules", "-o"), "rules")):
        for way in (name, f"../other/.//{name}", path(f"soft/{name}"), path(f"hard/{name}")):
            refused(*command, way, says=("a file that is read: ", name))
    refused("sh", "-c", f"{TEMPOC} - -q -o ../other/m.onnx < m.onnx", says=("standard input",))
    refused("sh", "-c", f"{' '.join(TRAIN)} >> list", code=64, says=("standard output goes to",))


def what_is_written():
    refused(TEMPOC, "m.onnx", "-o", "new.json", "--report=../other/.//new.json", says=("the file of -o",))
    for command, options, _ in PROGRAMS:
        command = TRAIN if command == GO_ON else command
        for option in options:
            end = ".json" if option == "--report" else ""
            for name in ("notes", "page.json", "z.npz", "weights.npz", "in.csv"):
                shutil.copy(name, path(f"foreign{end}"))
                refused(*command, option, path(f"foreign{end}"), says=("would write over a file that is not",))
                check(filecmp.cmp(name, path(f"foreign{end}"), False), f"{option} wrote over {name}")
            own = path(f"own{option}{end}")
            for again in range(4):
                told(*command, option, own, timeout=60)
                check(os.path.getsize(own) > 0, f"{option} wrote nothing")
                if again == 2:  # an empty file is everybody's
                    os.truncate(own, 0)
        refused(*command, options[0], path("real"), code=5, says=("folder",))
    for _ in range(2):
        told(TEMPOC, "m.onnx", "-q", "-o", path("own.onnxt"), "--report", path("own.html"))


def no_files():
    """Pipes and devices; standard ones."""
    os.mkfifo("fifo")
    for command in ((TEMPOC, "fifo"), (TEMPOC, "m.onnx", "--rules=fifo"), (TEMPOC, "m.onnx", "--cost=fifo"),
                    (TEMPOC, "m.onnx", "--train-list=fifo"), (TEMPOC, "m.onnx", "--checkpoint=fifo"),
                    (TEMPOC, "m.onnx", "-o", "fifo"), (TEMPO_RUN, "fifo"), (TEMPO_RUN, "m.onnx", "--inputs=fifo"),
                    (TEMPOC_PLAN, "fifo"), (*TRAIN, "--eval-data=shards/c.npz"), (*TRAIN, "--log=fifo")):
        if "shards/c.npz" in command[-1]:
            os.link("fifo", "shards/c.npz")
        refused(*command, code=5)
    os.remove("shards/c.npz")
    for command in ((TEMPOC, "m.onnx", "-o"), (*TRAIN, "--log"), (*TRAIN, "--save-weights")):
        for to, words in (("/dev/random", "is a device"), ("nowhere", "is a link to a file that is not there")):
            os.symlink(to, "link")
            refused(*command, "link", code=5, says=(words,))
            os.remove("link")
        told(*command, "/dev/null")
    refused("sh", "-c", f"exec 9>> ../log; flock 9; {' '.join(TRAIN)} --log ../log", code=5, says=("another run",))
    for words in ('"$0" - -q -o /dev/stdout < m.onnx | cat > "$1"', '"$0" <(cat m.onnx) -q -o >(cat > "$1"); wait $!'):
        run("bash", "-c", words, TEMPOC, path("piped"))
        check(b"loss" in open(path("piped"), "rb").read(), f"{words}: nothing came")
    check(os.path.islink("/dev/stdout"), "the link to standard output is gone")


def what_fails():
    """The other outputs are written all the same; where standard files are closed, nothing goes into what is opened."""
    for command, full, other in ((PROGRAMS[0][0], "-o", "--report"), ((TEMPO_RUN, "m.onnx", "--inputs=in.npz"),
                                 "--profile", "--outputs"), (TRAIN, "--save", "--save-weights"),
                                 (TRAIN, "--save-weights", "--save"), (TRAIN, "--log", "--save")):
        told(*command, full, "/dev/full", other, path("kept.json"), code=5, says=("/dev/full",))
        check(os.path.getsize(path("kept.json")) > 0, f"{other} is lost with {full}")
        os.remove(path("kept.json"))
    for command, option in ((PROGRAMS[0][0], "-o"), (PROGRAMS[1][0], "--outputs"), (TRAIN, "--save"),
                            (PROGRAMS[3][0], "--output")):
        told(*command, option, path("open"))
        for closed, codes in (("<&-", (0,)), (">&-", (0, 5)), ("2>&-", (0,)), ("<&- >&- 2>&-", (0, 5))):
            code = run("sh", "-c", f'"$@" {closed}', "sh", *command, option, path("closed"), code=None).code
            check(code in codes and filecmp.cmp(path("open"), path("closed"), False), f"{code}: {command} {closed}")
            os.remove(path("closed"))
        os.remove(path("open"))
    for words in ('"$0" m.onnx -q -o - >&-', '"$0" - -q -o never <&-', '"$0" m.onnx -o never2 >&- 2>&-'):
        check(run("sh", "-c", words, TEMPOC, code=None).code == 5, words)


make()
what_is_read()
what_is_written()
no_files()
what_fails()
finish()
