"""The statuses of libtempo and exit codes of tempoc, which are the same numbers, as exceptions; and their messages,
with Python's names for options and functions."""
import re
import sys
import warnings


class Error(Exception):
    """`message` is Tempo's text, `code` its status: the exit code that the programs have for it."""

    def __init__(self, message, code):
        super().__init__(message)
        self.message, self.code = message, code

    def __reduce__(self):
        return type(self), (self.message, self.code)


class Failed(Error):
    """1: a comparison that was asked for (verify) found a difference."""


class BadInput(Error, ValueError):
    """2: a malformed file; a missing input, or one of another type or shape; an index out of range."""


class Unsupported(Error, NotImplementedError):
    """3: a valid model that Tempo cannot compile or run."""


class Limit(Error, MemoryError):
    """4: out of memory, a limit, or a memory budget that cannot be met."""


class InputOutput(Error):
    """5: the operating system said no."""


class NotFinite(Error, ArithmeticError):
    """6: a number that is not finite stopped the run."""


class Usage(Error, ValueError):
    """64: the call itself: an unknown name or option, outputs read before a run."""


class Bug(Error):
    """70: a bug in Tempo."""


BY_CODE = {1: Failed, 2: BadInput, 3: Unsupported, 4: Limit, 5: InputOutput, 6: NotFinite, 64: Usage, 70: Bug}


# Options that are True or False, and those with another name in Python.
SWITCHES = frozenset("""accumulate accumulate-gradients best-effort check-rules clip-last decay-all drop-predictions
    inexact list-passes list-rules loss-scale merge nesterov quiet restore-batch-norm retie stats time train-padding
    untie verbose verify verify-each""".split())
NAMES = {"dim": "dims"}
# A command line, which stays; options; functions of tempo.h.
WORDS = re.compile(r"""tempo(?:c|-run|-train)\ [^;,]* | --dim[ =](?P<dim>[^\s=;,)]+)=(?P<size>\w+)
                       | (?<![\w-])--(?P<name>[a-z][a-z0-9-]*)(?:=(?P<value>'[^']*'|[^\s;,:)]+))?
                       | (?<![\w-])-o\b | \btempo_(?P<call>set_state|get_state|keep|seed)\b""", re.VERBOSE)


def _spoken(found):
    if found["dim"]:
        return f'dims={{"{found["dim"]}": {found["size"]}}}'
    if found["call"]:
        return f"Session.{found['call']}"
    if not found["name"]:
        return "out" if found[0] == "-o" else found[0]
    name, value = NAMES.get(found["name"], found["name"].replace("-", "_")), found["value"]
    if value is None:
        return f"{name}=True" if found["name"] in SWITCHES else name
    return f"{name}={value}" if value.isdecimal() else f'{name}="{value.strip(chr(39))}"'


def spoken(message):
    """A message of tempoc or libtempo with Python's names for options and functions: dims={"batch": 32} for --dim
    batch=32, retie=True for --retie."""
    message = message.replace("tempoc --help=all lists all", "tempoc --help=all, with _ for -, lists all")
    return WORDS.sub(_spoken, message)


def of(code, message):
    """The exception for a code; Error itself where it has no class, such as a program that a signal ended."""
    return BY_CODE.get(code, Error)(spoken(message).strip(), code)


def reason(error, most=300):
    """An exception's cause, in one line: exporters wrap it in several, each with advice and traces."""
    while error.__cause__ is not None:
        error = error.__cause__
    said = re.sub(r"\x1b\[\d+m", "", str(error)).strip() or type(error).__name__
    return " ".join(said.split("\n\n")[0].split())[:most]


def warn(text):
    """A warning at the line that called Tempo, even through PyTorch."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("tempo", "torch"):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, stacklevel=level)
