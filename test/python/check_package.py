#!/usr/bin/env python3
"""The Python package: compile, Session and fit_batch on exports with PyTorch's numbers, ONNX Runtime's and numpy's.

usage: check_package.py SOURCE_ROOT BUILD_ROOT [CASE ...]       CASE: a function below, without check_
"""
import concurrent.futures
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings

import ml_dtypes
import numpy as np
import onnx
import onnx.parser

SOURCE, BUILD = sys.argv[1:3]
sys.path[:0] = [os.path.join(SOURCE, folder) for folder in ("python", "test/lib")]
os.environ["TEMPO_HOME"] = BUILD

import tempo  # noqa: E402
from compare import by_onnxruntime, load, worst  # noqa: E402
from tolerances import GRADIENT, OUTPUT  # noqa: E402

ADD = '<ir_version: 10, opset_import: ["" : 21]> g (float[n] x, float[n] y) => (float[n] z) { z = Add (x, y) }'


def model(text):
    return onnx.parser.parse_model(text)


def case(name, file="model.onnx"):
    return os.path.join(SOURCE, "models", name, file)


def raises(kind, code, words, call):
    try:
        call()
    except kind as e:
        assert e.code == code and all(word in e.message for word in words), (e.code, e.message)
        return
    raise AssertionError(f"no {kind.__name__} with {words}")


def check_gradients():
    for name in ("bert-dyn_18", "gpt2-dyn_21", "vit-dyn_18", "bert-ts_14", "gpt2-dyn_21-bfloat16"):
        want = load(case(name, "expected.npz"))
        limit = float(want.pop("limit", GRADIENT))
        compiled = tempo.compile(case(name), recipe="tiled")
        with tempo.Session(compiled, threads=2) as session:
            got = session.run(load(case(name, "inputs.npz")))
            assert [o.name for o in session.outputs] == list(got)
        error, where = worst(got, want)
        assert error <= limit, (name, error, where)
        assert set(compiled.report["trained"]) >= {k[:-5] for k in got if k.endswith("_grad")}


def check_forward():
    for name in ("bert-dyn_18", "t5-dyn_18"):
        feeds = load(case(name, "inputs.npz"))
        want = by_onnxruntime(case(name), feeds)
        got = tempo.Session(tempo.compile(case(name), recipe="forward")).run(feeds)
        assert got.keys() == want.keys()
        for key in want:
            np.testing.assert_allclose(got[key], want[key], **OUTPUT)


