"""--checkpoint of tempoc and tempo-run: weights from ONNX Runtime's checkpoints, as flatbuffers' library builds them,
from .npz archives and safetensors files give what numpy computes; what does not fit the model is refused, with the
tensor and the file. Files broken one defect at a time, cut and changed at random end in one line, with the right exit
code, in bounded time and memory.
usage: check_checkpoint.py tempoc tempo-run"""
import random
import struct
import zipfile

import numpy as np
import onnx.parser
import safetensors_file
from checkpoints import checkpoint, small
from io_common import *
from compare import load, near
from tolerances import EXACT_SUM, LAYER

BAD, UNSUPPORTED, LIMIT = 2, 3, 4
TEMPO_RUN = os.path.abspath(sys.argv[2])
TEXT = """<ir_version: 8, opset_import: ["" : 17]>
layer (float[n,3] x, float[3,2] w, float[2] b) => (float loss, float[n,2] y) {
    xw = MatMul (x, w)
    y = Add (xw, b)
    loss = ReduceSum <keepdims = 0> (y)
}"""
folder = tempfile.mkdtemp()
good = small()
x = np.arange(12, dtype=np.float32).reshape(4, 3)
want = x.astype(np.float64) @ good["w"] + good["b"]


def path_of(name, data=None):
    path = os.path.join(folder, name)
    if data is not None:
        write(path, data)
    return path


model, compiled, inputs, outputs = (path_of(name) for name in ("m.onnx", "c.onnx", "i.npz", "o.npz"))
onnx.save(onnx.parser.parse_model(TEXT), model)
np.savez(inputs, x=x)


def tempo_run(*args):
    return programs.run(TEMPO_RUN, *args, "--inputs", inputs, "--outputs", outputs, code=None)


def is_right(name, done):
    check(done.code == 0, name, done.code, done.err[:300])
    if done.code == 0:
        got = load(outputs)
        check(near(got["y"], want, LAYER), name, got["y"], want)


# --- good ones, in both programs: without them the weights are inputs ------------------------------------------------
np.savez(path_of("w.npz"), **good)
safetensors_file.write(path_of("w.safetensors"), good, {"format": "pt"})
FILES = {"all.ckpt": checkpoint(good), "frozen.ckpt": checkpoint({"w": good["w"]}, {"b": good["b"]}),
         "old.ckpt": checkpoint(good, version=1), "w.npz": open(path_of("w.npz"), "rb").read(),
         "w.safetensors": open(path_of("w.safetensors"), "rb").read()}
for name, data in FILES.items():
    path = path_of(name, data)
    done = run(model, "-o", compiled, "--checkpoint", path)
    check(done.code == 0 and f"inputs that are not in {path} stay inputs: x" in done.err and
          "2 initializers trained" in done.out, name, done.code, done.err[:300])
    is_right(name, tempo_run(compiled))
    slope = load(outputs)["w_grad"]  # trained: of the sum
    check(near(slope, np.repeat(x.sum(0)[:, None], 2, 1), EXACT_SUM), name, slope)
    is_right(name + " run", tempo_run(model, "--checkpoint", path))
    check(run(model, "-q", "--verify", "--checkpoint", path, "--dim", "n=4").code == 0, name, "--verify")
initialized = onnx.load(model)
for name, array in good.items():  # an initializer, and the default of an input: both get other elements
    initialized.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros_like(array), name))
initialized.graph.input.pop()
onnx.save(initialized, path_of("zero.onnx"))
done = run(path_of("zero.onnx"), "-q", "-o", compiled, "--checkpoint", path_of("all.ckpt"))
check(done.code == 0, "initializers", done.err[:300])
is_right("initializers", tempo_run(compiled))

# --- what does not fit the model -------------------------------------------------------------------------------------


def refuse(name, data, code, *words):
    path = path_of(name, data)
    refused(name, run(model, "-q", "-o", compiled, "--checkpoint", path), code, *words)
    done = tempo_run(model, "--checkpoint", path)
    check(done.code == code, name, "tempo-run:", done.code, done.err[:300])


refuse("other", checkpoint({**good, "wx": good["w"]}), BAD, "no input and no initializer 'wx'", "other",
       "did you mean")
refuse("result", checkpoint({"y": good["w"]}), BAD, "no input and no initializer 'y'")
refuse("dims", checkpoint({"w": good["w"].T.copy()}), BAD, "'w' of",
       "is float[2,3], but in the model it is float[3,2]")
refuse("type", checkpoint({"w": good["w"].astype(np.float64)}), BAD,
       "is double[3,2], but in the model it is float[3,2]")

