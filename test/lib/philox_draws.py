"""What Dropout and random ops draw, from the definition (compiler/ir/ops.def): Philox4x32 of 7 rounds in numpy, held
against the known answers published with Random123; and the cases of random ops."""

import numpy as np
from onnx import TensorProto, helper


def philox(counter, key):
    """[4, n] words of the counters [4, n] under a key of two words."""
    mask = np.uint64(0xFFFFFFFF)
    c, k = [np.uint64(x) for x in counter], [np.uint64(x) for x in key]
    for _ in range(7):
        wide0, wide1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(wide1 >> np.uint64(32)) ^ c[1] ^ k[0], wide1 & mask, (wide0 >> np.uint64(32)) ^ c[3] ^ k[1], wide0 & mask]
        k = [(k[0] + np.uint64(0x9E3779B9)) & mask, (k[1] + np.uint64(0xBB67AE85)) & mask]
    return c


def known_answers():
    for counter, key, words in (
        ([0] * 4, [0] * 2, [0x5F6FB709, 0x0D893F64, 0x4F121F81, 0x4F730A48]),
        ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x5207DDC2, 0x45165E59, 0x4D8EE751, 0x8C52F662]),
        ([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0],
         [0x4DFCCABA, 0x190A87F0, 0xC47362BA, 0xB6B5242A]),
    ):
        assert [int(w[0]) for w in philox([np.array([x], np.uint64) for x in counter], key)] == words


def draw(n, seed, node):
    """n words."""
    block = np.arange((n + 3) // 4, dtype=np.uint64)
    seed, step = (int(s) % 2**64 for s in seed)
    same = np.ones_like(block)
    words = philox(
        [block & np.uint64(0xFFFFFFFF), block >> np.uint64(32) ^ same * np.uint64(step >> 32),
         same * np.uint64(node % 2**32), same * np.uint64(step % 2**32)],
        [seed % 2**32, seed >> 32],
    )
    return np.stack(words, 1).reshape(-1)[:n]


def keep_mask(shape, ratio, seed, node):
    """Of element i 16 bits of word i // 2, the low ones first, against a threshold of whole 65536ths."""
    n = int(np.prod(shape))
    words = draw((n + 1) // 2, seed, node)
    halves = np.stack([words & np.uint64(0xFFFF), words >> np.uint64(16)], 1).reshape(-1)[:n]
    ratio = np.asarray(ratio).item()
    threshold = min(max(round(ratio * 65536), int(ratio > 0)), 65535)
    return (halves >= threshold).reshape(shape)


def random_uniform(shape, seed, low=0.0, high=1.0, node=0, dtype=1):
    """Of a float type, rounded in float or double: as many upper bits of a word as the type holds."""
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    made = np.float64 if kind == np.float64 else np.float32
    bits = {TensorProto.FLOAT16: 11, TensorProto.BFLOAT16: 8}.get(dtype, 24)
    u = (draw(int(np.prod(shape)), seed, node) >> np.uint64(32 - bits)).astype(made) * made(2.0**-bits)
    low, high = made(np.float32(low)), made(np.float32(high))
    return ((low + u * (high - low)).reshape(shape).astype(kind),)


def random_normal(shape, seed, mean=0.0, scale=1.0, node=0, dtype=1):
    u, v = (draw(2 * int(np.prod(shape)), seed, node) >> np.uint64(8)).astype(np.float64).reshape(-1, 2).T * 2.0**-24
    z = np.sqrt(-2 * np.log1p(-u)) * np.cos(2 * np.pi * v)
    return ((np.float32(mean) + np.float64(np.float32(scale)) * z).reshape(shape),)


def cases(case, seed_of_all):
    numbers = {np.float32: TensorProto.FLOAT, np.float64: TensorProto.DOUBLE, np.float16: TensorProto.FLOAT16}
    for shape in [3, 5], [257], [], [0, 3], [2, 3, 7], [70000]:
        for op in "RandomUniform", "RandomNormal":
            case(op, np.array(shape, np.int64), seed_of_all, node=2**31 + 1)
    for seed in [0, 0], [2**40 + 123, 2**33 + 5], [-1, -1]:
        case("RandomUniform", np.array([4, 9]), np.array(seed, np.int64), node=2**32 - 1)
    for kind, number in numbers.items():
        case("RandomUniform", np.array([300]), seed_of_all, low=-2.7, high=1.3, node=2**31, dtype=number, types=(kind,))
        case("RandomUniform", np.array([3000]), seed_of_all, dtype=number, types=(kind,))
        case("RandomNormal", np.array([300]), seed_of_all, mean=-2.7, scale=1.3, node=2**31,
             dtype=number, types=(kind,))