def check_ways_to_give_a_model():
    """A path, bytes, a ModelProto; weights in a file beside the model; a name for the result."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = os.path.join(folder, "weights apart.onnx"), os.path.join(folder, "out.onnx")
        whole = onnx.load(case("vit-dyn_18"))
        onnx.save_model(onnx.load(case("vit-dyn_18")), path, save_as_external_data=True, location="data.bin",
                        size_threshold=0)
        feeds, want = load(case("vit-dyn_18", "inputs.npz")), load(case("vit-dyn_18", "expected.npz"))
        for given in (path, whole, whole.SerializeToString()):
            compiled = tempo.compile(given)
            assert worst(tempo.Session(compiled).run(feeds), want)[0] <= GRADIENT
            place = compiled.path
            del compiled
            gc.collect()
            assert not os.path.exists(place)
        compiled = tempo.compile(path, out)
        assert compiled.path == out and os.path.exists(os.fspath(compiled))
        assert worst(tempo.Session(out).run(feeds), want)[0] <= GRADIENT
        assert sorted(os.listdir(folder)) == ["data.bin", "out.onnx", "weights apart.onnx"]


def check_options():
    compiled = tempo.compile(case("bert-dyn_18"), write=False, freeze=["*embed*", "*bias"], train="*query.bias",
                             names="pytorch", recipe="none", quiet=None, verify_each=True)
    trained = compiled.report["trained"]
    assert compiled.path is None and compiled.report["recipe"] == "none"
    assert any(n.endswith("query.bias") for n in trained) and not any("embed" in n for n in trained)
    assert not any(n.endswith("key.bias") for n in trained)
    raises(tempo.Usage, 64, ["nothing was written"], lambda: tempo.Session(compiled))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        tempo.compile(case("bert-dyn_18"), train=["nothing"], write=False)
    assert any("matches no initializer" in str(w.message) for w in seen), seen
    sizes = tempo.compile(model(ADD), recipe="forward", dims={"n": 7})
    assert [i.type for i in tempo.Session(sizes).inputs] == ["float[7]"] * 2


def check_inputs_are_borrowed():
    session = tempo.Session(tempo.compile(model(ADD), recipe="forward"))
    x, y = np.arange(5, dtype=np.float32), np.ones(5, np.float32)
    np.testing.assert_array_equal(session.run({"x": x, "y": y})["z"], x + y)
    x[:] = 7  # what was bound is x itself
    np.testing.assert_array_equal(session.run()["z"], x + y)
    before = sys.getrefcount(x)
    session.bind("x", np.float32([1, 2, 3, 4, 5]) * 2)  # nobody else keeps this one
    assert sys.getrefcount(x) == before - 1
    gc.collect()
    np.testing.assert_array_equal(session.run()["z"], [3, 5, 7, 9, 11])
    strided, swapped = np.arange(10, dtype=np.float32)[::2], np.arange(5, dtype=">f4")
    np.testing.assert_array_equal(session.run({"x": strided, "y": swapped})["z"], strided + swapped)
    np.testing.assert_array_equal(session.run({"x": [1, 2, 3], "y": np.zeros(3, np.float32)})["z"], [1, 2, 3])
    np.testing.assert_array_equal(session.run({"x": np.zeros(0, np.float32), "y": []})["z"], [])


def check_outputs():
    session = tempo.Session(tempo.compile(model(ADD), recipe="forward"))
    x, y = np.arange(5, dtype=np.float32), np.ones(5, np.float32)
    copied = session.run({"x": x, "y": y})["z"]
    assert session.run(outputs=[]) == {}
    view = session.run(copy=False, outputs=["z"])["z"]
    assert not view.flags.writeable and view.base is not None and copied.flags.owndata
    session.run({"x": x + 1})
    np.testing.assert_array_equal(copied, x + 1)
    np.testing.assert_array_equal(view, x + 2)  # the session's memory, which was written again
    del session
    gc.collect()
    np.testing.assert_array_equal(view, x + 2)  # and which the view keeps
    raises(tempo.Usage, 64, ["no output 'w'"], lambda: tempo.Session(tempo.compile(model(ADD), recipe="forward")).run(
        {"x": x, "y": y}, outputs=["w"]))


def check_types():
    types = {"float": "f4", "double": "f8", "float16": "f2", "int64": "i8", "int32": "i4", "uint8": "u1", "bool": "?",
             "bfloat16": ml_dtypes.bfloat16}
    for name, dtype in types.items():
        text = ADD.replace("float[n]", name + "[n]").replace("z = Add (x, y)", "z = Where (c, x, y)")
        session = tempo.Session(tempo.compile(model(text.replace(" x,", " x, bool[n] c,", 1)), recipe="forward"))
        x, y = np.array([0, 1, 3]).astype(dtype), np.array([1, 1, 0]).astype(dtype)
        got = session.run({"x": x, "y": y, "c": np.array([True, False, True])})["z"]
        np.testing.assert_array_equal(got, np.where([1, 0, 1], x, y))
        assert got.dtype == x.dtype and session.inputs[0].dtype == x.dtype, (name, got.dtype)
        if name == "bfloat16":  # its bits do, too
            assert session.run({"x": x.view(np.uint16)})["z"].tobytes() == got.tobytes()


def check_errors():
    session = tempo.Session(tempo.compile(model(ADD), recipe="forward"))
    x = np.zeros(3, np.float32)
    raises(tempo.BadInput, 2, ["'y'"], lambda: session.run({"x": x}))
    raises(tempo.BadInput, 2, ["element type double"], lambda: session.run({"x": np.zeros(3)}))
    raises(tempo.BadInput, 2, ["none of Tempo's types"], lambda: session.bind("x", np.zeros(3, np.complex64)))
    raises(tempo.BadInput, 2, [], lambda: session.run({"x": x, "y": np.zeros(4, np.float32)}))
    raises(tempo.Usage, 64, ["no input 'w'"], lambda: session.run({"w": x}))
    np.testing.assert_array_equal(session.run({"x": x, "y": x})["z"], x)  # and it goes on
    session.close()
    raises(tempo.Usage, 64, ["closed"], lambda: session.run({"x": x}))
    raises(tempo.InputOutput, 5, ["No such file"], lambda: tempo.compile("no such file.onnx"))
    raises(tempo.InputOutput, 5, ["No such file"], lambda: tempo.Session("no such file.onnx"))
    raises(tempo.BadInput, 2, ["model: error:"], lambda: tempo.compile(b"\x08\x08nonsense"))
    raises(tempo.Usage, 64, ["no recipe 'nope'"], lambda: tempo.compile(case("bert-dyn_18"), recipe="nope"))
    raises(tempo.Limit, 4, ["budget"], lambda: tempo.compile(case("bert-dyn_18"), memory_budget=100, remat_time=0.01))
    raises(tempo.Unsupported, 3, [], lambda: tempo.Session(case("bert-dyn_18")).run())
    raises(MemoryError, 4, [], lambda: tempo.compile(case("bert-dyn_18"), memory_budget=100, remat_time=0.01))
    error = tempo.Limit("full", 4)
    assert str(error) == "full" and isinstance(error, tempo.Error)


def check_words():
    """Hints speak of keywords, and of methods; command lines stay as they are."""
    table = subprocess.check_output([os.path.join(BUILD, "tempoc"), "--help=table"], text=True)
    for group, name, _, argument, *_ in (line.split("\t") for line in table.splitlines()):
        told = f"{name.replace('-', '_')}=True" if not argument else {"dim": "dims"}.get(name, name.replace("-", "_"))
        assert group == "Help" or tempo.errors.spoken(f"--{name}") == told, name
    for said, told in {"--stop=VALUE stops it": 'stop="VALUE" stops it',
                       "--dim batch=32 --dim seq=N": 'dims={"batch": 32} dims={"seq": N}',
                       "--train='a b' trains it, --threads=8": 'train="a b" trains it, threads=8',
                       "tempoc IN.onnx --passes=upgrade -o OUT.onnx": "tempoc IN.onnx --passes=upgrade -o OUT.onnx",
                       "-o x would, name another for -o": "out x would, name another for out",
                       "tempo_set_state changes it; a--b": "Session.set_state changes it; a--b"}.items():
        assert tempo.errors.spoken(said) == told, tempo.errors.spoken(said)
    raises(tempo.Usage, 64, ["unknown option recip; hint: did you mean recipe?", "--help=all, with _ for -, lists"],
           lambda: tempo.compile(case("bert-dyn_18"), recip="none"))


def check_side_by_side():
    """Threads that compile at once have the models and messages of one that does so alone; other threads run."""
    names = ["bert-dyn_18", "gpt2-dyn_21", "vit-dyn_18"] * 2

    def compiled(name):
        done = tempo.compile(case(name), dims={"batch": 2}, recipe="tiled")
        with open(done.path, "rb") as file:
            return file.read(), done.messages, done.report["saved"]

    want = {name: compiled(name) for name in set(names)}
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        assert all(got == want[name] for name, got in zip(names, pool.map(compiled, names)))


def check_interrupt():
    """An exception of a signal's handler ends a search for a plan, and leaves no file."""
    def handler(*unused):
        raise KeyboardInterrupt
    before = signal.signal(signal.SIGALRM, handler)
    folder = tempfile.gettempdir()
    files = {name for name in os.listdir(folder) if name.startswith(".tempo-")}
    start = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 1)
    try:
        tempo.compile(case("bert-dyn_18"), dims={"batch": 4, "sequence": 16}, memory_budget="min", remat_time=10000)
    except KeyboardInterrupt:
        assert time.monotonic() - start < 60
    else:
        raise AssertionError("the search came to its end")
    finally:
        signal.signal(signal.SIGALRM, before)
    assert {name for name in os.listdir(folder) if name.startswith(".tempo-")} <= files


