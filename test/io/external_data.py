"""External data is mapped from inside the model's folder only: links but those of a download cache, folders, pipes,
hard links and ranges past the end are refused."""
import shutil
from io_common import *

top = tempfile.mkdtemp()
folder = os.path.join(top, "model")
os.makedirs(os.path.join(folder, "sub"))
payload = bytes(range(64)) * 2
for path in ("model/w.bin", "model/sub/w.bin", "outside.bin", "model/linked.bin"):
    write(os.path.join(top, path), payload)
os.symlink("../outside.bin", os.path.join(folder, "symlink.bin"))
os.symlink("w.bin", os.path.join(folder, "near.bin"))
os.symlink("..", os.path.join(folder, "up"))
os.symlink("sub", os.path.join(folder, "linkdir"))
os.link(os.path.join(folder, "linked.bin"), os.path.join(top, "elsewhere.bin"))
os.mkfifo(os.path.join(folder, "fifo"))
sum_of = lambda offset, n: sum(payload[offset : offset + n])


def try_file(location, offset=0, dims=(4, 4), dtype=T.FLOAT, cwd=None, **keys):
    w = T(name="W", data_type=dtype, dims=dims, data_location=T.EXTERNAL)
    for key, to in {"location": location, "offset": str(offset), **keys}.items():
        w.external_data.add(key=key, value=to)
    path = os.path.join(folder, "m.onnx")
    write(path, model([h.make_node("Identity", ["W"], ["Y"])], outputs=[value("Y", dtype, dims)],
                      initializers=[w]).SerializeToString())
    return run("map", "m.onnx" if cwd else path, cwd=cwd)


def accept(name, result, total):
    check(result.code == 0 and result.out.split() == ["W", str(total)], name, result.code, result.err,
          result.out)


accept("plain", try_file("w.bin"), sum_of(0, 64))
accept("offset", try_file("w.bin", 64, length="64"), sum_of(64, 64))
accept("below", try_file("sub/w.bin"), sum_of(0, 64))
accept("dot", try_file("./sub//w.bin"), sum_of(0, 64))
accept("here", try_file("w.bin", cwd=folder), sum_of(0, 64))
accept("unaligned", try_file("w.bin", 3, dims=[3]), sum_of(3, 12))
accept("nothing", try_file("gone.bin", dims=[0]), 0)
refused("e03_symlink", try_file("symlink.bin"), 2, "W", "symlink.bin", "symbolic link")
refused("symlink_near", try_file("near.bin"), 2, "W", "near.bin", "symbolic link")
refused("folder_symlink", try_file("up/outside.bin"), 2, "W", "up/outside.bin", "symbolic link")
refused("folder_symlink_near", try_file("linkdir/w.bin"), 2, "W", "linkdir/w.bin", "symbolic link")
refused("hard_link", try_file("linked.bin"), 2, "W", "linked.bin", "hard link")
refused("e04_past_end", try_file("w.bin", 100), 2, "W", "w.bin", "128 bytes", "100 to 164")
refused("offset_past_end", try_file("w.bin", 10**12), 2, "W", "w.bin", "128 bytes")
refused("terabytes", try_file("w.bin", dims=[2**30, 2**10]), 2, "W", "w.bin", "128 bytes")
refused("e06_memaddr", try_file("*/_ORT_MEM_ADDR_/*", 140000000), 5, "W", "_ORT_MEM_ADDR_")
refused("e07_fifo", try_file("fifo"), 2, "W", "fifo", "regular")
refused("is_folder", try_file("sub"), 2, "W", "sub", "regular")
refused("missing", try_file("gone.bin"), 5, "W", "gone.bin", "No such file", f"in the folder '{folder}'")
refused("through_file", try_file("w.bin/x"), 5, "W", "w.bin/x")

# A cache of Huggingface's: links lead from snapshots to blobs, and to nowhere else.
folder = os.path.join(top, "cache/snapshots/r/onnx")
os.makedirs(folder)
os.makedirs(os.path.join(top, "cache/blobs/below"))
for to, link in (("blobs/1", "w.bin"), ("blobs/2", "out.bin"), ("../outside.bin", "over.bin"), ("refs", "near.bin"),
                 ("blobs/below/1", "below.bin"), ("../notcache/blobs/1", "other.bin")):
    os.symlink("../../../" + to, os.path.join(folder, link))
os.symlink("../../outside.bin", os.path.join(top, "cache/blobs/2"))
os.makedirs(os.path.join(top, "notcache/blobs"))
for path in ("cache/blobs/1", "cache/refs", "cache/blobs/below/1", "notcache/blobs/1"):
    shutil.copy(os.path.join(top, "outside.bin"), os.path.join(top, path))
accept("blob", try_file("w.bin"), sum_of(0, 64))
for link in ("out.bin", "over.bin", "near.bin", "below.bin", "other.bin"):
    refused(f"no_blob_{link}", try_file(link), 2, "W", link, "symbolic link", "cp -L")
refused("up_to_file", try_file("../../../blobs/1"), 2, "W", "leaves the model's folder")
finish()
