"""batches.py DUMP_BATCHES: batches of files that numpy wrote, against numpy's own slicing, padding, concatenation."""
import os
import sys

import numpy as np

import safetensors_file
from compare import same_bits
from programs import check, finish, path, run, write

rng = np.random.default_rng(7)


def dump(data, *inputs, code=0, says=(), **options):
    """What dump_batches writes for these inputs: a dict, and what it prints."""
    out = path("out.npz")
    words = [f"--input={i}" for i in inputs]
    for name, value in options.items():
        name = name.replace("_", "-")
        words += [f"--{name}={v}" for v in value] if isinstance(value, list) else \
            [f"--{name}"] if value is True else [f"--{name}={value}"]
    done = run(sys.argv[1], data, out, *words, timeout=60, code=None)
    said = done.text
    check(done.code == code, f"exit code {done.code}, expected {code}: {data} {words}\n{said}")
    for word in says:
        check(word in said, f"{word!r} is not in what was printed: {words}\n{said}")
    if done.code != 0:
        return {}, said
    with np.load(out) as arrays:
        return dict(arrays), said


def batches(got, epoch=0):
    """[{name: array}] of an epoch."""
    count = int(got["source"][1])
    found = []
    for i in range(count):
        prefix = f"{epoch}.{i}."
        found.append({k[len(prefix):]: v for k, v in got.items() if k.startswith(prefix)})
    return found


def same(got, want, what):
    want = np.asarray(want)
    check(got is not None and same_bits(got, want), f"{what}: got\n{got}\nexpected\n{want}")


def ragged(lengths, high=1000, dtype="i8", name="input_ids", extra=()):
    lengths = np.asarray(lengths)
    tokens = rng.integers(0, high, (int(lengths.sum()), *extra)).astype(dtype)
    return {name: tokens, f"{name}.offsets": np.concatenate([[0], np.cumsum(lengths)]).astype("i8")}


def rows_of(arrays, name, offsets=None):
    at = arrays[(offsets or name) + ".offsets"]
    return [arrays[name][a:b] for a, b in zip(at[:-1], at[1:])]