def check_fit_batch():
    path = case("bert-dyn_18")
    table = tempo.compile(path, write=False, fit="512MiB", threads=2).report["fit"]
    batch, rows = table["batch"], {row["batch"]: row for row in table["tried"]}
    assert table["dim"] == "batch" and table["optimizer"] == "adamw" and table["memory"] == 512 << 20
    assert rows[batch]["fits"] and rows[batch]["total"] <= 512 << 20 < rows[batch + 1]["total"]
    assert tempo.fit_batch(path, rows[batch]["total"], threads=2) == batch
    assert tempo.fit_batch(path, rows[batch]["total"] - 1, threads=2) == batch - 1
    counts = [int(np.prod(t.dims)) for t in onnx.load(path).graph.initializer if t.data_type == 1]
    elements = sum(n for n in counts if n > 1)  # others are constants of the exporter's
    assert rows[1]["optimizer"] == 8 * elements, (rows[1], elements)
    raises(tempo.Limit, 4, ["not even batch = 1"], lambda: tempo.fit_batch(path, "1MiB"))


def check_states():
    text = '<ir_version: 10, opset_import: ["" : 21]> g (float[3] w, float[3] x) => (float[3] new) ' \
           '<float[3] w = {1, 2, 3}> { new = Add (w, x) }'
    session = tempo.Session(tempo.compile(model(text), recipe="forward"))
    session.keep("new", "w")
    x = np.float32([1, 10, 100])
    assert session.inputs[0].has_default and not session.inputs[1].has_default
    session.run({"x": x})
    np.testing.assert_array_equal(session.run()["new"], np.float32([1, 2, 3]) + 2 * x)
    np.testing.assert_array_equal(session.get_state("w"), np.float32([1, 2, 3]) + 2 * x)
    session.set_state("w", np.zeros(3, np.float32))
    np.testing.assert_array_equal(session.run()["new"], x)
    raises(tempo.Usage, 64, ["no output 'nothing'"], lambda: session.keep("nothing", "x"))
    raises(tempo.Usage, 64, ["'x'"], lambda: session.get_state("x"))


