"""Tempo from Python: compiles ONNX models into training graphs that need less memory, and runs them.

    compiled = tempo.compile("model.onnx", recipe="tiled")
    session = tempo.Session(compiled)
    gradients = session.run({"x": x, "labels": labels})

tempo.torch.wrap needs PyTorch, and runs a torch.nn.Module's forward and backward pass. docs/howto/own-loop.md in the
repository says more.
"""
from .compiler import Compiled, compile, fit_batch
from .errors import BadInput, Bug, Error, Failed, InputOutput, Limit, NotFinite, Unsupported, Usage
from .library import use, version
from .session import Info, Memory, Session

__all__ = ["BadInput", "Bug", "Compiled", "Error", "Failed", "Info", "InputOutput", "Limit", "Memory", "NotFinite",
           "Session", "Unsupported", "Usage", "compile", "fit_batch", "use", "version"]
