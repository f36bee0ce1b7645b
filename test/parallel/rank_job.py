"""rank_job.py: jobs of several ranks that mpirun starts, and how they end."""
import os
import signal
import subprocess
import tempfile
import time

from programs import check, text_of

ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1",
               "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}  # MPI keeps what it takes
GONE_IN, SILENT_IN = 10, 3  # seconds; the second is what --rank-timeout is in tests


def is_alive(process):
    try:
        return text_of(f"/proc/{process}/stat").rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


class Job:
    """A command under mpirun. Whoever makes one sets `processes`: their numbers, by rank."""

    def __init__(self, command, environment):
        self.output, self.processes = tempfile.TemporaryFile(), {}
        self.mpirun = subprocess.Popen(command, env=environment, stdout=self.output, stderr=self.output,
                                       start_new_session=True)

    def text(self):
        """What mpirun has written. It shares the file's position: after a seek here it writes over its own lines."""
        return os.pread(self.output.fileno(), 1 << 20, 0).decode()

    def disturb(self, victim, number):
        """Sends the rank the signal. How messages may name it: it by itself, or, where it is killed, mpirun."""
        os.kill(self.processes[victim], number)
        names = (f"rank {victim} of {len(self.processes)} (process {self.processes[victim]} on ",
                 f"process rank {victim} with PID")
        return names if number == signal.SIGKILL else names[:1]

    def end(self, seconds, what, *named):
        """All end in so many seconds, and the output has one of the texts. Returns how long it took, and mpirun's exit
        code."""
        began = time.monotonic()
        try:
            code = self.mpirun.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        left = [p for p in self.processes.values() if is_alive(p)]
        while left and time.monotonic() - began < seconds:
            time.sleep(0.02)
            left = [p for p in left if is_alive(p)]
        took, said = time.monotonic() - began, self.text()
        check(code is not None and not left, f"{what}: {left} are left after {took:.1f} s, mpirun {code}\n{said}")
        check(not named or any(name in said for name in named), f"{what}: nothing of {named} in\n{said}")
        for process in [self.mpirun.pid, *left]:
            if is_alive(process):
                os.kill(process, signal.SIGKILL)
        self.output.close()
        return took, code
