#!/usr/bin/env python3
"""Holds the machine code of CUDA kernels to their budgets: registers that leave room for enough warps, nothing spilled
to memory, and no more instructions for an element than can be issued while its bytes go by.

usage: budgets.py CUOBJDUMP OBJECTS BUDGETS [--table] [WORD...]
OBJECTS is a folder of what nvcc made, with code for sm_90a. BUDGETS has lines
    budget | FILE | KERNEL | threads of a block | bytes of an element | elements in a pass of a thread | warps | share
    stack | FILE | KERNEL | bytes | why
of which FILE is an object's name without '_cuda.cu.o', KERNEL the kernel's name with its template arguments. A kernel
with a budget has at least so many warps at a time on a multiprocessor, as registers and static shared memory let it,
and its instructions for an element are at most this share of those that can be issued while the element's bytes go by:
they are counted in its longest loop with accesses of 16 bytes, where it has one, else over all of it, without what
goes through elements one by one. Every kernel has no stack, and reads and writes no local memory, but those with a
stack line: theirs has at most so many bytes. With --table the figures of all kernels with budgets are printed, and of
all others whose line has one of the words.
"""
import collections
import concurrent.futures
import os
import re
import subprocess
import sys

ARCH = "sm_90a"
REGISTERS, WARPS, BLOCKS, SHARED = 65536, 64, 32, 227 * 1024  # of a multiprocessor of compute capability 9.0
RESERVED = 1024                                               # bytes of shared memory of each block
# Instructions that 132 multiprocessors issue for 32 lanes at 1.98 GHz while a byte goes by at 4.3 TB/s.
ISSUED = 132 * 4 * 32 * 1.98e9 / 4.3e12

Kernel = collections.namedtuple("Kernel", "file name registers stack shared code")
Budget = collections.namedtuple("Budget", "threads bytes elements warps share")


def demangled(text):
    return subprocess.run(["c++filt"], input=text, capture_output=True, text=True, check=True).stdout


def short(name):
    """A demangled kernel's name with its template arguments: without result, namespaces and parameters."""
    name = name.replace("(anonymous namespace)::", "")
    depth = 0
    for i, c in enumerate(name):
        depth += (c == "<") - (c == ">")
        if c == "(" and depth == 0:
            name = name[:i]
            break
    return re.sub(r"^void ", "", name).strip()


def code_of(cuobjdump, path):
    """The instructions of each kernel: (address, opcode, operands)."""
    text = subprocess.run([cuobjdump, "-arch", ARCH, "-sass", path], capture_output=True, text=True, check=True).stdout
    kernels, code = {}, None
    for line in text.splitlines():
        start = re.search(r"Function : (\S+)", line)
        if start:
            code = kernels.setdefault(start[1], [])
            continue
        found = re.match(r"\s+/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9_.]+)\s*(.*?);", line)
        if found:
            code.append((int(found[1], 16), found[2], found[3]))
    return kernels


def kernels_of(cuobjdump, path):
    text = subprocess.run([cuobjdump, "-arch", ARCH, "-res-usage", path], capture_output=True, text=True,
                          check=True).stdout
    found = re.findall(r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)", text)
    names = demangled("\n".join(row[0] for row in found)).splitlines()
    code = code_of(cuobjdump, path)
    file = os.path.basename(path).replace("_cuda.cu.o", "")
    return [Kernel(file, short(name), int(registers), int(stack) + int(local), int(shared), code[mangled])
            for name, (mangled, registers, stack, shared, local) in zip(names, found)]


def loops(code):
    """First and last instruction of each."""
    at = {address: i for i, (address, _, _) in enumerate(code)}
    for i, (address, op, rest) in enumerate(code):
        target = re.search(r"0x([0-9a-f]+)", rest) if op.startswith("BRA") else None
        if target and int(target[1], 16) < address and int(target[1], 16) in at:
            yield at[int(target[1], 16)], i


def is_wide(op):
    return op.startswith(("LDG", "STG")) and ".128" in op


