#!/usr/bin/env python3
"""models/export_training.py: files that train what PyTorch trains, or a message that tells what to change.

usage: check_export.py SOURCE_ROOT BUILD_ROOT [K/N | WORD ...]    part K of N, or checks whose name has WORD
Needs torch, onnx, onnxscript and ml_dtypes, and transformers for one case; what is missing is said, and the test then
skipped (exit code 77).
"""
import contextlib
import json
import os
import random
import tempfile
import warnings

from torch_checks import run_checks, set_up

set_up("torch", "onnx", "onnxscript", "ml_dtypes")

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import export_training  # noqa: E402
import tempo  # noqa: E402

SEED = 3
FOLDER = tempfile.TemporaryDirectory(prefix="tempo-export-")


class WithLoss(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.model = nn.Sequential(*layers)

    def forward(self, x, labels):
        return F.cross_entropy(self.model(x), labels)


class Stopped(nn.Module):
    def __init__(self, stop):
        super().__init__()
        self.a, self.b, self.stop = nn.Linear(8, 8), nn.Linear(8, 3), stop

    def forward(self, x, labels):
        return F.cross_entropy(self.b(self.a(x) * self.stop(lambda: self.a(x).tanh())), labels)


def under_no_grad(call):
    with torch.no_grad():
        return call()


class Fixed(WithLoss):
    def forward(self, x, labels):
        return super().forward(x.view(4, 8), labels)


class Drawing(nn.Module):
    """Dropout inside of PyTorch's own layers: between recurrent ones, and of attention."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(2, 4, num_layers=2, dropout=0.5, batch_first=True)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, dropout=0.5, batch_first=True), 1)
        self.head = nn.Linear(4, 3)

    def forward(self, x, labels):
        mask = torch.ones(4, 4).triu(1) * -1e9  # PyTorch looks whether it is causal
        return F.cross_entropy(self.head(self.encoder(self.lstm(x.view(-1, 4, 2))[0], mask).mean(1)), labels)


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(1, 3, batch_first=True)

    def forward(self, x, lengths, labels):
        packed = nn.utils.rnn.pack_padded_sequence(x[:, :, None], lengths, batch_first=True, enforce_sorted=False)
        return F.cross_entropy(self.gru(packed)[1][-1], labels)


class ByData(WithLoss):
    """Takes a course by what the batch holds."""

    def forward(self, x, labels):
        return super().forward(x if x.sum() < 1e9 else -x, labels)


def rows():
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 2, 1, 0])


def export(module, batch, **options):
    torch.manual_seed(SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return export_training.export(module, batch, os.path.join(FOLDER.name, "model.onnx"), **options)


def message_of(module, batch, **options):
    path = os.path.join(FOLDER.name, "model.onnx")
    with contextlib.suppress(OSError):
        os.remove(path)
    try:
        export(module, batch, **options)
    except export_training.ExportError as e:
        assert not os.path.exists(path)
        return str(e)
    raise AssertionError("no error")


def check_files():
    """Dropout drops in the file, and the numbers that are compared are without; the module stays as it was."""
    module = WithLoss(nn.Linear(8, 16), nn.Dropout(0.1), nn.GELU(), nn.Linear(16, 3)).eval()
    module.model[0].bias.requires_grad_(False)
    made = export(module, rows())
    drawn = torch.rand(())
    torch.manual_seed(SEED)
    assert not module.training and drawn == torch.rand(())
    assert made.way == ("dynamo", 18, True) and made.worst[0] < 1e-5 and len(made.notes) == 1, made
    learned = ["model.0.weight", "model.3.weight", "model.3.bias"]
    with open(made.files["train"], encoding="utf-8") as f:
        assert f.read().split() == learned
    with open(made.files["names"], encoding="utf-8") as f:
        assert json.load(f) == {name: {"initializer": name, "layout": "same"} for name in learned}
    np.testing.assert_array_equal(np.load(made.files["batch"])["x"], rows()[0].numpy())
    model = onnx.load(made.path)
    assert [p.value.split() for p in model.metadata_props if p.key == "tempo.train"] == [learned]
    outputs = [info.name for info in tempo.Session(tempo.compile(made.path, freeze=["model.3.bias"])).outputs]
    assert outputs == ["loss", "model.0.weight_grad", "model.3.weight_grad"], outputs
    graph = model.graph
    assert [node.op_type for node in graph.node].count("Dropout") == 1
    assert graph.input[0].name == "x" and graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


class Predicting(WithLoss):
    def forward(self, x, labels):
        logits = self.model(x + labels.sum())
        return {"loss": ((logits - labels) ** 2).mean(), "logits": logits, "cache": [logits * 2], "labels": labels,
                "last_hidden_state": logits + 1, "mean": logits.mean(), "names": "logits"}


def check_predictions():
    """Floats with a row for each sample stay beside the loss, also where one tensor is the batch of two inputs."""
    module, x = Predicting(nn.Linear(4, 4)), torch.randn(3, 4)
    want = module(x, x)["logits"].detach().numpy()
    for exporter in "dynamo", "TorchScript":
        made = export_training.export(module, (x, x), os.path.join(FOLDER.name, "predicts.onnx"), exporter=exporter)
        graph = onnx.load(made.path).graph
        assert [v.name for v in graph.input] == ["x", "labels"] and [v.name for v in graph.output] == ["loss", "logits"]
        session = tempo.Session(tempo.compile(made.path))
        np.testing.assert_allclose(session.run({"x": x.numpy(), "labels": x.numpy()})["logits"], want, 1e-5, 1e-6)
    made = export_training.export(module, (x, x), os.path.join(FOLDER.name, "alone.onnx"), predictions=False)
    assert [v.name for v in onnx.load(made.path).graph.output] == ["loss"]


class Stateful(WithLoss):
    """Its calls move buffers, by name and in place, a table, and what Python and numpy draw from."""

    def __init__(self, *layers):
        super().__init__(*layers)
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("center", torch.full((8,), 0.5))
        self.table = nn.Embedding(3, 8, max_norm=0.5)

    def forward(self, x, labels):
        if not torch.compiler.is_compiling():
            random.random(), np.random.rand()
        self.calls = self.calls + 1
        with torch.no_grad():
            self.center.mul_(0.5).add_(x.mean(0), alpha=0.5)
        return super().forward(x + self.center + self.table(labels), labels) * self.calls


def check_modes():
    """What a call changes is as it was, in the module and in the file: statistics of batch normalization, other
    buffers, what is drawn from. train=False leaves evaluation."""
    module = WithLoss(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))
    stateful = Stateful(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))
    for of in (module, stateful):
        of.model[1].running_mean.copy_(torch.arange(6.0))
        for exporter in ("dynamo", "TorchScript"):
            state = {k: (v, v.clone()) for k, v in of.state_dict(keep_vars=True).items()}
            drawn = random.getstate(), np.random.get_state()[1].tolist()
            try:
                made = export(of, rows(), exporter=exporter)
            except export_training.ExportError as e:  # of the stateful one by TorchScript's
                assert of is stateful and exporter == "TorchScript", e
                made = None
            assert drawn == (random.getstate(), np.random.get_state()[1].tolist())
            for k, v in of.state_dict(keep_vars=True).items():
                assert v is state[k][0] and torch.equal(v, state[k][1]), (k, v)
            stored = onnx.load(made.path).graph.initializer if made else []
            stored = {i.name: onnx.numpy_helper.to_array(i) for i in stored}
            for k in ("model.1.running_mean", "center", "calls"):
                assert k not in stored or np.array_equal(stored[k], state[k][1].numpy()), (exporter, k, stored[k])
            assert not made or made.worst[0] < 1e-4 and "model.1.running_mean" in stored, made
    still = export(module.eval(), {"x": rows()[0], "labels": rows()[1]}, train=False)
    with torch.no_grad():
        assert abs(still.loss - float(module(*rows()))) < 1e-6 and not still.notes


def check_drawing():
    """Layers that draw by themselves are compared without, too, and draw again behind that."""
    module = Drawing()
    made = export(module, rows())
    assert made.worst is not None and made.worst[0] < 1e-4 and not made.notes, made
    assert made.way.exporter == "dynamo" and module.lstm.dropout == 0.5
    assert sum(node.op_type == "Dropout" for node in onnx.load(made.path).graph.node) == 5


def check_stops():
    """What the dynamo exporter keeps is stopped; torch.no_grad is in no file, the gradients tell, and the program that
    it exports is given a detach. By TorchScript's there is no help."""
    assert export(Stopped(lambda call: call().detach()), rows()).worst[0] < 1e-5
    made = export(Stopped(under_no_grad), rows())
    assert made.way == ("dynamo", 18, True) and made.worst[0] < 1e-5 and "torch.no_grad" in made.notes[0], made
    assert onnx.load(made.path).graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    said = message_of(Stopped(under_no_grad), rows(), exporter="TorchScript")
    assert "gradient of 'a." in said and "x.detach() in the place of torch.no_grad()" in said, said
    assert said.count("not PyTorch's") == 1, said


def check_courses():
    """A course that data decide is no dynamo export; TorchScript's has that of the batch, and a note says so."""
    made = export(ByData(nn.Linear(8, 3)), rows())
    assert made.way.exporter == "TorchScript" and any("the course" in note for note in made.notes), made
    assert "data-dependent" in message_of(ByData(nn.Linear(8, 3)), rows(), exporter="dynamo")


def check_packed():
    """No exporter has forms of packed sequences; the message tells what to write."""
    said = message_of(Packed(), (rows()[0], torch.tensor([8, 3, 5, 2]), rows()[1]))
    assert "lengths - 1" in said, said


def check_batches():
    """A module that fixes its batch has a static one; one sample is as good as several."""
    x, labels = rows()
    made = export(Fixed(nn.Linear(8, 3)), rows())
    assert made.way == ("dynamo", 18, False) and any("takes no other batch" in note for note in made.notes), made
    one = export(WithLoss(nn.Linear(8, 3)), (x[:1], labels[:1]))
    assert one.way.open and one.worst[0] < 1e-5


def check_calls():
    linear = WithLoss(nn.Linear(8, 3))
    assert "returns no loss" in message_of(nn.Linear(8, 3), rows()[:1])
    assert "tuple or a dict of tensors" in message_of(linear, [rows()[0], "labels"])
    assert "there is no 'onnx'" in message_of(linear, rows(), exporter="onnx")
    assert "the batch has no 'y'" in message_of(linear, rows(), dims={"y": {1: "s"}})
    assert "nothing to train" in message_of(linear.requires_grad_(False), rows())
    assert "is nan in PyTorch" in message_of(WithLoss(nn.Linear(8, 3)), (rows()[0] * np.nan, rows()[1]))


def check_transformers():
    """Eager attention, experts that look at no data, and what Python draws left out; the configuration stays."""
    try:
        import transformers as tf
    except ImportError:
        print("skipped: no transformers")
        return
    ids = torch.randint(3, 40, (2, 6), generator=torch.Generator().manual_seed(2))
    config = tf.MixtralConfig(vocab_size=40, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                              num_attention_heads=2, num_key_value_heads=1, num_local_experts=3)
    made = export(tf.MixtralForCausalLM(config), {"input_ids": ids, "labels": ids}, dims={"input_ids": {1: "length"}})
    assert "NonZero" not in {node.op_type for node in onnx.load(made.path).graph.node}
    assert made.way.exporter == "dynamo" and made.worst[0] < 1e-4 and config.use_cache, made


if __name__ == "__main__":
    run_checks(globals())
