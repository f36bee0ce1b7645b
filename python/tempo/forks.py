"""A lock that a child of fork does not wait for: the thread that held it does not exist there."""
import os
import threading

from . import errors


class Lock:
    """One thread at a time, which may take it several times. In a child of fork where another thread held it: an error,
    because the guarded object was left in the middle of a change."""

    def __init__(self):
        self._lock, self._process = threading.RLock(), os.getpid()

    def __enter__(self):
        if self._process != os.getpid():
            if not self._lock.acquire(blocking=False):
                raise errors.Usage("another thread was running this when the process was forked; hint: make one of its "
                                   "own in the child, or fork while no thread runs it", 64)
            self._process = os.getpid()
            return
        self._lock.acquire()

    def __exit__(self, *unused):
        self._lock.release()