def blocks(code):
    """The instructions in pieces that nothing enters or leaves in the middle."""
    targets = {int(target, 16) for _, op, rest in code if op.startswith(("BRA", "BSSY"))
               for target in re.findall(r"0x([0-9a-f]+)", rest)}
    piece = []
    for address, op, rest in code:
        if address in targets and piece:
            yield piece
            piece = []
        piece.append((address, op, rest))
        if op.startswith(("BRA", "EXIT", "RET", "BREAK", "BSYNC")):
            yield piece
            piece = []
    if piece:
        yield piece


def is_tail(piece):
    """Goes through elements one by one: what is left behind packs, or lies askew."""
    return any(op.startswith(("LDG", "STG")) and (".U16" in op or ".U8" in op) for _, op, _ in piece)


def pass_of(kernel):
    """Instructions of a pass: the longest loop with wide accesses, or all of it; tails are left out."""
    spans = [(a, b) for a, b in loops(kernel.code) if any(is_wide(op) for _, op, _ in kernel.code[a:b + 1])]
    a, b = max(spans, key=lambda span: span[1] - span[0]) if spans else (0, len(kernel.code) - 1)
    pieces = [piece for piece in blocks(kernel.code[a:b + 1]) if not is_tail(piece)]
    return sum(op != "NOP" for piece in pieces for _, op, _ in piece), bool(spans)


def local_accesses(kernel):
    return sum(op.startswith(("LDL", "STL")) for _, op, _ in kernel.code)


def warps_of(kernel, threads):
    """At one time on a multiprocessor; dynamic shared memory is not known here."""
    warps = -(-threads // 32)
    registers = -(-kernel.registers * 32 // 256) * 256 * warps
    blocks = min(BLOCKS, WARPS // warps, REGISTERS // registers, SHARED // (kernel.shared + RESERVED))
    return blocks * warps


def read_budgets(path):
    budgets, stacks = {}, {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            parts = [part.strip() for part in line.split("|")]
            if parts[0] == "budget":
                budgets[parts[1], parts[2]] = Budget(*map(float, parts[3:8]))
            elif parts[0] == "stack":
                stacks[parts[1], parts[2]] = int(parts[3])
    return budgets, stacks


def judge(kernel, budget, stack, tell):
    """What is wrong with it; its figures are printed where tell is true."""
    wrong = []
    if kernel.stack > stack or (stack == 0 and local_accesses(kernel) > 0):
        wrong.append(f"{kernel.stack} bytes of stack, {local_accesses(kernel)} accesses of local memory")
    figures = f"{kernel.registers:3} registers {kernel.shared:6} shared"
    if budget:
        n, in_loop = pass_of(kernel)
        each, warps = n / budget.elements, warps_of(kernel, int(budget.threads))
        share = each / budget.bytes / ISSUED
        figures += f" {warps:2} warps {n:5} in {'a loop' if in_loop else 'all   '} {each:6.1f} an element {share:5.2f}"
        if warps < budget.warps:
            wrong.append(f"{warps} warps, and not {budget.warps:.0f}")
        if share > budget.share:
            wrong.append(f"{each:.1f} instructions an element, {share:.2f} of what can be issued, not {budget.share:g}")
    if tell:
        print(f"{kernel.file + ' ' + kernel.name:64} {figures}")
    for what in wrong:
        print(f"WRONG {kernel.file} {kernel.name}: {what}")
    return len(wrong)


def main(cuobjdump, folder, path, *words):
    table, words = "--table" in words, [word for word in words if word != "--table"]
    budgets, stacks = read_budgets(path)
    objects = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith("_cuda.cu.o"))
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        kernels = [kernel for found in pool.map(lambda o: kernels_of(cuobjdump, o), objects) for kernel in found]
    keys = {(kernel.file, kernel.name) for kernel in kernels}
    missing = sorted(set(budgets) - keys | set(stacks) - keys)
    for file, name in missing:
        print(f"WRONG {file} {name}: there is no such kernel")
    n_wrong = len(missing)
    for kernel in kernels:
        key = kernel.file, kernel.name
        tell = table and (key in budgets or any(word in " ".join(key) for word in words))
        n_wrong += judge(kernel, budgets.get(key), stacks.get(key, 0), tell)
    print(f"{len(kernels)} kernels, {len(budgets)} with budgets, {n_wrong} wrong")
    return n_wrong > 0


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
