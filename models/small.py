"""Small modules whose training PyTorch's exporters lose in part or do not tell, each with its loss: export.py exports
them in training mode. `make(arch)` gives the module and its inputs by name."""
import torch
from torch import nn


class Norms(nn.Module):
    """Batch normalization as it starts out (scale 1, bias 0, statistics 0 and 1: the exporter stores equal ones once),
    without scale and bias, and in evaluation mode."""

    def __init__(self):
        super().__init__()
        self.conv, self.fresh = nn.Conv2d(2, 4, 3, bias=False), nn.BatchNorm2d(4)
        self.plain, self.still = nn.BatchNorm2d(4, affine=False), nn.BatchNorm1d(4)
        self.head = nn.Linear(4, 3)
        self.still.running_mean.normal_()
        self.still.running_var.uniform_(0.5, 2)

    def train(self, mode=True):
        super().train(mode)
        self.still.eval()
        return self

    def forward(self, x, labels):
        x = self.fresh(torch.tanh(self.conv(x)))
        x = self.still(torch.sigmoid(self.plain(torch.tanh(x))).mean((-1, -2)))
        return nn.functional.cross_entropy(self.head(torch.tanh(x)), labels)


class ConvNorms(nn.Module):
    """Norms right behind what they can be folded into."""

    def __init__(self):
        super().__init__()
        self.conv, self.conv_norm = nn.Conv2d(2, 4, 3, bias=False), nn.BatchNorm2d(4)
        self.up, self.up_norm = nn.ConvTranspose2d(4, 4, 2, bias=False), nn.BatchNorm2d(4)
        self.linear, self.linear_norm = nn.Linear(4, 5, bias=False), nn.BatchNorm1d(5)
        self.head = nn.Linear(5, 3)

    def forward(self, x, labels):
        x = torch.tanh(self.conv_norm(self.conv(x)))
        x = torch.tanh(self.up_norm(self.up(x))).mean((-1, -2))
        return nn.functional.cross_entropy(self.head(torch.tanh(self.linear_norm(self.linear(x)))), labels)


