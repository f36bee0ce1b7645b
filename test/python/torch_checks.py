"""torch_checks.py: what the tests beside PyTorch share: packages and folders that they need, and cheaper exports.

    from torch_checks import run_checks, set_up
    set_up("torch", "onnx", "onnxscript")
"""
import functools
import importlib.util
import os
import sys


def have(*packages):
    return all(importlib.util.find_spec(name) for name in packages)


def set_up(*packages):
    """The first two arguments of the command line on the path and in TEMPO_HOME. Where a package is missing, the test
    says so and is skipped (exit code 77)."""
    missing = [name for name in packages if not have(name)]
    if missing:
        print(f"skipped: {sys.executable} lacks {', '.join(missing)}; -Dtorch_python names a Python that has them")
        sys.exit(77)
    source, build = sys.argv[1:3]
    os.environ.update(TEMPO_HOME=build, TRANSFORMERS_VERBOSITY="error", CUDA_VISIBLE_DEVICES="")
    sys.path[:0] = [os.path.join(source, folder) for folder in ("python", "test/lib", "models")]
    keep_registry()


def keep_registry():
    """Exports share what PyTorch's exporter reads of onnxscript: read again for each, it takes more than half of the
    time of each. A release that keeps it elsewhere only is slower."""
    try:
        from torch.onnx._internal.exporter._registration import ONNXRegistry
        ONNXRegistry.from_torchlib = staticmethod(functools.lru_cache(ONNXRegistry.from_torchlib))
    except (ImportError, AttributeError):
        pass


def chosen(names):
    """What the command line asks for: all, part K of N in turn (K/N), or those that have one of its words."""
    words = sys.argv[3:]
    if len(words) == 1 and "/" in words[0]:
        part, parts = map(int, words[0].split("/"))
        return list(names)[part - 1::parts]
    return [name for name in names if not words or any(word in name for word in words)]


def run_checks(functions):
    """Calls the functions check_NAME of `functions` (a script's globals()) that are chosen."""
    checks = {name[6:]: f for name, f in functions.items() if name.startswith("check_") and callable(f)}
    for name in chosen(checks):
        checks[name]()
        print(f"{name}: as it should be", flush=True)
