"""gate_reach.py: which functions of Tempo's programs a test ran (reach.c watches them), and what those are made of
(gate_code.py)."""
import functools
import hashlib
import os
import platform
import shutil
import struct
import subprocess

import gate_code

HERE = os.path.dirname(os.path.abspath(__file__))
UNWATCHED, WATCHED = 1, 2  # bits of the first byte that reach.c tells


class Reach:
    """Of the programs of one build folder, which is built and stays as it is."""

    def __init__(self, build):
        self.folder = os.path.join(os.path.abspath(build), "gate")
        self.sites, self.hits = os.path.join(self.folder, "sites"), os.path.join(self.folder, "hits")
        for folder in (self.sites, self.hits):
            shutil.rmtree(folder, ignore_errors=True)  # of programs as they were
            os.makedirs(folder)
        self.library = os.path.join(self.folder, "reach.so")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", self.library, os.path.join(HERE, "reach.c")], check=True)
        self.linked, self.objects = gate_code.linked(os.path.abspath(build)), {}

    @staticmethod
    def works():
        """Whether this is a machine that reach.c is for."""
        return platform.machine() == "x86_64" and platform.system() == "Linux"

    @functools.cache
    def program(self, path):
        """A gate_code.Program; None for other files."""
        if path not in self.linked or not os.path.exists(path):
            return None
        for one in self.linked[path]:
            if one not in self.objects:
                self.objects[one] = gate_code.Object(one)
        program = gate_code.Program(path, [self.objects[one] for one in self.linked[path]])
        return program if program.sites else None

    @functools.cache
    def prepare(self, path):
        """Writes a program's sites where reach.c finds them."""
        program = self.program(path)
        there, pages = program.with_breakpoints()
        with open(os.path.join(self.sites, mangled(path)), "wb") as file:
            file.write(b"".join(struct.pack("<I", address) for address, _ in program.sites) + there)
        with open(os.path.join(self.sites, mangled(path) + "!text"), "wb") as file:
            file.write(pages)

    def close(self):
        """Removes what only tests that run need: hundreds of MB."""
        for folder in (self.sites, self.hits):
            shutil.rmtree(folder)

    def of(self, test):
        """The paths of the programs that a test may start."""
        return [path for path in test.files if self.program(path)]

    def watch(self, test):
        """Variables with which the test tells what it reaches."""
        folder = os.path.join(self.hits, mangled(test.name))
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        for path in self.of(test):
            self.prepare(path)
            with open(os.path.join(folder, mangled(path)), "wb") as file:
                file.write(bytes(1 + len(self.program(path).sites)))
        return {"LD_PRELOAD": self.library, "TEMPO_REACH_SITES": self.sites, "TEMPO_REACH_HITS": folder}

    def reached(self, test):
        """{program: functions that the test has run since watch()}; no functions: it did not start the program. None:
        it is not known, and a change of any may matter."""
        told, folder = {}, os.path.join(self.hits, mangled(test.name))
        for path in self.of(test):
            with open(os.path.join(folder, mangled(path)), "rb") as file:
                hits = file.read()
            if hits[0] & UNWATCHED:
                return None
            told[path] = sorted({key for (_, keys), hit in zip(self.program(path).sites, hits[1:]) if hit
                                 for key in keys}) if hits[0] & WATCHED else []
        shutil.rmtree(folder)
        return told if any(told.values()) else None

    def code(self, told):
        """{program: the hash of these functions, as they are now} by what reached() gave."""
        def hashed(path, keys):
            program = self.program(path)
            lines = (f"{key} {program.hash(key)}\n" for key in keys) if program else [path]
            return hashlib.sha256("".join(lines).encode()).hexdigest()
        return {path: hashed(path, keys) for path, keys in told.items()}


def mangled(name):
    """A path as the name of a file."""
    return name.replace("/", "!")
