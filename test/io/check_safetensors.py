"""The reader and writer of safetensors files against a reader and writer in Python (safetensors_file.py), and against
the package itself where it is installed: every type, any order, any place, names with every kind of character. What is
malformed is refused, one defect at a time, with the tensor or the byte.
usage: check_safetensors.py safetensors_tool"""
import stat

import numpy as np
import safetensors_file as st
from io_common import *
from compare import same_bits

try:
    import safetensors as package
    import safetensors.numpy
except ImportError:
    package = None

BAD, UNSUPPORTED, LIMIT = 2, 3, 4
folder = tempfile.mkdtemp()
random = np.random.default_rng(1)


def path_of(name, data=None):
    path = os.path.join(folder, name)
    if data is not None:
        write(path, data)
    return path


def of_all_types():
    arrays = {"scalar": np.float64(0.1).reshape(()), "none": np.zeros((3, 0, 2), np.float32)}
    for name, code in st.TYPES.items():
        bits = random.integers(0, 256, (3, 5, np.dtype(code).itemsize), np.uint8)
        arrays[name] = (bits % 2 if name == "BOOL" else bits).view(code).reshape(3, 5)
    arrays["F32"][0, :3] = [np.nan, np.inf, -0.0]
    return arrays


# --- there and back ---------------------------------------------------------------------------------------------------
ALL = of_all_types()
ODD = {"a": np.arange(3, dtype=np.int8), "b": np.arange(5, dtype=np.float64), "c": np.arange(7, dtype=np.float16)}
NAMES = {n: np.float32(i).reshape(1) for i, n in enumerate([
    "layer.0/weight", "with space", "", 'q"b\\s/', "tab\tnew\nline\x01\x1f\x7f", "ünï", "漢字", "\U0001F600",
    "\ud7ff\ue000"])}
CASES = {"all": (ALL, {"format": "pt", "empty": "", 'k"': "\n\U0001F600"}), "odd": (ODD, None), "names": (NAMES, {}),
         "nothing": ({}, None), "metadata": ({}, {"a": "b"}),
         "large": ({"big": random.standard_normal((600, 700)).astype(np.float32), "small": np.ones(1, np.int8)}, None),
         "many": ({f"tensor.{i}": np.full(i % 3, i, np.int64) for i in range(3000)}, None)}
for name, (arrays, metadata) in CASES.items():
    for pad in range(3 if len(arrays) < 100 else 1):  # elements at any address
        source, copy = path_of(name), path_of(name + ".copy")
        st.write(source, arrays, metadata, {"BF16": "BF16"}, pad)
        done = run(source, copy)
        check(done.code == 0 and not done.err, name, done.code, done.err[:300])
        if done.code != 0:
            continue
        got, types, said = st.read(copy)
        check(same_bits(got, arrays) and said == (metadata or {}), name, got.keys(), said)
        check(types == {k: v["dtype"] for k, v in st.describe(arrays, {"BF16": "BF16"}).items()}, name, types)
        with open(copy, "rb") as f:
            check(int.from_bytes(f.read(8), "little") % 8 == 0, name, "the header is not padded to 8")
        again = run(copy, copy + ".again")
        check(open(copy, "rb").read() == open(copy + ".again", "rb").read(), name, "not the same bytes twice")
        for path in (source, copy):
            told = run(path)
            check(told.out.split() == ["0"] * len(arrays), name, "elements are not aligned", told.out[:100])
        if package and name not in ("all", "metadata"):
            check(same_bits(package.numpy.load_file(copy), arrays), name, "the package reads something else")
            package.numpy.save_file(arrays, source, metadata or None)
            done = run(source, copy)
            check(done.code == 0 and same_bits(st.read(copy)[0], arrays), name, "of the package", done.err[:300])

