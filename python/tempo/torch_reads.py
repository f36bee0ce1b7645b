"""Which functions a module's forward runs, in its own code and in that of libraries, while PyTorch's exporter traces
it.

The names in a function's code show which values it reads besides its operands: globals, attributes of Python modules,
its closure and defaults; torch_state.State looks at these values. The functions of a call are known once it was run,
and all values that decide which functions run are among those read: functions that were not run need not be known.
PyTorch's functions count as known, except the forward of its modules, whose names user code may have replaced."""
import collections
import contextlib
import datetime
import functools
import gc
import operator
import random
import sys
import types

from torch.overrides import TorchFunctionMode

from . import errors

LIBRARIES = frozenset([*getattr(sys, "stdlib_module_names", ("collections", "contextlib", "functools", "re", "typing")),
                       "torch", "numpy", "sympy", "mpmath", "tempo"])  # their own state, such as caches, does not count
LIBRARIES -= {"types"}  # forward; classes made by dataclasses.make_dataclass() report this
QUIET = frozenset(["torch", "sympy", "mpmath", "tempo", "logging", "warnings", "threading", "importlib", "linecache",
                   "inspect", "traceback", "tokenize", "unittest", "zipimport"])  # these may read clocks and files
CHANGING = frozenset("""time perf_counter monotonic process_time thread_time localtime gmtime ctime strftime
    clock_gettime now utcnow today open input urandom getrandom getpid stat listdir scandir times""".split())

Ran = collections.namedtuple("Ran", ["function", "code", "space"])  # None: made by a function that was run; its globals


def root_of(name):
    return (name or "").partition(".")[0]


def is_library(thing):
    """Whether a class or function is of Python's own library, numpy's or PyTorch's."""
    name = getattr(thing, "__module__", None)
    return name == "builtins" or isinstance(name, str) and root_of(name) in LIBRARIES


@functools.lru_cache(maxsize=None)
def names_in(code):
    """The names that a function's code has, for globals and attributes, and texts that may be names for getattr()."""
    texts = [const for const in code.co_consts if isinstance(const, str) and const.isidentifier()]
    return tuple(dict.fromkeys([*code.co_names, *texts]))


def _is_of_interest(code, name):
    if root_of(name) not in LIBRARIES or name == "os":
        return True
    return name.startswith("torch.nn.modules.") and code.co_name == "forward"


def _outside(function, frame):
    """A C function's reads that are neither Python's nor a tensor, in words; None: nothing, or it is a library's."""
    owner, name, module = (getattr(function, key, None) for key in ("__self__", "__name__", "__module__"))
    if not isinstance(name, str) or name.removesuffix("_ns") not in CHANGING and not isinstance(owner, random.Random):
        return None
    while frame is not None and root_of(frame.f_globals.get("__name__")) in LIBRARIES - QUIET:
        frame = frame.f_back  # the caller of Python's own functions
    if frame is None or root_of(frame.f_globals.get("__name__")) in QUIET:
        return None
    if module == "time":
        return f"time.{name}"
    if isinstance(owner, type) and issubclass(owner, datetime.date):
        return f"{owner.__name__}.{name}"
    if module in ("posix", "nt", "io", "_io", "builtins"):
        return name
    return f"Random.{name}" if isinstance(owner, random.Random) else None


class _Aside(TorchFunctionMode):
    """Runs PyTorch's functions without the look at each function that starts, which would cost more than they do."""

    def __init__(self, look):
        super().__init__()
        self.look = look

    def __torch_function__(self, function, kinds, args=(), kwargs=None):
        sys.setprofile(None)
        try:
            return function(*args, **(kwargs or {}))
        finally:
            sys.setprofile(self.look)


class Reads:
    """found: a list of Ran, in the order in which they were first run, which grows from trace to trace; outside: the
    last function called that reads values whose changes cannot be noticed, or None."""

    def __init__(self):
        self.found, self.seen, self.outside = [], set(), None
        self.functions, self.states = {}, ()

    @contextlib.contextmanager
    def watching(self, *states):
        """Looks at the functions that run inside; the states read from each new function before it runs."""
        self.states, self.outside = states, None
        for function in [thing for thing in gc.get_objects() if type(thing) is types.FunctionType]:
            self.functions.setdefault(id(function.__code__), []).append(function)
        before = sys.getprofile()
        try:
            with _Aside(self._look):
                sys.setprofile(self._look)
                try:
                    yield
                finally:
                    sys.setprofile(None)
        finally:
            self.functions, self.states = {}, ()
            if hasattr(before, "enable"):  # cProfile's, which is no function
                before.enable()
            else:
                sys.setprofile(before)

    def _look(self, frame, event, what):
        if event == "call":
            code, space = frame.f_code, frame.f_globals
            if (id(code), id(space)) not in self.seen and _is_of_interest(code, space.get("__name__") or ""):
                self._add(frame, code, space)
        elif event == "c_call" and self.outside is None:
            self.outside = _outside(what, frame)

    def _add(self, frame, code, space):
        """The functions that may be the one that starts: a frame does not name it, but has its closure."""
        alike = [f for f in self.functions.get(id(code), ()) if f.__globals__ is space]
        if len(alike) > 1 and code.co_freevars:
            values = [frame.f_locals.get(name) for name in code.co_freevars]
            alike = [f for f in alike if all(map(operator.is_, map(Cells(f).get, code.co_freevars), values))]
        else:
            self.seen.add((id(code), id(space)))
        for function in alike or [None]:
            key = id(code), id(space if function is None else function), "read"
            if key not in self.seen:
                self.seen.add(key)
                self.found.append(Ran(function, code, space))
                for state in self.states:
                    state.read(self.found[-1])
                    if state.doubt:  # the function's changes could not be undone
                        raise errors.Unsupported(state.doubt, 3)


class Cells:
    """A function's closure as a namespace."""

    def __init__(self, function):
        self.cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))

    def get(self, name):
        try:
            return self.cells[name].cell_contents
        except ValueError:  # nothing yet
            return None

    def put(self, name, value):
        self.cells[name].cell_contents = value


class Attributes:
    """An object's attributes as a namespace, of which `put` takes those that its class has slots for."""

    def __init__(self, owner, slots=()):
        self.owner, self.slots = owner, slots

    def get(self, name):
        return getattr(self.owner, name, None)

    def put(self, name, value):
        self.slots[name].__set__(self.owner, value)
