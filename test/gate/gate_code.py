"""gate_code.py: what a program's functions are made of, by the object files that it is linked from.

A function's hash covers its instructions, the names of what it refers to, and the contents of the data that it reads,
and of what that refers to in turn: tables, strings, embedded files. It is the same after other functions were changed,
and wherever the linker puts it. Functions that it calls have hashes of their own; so have those in a table.

Static functions are called FILE:NAME. ELF for 64 bits, little-endian, as gcc, clang and nvcc write it.
"""
import collections
import hashlib
import os
import struct

SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
RELOCATION = struct.Struct("<QQq")
RELA, NOBITS, ALLOCATED, EXECUTABLE = 4, 8, 2, 4
OBJECT, FUNCTION, FILE, RESOLVER = 1, 2, 4, 10
UNDEFINED, RESERVED = 0, 0xFF00
# x86-64's: a breakpoint, and relocations whose addresses are relative (R_X86_64_PC32, _PLT32).
BREAKPOINT, RELATIVE = 0xCC, (2, 4)
# Machine code of GPUs, which no processor runs; unwinding, which no test reads.
LEFT_OUT = (".nv_fatbin", ".nvFatBinSegment", ".eh_frame")
# Register globals with sanitizers, which they do for each line that moved.
NOT_CODE = (".module_ctor", ".module_dtor")

Section = collections.namedtuple("Section", "name type flags address offset size link info")
Symbol = collections.namedtuple("Symbol", "key name kind section value size local")
# hash of what a function or a piece of data has to itself; data: numbers of the object's sections; names: of globals
Piece = collections.namedtuple("Piece", "hash data names")


def elf(path):
    """The bytes, sections and symbols of an object file or program; static symbols have their file in the key."""
    with open(path, "rb") as file:
        data = file.read()
    start, = struct.unpack_from("<Q", data, 0x28)
    number, names = struct.unpack_from("<HH", data, 0x3C)
    rows = [SECTION.unpack_from(data, start + i * SECTION.size) for i in range(number)]

    def text(at):
        return data[at:data.index(b"\0", at)].decode()
    strings = rows[names][4]
    sections = [Section(text(strings + row[0]), row[1], row[2], *row[3:8]) for row in rows]
    symbols, file = [], ""
    table = next((s for s in sections if s.type == 2), None)
    if table:
        strings = sections[table.link].offset
        for at, info, _, section, value, size in SYMBOL.iter_unpack(data[table.offset:table.offset + table.size]):
            name, kind, local = text(strings + at), info & 15, info >> 4 == 0
            file = name if kind == FILE else file
            key = f"{file}:{name}" if local and file else name
            symbols.append(Symbol(key, name, kind, section, value, size, local))
    return data, sections, symbols


class ObjectFile:
    """One that is being read: inside: {section: functions}; relocations: {section: rows, in order of their place}."""

    def __init__(self, path):
        self.content, self.sections, self.symbols = elf(path)
        self.inside, self.relocations = collections.defaultdict(list), {}
        for symbol in self.symbols:
            if symbol.kind in (FUNCTION, RESOLVER) and symbol.section < RESERVED:
                self.inside[symbol.section].append(symbol)
        for section in self.sections:
            if section.type == RELA and self.sections[section.info].flags & ALLOCATED:
                rows = RELOCATION.iter_unpack(self.content[section.offset:section.offset + section.size])
                self.relocations[section.info] = sorted(rows)

    def piece(self, number, begin, end):
        """What the bytes from begin to end of a section are made of."""
        section, data, names = self.sections[number], set(), set()
        found = hashlib.blake2b(digest_size=8)
        if section.type == NOBITS:
            found.update(b"%d" % (end - begin))
        else:
            found.update(self.content[section.offset + begin:section.offset + end])
        for at, info, addend in self.relocations.get(number, ()):
            if begin <= at < end:
                symbol, kind = self.symbols[info >> 32], info & 0xFFFFFFFF
                found.update(f"{at - begin} {kind} {self._target(symbol, kind, addend, data, names)}\n".encode())
        return Piece(found.hexdigest(), frozenset(data), frozenset(names))

    def _target(self, symbol, kind, addend, data, names):
        """What an operand refers to, as text; adds the number of its section to data, or its name to names."""
        if symbol.section == UNDEFINED or not symbol.local:
            names.add(symbol.name)
            return f"{symbol.name} {addend}"
        place = symbol.value + addend
        if symbol.section >= RESERVED:
            return place
        section = self.sections[symbol.section]
        if section.name in LEFT_OUT:
            return ""
        if not section.flags & EXECUTABLE:
            data.add(symbol.section)
            return f"{section.name} {place}"
        near = place + (4 if kind in RELATIVE else 0)  # these count from behind the operand
        for function in self.inside[symbol.section]:
            if function.value <= near < function.value + max(function.size, 1):
                return f"{function.key} {near - function.value}"
        return f"{section.name} {place}"