mask = os.umask(0o022)
st.write(path_of("mode"), ODD)
run(path_of("mode"), path_of("mode.new"))
check(stat.S_IMODE(os.stat(path_of("mode.new")).st_mode) == 0o644, "a usual file's mode")
os.umask(mask)
done = run(path_of("mode"), path_of("gone/away"))
check(done.code == 5 and "gone/away" in done.err, "a folder that is not there", done.code, done.err)

# --- what is refused --------------------------------------------------------------------------------------------------
W = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
E = bytes(8)
ONE = '"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'


def field(text):
    return st.pack('{"w":{%s}}' % text, E)


def changed(**fields):
    return st.pack({"w": {**W, **fields}}, E)


REFUSED = {
    "empty": (b"", BAD, "of 0 bytes"),
    "short": (b"\x08\0\0\0\0\0\0", BAD, "of 7 bytes"),
    "announced": (b"\x09" + bytes(7) + b"{}      ", BAD, "the header would take 9"),
    "negative": (b"\xff" * 8 + b"{}", BAD, "the header would take 18446744073709551615"),
    "no header": (bytes(8), BAD, "byte 8 of the header: expected '{'"),
    "blank": (st.pack(" {}"), BAD, "byte 8 of the header: expected '{'"),
    "array": (st.pack("[]"), BAD, "byte 8 of the header: expected '{'"),
    "open": (st.pack("{" + ONE, E), BAD, "expected '}'"),
    "comma": (st.pack("{" + ONE + ",}", E), BAD, "expected '\"'"),
    "colon": (st.pack('{"w" "x"}'), BAD, "expected ':'"),
    "behind": (st.pack("{" + ONE + "}x", E), BAD, "more text after the header's end"),
    "behind 0": (st.pack("{" + ONE + "}\0", E), BAD, "more text after the header's end"),
    "twice": (st.pack("{%s,%s}" % (ONE, ONE), E), BAD, "tensor 'w': two have this name"),
    "twice escaped": (st.pack("{%s,%s}" % (ONE, ONE.replace('"w"', '"\\u0077"')), E), BAD, "two have this name"),
    "metadata twice": (st.pack('{"__metadata__":{},"__metadata__":{}}'), BAD, "__metadata__ is there twice"),
    "key twice": (st.pack('{"__metadata__":{"a":"b","a":"c"}}'), BAD, "two entries of __metadata__"),
    "metadata number": (st.pack({"__metadata__": {"a": 1}}), BAD, "expected '\"'"),
    "metadata text": (st.pack({"__metadata__": "a"}), BAD, "expected '{'"),
    "text for a tensor": (st.pack({"w": "x"}), BAD, "expected '{'"),
    "no fields": (st.pack({"w": {}}), BAD, "tensor 'w': dtype, shape and data_offsets are needed"),
    "no dtype": (field('"shape":[2],"data_offsets":[0,8]'), BAD, "are needed"),
    "no shape": (field('"dtype":"F32","data_offsets":[0,8]'), BAD, "are needed"),
    "no place": (field('"dtype":"F32","shape":[2]'), BAD, "are needed"),
    "field": (changed(more=1), BAD, "a tensor has just"),
    "field twice": (field('"dtype":"F32","dtype":"F32"'), BAD, "it is there twice"),
    "type": (changed(dtype="F33"), UNSUPPORTED, "tensor 'w': element type 'F33'"),
    "float8": (changed(dtype="F8_E4M3"), UNSUPPORTED, "tensor 'w': element type 'F8_E4M3'"),
    "type number": (changed(dtype=1), BAD, "expected '\"'"),
    "dim": (changed(shape=[-2]), BAD, "expected a whole number"),
    "fraction": (changed(shape=[2.0]), BAD, "expected ']'"),
    "exponent": (field('"dtype":"F32","shape":[2e0],"data_offsets":[0,8]'), BAD, "expected ']'"),
    "zeros": (field('"dtype":"F32","shape":[02],"data_offsets":[0,8]'), BAD, "a number with zeros before it"),
    "large": (changed(shape=[2**63]), BAD, "the number is too large"),
    "larger": (changed(shape=[10**30]), BAD, "the number is too large"),
    "product": (changed(shape=[2**32, 2**32]), BAD, "do not go with shape and type F32"),
    "product 0": (changed(shape=[2**62, 2**62, 0]), BAD, "do not go with shape and type F32"),
    "rank": (changed(shape=[1] * 32 + [2]), LIMIT, "tensor 'w': more than 32 dims"),
    "count": (changed(shape=[3]), BAD, "hold 8 bytes, which do not go with shape and type F32"),
    "backwards": (changed(data_offsets=[8, 0]), BAD, "tensor 'w': its data_offsets run backwards"),
    "outside": (changed(data_offsets=[8, 16]), BAD, "or out of the file"),
    "far": (changed(data_offsets=[0, 2**63 - 1]), BAD, "or out of the file"),
    "three": (changed(data_offsets=[0, 8, 8]), BAD, "expected ']'"),
    "hole before": (st.pack({"w": {**W, "data_offsets": [4, 12]}}, E + E), BAD,
                    "tensor 'w': its elements are bytes 4 to 12"),
    "hole behind": (st.pack({"w": W}, E + E), BAD, "has 16 bytes of elements, but its tensors take 8"),
    "hole between": (st.pack({"v": {**W, "data_offsets": [16, 24]}, "w": W}, E * 3), BAD,
                     "tensor 'v': its elements are bytes 16 to 24 of the data, expected ones from 8 on"),
    "overlap": (st.pack({"v": W, "w": {**W, "data_offsets": [4, 12]}}, E + E[:4]), BAD, "tensor 'w': its elements"),
    "shared": (st.pack({"v": W, "w": W}, E), BAD, "tensor 'w': its elements are bytes 0 to 8"),
    "cut": (st.pack({"w": W}, E[:7]), BAD, "out of the file"),
    "control": (st.pack('{"a\nb":{}}'), BAD, "a control character in a string"),
    "utf-8": (st.pack('{"a\udcff":{}}'), BAD, "it is not UTF-8"),
    "surrogate in UTF-8": (st.pack('{"\udced\udca0\udc80":{}}'), BAD, "it is not UTF-8"),
    "no end": (st.pack('{"abc'), BAD, "a string does not end"),
    "backslash": (st.pack('{"abc\\'), BAD, "this escape stands for no character"),
    "quote": (st.pack('{"abc\\"'), BAD, "a string does not end"),
    "escape": (st.pack('{"\\x41":{}}'), BAD, "this escape stands for no character"),
    "digits": (st.pack('{"\\u12g4":{}}'), BAD, "this escape stands for no character"),
    "few digits": (st.pack('{"\\u12'), BAD, "this escape stands for no character"),
    "zero": (st.pack('{"a\\u0000":{}}'), BAD, "this escape stands for no character"),
    "low surrogate": (st.pack('{"\\udc00":{}}'), BAD, "this escape stands for no character"),
    "half a pair": (st.pack('{"\\ud800":{}}'), BAD, "this escape stands for no character"),
    "no pair": (st.pack('{"\\ud800\\u0041":{}}'), BAD, "this escape stands for no character"),
    "zip": (b"PK\x03\x04" + bytes(60), BAD, "it is no safetensors file"),
}
# What the format forbids and the package reads, and what the format leaves open.
LENIENT = "blank", "twice", "twice escaped", "key twice", "field", "zero"
for name, (data, code, text) in REFUSED.items():
    done = run(path_of("refused", data))
    refused(name, done, code, text, "refused: error: ")
    if package and code == BAD and name not in LENIENT:
        try:
            check(not package.numpy.load(data), name, "the package reads it")
        except package.SafetensorError:
            pass
long = path_of("long", (10**8 + 1).to_bytes(8, "little"))
os.truncate(long, 10**8 + 100)
refused("long", run(long), LIMIT, "a header of 100000001 bytes, the limit is 100000000")
os.remove(long)
finish()
