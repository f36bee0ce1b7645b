"""A session of libtempo: numpy arrays in, numpy arrays out."""
import collections
import ctypes
import functools
import os

import numpy as np

from . import errors, forks, library

try:
    from ml_dtypes import bfloat16 as _bfloat16
except ImportError:  # then the bits are uint16
    _bfloat16 = np.uint16

BFLOAT16 = 16
# Element types by ONNX's numbers.
DTYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64, 9: np.bool_,
          10: np.float16, 11: np.float64, 12: np.uint32, 13: np.uint64, BFLOAT16: _bfloat16}
NUMBERS = {np.dtype(dtype): number for number, dtype in DTYPES.items() if number != BFLOAT16}
if _bfloat16 is not np.uint16:
    NUMBERS[np.dtype(_bfloat16)] = BFLOAT16

Info = collections.namedtuple("Info", ["name", "dtype", "type", "has_default"])
Info.__doc__ = """A graph input or output: numpy's dtype (None: not declared), ONNX's text, as "float[batch,16]"."""
Memory = collections.namedtuple("Memory", ["parameters", "inputs", "state", "outputs", "arena", "lower_bound", "saved",
                                           "peak_node", "live"])
Memory.__doc__ = """Bytes of a session, as tempo.h explains them; live: (name, type, bytes), at the peak."""


class _Held:
    """Bytes of libtempo's, as an array that keeps the session open."""

    def __init__(self, session, tensor, dtype):
        shape = tuple(tensor.dims[i] for i in range(tensor.rank))
        self.session = session
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": np.dtype(dtype).str,
                                    "data": (tensor.data or 1, True)}


def _read_only_view(session, tensor):
    dtype = np.dtype(DTYPES[tensor.dtype])
    if tensor.bytes == 0:
        return np.empty(tuple(tensor.dims[i] for i in range(tensor.rank)), dtype)
    plain = np.uint16 if tensor.dtype == BFLOAT16 else dtype  # the array interface knows no bfloat16
    return np.asarray(_Held(session, tensor, plain)).view(dtype)


def _alone(method):
    """One thread at a time: a session has one arena, and one set of bound inputs."""
    @functools.wraps(method)
    def locked(self, *args, **kwargs):
        with self._lock:
            return method(self, *args, **kwargs)
    return locked


