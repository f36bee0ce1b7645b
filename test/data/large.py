"""large.py DUMP_BATCHES: files of 2 GiB, of which the disk holds a few pages, read by a process that may have 64 MiB of
memory of its own; and files whose bytes are not what they say."""
import io
import os
import resource
import struct
import sys
import zipfile

import numpy as np
from numpy.lib import format as npy

from programs import check, finish, path, run

MEMORY = 64 << 20  # what a process may take beside mapped files: its code, stacks of threads, tables, batches
rows, width = 1 << 21, 256  # floats
HUGE = 1 << 40  # bytes: more than any machine's memory, so that rows are asked for ahead


def dump(data, *words, limit=None):
    def within():
        if limit:
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    return run(sys.argv[1], data, path("out.npz"), *words, timeout=60, code=None, preexec_fn=within)


# --- larger than memory ---------------------------------------------------------------------------


def header(shape):
    out = io.BytesIO()
    npy.write_array_header_1_0(out, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return out.getvalue()


def sparse(file, begin):
    """Zeros, but for row r of every 1000 rows: r at both of its ends."""
    for r in range(0, rows, 1000):
        for column in (0, width - 1):
            file.seek(begin + 4 * (r * width + column))
            file.write(np.float32(r).tobytes())


def write_npz(name):
    """An archive with one member, stored, written by its description: zipfile would sum up all zeros."""
    head, key, size = header((rows, width)), b"x.npy", 4 * rows * width
    with open(path(name), "wb") as file:
        total = len(head) + size
        wide = struct.pack("<HHQQ", 1, 16, total, total)
        file.write(struct.pack("<IHHHHHIIIHH", 0x04034B50, 45, 0, 0, 0, 33, 0, 2**32 - 1, 2**32 - 1, len(key),
                               len(wide)) + key + wide + head)
        begin = file.tell()
        sparse(file, begin)
        file.seek(begin + size)
        entry = struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 45, 45, 0, 0, 0, 33, 0, 2**32 - 1, 2**32 - 1, len(key),
                            len(wide), 0, 0, 0, 0, 0) + key + wide
        at = file.tell()
        end = at + len(entry)
        file.write(entry + struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, 1, 1, len(entry), at))
        file.write(struct.pack("<IIQI", 0x07064B50, 0, end, 1))
        file.write(struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 0xFFFF, 0xFFFF, 2**32 - 1, 2**32 - 1, 0))


