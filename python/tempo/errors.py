"""What a status of libtempo, or an exit code of tempoc, is in Python. Both are the same numbers."""


class Error(Exception):
    """`message` is what Tempo says, `code` its status: the exit code that the programs have for it."""

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
    """70: a mistake of Tempo's."""


BY_CODE = {1: Failed, 2: BadInput, 3: Unsupported, 4: Limit, 5: InputOutput, 6: NotFinite, 64: Usage, 70: Bug}


def of(code, message):
    """The exception for a code; Error itself where it has no class, such as a program that a signal ended."""
    return BY_CODE.get(code, Error)(message.strip(), code)