def check_seeds():
    text = '<ir_version: 10, opset_import: ["" : 21]> g (float[n] x) => (float[n] y) <float r = {0.5}, ' \
           'bool t = {1}> { y, m = Dropout (x, r, t) }'
    compiled = tempo.compile(model(text), recipe="forward")
    x = np.ones(1000, np.float32)
    one, other = tempo.Session(compiled, seed=7), tempo.Session(compiled)
    first = one.run({"x": x})["y"]
    assert set(first) == {0, 2} and 400 < np.count_nonzero(first) < 600
    assert (other.run({"x": x})["y"] != first).any()
    other.seed(7)
    np.testing.assert_array_equal(other.run()["y"], first)
    other.seed(7, step=1)
    assert (other.run()["y"] != first).any()


def check_threads():
    """Threads that share a session each get the numbers of what they fed."""
    session = tempo.Session(tempo.compile(case("bert-dyn_18")), threads=1)
    first = load(case("bert-dyn_18", "inputs.npz"))
    feeds = [first, {k: v if v.dtype.kind == "f" else np.ascontiguousarray(v[::-1]) for k, v in first.items()}]
    want = [session.run(f) for f in feeds]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        got = list(pool.map(lambda i: session.run(feeds[i % 2]), range(40)))
    for i, results in enumerate(got):
        for key, value in results.items():
            np.testing.assert_array_equal(value, want[i % 2][key])