# --- defects, one at a time ------------------------------------------------------------------------------------------
refuse("empty", b"", BAD, "no file of weights")
refuse("text", b"weights by the dozen", BAD, "no file of weights", "ODTC")
with zipfile.ZipFile(path_of("torch.zip"), "w") as archive:  # as torch.save names its members
    archive.writestr("model/data.pkl", b"\x80\x02}q\x00.")
refuse("torch.pt", bytes_of(path_of("torch.zip")), BAD, "'model/data.pkl'", "a file of torch.save: safetensors")
refuse("w.st", safetensors_file.pack({"w": {}}), BAD, "tensor 'w': dtype, shape and data_offsets are needed")
refuse("version", checkpoint(good, version=3), UNSUPPORTED, "a checkpoint of version 3, known are 1 to 2")
refuse("nominal", checkpoint(good, state=[(2, "Bool", True)]), UNSUPPORTED, "nominal checkpoint")
refuse("external", checkpoint(good, state=[(3, "Bool", True)]), UNSUPPORTED, "in another file")
refuse("offset", checkpoint(good, more={6: ("Int64", 64)}.items()), UNSUPPORTED, "requires_grad_params[0]",
       "elements of w are in another file")
refuse("string", checkpoint(good, more={3: ("Int32", 8)}.items()), UNSUPPORTED, "element type 8")
refuse("unknown", checkpoint(good, more={3: ("Int32", -1)}.items()), UNSUPPORTED, "data_type")
refuse("fewer", checkpoint(good, more={3: ("Int32", 11)}.items()), BAD, "w has 24 bytes, but 48 are expected")
refuse("no_data", checkpoint(good, more={4: ("UOffsetTRelative", None)}.items()), BAD, "w has 0 bytes")
refuse("no_name", checkpoint(good, more={0: ("UOffsetTRelative", None)}.items()), BAD, "the tensor has no name")
refuse("twice", checkpoint(good, {"w": good["w"]}), BAD, "frozen_params[0].name", "two tensors are named w")
refuse("long_name", checkpoint({"n" * 70000: good["w"]}), LIMIT, "a name of 70000 bytes, the limit is 65536")
refuse("rank", checkpoint({"w": np.zeros((1,) * 33, np.float32)}), LIMIT, "w has rank 33, the limit is 32")
whole = FILES["all.ckpt"]
at = whole.index(b"w\0\0\0")
refuse("utf8", whole[:at] + b"\xff" + whole[at + 1:], BAD, "name at byte", "not UTF-8")
refuse("nul", whole[:at] + b"\0" + whole[at + 1:], BAD, "name at byte", "NUL")
at = whole.index(struct.pack("<IQQ", 2, 3, 2))
refuse("negative", whole[:at + 4] + struct.pack("<q", -3) + whole[at + 12:], BAD, "dims", "negative")
refuse("huge_dim", whole[:at + 4] + struct.pack("<q", 1 << 62) + whole[at + 12:], BAD, "too large")
refuse("huge_vector", whole[:at] + b"\xff\xff\xff\xff" + whole[at + 4:], BAD, "dims", "4294967295 elements of 8 bytes")
refuse("root", b"\xff\xff\xff\xff" + whole[4:], BAD, "checkpoint at byte 4294967295", "not in the file")
refuse("root_is_itself", b"\0\0\0\0" + whole[4:], BAD, "checkpoint")
refuse("cut", whole[:40], BAD)

# --- cut anywhere, changed anywhere: never more than a line, never another exit code ---------------------------------
codes = {0, BAD, UNSUPPORTED, LIMIT}
rng = random.Random(7)


def survive(name, data):
    result = run(model, "-q", "--passes=", "--checkpoint", path_of("mutant", data))
    errors = [line for line in result.err.splitlines() if ": error: " in line]
    check(result.code in codes and len(errors) == (result.code != 0) and result.seconds < MAX_SECONDS and
          result.peak < MAX_BYTES, name, "exit", result.code, result.err[:300], data.hex())


for size in range(0, len(whole), 7):
    survive(f"first {size} bytes", whole[:size])
for i in range(250):
    mutant = bytearray(whole)
    for _ in range(rng.choice((1, 1, 2, 4))):
        where = rng.randrange(len(mutant))
        kind = rng.randrange(3)
        if kind == 0:
            mutant[where] ^= 1 << rng.randrange(8)
        elif kind == 1:
            mutant[where] = rng.choice((0, 1, 4, 0x7F, 0x80, 0xFF))
        else:
            mutant[where:where + 4] = struct.pack("<I", rng.choice((0, 4, len(whole) - where, 0x7FFFFFFF, 0xFFFFFFFF)))
    survive(f"mutant {i}", bytes(mutant))
finish()