class Object:
    """functions: {key: Piece}, data: {section number: Piece}, globals: {name of data: section number}"""

    def __init__(self, path):
        file = ObjectFile(path)
        self.functions = {function.key: file.piece(number, function.value, function.value + function.size)
                          for number, members in file.inside.items() for function in members}
        self._join_cold()
        self.data = {number: file.piece(number, 0, section.size) for number, section in enumerate(file.sections)
                     if section.flags & ALLOCATED and not section.flags & EXECUTABLE and section.type != RELA
                     and section.name not in LEFT_OUT}
        self.globals = {symbol.name: symbol.section for symbol in file.symbols
                        if not symbol.local and symbol.section in self.data}

    def _join_cold(self):
        """The part of a function that is hardly run has no start of its own: it counts as the function."""
        for key in [key for key in self.functions if ".cold" in key]:
            whole = key[:key.index(".cold")]
            whole = whole if whole in self.functions else whole.rpartition(":")[2]
            if whole in self.functions:
                a, b = self.functions[whole], self.functions.pop(key)
                self.functions[whole] = Piece(a.hash + b.hash, a.data | b.data, a.names | b.names)


class Program:
    """A program, by its path, and the Objects that it is linked from."""

    def __init__(self, path, objects):
        self.by_key, self.by_name, self.hashes = collections.defaultdict(list), collections.defaultdict(list), {}
        for one in objects:
            for key in one.functions:
                self.by_key[key].append(one)
            for name in one.globals:
                self.by_name[name].append(one)
        self.path = path
        _, sections, symbols = elf(path)
        text = next(number for number, section in enumerate(sections) if section.name == ".text")
        self.loaded_by = sections[text].address - sections[text].offset  # how far from its place in the file
        self.sites = self._sites(text, symbols)

    def with_breakpoints(self, page=4096):
        """The bytes at the sites, and the pages from the first site to the last with breakpoints instead of them."""
        first, last = self.sites[0][0] // page * page, (self.sites[-1][0] // page + 1) * page
        with open(self.path, "rb") as file:
            file.seek(first - self.loaded_by)
            pages = bytearray(file.read(last - first))
        there = bytes(pages[address - first] for address, _ in self.sites)
        for address, _ in self.sites:
            pages[address - first] = BREAKPOINT
        return there, pages

    def _sites(self, text, symbols):
        """[(address, keys of the functions there)], in ascending order."""
        found = collections.defaultdict(set)
        for symbol in symbols:
            if symbol.kind != FUNCTION or symbol.section != text or symbol.name.endswith(NOT_CODE):
                continue
            for key in (symbol.key, symbol.name):  # a hidden function is static in the program, of no file
                if key in self.by_key:
                    found[symbol.value].add(key)
                    break
        return sorted((address, sorted(keys)) for address, keys in found.items())

    def hash(self, key):
        """Of a function with all the data that it can read; '' where there is none of this key (any more)."""
        if key not in self.hashes:
            parts = set()
            for one in self.by_key.get(key, []):
                piece = one.functions[key]
                parts.add(piece.hash)
                self._reads(one, piece, parts, set())
            self.hashes[key] = hashlib.blake2b(" ".join(sorted(parts)).encode(), digest_size=8).hexdigest() \
                if parts else ""
        return self.hashes[key]

    def _reads(self, one, piece, parts, seen):
        waiting = [(one, piece)]
        while waiting:
            one, piece = waiting.pop()
            reached = [(one, number) for number in piece.data if number in one.data]
            reached += [(other, other.globals[name]) for name in piece.names for other in self.by_name.get(name, [])]
            for owner, number in reached:
                if (id(owner), number) not in seen:
                    seen.add((id(owner), number))
                    parts.add(owner.data[number].hash)
                    waiting.append((owner, owner.data[number]))


def linked(build):
    """{program: paths of the objects that it is linked from} of a build folder, as build.ninja says."""
    inputs, programs = {}, []
    with open(os.path.join(build, "build.ninja"), encoding="utf-8") as file:
        for line in file:
            if line.startswith("build ") and "LINKER" in line.split(": ", 1)[1].split(" ", 1)[0]:
                left, right = line[6:].split(": ", 1)
                rule, *words = right.split()
                output = left.split(" | ")[0].strip()
                inputs[output] = [word for word in words if word.endswith((".o", ".a"))]
                if rule != "STATIC_LINKER" and "shared" not in rule and not output.split(".so")[1:]:
                    programs.append(output)

    def objects(name):
        for word in inputs.get(name, []):
            if word.endswith(".o"):
                yield word
            elif word in inputs:
                yield from objects(word)
    return {os.path.join(build, name): sorted({os.path.join(build, o) for o in objects(name)}) for name in programs}