def padded(rows, value, multiple=8, cap=None, fixed=None, dtype=None):
    """Rows of different lengths as one array, by numpy."""
    rows = [r[:cap] for r in rows] if cap else rows
    length = -(-max(max(len(r) for r in rows), 1) // multiple) * multiple
    length = fixed or (min(length, cap) if cap else length)
    return np.stack([np.pad(r, [(0, length - len(r))] + [(0, 0)] * (r.ndim - 1), constant_values=value)
                     for r in rows]).astype(dtype or rows[0].dtype)


# --- dense arrays ---------------------------------------------------------------------------------


def dense():
    arrays = {"x": rng.normal(size=(23, 3, 2)).astype("f4"), "i": np.arange(23), "flag": rng.integers(0, 2, 23) > 0}
    inputs = ("x=float[?,3,2]", "i=int64[?]", "flag=bool[?]")
    for save in (np.savez, np.savez_compressed):
        save(path("a.npz"), **arrays)
        got, said = dump(path("a.npz"), *inputs, batch=5)
        check(("read into memory" in said) == (save is np.savez_compressed), f"a note on memory: {said}")
        check(list(got["source"][:2]) == [23, 5], f"samples and batches: {got['source']}")
        for k, batch in enumerate(batches(got)):
            for name, array in arrays.items():
                same(batch.get(name), array[5 * k:5 * k + 5], f"{name} of batch {k}")
            check(list(batch["counts"]) == [min(5, 23 - 5 * k)] * 2 + [0, 0], f"counts: {batch['counts']}")
    got, _ = dump(path("a.npz"), *inputs, batch=5, drop_last=True)
    check(len(batches(got)) == 4, "the short batch is left out")
    got, said = dump(path("a.npz"), "i=int64[?]", "x=float[?,?,?]", batch=50)
    same(batches(got)[0]["x"], arrays["x"], "a batch of more than all")
    check("a.npz': the model has no input for flag" in said, f"a note on what is left alone: {said}")
    np.savez(path("a.npz"), x=np.asfortranarray(arrays["x"]), i=arrays["i"].astype(">i8"))
    got, _ = dump(path("a.npz"), *inputs[:2], batch=23)
    same(batches(got)[0]["x"], arrays["x"], "Fortran's order")
    same(batches(got)[0]["i"], arrays["i"], "big-endian")


def shuffled():
    n = 101
    np.savez(path("a.npz"), i=np.arange(n), x=np.arange(n, dtype="f4")[:, None].repeat(3, 1))
    inputs = ("i=int64[?]", "x=float[?,3]")
    got, _ = dump(path("a.npz"), *inputs, batch=8, epochs=3, seed=5, shuffle=True)
    orders = [np.concatenate([b["i"] for b in batches(got, e)]) for e in range(3)]
    for order in orders:
        check(sorted(order) == list(range(n)), "an epoch has each sample once")
        check(np.sum(np.abs(np.diff(order)) == 1) < 12, "neighbours are not kept")
    check(len({tuple(o) for o in orders}) == 3, "epochs differ")
    for b in batches(got, 1):
        same(b["x"], b["i"].astype("f4")[:, None].repeat(3, 1), "rows belong together")
    again, _ = dump(path("a.npz"), *inputs, batch=8, epochs=3, seed=5, shuffle=True, **{"from": 7})
    check(all(got[k].tobytes() == v.tobytes() for k, v in again.items()), "resumed in the middle, the same batches")
    other, _ = dump(path("a.npz"), *inputs, batch=8, seed=6, shuffle=True)
    check(any(got[k].tobytes() != v.tobytes() for k, v in other.items() if k.endswith("i")), "another seed")
    whole, _ = dump(path("a.npz"), *inputs, batch=24, epochs=3, seed=5, shuffle=True)
    check(all((np.concatenate([b["i"] for b in batches(whole, e)]) == orders[e]).all() for e in range(3)),
          "the order does not hang on the batch")


def ranks():
    arrays = ragged(rng.integers(1, 20, 103), dtype="i4") | {"i": np.arange(103)}
    np.savez(path("a.npz"), **arrays)
    inputs = ("input_ids=int64[?,?]", "attention_mask=float[?,?]", "i=int64[?]")
    options = {"seed": 3, "shuffle": True, "epochs": 2}
    for bucket in (0, 4):
        whole, _ = dump(path("a.npz"), *inputs, batch=12, bucket=bucket, **options)
        parts = [dump(path("a.npz"), *inputs, batch=4, rank=r, ranks=3, bucket=bucket, **options)[0] for r in range(3)]
        check(all(p["source"].tobytes() == whole["source"].tobytes() for p in parts), "one source, one hash")
        for epoch in range(2):
            for k, batch in enumerate(batches(whole, epoch)):
                mine = [batches(p, epoch)[k] for p in parts]
                same(np.concatenate([m["i"] for m in mine]), batch["i"], "ranks together are the global batch")
                counts = np.array([m["counts"] for m in mine])
                check(counts[:, 0].sum() == counts[0, 1] == batch["counts"][0], f"samples of ranks: {counts}")
                check(counts[:, 2].sum() == counts[0, 3] == batch["counts"][2], f"tokens of ranks: {counts}")
                check(all(m["attention_mask"].sum() == m["counts"][2] for m in mine), "masks and counts agree")
    few, _ = dump(path("a.npz"), "i=int64[?]", batch=34, rank=0, ranks=3)  # 102 and 1: somebody has none
    check([b["counts"][0] for b in batches(few)] == [34, 0], "a rank without samples")
    same(batches(few)[1]["i"], np.array([102]), "another's sample, so that it can run")


# --- rows of different lengths --------------------------------------------------------------------


def texts():
    lengths = rng.integers(1, 41, 29)
    arrays = ragged(lengths, dtype="u2") | {"labels": rng.integers(0, 9, lengths.sum())}
    arrays |= ragged(rng.integers(1, 9, 29), name="decoder_input_ids") | {"y": rng.normal(size=29).astype("f4")}
    arrays |= ragged(lengths, dtype="f4", name="features", extra=(3,))
    np.savez(path("a.npz"), **arrays)
    inputs = ("input_ids=int64[?,?]", "labels=int64[?,?] padding -100", "attention_mask=int64[?,?]",
              "decoder_input_ids=int32[?,?]", "decoder_attention_mask=bool[?,?]", "y=float[?]", "features=float[?,?,3]")

    def compare(got, multiple=8, cap=None, values=(0, -100, 0), batch=6):
        all_rows = {n: rows_of(arrays, n, o) for n, o in (("input_ids", None), ("labels", "input_ids"),
                                                          ("decoder_input_ids", None), ("features", None))}
        for k, b in enumerate(batches(got)):
            rows = {n: r[batch * k:batch * k + batch] for n, r in all_rows.items()}
            pad = lambda n, v, t: padded(rows[n], v, multiple, cap, dtype=t)
            same(b["input_ids"], pad("input_ids", values[0], "i8"), "input_ids")
            same(b["labels"], pad("labels", values[1], "i8"), "labels")
            same(b["features"], pad("features", values[2], "f4"), "features")
            same(b["decoder_input_ids"], pad("decoder_input_ids", 0, "i4"), "decoder_input_ids")
            ones = lambda n, t: padded([np.ones(len(r), t) for r in rows[n]], 0, multiple, cap)
            same(b["attention_mask"], ones("input_ids", "i8"), "attention_mask")
            same(b["decoder_attention_mask"], ones("decoder_input_ids", "?"), "decoder_attention_mask")
            check(b["counts"][2] == sum(min(len(r), cap or 999) for r in rows["input_ids"]), f"tokens: {b['counts']}")

    compare(dump(path("a.npz"), *inputs, batch=6)[0])
    compare(dump(path("a.npz"), *inputs, batch=6, pad_multiple=1)[0], multiple=1)
    compare(dump(path("a.npz"), *inputs, batch=6, pad=["input_ids=7", "labels=-1", "features=0.5"])[0],
            values=(7, -1, 0.5))
    got, said = dump(path("a.npz"), *inputs, batch=6, max_length=21)
    compare(got, cap=21)
    check("cut to 21 tokens" in said, f"a note on what is cut: {said}")
    got, _ = dump(path("a.npz"), "input_ids=int64[?,48]", "attention_mask=int64[?,48]", batch=29)
    same(batches(got)[0]["input_ids"], padded(rows_of(arrays, "input_ids"), 0, fixed=48, dtype="i8"), "a fixed length")
    got, _ = dump(path("a.npz"), "input_ids=int64[29,48]", batch=29)
    check(len(batches(got)) == 1, "a fixed batch")
    dump(path("a.npz"), "input_ids=int64[?,16]", code=2, says=("'input_ids'", "--max-length=16", "a.npz"))
    dump(path("a.npz"), *inputs, pad=["input_ids"], code=64, says=("--pad=input_ids",))
    dump(path("a.npz"), *inputs, pad=["y=1"], code=64, says=("--pad=y=1",))
    dump(path("a.npz"), *inputs, pad=["input_ids=0.5"], code=64, says=("input_ids", "0.5"))
    dump(path("a.npz"), *inputs, pad=["decoder_input_ids=3e9"], code=64, says=("decoder_input_ids", "int32"))
    got, said = dump(path("a.npz"), "features=float[?,?,3]", batch=29)
    same(batches(got)[0]["features"], padded(rows_of(arrays, "features"), 0), "features alone")
    np.savez(path("a.npz"), **ragged([3, 0, 2]))
    _, said = dump(path("a.npz"), "input_ids=int64[?,?]", batch=3)
    check("1 of 3 rows have no token" in said, f"a warning of empty rows: {said}")


def own_masks():
    """Of rows of one length with a mask beside them, tokens are what the mask lets through."""
    for dtype, told in (("i8", "int64"), ("f4", "float"), ("?", "bool")):
        arrays = {"input_ids": rng.integers(0, 9, (13, 7)), "attention_mask": (rng.random((13, 7)) < 0.3).astype(dtype)}
        np.savez(path("a.npz"), **arrays)
        got, _ = dump(path("a.npz"), "input_ids=int64[?,7]", f"attention_mask={told}[?,7]", batch=5)
        for k, b in enumerate(batches(got)):
            mask = arrays["attention_mask"][5 * k:5 * k + 5]
            same(b["attention_mask"], mask, "a mask of the file")
            check(b["counts"][2] == np.count_nonzero(mask), f"tokens by the file's mask: {b['counts']}")


def buckets():
    """Sorted in windows: less padding, each sample once, the short batch last."""
    lengths = rng.integers(1, 200, 1003)
    np.savez(path("a.npz"), **ragged(lengths), i=np.arange(1003))
    inputs = ("input_ids=int64[?,?]", "i=int64[?]")
    plain, _ = dump(path("a.npz"), *inputs, batch=10, shuffle=True, epochs=2)
    sorted_, _ = dump(path("a.npz"), *inputs, batch=10, shuffle=True, epochs=2, bucket=20)
    for epoch in range(2):
        found = batches(sorted_, epoch)
        order = np.concatenate([b["i"] for b in found])
        check(sorted(order) == list(range(1003)), "an epoch has each sample once")
        check([len(b["i"]) for b in found] == [10] * 100 + [3], "the short batch is the last")
        whole = np.concatenate([b["i"] for b in batches(plain, epoch)])
        for w in range(0, 1003, 200):
            check(set(order[w:w + 200]) == set(whole[w:w + 200]), "a window has the samples of its places")
        widths = [b["input_ids"].shape[1] for b in found[:20]]
        check(widths != sorted(widths), "batches of a window are shuffled")
        # By numpy: the first window, sorted, in batches, in any order.
        window = sorted(whole[:200], key=lambda s: lengths[s])
        want = sorted(tuple(lengths[window[k:k + 10]]) for k in range(0, 200, 10))
        check(want == sorted(tuple(lengths[b["i"]]) for b in found[:20]), "batches of like lengths")
    cells = [sum(b["input_ids"].size for b in batches(g)) for g in (plain, sorted_)]
    check(cells[1] < 0.65 * cells[0], f"less padding: {cells}")
    again, _ = dump(path("a.npz"), *inputs, batch=10, shuffle=True, epochs=2, bucket=20, **{"from": 57})
    check(all(sorted_[k].tobytes() == v.tobytes() for k, v in again.items()), "resumed within a window")
    same(np.concatenate([b["i"] for b in batches(dump(path("a.npz"), *inputs, batch=10, bucket=1000)[0])])[:1000],
         np.argsort(lengths[:1000], kind="stable"), "without shuffling: sorted")


def packed():
    lengths = rng.integers(0, 30, 40)
    total = int(lengths.sum())
    arrays = ragged(lengths, dtype="u1", high=200) | {"labels": np.arange(total)}
    inputs = ("input_ids=int64[?,?]", "labels=int64[?,?]", "attention_mask=int64[?,?]")
    n = total // 16

    def compare(data):
        got, said = dump(data, *inputs, batch=7, pack=16)
        check(("make no whole row" in said) == (total % 16 > 0), f"a note on the rest: {said}")
        check(got["source"][0] == n, f"rows: {got['source']}")
        for name in ("input_ids", "labels"):
            same(np.concatenate([b[name] for b in batches(got)]),
                 arrays[name][:16 * n].reshape(n, 16).astype("i8"), f"packed {name}")
        check(all((b["attention_mask"] == 1).all() and b["counts"][2] == b["input_ids"].size for b in batches(got)),
              "all tokens are real")

    np.savez(path("a.npz"), **arrays)
    compare(path("a.npz"))
    np.savez(path("a.npz"), input_ids=arrays["input_ids"], labels=arrays["labels"])
    compare(path("a.npz"))
    os.mkdir(path("text"))
    for k, (a, b) in enumerate(((0, 5), (5, 5), (5, 200), (200, total))):  # rows run over the ends of files
        np.savez(path(f"text/{k}.npz"), input_ids=arrays["input_ids"][a:b], labels=arrays["labels"][a:b])
    compare(path("text"))
    got, _ = dump(path("text"), *inputs, batch=7, pack=16, shuffle=True)
    order = np.concatenate([b["labels"][:, 0] for b in batches(got)]) // 16
    check(sorted(order) == list(range(n)) and list(order) != sorted(order), "packed rows are shuffled")
    dump(path("a.npz"), "input_ids=int64[?,32]", pack=16, code=64, says=("--pack=16", "32"))
    dump(path("a.npz"), "input_ids=int64[?,?]", pack=100000, code=2, says=("fewer than a row",))
    dump(path("a.npz"), "input_ids=int64[?,?]", pack=16, max_length=8, code=64, says=("--pack",))
    np.savez(path("a.npz"), input_ids=arrays["input_ids"], y=np.zeros(3, "f4"))
    dump(path("a.npz"), "input_ids=int64[?,?]", "y=float[?]", pack=16, code=2, says=("'y'", "packing"))
    np.savez(path("a.npz"), input_ids=arrays["input_ids"], labels=arrays["labels"][1:])
    dump(path("a.npz"), *inputs, pack=16, code=2, says=("'labels'", f"{total - 1} tokens", "'input_ids'"))


# --- folders, constants, types --------------------------------------------------------------------


def shards():
    os.mkdir(path("shards"))
    sizes, all_lengths, tokens = (4, 0, 7, 1), [], []
    x = rng.normal(size=(sum(sizes), 2)).astype("f4")
    for k, size in enumerate(sizes):
        lengths = rng.integers(1, 12, size)
        arrays = ragged(lengths) | {"labels": rng.integers(0, 9, lengths.sum())}
        save = np.savez_compressed if k == 2 else np.savez
        save(path(f"shards/part-{k}.npz"), x=x[sum(sizes[:k]):sum(sizes[:k + 1])], scale=np.float32(0.5),
             table=np.arange(6, dtype="f4").reshape(2, 3), **arrays)
        all_lengths += list(lengths)
        tokens.append(arrays["input_ids"])
    inputs = ("x=float[?,2]", "input_ids=int64[?,?]", "labels=int64[?,?]", "scale=float[]", "table=float[2,3]")
    got, said = dump(path("shards"), *inputs, batch=5)
    check("5 arrays" in said or "arrays were read into memory" in said, f"one note for all: {said}")
    whole = np.concatenate(tokens)
    at = np.concatenate([[0], np.cumsum(all_lengths)])
    rows = [whole[a:b] for a, b in zip(at[:-1], at[1:])]
    for k, b in enumerate(batches(got)):
        same(b["x"], x[5 * k:5 * k + 5], "rows over files")
        same(b["input_ids"], padded(rows[5 * k:5 * k + 5], 0), "ragged rows over files")
        same(b["scale"], np.float32(0.5), "a scalar is the same in every batch")
        same(b["table"], np.arange(6, dtype="f4").reshape(2, 3), "a table is the same in every batch")
    check(len(batches(got)) == 3, "batches over files")
    good = dict(np.load(path("shards/part-3.npz")))

    def refused(says, without=(), **changes):
        arrays = {k: v for k, v in (good | changes).items() if k not in without}
        np.savez(path("shards/part-3.npz"), **arrays)
        dump(path("shards"), *inputs, code=2, says=("part-3.npz", "part-0.npz") + says)

    refused(("'x'",), without=("x",))
    refused(("'x'", "double[1,2]"), x=good["x"].astype("f8"))
    refused(("'x'", "float[1,5]"), x=np.zeros((1, 5), "f4"))
    refused(("'scale'",), scale=np.float32(0.25))
    refused(("'input_ids'", "no offsets"), without=("input_ids.offsets",))
    os.mkdir(path("empty"))
    dump(path("empty"), "x=float[?]", code=2, says=("no .npz and no .safetensors file",))
    dump(path("none.npz"), "x=float[?]", code=5, says=("none.npz",))


def constants():
    """An array of its input's shape: a constant beside other numbers of samples, else samples."""
    table = rng.normal(size=(4, 3)).astype("f4")
    np.savez(path("a.npz"), x=np.arange(8), table=table)
    got, _ = dump(path("a.npz"), "x=int64[?]", "table=float[4,3]", batch=2)
    check(all(b["table"].tobytes() == table.tobytes() for b in batches(got)) and len(batches(got)) == 4, "a constant")
    np.savez(path("a.npz"), x=np.arange(4), table=table)
    got, _ = dump(path("a.npz"), "x=int64[?]", "table=float[4,3]", batch=4)
    same(batches(got)[0]["table"], table, "a batch of fixed size")
    dump(path("a.npz"), "x=int64[?]", "table=float[4,3]", batch=2, code=2, says=("'table'", "--batch=4"))
    np.savez(path("a.npz"), table=table)
    got, _ = dump(path("a.npz"), "table=float[4,3]", batch=4)
    check(got["source"][0] == 4, "samples where there is nothing else")
    np.savez(path("a.npz"), table=rng.normal(size=(11, 3)).astype("f4"))
    got, said = dump(path("a.npz"), "table=float[4,3]", batch=4)
    check(len(batches(got)) == 2 and "3 of 11 samples" in said, f"a fixed batch leaves the rest out: {said}")
    np.savez(path("a.npz"), s=np.float32(1))
    dump(path("a.npz"), "s=float[]", code=2, says=("how many samples",))
    np.savez(path("a.npz"), x=np.arange(3))
    got, _ = dump(path("a.npz"), "x=int64[?]", "y=float[?] optional")
    check("y" not in batches(got)[0], "a default needs no array")


def types():
    values = np.array([0, 1, 5, 100])
    for kind in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"):
        np.savez(path("a.npz"), x=values.astype(kind))
        for onnx, to in (("int8", "i1"), ("uint8", "u1"), ("int32", "i4"), ("int64", "i8"), ("uint64", "u8")):
            got, _ = dump(path("a.npz"), f"x={onnx}[?]")
            same(batches(got)[0]["x"], values.astype(to), f"{kind} for {onnx}")
    np.savez(path("a.npz"), x=np.arange(1000, dtype="u1"), h=np.linspace(-3, 3, 1000).astype("f2"))
    got, _ = dump(path("a.npz"), "x=float[?]", "h=float[?]", batch=1000)
    same(batches(got)[0]["x"], np.arange(1000, dtype="u1").astype("f4"), "bytes for floats")
    same(batches(got)[0]["h"], np.linspace(-3, 3, 1000).astype("f2").astype("f4"), "float16 for floats")
    got, _ = dump(path("a.npz"), "h=double[?]", batch=1000)
    same(batches(got)[0]["h"], np.linspace(-3, 3, 1000).astype("f2").astype("f8"), "float16 for doubles")
    np.savez(path("a.npz"), m=np.array([0, 1, 1, 0]))
    got, _ = dump(path("a.npz"), "m=bool[?]")
    same(batches(got)[0]["m"], np.array([False, True, True, False]), "0 and 1 for bools")
    for values, onnx in ((np.array([1, 2**31]), "int32"), (np.array([0, 2]), "bool"), (np.array([-1]), "uint8"),
                         (np.array([1, 2**63 + 1], "u8"), "int64"), (np.array([2**63 + 1], "u8"), "uint32")):
        np.savez(path("a.npz"), x=values)
        dump(path("a.npz"), f"x={onnx}[?]", code=2, says=("'x'", f"sample {len(values) - 1}", onnx, "a.npz"))
    for kind, onnx, fix in (("f4", "int64", "astype(numpy.int64)"), ("f8", "float", "astype(numpy.float32)"),
                            ("i4", "float", "astype(numpy.float32)"), ("f4", "bfloat16", "torch.bfloat16")):
        np.savez(path("a.npz"), x=np.zeros(4, kind))
        dump(path("a.npz"), f"x={onnx}[?]", code=2, says=("'x'", onnx, fix))


def safetensors():
    arrays = ragged(rng.integers(1, 20, 13)) | {"x": rng.normal(size=(13, 3)).astype("f4")}
    inputs = ("input_ids=int64[?,?]", "x=float[?,3]")
    safetensors_file.write(path("a.safetensors"), arrays)
    np.savez(path("a.npz"), **arrays)
    got, said = dump(path("a.safetensors"), *inputs)
    want, _ = dump(path("a.npz"), *inputs)
    check(said == "" and got.keys() == want.keys(), f"the same from both formats: {said}")
    for name, array in want.items():
        same(got.get(name), array, name)
    bits = rng.integers(0, 2**16, (4, 3)).astype("u2")
    safetensors_file.write(path("a.safetensors"), {"x": bits}, types={"x": "BF16"})
    got, _ = dump(path("a.safetensors"), "x=bfloat16[?,3]")
    check(batches(got)[0]["x"].tobytes() == bits.tobytes(), "bfloat16")
    bits &= 0x7F7F  # no NaN, which another program may store otherwise
    safetensors_file.write(path("a.safetensors"), {"x": bits}, types={"x": "BF16"})
    got, _ = dump(path("a.safetensors"), "x=float[?,3]")
    same(batches(got)[0]["x"], (bits.astype("u4") << 16).view("f4"), "bfloat16 for floats")
    os.mkdir(path("both"))
    safetensors_file.write(path("both/a.safetensors"), {"x": arrays["x"][:5]})
    np.savez(path("both/b.npz"), x=arrays["x"][5:])
    got, _ = dump(path("both"), "x=float[?,3]", batch=13)
    same(batches(got)[0]["x"], arrays["x"], "files of both formats")


# --- what is refused ------------------------------------------------------------------------------


def refused():
    np.savez(path("a.npz"), x=np.zeros((5, 3), "f4"), z=np.zeros(4))
    dump(path("a.npz"), "x=float[?,3]", "y=int64[?]", code=2, says=("'y'", "int64[?]", "there is x, z", "a.npz"))
    dump(path("a.npz"), "y=int64[?]", code=2, says=("'y'", "there is x, z"))
    dump(path("a.npz"), "x=float[?,3]", "attention_mask=int64[?,?]", code=2, says=("'attention_mask'", ".offsets"))
    dump(path("a.npz"), "x=float[?,4]", code=2, says=("'x'", "float[5,3]", "float[?,4]"))
    dump(path("a.npz"), "x=float[?]", code=2, says=("'x'", "float[5,3]"))
    dump(path("a.npz"), "x=float[?,?,3]", code=2, says=("'x'", "x.offsets"))
    dump(path("a.npz"), "x=float[?,3]", "z=double[?]", code=2, says=("'z'", "4 samples", "'x'", "5"))
    dump(path("a.npz"), "x=float[?,3]", batch=6, drop_last=True, code=2, says=("5 samples", "batch of 6"))
    dump(path("a.npz"), "x=float[?,3]", batch=0, code=64)
    dump(path("a.npz"), "x=float[?,3]", bucket=2**20 + 1, code=64, says=("--bucket",))
    dump(path("a.npz"), "x=float[?,3]", pad_multiple=2**40, code=64, says=("--pad-multiple",))
    dump("-", "x=float[?,3]", code=2, says=("no file of samples",))
    np.savez(path("a.npz"), x=np.zeros((0, 3), "f4"))
    dump(path("a.npz"), "x=float[?,3]", code=2, says=("no samples",))
    write(path("a.txt"), "x")
    dump(path("a.txt"), "x=float[?,3]", code=2, says=("numpy.savez",))
    good = ragged([3, 4, 2])
    for offsets, says in (([0, 3, 7, 10], "element 3 is 10"), ([0, 3, 2, 9], "element 2 is 2"),
                          ([1, 3, 7, 9], "expected 0"),
                          ([0, 3, 7, 8], "the number of tokens"), ([0, -3, 7, 9], "element 1 is -3"),
                          ([[0, 3, 7, 9]], "int64[1,4]"), (np.array([0, 3, 7, 9.0]), "double[4]"),
                          (np.zeros(0, "i8"), "int64[0]")):
        np.savez(path("a.npz"), **(good | {"input_ids.offsets": np.array(offsets)}))
        dump(path("a.npz"), "input_ids=int64[?,?]", code=2, says=("'input_ids.offsets'", says, "a.npz"))
    np.savez(path("a.npz"), **good, labels=np.zeros(8, "i8"))
    dump(path("a.npz"), "input_ids=int64[?,?]", "labels=int64[?,?]", code=2, says=("'labels'", "labels.offsets"))


def hashes():
    def digest(**changes):
        options = {k: v for k, v in changes.items() if k in ("batch", "shuffle", "ranks")}
        arrays = {"x": np.arange(5000), "i": np.arange(5000)} | {k: v for k, v in changes.items() if k not in options}
        np.savez(path("a.npz"), **arrays)
        return dump(path("a.npz"), "x=int64[?]", "i=int64[?]", limit=0, **options)[0]["source"][2]

    first, last = np.arange(5000), np.arange(5000)
    first[0], last[-1] = 1, 1
    found = [digest(), digest(x=first), digest(x=last), digest(x=np.arange(5000, dtype="i4")), digest(batch=8),
             digest(shuffle=True), digest(x=first, i=first)]
    check(len(set(found)) == len(found), f"other data, other hash: {found}")
    check(digest() == found[0] and digest(batch=2, ranks=2) == found[0], "the same data, the same hash")


for test in (dense, shuffled, ranks, texts, own_masks, buckets, packed, shards, constants, types, safetensors, refused,
             hashes):
    test()
finish()