def check_forks():
    """A child of fork, where no other thread is, has the right numbers or an error, and waits for nobody."""
    session = tempo.Session(tempo.compile(case("bert-dyn_18")), threads=2)
    feeds = load(case("bert-dyn_18", "inputs.npz"))
    want, is_over = session.run(feeds), threading.Event()

    def child():
        signal.alarm(20)
        try:
            got = session.run(feeds)
            os._exit(any((got[key] != want[key]).any() for key in want))
        except tempo.errors.Usage:
            os._exit(9)

    def fork():
        process = os.fork()
        if process == 0:
            child()
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

    def work():
        while not is_over.is_set():
            session.run(feeds)

    assert fork() == 0
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(work)
        codes = {fork() for _ in range(8)}
        is_over.set()
    assert codes <= {0, 9}, codes
    assert all((session.run(feeds)[key] == want[key]).all() for key in want)


def check_memory():
    compiled = tempo.compile(case("vit-dyn_18"), dims={"batch": 6})
    session = tempo.Session(compiled)
    session.run({k: np.resize(v, (6, *v.shape[1:])) for k, v in load(case("vit-dyn_18", "inputs.npz")).items()})
    told = session.memory()
    assert told.arena == compiled.report["arena_bytes"]["after"]
    assert told.saved == compiled.report["saved_bytes"]["after"]
    assert 0 < told.lower_bound <= told.arena and told.live[0][2] >= told.live[-1][2] and told.peak_node
    assert told.inputs >= sum(6 * v[0].nbytes for v in load(case("vit-dyn_18", "inputs.npz")).values())


def check_places():
    """Where the library is looked for: a folder that is named and no other, then the package's own. No program is
    needed."""
    plain = {k: v for k, v in os.environ.items() if k not in ("TEMPO_HOME", "PYTHONPATH")}
    ask = f"import tempo; c = tempo.compile({case('bert-dyn_18')!r}, write=False); print(tempo.version(), " \
          "tempo.library.load()._name, len(c.report['trained']))"

    def told(folder, code=ask, **more):
        return subprocess.run([sys.executable, "-c", code], env={**plain, "PYTHONPATH": folder, **more}, check=False,
                              capture_output=True, text=True, cwd=os.path.dirname(BUILD))

    with tempfile.TemporaryDirectory() as folder:
        package = os.path.join(folder, "tempo")
        shutil.copytree(os.path.join(SOURCE, "python", "tempo"), package)
        missing = told(folder, TEMPO_HOME="/nowhere")
        assert "InputOutput: libtempo.so.0 is not found in /nowhere; hint:" in missing.stderr, missing.stderr
        by_call = told(folder, f"import tempo; tempo.use({BUILD!r}); " + ask)
        known = str(len(tempo.compile(case("bert-dyn_18"), write=False).report["trained"]))
        assert by_call.stdout.split() == [tempo.version(), os.path.join(BUILD, "runtime", "libtempo.so.0"), known]
        library = os.path.join(package, "lib", "libtempo.so.0")
        os.mkdir(os.path.join(package, "lib"))
        shutil.copy(os.path.join(BUILD, "runtime", "libtempo.so.0"), library)
        assert told(folder).stdout.split() == [tempo.version(), library, known]


def main():
    names = sys.argv[3:] or [n[6:] for n in globals() if n.startswith("check_") and n != "check_models"]
    for name in names:
        globals()["check_" + name]()
        print(f"{name}: as it should be")


if __name__ == "__main__":
    main()