class Attention(nn.Module):
    """Scores with learned and with constant parts, all of two or more elements."""

    def __init__(self, heads=2, steps=4, width=4):
        super().__init__()
        self.heads, self.inner = heads, nn.Linear(width, 3 * width)
        self.temperature = nn.Parameter(torch.ones(heads, 1, 1))
        self.position_bias = nn.Parameter(torch.zeros(heads, steps, steps))
        slopes = torch.tensor([2.0 ** (-8 * (i + 1) / heads) for i in range(heads)])
        self.register_buffer("alibi", slopes.view(heads, 1, 1) * torch.arange(1 - steps, 1))
        self.register_buffer("causal", torch.full((steps, steps), float("-inf")).triu(1))

    def forward(self, x):
        parts = self.inner(x).view(x.shape[0], x.shape[1], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = parts[0] @ parts[1].transpose(-1, -2) * self.temperature + self.position_bias
        return ((scores + self.alibi + self.causal).softmax(-1) @ parts[2]).transpose(1, 2).reshape(x.shape)


class Scores(nn.Module):
    """Attention as it starts out and with parameters as after some training, mixed by learned shares, and a gate whose
    weight is computed: what a file without a signature has to be guessed from."""

    def __init__(self):
        super().__init__()
        self.fresh, self.drawn = Attention(), Attention()
        self.shares, self.bias = nn.Parameter(torch.ones(2) / 2), nn.Parameter(torch.zeros(4))
        self.down, self.up = nn.Parameter(torch.randn(4, 2)), nn.Parameter(torch.randn(2, 4))
        self.head = nn.Linear(4, 3)

    def forward(self, x, labels):
        shares = self.shares.softmax(0)
        mixed = shares[0] * self.fresh(x) + shares[1] * self.drawn(x)
        gate = (x @ (self.down @ self.up) + self.bias).softmax(-1)
        return nn.functional.cross_entropy(self.head((mixed * gate).mean(1)), labels)


class Equal(nn.Module):
    """Parameters, buffers and numbers of the program that are equal as they start out: stored once."""

    def __init__(self):
        super().__init__()
        self.mean, self.std = nn.Buffer(torch.zeros(8)), nn.Buffer(torch.ones(8))
        self.fresh, self.head = nn.LayerNorm(8), nn.Linear(8, 5, bias=False)
        self.fresh_scale, self.fresh_gate = (nn.Parameter(torch.tensor(0.5)) for _ in range(2))
        self.fresh_gamma = nn.Parameter(torch.ones(8))

    def forward(self, x, labels):
        x = torch.tanh(self.fresh((x - self.mean) / self.std) * self.fresh_scale) + 0.5
        return nn.functional.cross_entropy(self.head(x * self.fresh_gate * self.fresh_gamma), labels)


def rows():
    return {"x": torch.randn(2, 8), "labels": torch.tensor([3, 1])}


class Stops(nn.Module):
    """Detached values as operands of one node and of several, of a value that is read as it is, too, and of a
    parameter."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x, labels):
        h = torch.tanh(self.a(x))
        y = self.b(h)
        near = nn.functional.mse_loss(y, h.detach()) + nn.functional.mse_loss(h, h.detach() + 1)
        alike = nn.functional.cosine_similarity(y, h.detach(), dim=-1).mean()
        mixed = torch.where(x > 0, y, h.detach()) + h * h.detach() + nn.functional.linear(h, self.a.weight.detach())
        rounded = h + (torch.round(4 * h) / 4 - h).detach()
        return nn.functional.cross_entropy(self.c(mixed * rounded), labels) + near - alike


def points():
    return {"x": torch.randn(6, 4), "labels": torch.tensor([0, 2, 1, 0, 1, 2])}


class Codes(nn.Module):
    """Each row becomes the nearest one of a book, past which its gradient goes; the difference of the two is computed
    in three places."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.book = nn.Linear(4, 4), nn.Linear(4, 3), nn.Parameter(torch.zeros(5, 4))

    def forward(self, x, labels):
        h = self.a(x)
        nearest = (h.unsqueeze(-2) - self.book).pow(2).sum(-1).argmin(-1)
        code = nn.functional.embedding(nearest, self.book)
        y = self.b(h + (code - h).detach())
        return (nn.functional.cross_entropy(y, labels) + nn.functional.mse_loss(code, h.detach()) +
                0.25 * nn.functional.mse_loss(h, code.detach()))


class Drops(nn.Module):
    """Attention with dropout: behind a mask of bools, causal, without a mask; fused, and in its parts."""

    def __init__(self, attend):
        super().__init__()
        self.q, self.k, self.v, self.head = (nn.Linear(8, 8) for _ in range(4))
        self.attend = attend

    def forward(self, x, labels, mask):
        q, k, v = (f(x).view(2, 5, 2, 4).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = self.attend(q, k, v, mask, 0.25, False)
        y = y + self.attend(y, k, v, None, 0.5, True)
        y = nn.functional.dropout(self.attend(q, y, v, None, 0.1, False), 0.2, self.training)
        return nn.functional.cross_entropy(self.head(y.transpose(1, 2).reshape(10, 8)), labels)


class Recurrent(nn.Module):
    """Recurrent layers, whose weights the exporters put together: two layers of two directions, a learned first state,
    one that is not an op in the dynamo exporter's files, and a cell."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 3, num_layers=2, bidirectional=True, batch_first=True)
        self.gru, self.start = nn.GRU(6, 4), nn.Parameter(torch.zeros(1, 1, 4))
        self.rnn, self.cell = nn.RNN(4, 3, bias=False), nn.GRUCell(3, 3)

    def forward(self, x, labels):
        x = self.lstm(x)[0].transpose(0, 1)
        x, last = self.gru(x, self.start.expand(1, x.shape[1], 4).contiguous())
        x = self.rnn(x + last)[0]
        state = torch.zeros_like(x[0])
        for step in x[:2]:
            state = self.cell(step, state)
        return nn.functional.cross_entropy(state, labels)


def in_parts(q, k, v, mask, ratio, causal):
    scores = q @ k.transpose(-1, -2) / 2
    keep = torch.ones(5, 5, dtype=torch.bool).tril() if causal else mask
    scores = scores if keep is None else scores.masked_fill(~keep, -torch.inf)
    return nn.functional.dropout(scores.softmax(-1), ratio, True) @ v


def tokens():
    mask = torch.ones(2, 1, 1, 5, dtype=torch.bool)
    mask[1, ..., 3:] = False
    return {"x": torch.randn(10, 8), "labels": torch.arange(10) % 8, "mask": mask}


def images():
    return {"x": torch.randn(6, 2, 5, 5), "labels": torch.tensor([0, 2, 1, 0, 1, 2])}


def sequences():
    return {"x": torch.randn(3, 4, 4), "labels": torch.tensor([0, 2, 1])}


def bags():
    return {"ids": torch.randint(0, 11, (5, 4)), "labels": torch.randint(0, 3, (5,))}


class Predicting(nn.Module):
    """A classifier of bags of words that also returns its logits, with running statistics and dropout."""

    def __init__(self):
        super().__init__()
        self.words, self.norm = nn.Embedding(11, 6), nn.BatchNorm1d(6)
        self.drop, self.head = nn.Dropout(0.3), nn.Linear(6, 3)

    def forward(self, ids, labels):
        start = torch.zeros(labels.shape[0], 6)  # of the batch that labels have
        logits = self.head(self.drop(torch.tanh(self.norm(self.words(ids).mean(1) + start))))
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


SMALL = {"predicting": (Predicting, bags), "norms": (Norms, images), "convnorms": (ConvNorms, images),
         "scores": (Scores, sequences),
         "equal": (Equal, rows), "stops": (Stops, points), "codes": (Codes, points),
         "recurrent": (Recurrent, sequences),
         "drops": (lambda: Drops(nn.functional.scaled_dot_product_attention), tokens),
         "dropsparts": (lambda: Drops(in_parts), tokens)}
# modules and parameters that are not drawn
AS_THEY_START = {"fresh", "shares", "bias", "fresh_scale", "fresh_gate", "fresh_gamma"}


def make(arch, seed=7):
    torch.manual_seed(seed)
    module, inputs = SMALL[arch][0](), SMALL[arch][1]()
    with torch.no_grad():
        for name, p in module.named_parameters():
            if name.split(".")[0] not in AS_THEY_START:
                p.copy_(torch.randn_like(p) * 0.3 + (1.0 if "norm" in name and p.ndim == 1 else 0.0))
    return module.train(), inputs
