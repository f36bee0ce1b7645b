"""A small ResNet of basic blocks, BatchNormalization in training mode, as ONNX, spelled as PyTorch's exporter spells
it."""
import dataclasses

import numpy as np
import onnx_graph


@dataclasses.dataclass
class Resnet:
    blocks: int = 3  # of each of three stages; 6 * blocks + 2 layers
    width: int = 16  # channels of the first stage; each further one has twice as many at half the size
    batch: int = 128
    size: int = 32
    classes: int = 10


def stages(c):
    """(name, channels in, channels out, stride) of every block."""
    into = c.width
    for s in range(3):
        for b in range(c.blocks):
            out = c.width << s
            yield f"stages.{s}.{b}", into, out, 2 if s > 0 and b == 0 else 1
            into = out


def shapes(c):
    """Name and shape of every parameter, in the order of use."""
    def conv(name, into, out, kernel):
        return [(f"{name}.weight", (out, into, kernel, kernel)), (f"{name}_norm.weight", (out,)),
                (f"{name}_norm.bias", (out,))]
    out = conv("stem", 3, c.width, 3)
    for at, m, n, stride in stages(c):
        out += conv(f"{at}.first", m, n, 3) + conv(f"{at}.second", n, n, 3)
        out += conv(f"{at}.short", m, n, 1) if stride > 1 else []
    return out + [("head.weight", (4 * c.width, c.classes)), ("head.bias", (c.classes,))]


def parameters(c):
    return onnx_graph.drawn(shapes(c))


def inputs(c):
    draw = np.random.default_rng(1)
    return {"pixels": draw.standard_normal((c.batch, 3, c.size, c.size), dtype=np.float32),
            "labels": draw.integers(0, c.classes, (c.batch,))}


class Graph(onnx_graph.Graph):
    def conv(self, x, name, n, kernel, stride=1):
        pad = kernel // 2
        y = self.op("Conv", x, f"{name}.weight", kernel_shape=[kernel, kernel], pads=[pad] * 4, strides=[stride] * 2)
        return self.ops("BatchNormalization", 3, y, f"{name}_norm.weight", f"{name}_norm.bias",
                        self.constant(np.zeros(n)), self.constant(np.ones(n)), epsilon=1e-5, momentum=0.9,
                        training_mode=1)[0]

    def whole(self):
        c = self.c
        x = self.op("Relu", self.conv("pixels", "stem", c.width, 3))
        for at, _, n, stride in stages(c):
            y = self.op("Relu", self.conv(x, f"{at}.first", n, 3, stride))
            short = self.conv(x, f"{at}.short", n, 1, stride) if stride > 1 else x
            x = self.op("Relu", self.op("Add", self.conv(y, f"{at}.second", n, 3), short))
        x = self.op("Flatten", self.op("GlobalAveragePool", x), axis=1)
        self.loss(self.linear(x, "head"), "labels")


def write(path, c):
    graph = Graph(c)
    graph.whole()
    onnx_graph.write(path, graph, shapes(c), parameters(c), inputs(c))
