"""tempoc as a function: a model in, a compiled model and its report out. tempoc runs as a process of its own, so that
memory that compiling takes is given back."""
import contextlib
import json
import os
import subprocess
import tempfile
import weakref

from . import errors, library


class Compiled:
    """What tempoc made of a model.

    path: the compiled file, which tempo.Session opens; None where nothing was written.
    report: what `tempoc --report` tells, as a dict: saved_bytes, arena_bytes, trained, rules and more.
    messages: the lines of notes and warnings.
    A file that was given no name is deleted with the object.
    """

    def __init__(self, path, report, messages):
        self.path, self.report, self.messages = path, report, messages

    def __fspath__(self):
        if self.path is None:
            raise errors.Usage("nothing was written: the model was only checked", 64)
        return self.path

    def __repr__(self):
        return f"<tempo.Compiled {self.path}>"


# Options of tempoc by the names that Python has for them.
NAMES = {own: name for name, own in errors.NAMES.items()}
STAYS = "external data stays at"  # tempoc's warning where a model is written to another folder than its weights


def _options(options):
    """["--recipe=tiled", "--dim=batch=32", ...], in the order of the call: of train and freeze the last that matches
    counts."""
    for key, value in options.items():
        name = "--" + NAMES.get(key, key).replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            yield name
        elif isinstance(value, dict):
            yield from (f"{name}={k}={v}" for k, v in value.items())
        else:
            values = value if isinstance(value, (list, tuple)) else [value]
            yield from (f"{name}={os.fspath(v) if isinstance(v, os.PathLike) else v}" for v in values)


def _remove(path):
    with contextlib.suppress(OSError):
        os.remove(path)


def _new_file(folder):
    try:
        handle, path = tempfile.mkstemp(prefix=".tempo-", suffix=".onnx", dir=folder)
    except OSError as e:
        raise errors.InputOutput(f"no file for the compiled model: {e}; hint: out=FILE names one", 5) from e
    os.close(handle)
    return path


def _call(source, called, path, options):
    """One run of tempoc: (report, lines of its messages), which name the model as the caller does."""
    with tempfile.TemporaryDirectory(prefix="tempo-") as beside:
        told = os.path.join(beside, "report.json")
        command = [library.program(), source, "-q", f"--report={told}", *_options(options)]
        done = subprocess.run(command + (["-o", path] if path else []), stdin=subprocess.DEVNULL, check=False,
                              capture_output=True, text=True, errors="replace")
        said = done.stderr.replace(source, called) if called else done.stderr
        if done.returncode != 0:
            raise errors.of(done.returncode, said or f"tempoc ended with code {done.returncode}")
        with open(told, encoding="utf-8") as f:
            return json.load(f), errors.spoken(said).splitlines()


def _compile_apart(source, called, options):
    """To a file of its own name: in the folder for such, or, where the model goes on naming files with its weights,
    beside these, for a model's files lie below it."""
    for folder in (None, os.path.dirname(os.path.abspath(source))):
        path = _new_file(folder)
        try:
            report, lines = _call(source, called, path, options)
        except BaseException:
            _remove(path)
            raise
        if folder or not any(STAYS in line for line in lines):
            return path, report, lines
        _remove(path)
    raise AssertionError("the second folder is the last")


def _run(model, out, write, options):
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    given = None
    try:
        if isinstance(model, (bytes, bytearray, memoryview)):
            given = _new_file(None)
            with open(given, "wb") as f:
                f.write(model)
        source, called = (given, "model") if given else (os.fspath(model), None)
        if write and out is None:
            path, report, lines = _compile_apart(source, called, options)
        else:
            path = os.path.abspath(os.fspath(out)) if write else None
            report, lines = _call(source, called, path, options)
    finally:
        if given:
            _remove(given)
    for line in lines:
        if ": warning: " in line:
            errors.warn(line)
    compiled = Compiled(path, report, lines)
    if write and out is None:
        weakref.finalize(compiled, _remove, path)
    return compiled


def compile(model, out=None, *, write=True, **options):
    """Compiles a model (a path, bytes, or an onnx.ModelProto) with tempoc; returns a Compiled.

    out: the file to write; None: one that is deleted with the result. write=False: only check and report.
    Every option of tempoc is a keyword, with _ for -: recipe="tiled", memory_budget="50%", dims={"batch": 32},
    train=["*.bias"], freeze=["*embed*"], loss="loss", names="pytorch", threads=8. Lists give an option several times,
    in the order of the call; True sets a switch; None leaves an option out.
    Failures are exceptions (tempo.Error) with tempoc's message and exit code.
    """
    return _run(model, out, write, options)


def fit_batch(model, memory, **options):
    """The largest batch with which a training step fits in `memory` ("16GiB", or a number of bytes), by the plans of
    `tempoc --fit`: parameters, gradients, the optimizer's state (optimizer="adamw") and the program are counted.

    fit_dim="batch" names the dimension; recipe, memory_budget and the others are those of tempo.compile. tempo.Limit
    where not even a batch of 1 fits. The table that tempoc prints is report["fit"] of tempo.compile(model, fit=memory).
    """
    report = _run(model, None, False, {"fit": memory, **options}).report
    return report["fit"]["batch"]
