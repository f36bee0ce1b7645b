"""tempo_compile of libtempo: a model in, a compiled model and its report out, in this process."""
import contextlib
import ctypes
import json
import os
import tempfile
import threading
import weakref

from . import errors, library


class Compiled:
    """A compiled model.

    path: the compiled file, which tempo.Session opens; None where nothing was written.
    report: the report of `tempoc --report`, as a dict: saved_bytes, arena_bytes, trained, rules and more.
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
            yield from (f"{name}={_text(v)}" for v in values)


def _text(value):
    """A value as it would stand on a command line; a shell replaces ~."""
    text = os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    return os.path.expanduser(text) if text.startswith("~/") else text


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


def _interruptible(call, stop):
    """call() in a thread of its own, so that an exception of a signal handler, such as KeyboardInterrupt, ends it: that
    is raised when the thread has ended, too."""
    results, over, raised = [], threading.Event(), None

    def work():
        try:
            results.append(call())
        finally:
            over.set()

    threading.Thread(target=work, name="tempo.compile").start()
    while not over.is_set():
        try:
            over.wait()
        except BaseException as e:
            stop.value, raised = 1, e
    if raised is not None:
        raise raised
    return results[0]


def _call(source, path, options):
    """One call of tempo_compile on a path or bytes: (report, lines of its messages)."""
    tempo, stop, out = library.load(), ctypes.c_int(0), ctypes.POINTER(library.CompiledOut)()
    words = ["-q", *_options(options), *(["-o", path] if path else [])]
    request = library.CompileRequest(n_options=len(words), wants_report=1, stop=ctypes.pointer(stop))
    request.options = (ctypes.c_char_p * len(words))(*map(os.fsencode, words))
    if isinstance(source, bytes):
        request.bytes, request.size, request.name = source, len(source), b"model"
    else:
        request.path = os.fsencode(source)
    status = _interruptible(lambda: tempo.tempo_compile(ctypes.byref(request), ctypes.byref(out)), stop)
    try:
        result = out.contents
        said = (result.dumps + result.messages).decode(errors="replace")
        if status != 0:
            raise errors.of(status, said)
        return json.loads(result.report), errors.spoken(said).splitlines()
    finally:
        tempo.tempo_compiled_free(out)


def _compile_apart(source, options):
    """To a file of its own name: in the folder for such, or, where the model goes on naming files with its weights,
    beside these, for a model's files lie below it."""
    beside = os.getcwd() if isinstance(source, bytes) else os.path.dirname(os.path.abspath(source))
    for folder in (None, beside):
        path = _new_file(folder)
        try:
            report, lines = _call(source, path, options)
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
    source = bytes(model) if isinstance(model, (bytes, bytearray, memoryview)) else os.fspath(model)
    if write and out is None:
        path, report, lines = _compile_apart(source, options)
    else:
        path = os.path.abspath(os.fspath(out)) if write else None
        report, lines = _call(source, path, options)
    for line in lines:
        if ": warning: " in line:
            errors.warn(line)
    compiled = Compiled(path, report, lines)
    if write and out is None:
        weakref.finalize(compiled, _remove, path)
    return compiled


def compile(model, out=None, *, write=True, **options):
    """Compiles a model (a path, bytes, or an onnx.ModelProto); returns a Compiled.

    out: the file to write; None: one that is deleted with the result. write=False: only check and report.
    Every option of tempoc is a keyword, with _ for -: recipe="tiled", memory_budget="50%", dims={"batch": 32},
    train=["*.bias"], freeze=["*embed*"], loss="loss", names="pytorch", threads=8. Lists give an option several times,
    in the order of the call; True sets a switch; None leaves an option out.
    Failures are exceptions (tempo.Error) with tempoc's message and exit code. Other threads of Python run meanwhile.
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
