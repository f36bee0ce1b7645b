"""Output files appear whole or not at all, and go where they were meant to go."""
import signal
import stat
from io_common import *

folder = tempfile.mkdtemp()
at = lambda name: os.path.join(folder, name)
source = at("in.onnx")
good = with_weight().SerializeToString()


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)


def read(path):
    with open(path, "rb") as f:
        return f.read()


write(source, good)
check(run("trip", source, at("out.onnx")).code == 0 and read(at("out.onnx")) == good, "plain")
check(run("trip", source, source).code == 0 and read(source) == good, "output is input")
check(run("trip", source, "/dev/null").code == 0 and stat.S_ISCHR(os.stat("/dev/null").st_mode), "/dev/null")
out = run("trip", source, "-")
check(out.code == 0 and out.out.encode("latin1", "replace")[:2] == good[:2], "standard output")
os.symlink("target.onnx", at("link.onnx"))
write(at("target.onnx"), b"old")
check(run("trip", source, at("link.onnx")).code == 0 and os.path.islink(at("link.onnx"))
      and read(at("target.onnx")) == good, "link")
os.chmod(at("target.onnx"), 0o640)
check(run("trip", source, at("target.onnx")).code == 0
      and stat.S_IMODE(os.stat(at("target.onnx")).st_mode) == 0o640, "mode kept")
old = os.umask(0o027)
run("trip", source, at("fresh.onnx"))
os.umask(old)
check(stat.S_IMODE(os.stat(at("fresh.onnx")).st_mode) == 0o640, "mode of a new file")
refused("no folder", run("trip", source, at("none/out.onnx")), 5, "none/out.onnx", "No such file")
refused("a folder", run("trip", source, folder), 5, folder, "directory")
refused("full disk", run("trip", source, "/dev/full"), 5, "/dev/full", "No space")

# Killed in the middle of a write to a pipe-sized limit: the old file stays and no temporary file is left.
big = with_weight(dims=[1 << 20], raw_data=bytes(4 << 20)).SerializeToString()
write(at("big.onnx"), big)
write(at("kept.onnx"), b"old")
limited = programs.run("sh", "-c", 'ulimit -f 1000; exec "$@"', "sh", TOOL, "trip", at("big.onnx"), at("kept.onnx"),
                       preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN), code=None)
check(limited.code == 5 and "kept.onnx" in limited.err, "file size limit", limited.code, limited.err)
check(read(at("kept.onnx")) == b"old", "old file kept")
check(not [n for n in os.listdir(folder) if ".tmp-" in n], "temporary files left", os.listdir(folder))

# Weights outside: the location follows the output where it can, and is told about where it cannot.
os.makedirs(at("deep/er"))
w = weight(raw_data=None, data_location=T.EXTERNAL)
w.external_data.add(key="location", value="w.bin")
moved = model([h.make_node("Add", ["X", "W"], ["Y"])], initializers=[w])
write(at("deep/er/m.onnx"), moved.SerializeToString())
where = lambda path: onnx.load(path, load_external_data=False).graph.initializer[0].external_data[0].value
check(not run("trip", at("deep/er/m.onnx"), at("deep/er/o.onnx")).err and where(at("deep/er/o.onnx")) == "w.bin",
      "same folder")
check(not run("trip", at("deep/er/m.onnx"), at("o.onnx")).err and where(at("o.onnx")) == "deep/er/w.bin",
      "folder above")
os.makedirs(at("side"))
aside = run("trip", at("deep/er/m.onnx"), at("side/o.onnx"))
check(aside.code == 0 and "warning" in aside.err and "w.bin" in aside.err
      and where(at("side/o.onnx")) == "w.bin", "folder aside", aside.err)
finish()
