"""Finds libtempo, and declares the calls of tempo.h. Looked for, in this order:

- where tempo.use(FOLDER) says, or the environment variable TEMPO_HOME: a build folder or an installation's prefix;
- beside this package: in its own folder lib, which a wheel brings, or in the build folder of the repository;
- where the loader finds it, then where pkg-config says that tempo is installed.
"""
import ctypes
import glob
import os
import subprocess

from . import errors

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = "libtempo.so.0"


class Tensor(ctypes.Structure):
    """tempo_tensor"""
    _fields_ = [("dtype", ctypes.c_int), ("rank", ctypes.c_int), ("dims", ctypes.POINTER(ctypes.c_int64)),
                ("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


class Options(ctypes.Structure):
    """tempo_options. What later versions add at the end is zero: their defaults."""
    _fields_ = [("device", ctypes.c_char_p), ("threads", ctypes.c_int), ("seed", ctypes.c_uint64),
                ("check_memory", ctypes.c_int), ("tf32", ctypes.c_int), ("patience", ctypes.c_double),
                ("no_cudnn", ctypes.c_int), ("ort_dropout", ctypes.c_int), ("later", ctypes.c_char * 256)]


class InfoOut(ctypes.Structure):
    """tempo_info"""
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("type", ctypes.c_char_p),
                ("has_default", ctypes.c_int), ("later", ctypes.c_char * 256)]


class Live(ctypes.Structure):
    """tempo_live"""
    _fields_ = [("name", ctypes.c_char_p), ("type", ctypes.c_char_p), ("bytes", ctypes.c_uint64)]


class MemoryOut(ctypes.Structure):
    """tempo_memory"""
    _fields_ = [("parameters", ctypes.c_uint64), ("inputs", ctypes.c_uint64), ("state", ctypes.c_uint64),
                ("outputs", ctypes.c_uint64), ("arena", ctypes.c_uint64), ("lower_bound", ctypes.c_uint64),
                ("peak_node", ctypes.c_char_p), ("live", ctypes.POINTER(Live)), ("n_live", ctypes.c_size_t),
                ("saved", ctypes.c_uint64), ("later", ctypes.c_char * 256)]


class CompileRequest(ctypes.Structure):
    """tempo_compile_request"""
    _fields_ = [("path", ctypes.c_char_p), ("bytes", ctypes.c_char_p), ("size", ctypes.c_size_t),
                ("name", ctypes.c_char_p), ("options", ctypes.POINTER(ctypes.c_char_p)), ("n_options", ctypes.c_size_t),
                ("wants_model", ctypes.c_int), ("wants_report", ctypes.c_int), ("stop", ctypes.POINTER(ctypes.c_int)),
                ("later", ctypes.c_char * 256)]


class CompiledOut(ctypes.Structure):
    """tempo_compiled, as far as it is read"""
    _fields_ = [("model", ctypes.c_void_p), ("model_size", ctypes.c_size_t), ("report", ctypes.c_char_p),
                ("text", ctypes.c_char_p), ("dumps", ctypes.c_char_p), ("messages", ctypes.c_char_p)]


SESSION, TEXT = ctypes.c_void_p, ctypes.c_char_p
TENSOR = ctypes.POINTER(Tensor)
# name: (result, operands); where the result is a status, an exception is made of it by the caller.
CALLS = {
    "tempo_open": (ctypes.c_int, [TEXT, ctypes.POINTER(Options), ctypes.POINTER(SESSION)]),
    "tempo_close": (None, [SESSION]),
    "tempo_message": (TEXT, [SESSION]),
    "tempo_input_count": (ctypes.c_size_t, [SESSION]),
    "tempo_output_count": (ctypes.c_size_t, [SESSION]),
    "tempo_input": (ctypes.c_int, [SESSION, ctypes.c_size_t, ctypes.POINTER(InfoOut)]),
    "tempo_output_info": (ctypes.c_int, [SESSION, ctypes.c_size_t, ctypes.POINTER(InfoOut)]),
    "tempo_bind": (ctypes.c_int, [SESSION, TEXT, TENSOR]),
    "tempo_seed": (None, [SESSION, ctypes.c_uint64, ctypes.c_uint64]),
    "tempo_keep": (ctypes.c_int, [SESSION, TEXT, TEXT]),
    "tempo_set_state": (ctypes.c_int, [SESSION, TEXT, TENSOR]),
    "tempo_get_state": (ctypes.c_int, [SESSION, TEXT, TENSOR]),
    "tempo_run": (ctypes.c_int, [SESSION]),
    "tempo_output": (ctypes.c_int, [SESSION, TEXT, TENSOR]),
    "tempo_memory_report": (ctypes.c_int, [SESSION, ctypes.POINTER(MemoryOut)]),
    "tempo_compile": (ctypes.c_int, [ctypes.POINTER(CompileRequest),
                                     ctypes.POINTER(ctypes.POINTER(CompiledOut))]),
    "tempo_compiled_free": (None, [ctypes.POINTER(CompiledOut)]),
    "tempo_version": (TEXT, []),
}

_home = None
_loaded = None


def use(folder):
    """Takes libtempo from a build folder or an installation's prefix. Before the first call: it is loaded once in
    a process."""
    global _home
    if _loaded is not None and folder != _home:
        raise errors.Usage("tempo.use: libtempo is loaded already, from another place", 64)
    _home = os.fspath(folder)


def _libraries(home):
    """Where the package's own folder, a build folder or a prefix may have the library; one by one, for a prefix such as
    /usr is large."""
    yield from (os.path.join(home, folder, LIBRARY) for folder in ("", "runtime", "lib"))
    yield from sorted(glob.glob(os.path.join(home, "lib*", "**", LIBRARY), recursive=True))


def _homes():
    """Folders to look into: just the one that was named, or those beside the package."""
    named = _home or os.environ.get("TEMPO_HOME")
    if named:
        return [named], True
    return [os.path.join(HERE, "lib"), os.path.join(HERE, "..", "..", "build")], False


def _first(paths):
    return next((p for p in paths if os.path.isfile(p)), None)


def _pkg_config(variable):
    try:
        said = subprocess.run(["pkg-config", f"--variable={variable}", "tempo"], capture_output=True, text=True,
                              check=False)
    except OSError:
        return None
    return said.stdout.strip() or None if said.returncode == 0 else None


def _missing(named):
    where = f"in {named[0]}" if named else "beside the package, where the loader looks, or by pkg-config"
    return errors.InputOutput(f"{LIBRARY} is not found {where}; hint: build Tempo, and name the build folder, or the "
                              "prefix that it is installed under, in TEMPO_HOME or tempo.use(FOLDER)", 5)


def _open():
    homes, named = _homes()
    found = _first(p for home in homes for p in _libraries(home))
    if found:
        return ctypes.CDLL(found)
    if named:
        raise _missing(homes)
    try:
        return ctypes.CDLL(LIBRARY)
    except OSError:
        folder = _pkg_config("libdir")
        if not folder or not os.path.isfile(os.path.join(folder, LIBRARY)):
            raise _missing(None) from None
        return ctypes.CDLL(os.path.join(folder, LIBRARY))


def load():
    """libtempo, with its calls declared."""
    global _loaded
    if _loaded is None:
        try:
            library = _open()
        except OSError as e:
            raise errors.InputOutput(f"libtempo cannot be loaded: {e}", 5) from e
        for name, (result, operands) in CALLS.items():
            call = getattr(library, name)
            call.restype, call.argtypes = result, operands
        _loaded = library
    return _loaded


def version():
    """The version of libtempo."""
    return load().tempo_version().decode()
