"""programs.py: what test scripts share of running programs, of small files and of counting what holds. Standard library
alone.

Scripts find this folder by PYTHONPATH, which test/meson.build and test/gate set; by hand:

    PYTHONPATH=test/lib build/py/bin/python test/run/einsum.py build/tempo-run

A check that can go on counts by `check`; cases that fail as a whole are run by `case`; `finish` ends the script.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import traceback

FOLDER = tempfile.TemporaryDirectory()
SECONDS = 300  # the longest that a program may take where a script says nothing else
# A child's peak includes what its parent had before exec, so a small process stands between. It prints exit code,
# seconds, kibibytes.
WATCH = """import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
told = os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss
os.write(int(os.environ["WATCH_FD"]), b"%d %f %d" % told)"""
_counts = {True: 0, False: 0}


class Failed(RuntimeError):
    """A program ended with another exit code than it should."""


class Done:
    """How a program ended: its exit code, what it wrote to standard output and to standard error."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err, self.text = code, out, err, out + err


def path(name):
    """In a scratch folder of this process."""
    return os.path.join(FOLDER.name, name)


def write(to, content):
    """A file of this text, or of these bytes; returns its path."""
    with open(to, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
    return to


def bytes_of(file):
    with open(file, "rb") as stream:
        return stream.read()


def text_of(file):
    return bytes_of(file).decode()


def json_of(file):
    return json.loads(bytes_of(file))


def run(*command, code=0, env=None, timeout=SECONDS, **how):
    """Runs a program, which must end with this exit code (None: with any). `env`: what it finds beside the environment
    of the script; `how`: see subprocess.run. What is no UTF-8 is shown by escapes."""
    command = [str(word) for word in command]
    done = subprocess.run(command, capture_output=True, timeout=timeout, check=False,
                          env={**os.environ, **(env or {})}, **how)
    done = Done(done.returncode, *(text.decode("utf-8", "backslashreplace") for text in (done.stdout, done.stderr)))
    if code is not None and done.code != code:
        raise Failed(f"exit code {done.code}, expected {code}: {' '.join(command)}\n{done.text.strip()}")
    return done


def told(*command, code=0, says=(), **how):
    """Runs a program, and counts whether its exit code is this one and what it prints holds each of `says`; returns
    what it prints."""
    done = run(*command, code=None, **how)
    check(done.code == code, f"exit code {done.code}, expected {code}: {command}\n{done.text}")
    for words in says:
        check(words in done.text, f"{words!r} is not in what was printed: {command}\n{done.text}")
    return done.text


def watched(*command, cwd=None):
    """Runs a program whatever its exit code; the result's `seconds` are processor time (a busy machine may make it
    wait), `peak` is resident bytes."""
    with tempfile.TemporaryFile() as figures:
        done = run(sys.executable, "-S", "-E", "-c", WATCH, *command, cwd=cwd, pass_fds=[figures.fileno()], timeout=60,
                   env={"WATCH_FD": str(figures.fileno())})
        figures.seek(0)
        code, seconds, peak = figures.read().split()
    done.code, done.seconds, done.peak = int(code), float(seconds), int(peak) << 10
    return done


def check(holds, *what):
    """Counts; what does not hold prints a line. Returns whether it holds."""
    _counts[bool(holds)] += 1
    if not holds:
        print("FAIL", *what, flush=True)
    return bool(holds)


def expect(what, holds, told=""):
    """A check that prints a line, whether it holds or not."""
    if check(holds, f"{what}: {told}"):
        print("ok  ", what, flush=True)


def case(name, function, *operands):
    """Counts and prints a case, which has the scratch folder for itself: what `function` returns is None, or (None,
    note), where it is right, and else what is wrong; so is an exception, of whatever kind, for this case alone."""
    for left in os.scandir(FOLDER.name):
        shutil.rmtree(left) if left.is_dir(follow_symlinks=False) else os.remove(left)
    try:
        why = function(*operands)
    except Failed as e:
        why = str(e)
    except Exception as e:  # pylint: disable=broad-except
        at = traceback.extract_tb(e.__traceback__)[-1]
        why = f"{os.path.basename(at.filename)}:{at.lineno}: {type(e).__name__}: {str(e).strip()[:1500]}"
    why, note = why if isinstance(why, tuple) else (why, "")
    if check(not why, f"{name}: {why}"):
        print(f"ok   {name}{': ' + note if note else ''}", flush=True)


def each_check(functions, names, call=lambda check: check()):
    """Calls `call (check)` for each check_NAME of `functions` (name -> function) that `names` asks for, all if it is
    empty, and finishes."""
    checks = {name[len("check_"):]: check for name, check in functions.items() if name.startswith("check_")}
    for name in names or checks:
        call(checks[name])
    finish()


def failed():
    return _counts[False] > 0


def finish():
    """Prints the counts and ends the script: a failure, where something failed or nothing was checked."""
    print(f"{_counts[True]} passed, {_counts[False]} failed")
    sys.exit(failed() or not _counts[True])