class Session:
    """Runs one compiled model (a path, or what tempo.compile returned), or any graph that libtempo runs.

    device: "cpu", "cuda" or "cuda:N"; threads: 0: one per core; seed: of dropout. check_memory, tf32, patience,
    no_cudnn and ort_dropout are those of tempo.h. Threads that share a session wait for each other: run() binds, runs
    and copies as one. What is more than one call (seed and run, copy=False) is for the threads to order, or takes a
    session each.
    """

    def __init__(self, model, device=None, threads=0, seed=0, **options):
        self._handle = None
        self._lock = forks.Lock()
        self._library = library.load()
        self._model = model  # a Compiled deletes its file when it is freed
        self._bound = {}
        self._seed, self._step = seed, 0
        settings = library.Options(threads=threads, seed=seed, **options)
        settings.device = device.encode() if device else None
        handle = ctypes.c_void_p()
        status = self._library.tempo_open(os.fsencode(os.fspath(model)), ctypes.byref(settings), ctypes.byref(handle))
        self._handle = handle
        self._check(status)
        self.inputs = self._list(self._library.tempo_input_count, self._library.tempo_input)
        self.outputs = self._list(self._library.tempo_output_count, self._library.tempo_output_info)
        self._inputs = {info.name: info for info in self.inputs}

    # --- calls of the library ---

    def _check(self, status):
        if status != 0:
            raise errors.of(status, self._library.tempo_message(self._handle).decode(errors="replace"))

    def _open(self):
        if self._handle is None:
            raise errors.Usage("the session is closed", 64)
        return self._handle

    def _list(self, count, read):
        found, info = [], library.InfoOut()
        for i in range(count(self._handle)):
            read(self._handle, i, ctypes.byref(info))
            dtype = np.dtype(DTYPES[info.dtype]) if info.dtype in DTYPES else None
            found.append(Info(info.name.decode(), dtype, info.type.decode(), bool(info.has_default)))
        return found

    def _tensor(self, name, value):
        """(the array to keep, its tempo_tensor). Contiguous arrays are taken as they are."""
        info = self._inputs.get(name)
        if not isinstance(value, (np.ndarray, np.generic)):
            value = np.asarray(value, dtype=info.dtype if info else None)
        array = np.require(value, requirements=["C", "A"]).reshape(np.shape(value))
        array = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
        number = NUMBERS.get(array.dtype)
        if number is None:
            raise errors.BadInput(f"input '{name}': an array of {array.dtype} is none of Tempo's types", 2)
        if number == 4 and info and "bfloat16" in info.type:
            number = BFLOAT16
        return array, self.describe(number, array.shape, array.ctypes.data, array.nbytes)

    @staticmethod
    def describe(dtype, shape, address, nbytes):
        """A tempo_tensor of bytes at an address; dtype is ONNX's number."""
        dims = (ctypes.c_int64 * len(shape))(*shape)
        return library.Tensor(dtype, len(shape), dims, address, nbytes)

    @_alone
    def bind_address(self, name, tensor, owner):
        """Binds bytes that are described already (describe), and keeps their owner until the next binding."""
        self._check(self._library.tempo_bind(self._open(), name.encode(), ctypes.byref(tensor)))
        self._bound[name] = owner

    # --- what users call ---

    @_alone
    def bind(self, name, value):
        """Binds an input until it is bound again. A contiguous array is borrowed, not copied: the next run sees later
        changes of its elements. A uint16 array serves as the bits of a bfloat16 input."""
        array, tensor = self._tensor(name, value)
        self.bind_address(name, tensor, array)

    @_alone
    def run(self, feeds=None, outputs=None, copy=True):
        """Binds the feeds (name: array), runs, and returns {name: array} of all outputs, or of those named.

        Inputs that are not fed keep their last binding, or their default. copy=False: the arrays are views of the
        session's memory, read only and valid until the next call of bind or run."""
        for name, value in (feeds or {}).items():
            self.bind(name, value)
        self._check(self._library.tempo_run(self._open()))
        names = [info.name for info in self.outputs] if outputs is None else outputs
        return {name: self._output(name, copy) for name in names}

    @_alone
    def output_tensor(self, name):
        """The tempo_tensor of an output of the last run, valid until the next call of bind or run."""
        tensor = library.Tensor()
        self._check(self._library.tempo_output(self._open(), name.encode(), ctypes.byref(tensor)))
        return tensor

    def _output(self, name, copy):
        view = _read_only_view(self, self.output_tensor(name))
        return view.copy() if copy else view

    @_alone
    def seed(self, seed, step=0):
        """Seed and step of dropout from the next run on: two runs with the same pair drop the same elements."""
        self._library.tempo_seed(self._open(), seed, step)

    @_alone
    def keep(self, output, input):
        """From now on an output replaces an input in the next run, inside the session: a state."""
        self._check(self._library.tempo_keep(self._open(), output.encode(), input.encode()))

    @_alone
    def set_state(self, input, value):
        """The elements that the next run begins with, copied in."""
        _, tensor = self._tensor(input, value)
        self._check(self._library.tempo_set_state(self._open(), input.encode(), ctypes.byref(tensor)))

    @_alone
    def get_state(self, input):
        """A copy of the elements that the next run begins with."""
        tensor = library.Tensor()
        self._check(self._library.tempo_get_state(self._open(), input.encode(), ctypes.byref(tensor)))
        return _read_only_view(self, tensor).copy()

    @_alone
    def memory(self):
        """Where the bytes are, for the current bindings: a Memory."""
        report = library.MemoryOut()
        self._check(self._library.tempo_memory_report(self._open(), ctypes.byref(report)))
        live = [(report.live[i].name.decode(), (report.live[i].type or b"").decode(), report.live[i].bytes)
                for i in range(report.n_live)]
        node = report.peak_node.decode() if report.peak_node else ""
        return Memory(report.parameters, report.inputs, report.state, report.outputs, report.arena, report.lower_bound,
                      report.saved, node, live)

    @_alone
    def close(self):
        """Frees everything; views of outputs are invalid from then on."""
        if self._handle is not None:
            self._library.tempo_close(self._handle)
            self._handle = None
            self._bound.clear()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None) is not None:
            self.close()