def write_safetensors(name):
    text = ('{"x":{"dtype":"F32","shape":[%d,%d],"data_offsets":[0,%d]}}' % (rows, width, 4 * rows * width)).encode()
    text += b" " * (-len(text) % 8)
    with open(path(name), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        sparse(file, 8 + len(text))
        file.truncate(8 + len(text) + 4 * rows * width)


def limit_of(memory):
    """None: a program with sanitizers takes more by itself."""
    return memory if dump("--help", limit=memory).code == 0 else None


def larger_than_memory():
    limit = limit_of(MEMORY)
    want = np.zeros((8, width), "f4")
    want[0, [0, -1]] = rows - rows % 1000
    last = (rows - rows % 1000) // 8
    for write, name in ((write_npz, "big.npz"), (write_safetensors, "big.safetensors")):
        write(name)
        check(os.stat(path(name)).st_size > 2**31 and os.stat(path(name)).st_blocks * 512 < 64 << 20, "a sparse file")
        done = dump(path(name), "--input=x=float[?,256]", "--batch=8", f"--from={last}", f"--limit={last + 1}",
                    limit=limit)
        check(done.code == 0, f"{name}: {done.code} {done.err}")
        with np.load(path("out.npz")) as got:
            check(list(got["source"][:2]) == [rows, rows // 8], f"{name}: {got['source']}")
            check((got[f"0.{last}.x"] == want).all(), f"{name}: rows near its end")
        done = dump(path(name), "--input=x=float[?,256]", "--batch=64", "--shuffle", "--limit=100", limit=limit)
        check(done.code == 0, f"{name}, shuffled: {done.code} {done.err}")
        os.remove(path(name))
    # The limit is one that would notice: compressed arrays, which are read whole, do not fit.
    np.savez_compressed(path("small.npz"), x=np.zeros((1 << 16, width), "f4"))
    done = dump(path("small.npz"), "--input=x=float[?,256]", "--limit=1", limit=limit)
    check(done.code == 4 and "'x'" in done.err if limit else done.code == 0,
          f"64 MiB of compressed zeros: {done.code} {done.err}")


def far_larger():
    """The last rows of each file of a folder, in any order, ragged and not; zeros elsewhere."""
    os.mkdir(path("huge"))
    lengths, n = np.full(64, HUGE // 2 // 64, "i8"), HUGE // 2 // 64
    for k in range(2):
        header = '{"ids":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]},"ids.offsets":{"dtype":"I64","shape":[65],' \
            '"data_offsets":[%d,%d]},"x":{"dtype":"U8","shape":[64,%d],"data_offsets":[%d,%d]}}' % (
                64 * n, 64 * n, 64 * n, 64 * n + 520, n, 64 * n + 520, 128 * n + 520)
        with open(path(f"huge/{k}.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header.encode())
            begin = file.tell()
            file.seek(begin + 64 * n)
            file.write(np.concatenate([[0], np.cumsum(lengths)]).astype("i8").tobytes())
            try:
                file.truncate(begin + 128 * n + 520)
            except OSError:
                return  # a file system without such files
            for i in range(64):
                for at in (i * n, 64 * n + 520 + i * n):  # the row's number at the begin of each
                    file.seek(begin + at)
                    file.write(bytes([64 * k + i]))
    inputs = ("--input=ids=uint8[?,?]", "--input=i=uint8[?,1] optional")
    done = dump(path("huge"), *inputs, "--max-length=8", "--batch=16", "--shuffle", limit=limit_of(MEMORY))
    check(done.code == 0, f"a terabyte: {done.code} {done.err}")
    with np.load(path("out.npz")) as got:
        order = np.concatenate([got[f"0.{i}.ids"][:, 0] for i in range(8)])
    check(sorted(order) == list(range(128)) and list(order) != sorted(order), f"rows of a terabyte: {order}")
    done = dump(path("huge"), "--input=ids=uint8[?,?]", "--pack=4096", "--batch=16", "--shuffle", "--limit=50",
                limit=limit_of(MEMORY))
    check(done.code == 0, f"a terabyte, packed: {done.code} {done.err}")


# --- bytes that lie -------------------------------------------------------------------------------


def refused(name, data, says=(), spec="x=float[?,3]"):
    with open(path(name), "wb") as file:
        file.write(data)
    done = dump(path(name), "--input=" + spec)
    check(done.code in (2, 4), f"{done.code}, expected 2: {done.err}")
    check(done.err.count("error:") == 1 and name in done.err, f"one line that names the file: {done.err}")
    for word in says:
        check(word in done.err, f"{word!r} is not in {done.err}")


def archive(data, key="x.npy"):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr(key, data)
    return bytearray(out.getvalue())


def lies():
    array = io.BytesIO()
    npy.write_array(array, np.zeros((5, 3), "f4"))
    good = bytes(archive(array.getvalue()))
    for cut in (0, 1, 21, 22, 60, 100, len(good) // 2, len(good) - 1):
        refused("cut.npz", good[:cut])
    for bad in (array.getvalue()[:-1], array.getvalue() + b"\0", array.getvalue().replace(b"(5, 3)", b"(6, 3)"),
                array.getvalue().replace(b"(5, 3), }" + b" " * 20, b"(99999999999, 9999999999), }")[:128 + 60]):
        refused("npy.npz", archive(bad), says=("'x'",))
    refused("empty.npz", archive(header((0, 2**40, 2**40))), spec="x=float[?,?,?]")
    refused("empty.npz", archive(header((0, 2**60))), spec="x=float[?,?]", says=("'x'",))
    entry = good.rindex(b"PK\1\2")
    for field, at in (("size", entry + 24), ("packed size", entry + 20), ("place", entry + 42)):
        for value in (1, 10**6, 2**31, 2**32 - 1):
            lie = bytearray(good)
            lie[at:at + 4] = struct.pack("<I", value)
            refused("lie.npz", lie)
    for at in (entry + 28, entry + 30, entry + 32, len(good) - 10, len(good) - 6):  # lengths, the directory's place
        lie = bytearray(good)
        lie[at:at + 2] = b"\xf0\xff"
        refused("lie.npz", lie)
    twice = io.BytesIO()
    with zipfile.ZipFile(twice, "w") as file:
        file.writestr("x.npy", array.getvalue())
        file.writestr("y.npy", array.getvalue())
    refused("twice.npz", twice.getvalue().replace(b"y.npy", b"x.npy"), says=("'x'", "two"))
    text = b'{"x":{"dtype":"F32","shape":[5,3],"data_offsets":[0,60]}}'
    whole = struct.pack("<Q", len(text)) + text + bytes(60)
    for cut in (0, 7, 8, 30, len(text) + 8, len(whole) - 1):
        refused("cut.safetensors", whole[:cut])
    refused("lie.safetensors", whole.replace(b"[5,3]", b"[9,3]"), says=("'x'",))
    refused("lie.safetensors", struct.pack("<Q", 2**63) + whole[8:])


larger_than_memory()
far_larger()
lies()
finish()
