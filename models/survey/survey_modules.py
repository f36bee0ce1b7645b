"""Layers, losses and small models of torch.nn, each as a module with a loss."""
import math

import torch
from survey_transformers import draw, with_loss
from torch import nn
from torch.nn import functional as F

B, S, H, V, C = 4, 6, 16, 23, 5


class Head(nn.Module):
    """Modules one behind another; results of several (a recurrent layer's) are taken by their first"""

    def __init__(self, *parts, out=None):
        super().__init__()
        self.parts, self.out = nn.ModuleList(parts), out

    def forward(self, x):
        for part in self.parts:
            x = part(x)
            while isinstance(x, (tuple, list)):
                x = x[0]
        return x


class Call(nn.Module):
    """A function of x beside layers that it may use"""

    def __init__(self, function, **layers):
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, *args):
        return self.function(self, *args)


class Loss(nn.Module):
    """A module whose output is the loss"""

    def __init__(self, function, **layers):
        super().__init__()
        self.m = Call(function, **layers)

    def forward(self, *args):
        return self.m(*args)


def image(c=3, size=16):
    return torch.randn(B, c, size, size)


def signal(c=4, size=24):
    return torch.randn(B, c, size)


def rows(width=H):
    return torch.randn(B, width)


def steps(width=H):
    return torch.randn(B, S, width)


def ids(top=V, length=S):
    return torch.randint(0, top, (B, length))


def conv(*parts, x=image):
    return lambda: (Head(nn.Conv2d(3, 8, 3, padding=1), *parts), {"x": x()})


def line(*parts):
    return lambda: (Head(nn.Linear(H, H), *parts, nn.Linear(H, C)), {"x": rows()})


def text(*parts, width=H):
    return lambda: (Head(nn.Embedding(V, width), *parts), {"x": ids()})


ACTIVATIONS = {n: getattr(nn, n) for n in (
    "ReLU LeakyReLU ELU CELU SELU GELU SiLU Mish Softplus Softsign Tanh Sigmoid LogSigmoid Hardsigmoid Hardswish "
    "Hardtanh ReLU6 Tanhshrink Softshrink Hardshrink PReLU").split()}
ACTIVATIONS.update(GLU=lambda: Call(lambda m, x: F.glu(torch.cat((x, x * 2), -1), -1)),
                   GELUTanh=lambda: nn.GELU(approximate="tanh"), Threshold=lambda: nn.Threshold(0.1, 0.2),
                   Softmax=lambda: nn.Softmax(-1), LogSoftmax=lambda: nn.LogSoftmax(-1), Softmin=lambda: nn.Softmin(-1))
RECURRENT = {
    "lstm": lambda: nn.LSTM(H, 8, batch_first=True), "gru": lambda: nn.GRU(H, 8, batch_first=True),
    "rnn_tanh": lambda: nn.RNN(H, 8, batch_first=True), "rnn_relu": lambda: nn.RNN(H, 8, batch_first=True,
                                                                                  nonlinearity="relu"),
    "lstm_two_bi": lambda: nn.LSTM(H, 8, 2, batch_first=True, bidirectional=True),
    "gru_two_bi": lambda: nn.GRU(H, 8, 2, batch_first=True, bidirectional=True),
    "rnn_bi": lambda: nn.RNN(H, 8, batch_first=True, bidirectional=True),
    "lstm_no_bias": lambda: nn.LSTM(H, 8, bias=False, batch_first=True),
    "lstm_time_first": lambda: nn.LSTM(H, 8), "gru_time_first": lambda: nn.GRU(H, 8),
    "lstm_projected": lambda: nn.LSTM(H, 8, proj_size=4, batch_first=True),
}
NORMS = {
    "batch1d": lambda: (Head(nn.Conv1d(4, 8, 3), nn.BatchNorm1d(8)), {"x": signal()}),
    "batch_rows": line(nn.BatchNorm1d(H), nn.Tanh()), "batch2d": conv(nn.BatchNorm2d(8), nn.ReLU()),
    "batch3d": lambda: (Head(nn.Conv3d(2, 4, 3), nn.BatchNorm3d(4)), {"x": torch.randn(B, 2, 6, 6, 6)}),
    "batch_no_affine": conv(nn.BatchNorm2d(8, affine=False)),
    "batch_no_statistics": conv(nn.BatchNorm2d(8, track_running_stats=False)),
    "group": conv(nn.GroupNorm(4, 8)), "group_one": conv(nn.GroupNorm(1, 8)),
    "instance2d": conv(nn.InstanceNorm2d(8)), "instance2d_affine": conv(nn.InstanceNorm2d(8, affine=True)),
    "instance1d": lambda: (Head(nn.Conv1d(4, 8, 3), nn.InstanceNorm1d(8, affine=True)), {"x": signal()}),
    "layer": line(nn.LayerNorm(H)), "layer_no_affine": line(nn.LayerNorm(H, elementwise_affine=False)),
    "layer_no_bias": line(nn.LayerNorm(H, bias=False)),
    "layer_two_axes": lambda: (Head(nn.Linear(H, H), nn.LayerNorm((S, H))), {"x": steps()}),
    "rms": line(nn.RMSNorm(H)), "rms_no_weight": line(nn.RMSNorm(H, elementwise_affine=False)),
    "rms_eps": line(nn.RMSNorm(H, eps=1e-6)), "local_response": conv(nn.LocalResponseNorm(3)),
    "weight_norm": line(nn.utils.parametrizations.weight_norm(nn.Linear(H, H))),
    "spectral_norm": lambda: line(nn.utils.parametrizations.spectral_norm(nn.Linear(H, H)).eval())(),
    "normalize": line(Call(lambda m, x: F.normalize(x, dim=-1))),
    "sync_like": line(Call(lambda m, x: (x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-5).sqrt())),
    "std": line(Call(lambda m, x: (x - x.mean(-1, True)) / (x.std(-1, keepdim=True) + 1e-5))),
    "channels_first": conv(Call(lambda m, x: m.n(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2), n=nn.LayerNorm(8))),
}
CONVOLUTIONS = {
    "plain": conv(nn.ReLU(), nn.Conv2d(8, 4, 3)), "stride": conv(nn.Conv2d(8, 4, 3, stride=2, padding=1)),
    "dilated": conv(nn.Conv2d(8, 4, 3, dilation=2)), "grouped": conv(nn.Conv2d(8, 8, 3, groups=2)),
    "depthwise": conv(nn.Conv2d(8, 8, 3, groups=8)), "same": conv(nn.Conv2d(8, 4, 4, padding="same")),
    "reflect": conv(nn.Conv2d(8, 4, 3, padding=1, padding_mode="reflect")),
    "replicate": conv(nn.Conv2d(8, 4, 3, padding=1, padding_mode="replicate")),
    "circular": conv(nn.Conv2d(8, 4, 3, padding=1, padding_mode="circular")),
    "transpose": conv(nn.ConvTranspose2d(8, 4, 2, stride=2)),
    "transpose_padded": conv(nn.ConvTranspose2d(8, 4, 3, stride=2, padding=1, output_padding=1)),
    "transpose_grouped": conv(nn.ConvTranspose2d(8, 4, 3, groups=2)),
    "one_d": lambda: (Head(nn.Conv1d(4, 8, 5, padding=2), nn.GELU(), nn.Conv1d(8, 4, 3, stride=2)), {"x": signal()}),
    "one_d_causal": lambda: (Head(Call(lambda m, x: m.c(F.pad(x, (4, 0))), c=nn.Conv1d(4, 8, 3, dilation=2))),
                             {"x": signal()}),
    "one_d_transpose": lambda: (Head(nn.ConvTranspose1d(4, 8, 4, stride=2, padding=1)), {"x": signal()}),
    "three_d": lambda: (Head(nn.Conv3d(2, 4, 3), nn.ReLU(), nn.ConvTranspose3d(4, 2, 2, stride=2)),
                        {"x": torch.randn(B, 2, 6, 6, 6)}),
    "max_pool": conv(nn.MaxPool2d(2)), "max_pool_overlap": conv(nn.MaxPool2d(3, 2, 1)),
    "max_pool_ceil": conv(nn.MaxPool2d(3, 2, ceil_mode=True)),
    "avg_pool": conv(nn.AvgPool2d(2)), "avg_pool_padded": conv(nn.AvgPool2d(3, 2, 1, count_include_pad=False)),
    "adaptive_avg": conv(nn.AdaptiveAvgPool2d(4)), "adaptive_avg_one": conv(nn.AdaptiveAvgPool2d(1)),
    "adaptive_max_one": conv(nn.AdaptiveMaxPool2d(1)), "lp_pool": conv(nn.ReLU(), nn.LPPool2d(2, 2)),
    "max_pool_1d": lambda: (Head(nn.Conv1d(4, 8, 3), nn.MaxPool1d(2)), {"x": signal()}),
    "adaptive_max_1d": lambda: (Head(nn.Conv1d(4, 8, 3), nn.AdaptiveMaxPool1d(1)), {"x": signal()}),
    "max_pool_3d": lambda: (Head(nn.Conv3d(2, 4, 3), nn.MaxPool3d(2)), {"x": torch.randn(B, 2, 6, 6, 6)}),
    "unpool": conv(Call(lambda m, x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2))),
    "up_nearest": conv(nn.Upsample(scale_factor=2)),
    "up_bilinear": conv(nn.Upsample(scale_factor=2, mode="bilinear")),
    "up_bilinear_corners": conv(nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)),
    "up_bicubic": conv(nn.Upsample(scale_factor=2, mode="bicubic")),
    "up_size": conv(nn.Upsample(size=(24, 20), mode="bilinear")),
    "up_linear_1d": lambda: (Head(nn.Conv1d(4, 8, 3), nn.Upsample(scale_factor=2, mode="linear")), {"x": signal()}),
    "up_trilinear": lambda: (Head(nn.Conv3d(2, 4, 3), nn.Upsample(scale_factor=2, mode="trilinear")),
                             {"x": torch.randn(B, 2, 6, 6, 6)}),
    "down_antialias": conv(Call(lambda m, x: F.interpolate(x, size=(7, 9), mode="bilinear", antialias=True))),
    "down_area": conv(Call(lambda m, x: F.interpolate(x, size=(8, 8), mode="area"))),
    "pixel_shuffle": conv(nn.PixelShuffle(2)), "pixel_unshuffle": conv(nn.PixelUnshuffle(2)),
    "channel_shuffle": conv(nn.ChannelShuffle(2)), "unfold": conv(nn.Unfold(3)),
    "fold": conv(nn.Unfold(2, stride=2), nn.Fold((16, 16), 2, stride=2)),
    "reflect_pad": conv(nn.ReflectionPad2d(2), nn.Conv2d(8, 4, 3)), "zero_pad": conv(nn.ZeroPad2d((1, 2, 3, 0))),
    "constant_pad": conv(nn.ConstantPad2d(1, 0.5)), "circular_pad": conv(nn.CircularPad2d(1)),
    "replication_pad": conv(nn.ReplicationPad2d((1, 0, 2, 1))),
    "grid_sample": conv(Call(lambda m, x: F.grid_sample(x, m.g.tanh().expand(x.shape[0], -1, -1, -1),
        align_corners=False),
                             g=nn.ParameterList([torch.zeros(1, 5, 5, 2)])[0])),
    "spatial_transformer": conv(Call(lambda m, x: F.grid_sample(
        x, F.affine_grid(m.t(x.mean((-1, -2))).view(-1, 2, 3), (B, 8, 9, 9), align_corners=False), align_corners=False),
        t=nn.Linear(8, 6))),
    "deform_like": conv(Call(lambda m, x: x * torch.sigmoid(m.a(x.amax((-1, -2), keepdim=True))), a=nn.Conv2d(8, 8,
        1))),
    "squeeze_excite": conv(Call(lambda m, x: x * torch.sigmoid(m.b(F.silu(m.a(F.adaptive_avg_pool2d(x, 1))))),
                                a=nn.Conv2d(8, 2, 1), b=nn.Conv2d(2, 8, 1))),
    "standardized": conv(Call(lambda m, x: F.conv2d(x, (m.c.weight - m.c.weight.mean((1, 2, 3), True)) /
                                                    (m.c.weight.var((1, 2, 3), keepdim=True) + 1e-5).sqrt()),
                              c=nn.Conv2d(8, 4, 3))),
}


def loss(function, *inputs, **layers):
    return lambda: (Loss(function, **({"l": nn.Linear(H, C)} | {k: v() for k, v in layers.items()})),
                    {name: make() for name, make in inputs})


X, Y = ("x", rows), ("y", lambda: torch.randint(0, C, (B,)))
Z = ("z", lambda: torch.randn(B, C))
LOSSES = {
    "cross_entropy": loss(lambda m, x, y: F.cross_entropy(m.l(x), y), X, Y),
    "cross_entropy_smooth": loss(lambda m, x, y: F.cross_entropy(m.l(x), y, label_smoothing=0.1), X, Y),
    "cross_entropy_weights": loss(lambda m, x, y: F.cross_entropy(m.l(x), y, weight=torch.arange(1.0, C + 1)), X, Y),
    "cross_entropy_none": loss(lambda m, x, y: (F.cross_entropy(m.l(x), y, reduction="none") * x[:, 0].abs()).mean(),
        X, Y),
    "cross_entropy_sum": loss(lambda m, x, y: F.cross_entropy(m.l(x), y, reduction="sum"), X, Y),
    "cross_entropy_soft": loss(lambda m, x, z: F.cross_entropy(m.l(x), z.softmax(-1)), X, Z),
    "cross_entropy_image": loss(lambda m, x, y: F.cross_entropy(m.c(x), y), ("x", image),
                                ("y", lambda: torch.randint(0, C, (B, 16, 16))), c=lambda: nn.Conv2d(3, C, 3,
                                    padding=1)),
    "focal": loss(lambda m, x, y: ((1 - torch.exp(-F.cross_entropy(m.l(x), y, reduction="none"))) ** 2 *
                                   F.cross_entropy(m.l(x), y, reduction="none")).mean(), X, Y),
    "nll": loss(lambda m, x, y: F.nll_loss(F.log_softmax(m.l(x), -1), y), X, Y),
    "mse": loss(lambda m, x, z: F.mse_loss(m.l(x), z), X, Z), "l1": loss(lambda m, x, z: F.l1_loss(m.l(x), z), X, Z),
    "smooth_l1": loss(lambda m, x, z: F.smooth_l1_loss(m.l(x), z), X, Z),
    "huber": loss(lambda m, x, z: F.huber_loss(m.l(x), z, delta=0.7), X, Z),
    "bce": loss(lambda m, x, z: F.binary_cross_entropy(m.l(x).sigmoid(), z.sigmoid()), X, Z),
    "bce_logits": loss(lambda m, x, z: F.binary_cross_entropy_with_logits(m.l(x), z.sigmoid()), X, Z),
    "bce_logits_weight": loss(lambda m, x, z: F.binary_cross_entropy_with_logits(
        m.l(x), z.sigmoid(), pos_weight=torch.arange(1.0, C + 1)), X, Z),
    "kl": loss(lambda m, x, z: F.kl_div(F.log_softmax(m.l(x), -1), z.softmax(-1), reduction="batchmean"), X, Z),
    "kl_log": loss(lambda m, x, z: F.kl_div(F.log_softmax(m.l(x), -1), z.log_softmax(-1), reduction="sum",
                                            log_target=True), X, Z),
    "hinge": loss(lambda m, x, z: F.hinge_embedding_loss(m.l(x), z.sign()), X, Z),
    "soft_margin": loss(lambda m, x, z: F.soft_margin_loss(m.l(x), z.sign()), X, Z),
    "margin_ranking": loss(lambda m, x, z: F.margin_ranking_loss(m.l(x), m.l(x * 2), z.sign(), 0.5), X, Z),
    "cosine_embedding": loss(lambda m, x, z: F.cosine_embedding_loss(m.l(x), z, torch.ones(B)), X, Z),
    "cosine_similarity": loss(lambda m, x, z: 1 - F.cosine_similarity(m.l(x), z).mean(), X, Z),
    "triplet": loss(lambda m, x, z: F.triplet_margin_loss(m.l(x), z, m.l(x * 0.5), margin=3.0), X, Z),
    "poisson": loss(lambda m, x, z: F.poisson_nll_loss(m.l(x), z.abs()), X, Z),
    "gaussian": loss(lambda m, x, z: F.gaussian_nll_loss(m.l(x), z, m.v(x).exp()), X, Z, v=lambda: nn.Linear(H, C)),
    "multi_margin": loss(lambda m, x, y: F.multi_margin_loss(m.l(x), y), X, Y),
    "multilabel_soft": loss(lambda m, x, z: F.multilabel_soft_margin_loss(m.l(x), (z > 0).float()), X, Z),
    "contrastive": loss(lambda m, x, z: F.cross_entropy(F.normalize(m.l(x), dim=-1) @ F.normalize(z, dim=-1).T / 0.1,
                                                        torch.arange(x.shape[0])), X, Z),
    "dice": loss(lambda m, x,
        z: 1 - 2 * (m.l(x).sigmoid() * (z > 0)).sum() / (m.l(x).sigmoid().sum() + (z > 0).sum() + 1),
                 X, Z),
    "ctc": loss(lambda m, x, t: F.ctc_loss(F.log_softmax(m.l(x), -1).transpose(0, 1), t, torch.full((B,), S),
                                           torch.full((B,), 2)), ("x", steps), ("t", lambda: torch.randint(1, C, (B,
                                               2)))),
    "cdist": loss(lambda m, x, z: torch.cdist(m.l(x), z).mean(), X, Z),
    "barlow": loss(lambda m, x, z: (m.n(m.l(x)).T @ m.n(z) - torch.eye(C)).square().sum(), X, Z,
                   n=lambda: nn.BatchNorm1d(C, affine=False)),
    "wasserstein": loss(lambda m, x, z: m.l(x).mean() - z.mean() + m.l(x).logsumexp(-1).mean(), X, Z),
    "dpo": loss(lambda m, x, y, z: -F.logsigmoid(0.1 * (F.log_softmax(m.l(x), -1).gather(1, y[:, None]) -
                                                         F.log_softmax(z, -1).gather(1, y[:, None]))).mean(), X, Y, Z),
    "quantile": loss(lambda m, x, z: torch.maximum(0.3 * (z - m.l(x)), -0.7 * (z - m.l(x))).mean(), X, Z),
}
TEXT = {
    "embedding": text(nn.Linear(H, V)), "embedding_padded": lambda: (Head(nn.Embedding(V, H, padding_idx=0)),
        {"x": ids()}),
    "bag_mean": lambda: (Head(nn.EmbeddingBag(V, H, mode="mean")), {"x": ids()}),
    "bag_sum": lambda: (Head(nn.EmbeddingBag(V, H, mode="sum")), {"x": ids()}),
    "bag_max": lambda: (Head(nn.EmbeddingBag(V, H, mode="max")), {"x": ids()}),
    "bag_offsets": lambda: (Call(lambda m, x: m.e(x, torch.arange(0, B * S, S)), e=nn.EmbeddingBag(V, H, mode="mean")),
                            {"x": torch.randint(0, V, (B * S,))}),
    "one_hot": lambda: (Call(lambda m, x: m.l(F.one_hot(x, V).float()), l=nn.Linear(V, H)), {"x": ids()}),
    "encoder_layer": text(nn.TransformerEncoderLayer(H, 4, 32, 0.0, batch_first=True)),
    "encoder": text(nn.TransformerEncoder(nn.TransformerEncoderLayer(H, 4, 32, 0.0, batch_first=True), 2,
                                          enable_nested_tensor=False)),
    "encoder_norm_first": text(nn.TransformerEncoder(nn.TransformerEncoderLayer(
        H, 4, 32, 0.0, F.gelu, batch_first=True, norm_first=True), 2, enable_nested_tensor=False)),
    "encoder_time_first": text(nn.TransformerEncoderLayer(H, 4, 32, 0.0)),
    "decoder": lambda: (Call(lambda m, x, y: m.d(m.e(x), y), e=nn.Embedding(V, H), d=nn.TransformerDecoder(
        nn.TransformerDecoderLayer(H, 4, 32, 0.0, batch_first=True), 2)), {"x": ids(), "y": steps()}),
    "transformer": lambda: (Call(lambda m, x, y: m.t(m.e(x), m.e(y)), e=nn.Embedding(V, H), t=nn.Transformer(
        H, 4, 1, 1, 32, 0.0, batch_first=True)), {"x": ids(), "y": ids()}),
    "causal": lambda: (Call(lambda m, x: m.t(m.e(x), src_mask=nn.Transformer.generate_square_subsequent_mask(S),
                                             is_causal=True), e=nn.Embedding(V, H),
                            t=nn.TransformerEncoderLayer(H, 4, 32, 0.0, batch_first=True)), {"x": ids()}),
    "attention": text(Call(lambda m, x: m.a(x, x, x), a=nn.MultiheadAttention(H, 4, batch_first=True))),
    "attention_no_weights": text(Call(lambda m, x: m.a(x, x, x, need_weights=False),
                                      a=nn.MultiheadAttention(H, 4, batch_first=True))),
    "attention_padding": lambda: (Call(lambda m, x, k: m.a(m.e(x), m.e(x), m.e(x), key_padding_mask=k)[0],
                                       e=nn.Embedding(V, H), a=nn.MultiheadAttention(H, 4, batch_first=True)),
                                  {"x": ids(), "k": torch.arange(S).expand(B, S) >= 4}),
    "attention_other_sizes": text(Call(lambda m, x: m.a(x, m.k(x), m.k(x))[0], k=nn.Linear(H, 8),
                                       a=nn.MultiheadAttention(H, 4, kdim=8, vdim=8, batch_first=True))),
    "attention_bias_kv": text(Call(lambda m, x: m.a(x, x, x)[0], a=nn.MultiheadAttention(
        H, 4, add_bias_kv=True, batch_first=True))),
    "fused_attention": text(Call(lambda m, x: F.scaled_dot_product_attention(*m.l(x).view(B, S, 3, 4, 4).permute(
        2, 0, 3, 1, 4)).transpose(1, 2).reshape(B, S, H), l=nn.Linear(H, 3 * H))),
    "fused_attention_causal": text(Call(lambda m, x: F.scaled_dot_product_attention(*m.l(x).view(
        B, S, 3, 4, 4).permute(2, 0, 3, 1, 4), is_causal=True).transpose(1, 2).reshape(B, S, H), l=nn.Linear(H,
            3 * H))),
    "linear_attention": text(Call(lambda m, x: (F.elu(m.q(x)) + 1) @ ((F.elu(m.k(x)) + 1).transpose(1, 2) @ m.v(x)),
                                  q=nn.Linear(H, H), k=nn.Linear(H, H), v=nn.Linear(H, H))),
    "einsum_attention": text(Call(lambda m, x: torch.einsum(
        "bhqk,bkhd->bqhd", (torch.einsum("bqhd,bkhd->bhqk", m.q(x).view(-1, S, 4, 4), m.k(x).view(-1, S, 4, 4)) / 2)
        .softmax(-1), m.v(x).view(-1, S, 4, 4)).reshape(-1, S, H), q=nn.Linear(H, H), k=nn.Linear(H, H),
        v=nn.Linear(H, H))),
    "cumsum": text(Call(lambda m, x: m.l(x.cumsum(1)), l=nn.Linear(H, H))),
    "bilinear": lambda: (Call(lambda m, x, y: m.b(x, y), b=nn.Bilinear(H, H, C)), {"x": rows(), "y": rows()}),
    "lstm_cell": text(Call(lambda m, x: m.c(x[:, 0], m.c(x[:, 1]))[0], c=nn.LSTMCell(H, 8))),
    "gru_cell": text(Call(lambda m, x: m.c(x[:, 0], m.c(x[:, 1])), c=nn.GRUCell(H, 8))),
    "rnn_cell": text(Call(lambda m, x: m.c(x[:, 0], m.c(x[:, 1])), c=nn.RNNCell(H, 8))),
    "topk_router": text(Call(lambda m, x: sum(
        e(x) * w for e, w in zip(m.e, torch.zeros_like(m.g(x)).scatter(-1, m.g(x).topk(2).indices, m.g(x).topk(2).values
                                                                      .softmax(-1)).unsqueeze(-1).unbind(2))),
        g=nn.Linear(H, 4), e=nn.ModuleList(nn.Linear(H, H) for _ in range(4)))),
    "sort": text(Call(lambda m, x: m.l(x.sort(-1).values), l=nn.Linear(H, H))),
    "lora": line(Call(lambda m, x: m.b(x) + m.u(m.d(x)) * 2, b=nn.Linear(H, H), d=nn.Linear(H, 2, bias=False),
                      u=nn.Linear(2, H, bias=False))),
    "highway": line(Call(lambda m, x: m.t(x).sigmoid() * m.h(x).relu() + (1 - m.t(x).sigmoid()) * x, t=nn.Linear(H, H),
                         h=nn.Linear(H, H))),
    "maxout": line(Call(lambda m, x: m.l(x).view(-1, H, 2).amax(-1), l=nn.Linear(H, 2 * H))),
    "ssm": text(Call(lambda m, x: torch.stack([s for s in scan(m, x)], 1), a=nn.Linear(H, H), b=nn.Linear(H, H))),
    "fourier": text(Call(lambda m, x: torch.fft.fft2(x, dim=(-2, -1)).real)),
    "rotary": text(Call(lambda m, x: rotate(m.l(x)), l=nn.Linear(H, H))),
}


def scan(m, x):
    state = torch.zeros_like(x[:, 0])
    for step in x.unbind(1):
        state = torch.sigmoid(m.a(step)) * state + m.b(step)
        yield state


def rotate(x):
    turns = torch.arange(S)[:, None] * 10.0 ** -(torch.arange(H // 2) / 4)
    left, right = x.chunk(2, -1)
    return torch.cat((left * turns.cos() - right * turns.sin(), right * turns.cos() + left * turns.sin()), -1)


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())


def unet(up):
    return lambda: (Call(lambda m, x: m.o(m.u(torch.cat((up(m, m.b(F.max_pool2d(m.d(x), 2))), m.d(x)), 1))),
                         d=block(3, 8), b=block(8, 8), u=block(16, 8), o=nn.Conv2d(8, 2, 1),
                         t=nn.ConvTranspose2d(8, 8, 2, stride=2)), {"x": image()})


EDGES = torch.tensor([[0, 1, 2, 3, 4, 1, 0, 5], [1, 2, 3, 4, 5, 0, 3, 2]])


def graph(function, **layers):
    return lambda: (Call(function, **{k: v() for k, v in layers.items()}), {"nodes": torch.randn(6, H), "edges": EDGES})


def gathered(x, e, size=6):
    return torch.zeros(size, x.shape[-1]).index_add(0, e[1], x)


def attend(m, x, e):
    h = m.l(x)
    score = F.leaky_relu((h[e[0]] * m.a.weight).sum(-1) + (h[e[1]] * m.b.weight).sum(-1))
    score = (score - score.max()).exp()
    total = torch.zeros(6).index_add(0, e[1], score)[e[1]]
    return gathered(h[e[0]] * (score / (total + 1e-9)).unsqueeze(-1), e)


def coupled(m, x):
    left, right = x.chunk(2, -1)
    scale = m.s(left).tanh()
    return torch.cat((left, right * scale.exp() + m.t(left)), -1), scale.sum(-1)


MODELS = {
    "mlp": line(nn.ReLU(), nn.Linear(H, H), nn.Tanh()), "unet_nearest": unet(lambda m, x: F.interpolate(x,
        scale_factor=2)),
    "unet_bilinear": unet(lambda m, x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)),
    "unet_transpose": unet(lambda m, x: m.t(x)),
    "gan_generator": lambda: (Head(nn.Linear(8, 64), nn.Unflatten(1, (16, 2, 2)), nn.ConvTranspose2d(16, 8, 4, 2, 1),
                                   nn.BatchNorm2d(8), nn.ReLU(), nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Tanh()),
                              {"x": rows(8)}),
    "gan_discriminator": lambda: (Head(nn.Conv2d(3, 8, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(8, 8, 4, 2, 1),
                                       nn.InstanceNorm2d(8), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(128, 2)),
                                  {"x": image()}),
    "autoencoder": lambda: (Head(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.ConvTranspose2d(8, 3, 4, 2, 1)),
        {"x": image()}),
    "vae": lambda: (Loss(lambda m, x, n: vae(m, x, n), e=nn.Linear(H, 8), d=nn.Linear(4, H)),
                    {"x": rows(), "n": torch.randn(B, 4)}),
    "vae_random": lambda: (Loss(lambda m, x: vae(m, x, torch.randn_like(m.e(x).chunk(2, -1)[0])), e=nn.Linear(H, 8),
                                d=nn.Linear(4, H)), {"x": rows()}),
    "vq_vae": lambda: (Loss(vector_quantized, e=nn.Linear(H, 4), d=nn.Linear(4, H), c=nn.Embedding(7, 4)),
        {"x": rows()}),
    "siamese": lambda: (Loss(lambda m, x, y: 1 - F.cosine_similarity(m.p(m.e(x)), m.e(y).detach()).mean(),
                             e=nn.Linear(H, 8), p=nn.Linear(8, 8)), {"x": rows(), "y": rows()}),
    "flow": lambda: (Loss(lambda m, x: (lambda y, j: (y.square().sum(-1) / 2 - j).mean())(*coupled(m, x)),
                          s=nn.Linear(8, 8), t=nn.Linear(8, 8)), {"x": rows()}),
    "gcn": graph(lambda m, x, e: gathered(m.l(x)[e[0]], e).relu(), l=lambda: nn.Linear(H, 8)),
    "gcn_dense": lambda: (Call(lambda m, x, a: m.l(a.softmax(-1) @ x).relu(), l=nn.Linear(H, 8)),
                          {"x": steps(), "a": torch.randn(B, S, S)}),
    "gat": graph(attend, l=lambda: nn.Linear(H, 8), a=lambda: nn.Linear(8, 1), b=lambda: nn.Linear(8, 1)),
    "sage_max": graph(lambda m, x, e: torch.zeros(6, 8).scatter_reduce(
        0, e[1][:, None].expand(-1, 8), m.l(x)[e[0]], "amax", include_self=False), l=lambda: nn.Linear(H, 8)),
    "sage_mean": graph(lambda m, x, e: torch.zeros(6, 8).scatter_reduce(
        0, e[1][:, None].expand(-1, 8), m.l(x)[e[0]], "mean"), l=lambda: nn.Linear(H, 8)),
    "gin": graph(lambda m, x, e: m.l((1 + m.e.weight) * x + gathered(x[e[0]], e)), l=lambda: nn.Linear(H, 8),
                 e=lambda: nn.Linear(1, 1, bias=False)),
    "dlrm": lambda: (Call(lambda m, x, y: m.o(torch.cat((m.l(y), m.a(x[:, :1]), m.b(x[:, 1:3])), -1)),
                          a=nn.EmbeddingBag(V, 8, mode="sum"), b=nn.EmbeddingBag(V, 8, mode="sum"), l=nn.Linear(H, 8),
                          o=nn.Linear(24, 2)), {"x": ids(), "y": rows()}),
    "wide_deep": lambda: (Call(lambda m, x, y: m.w(y) + m.o(m.e(x).flatten(1).relu()), e=nn.Embedding(V, 4),
                               w=nn.Linear(H, 2), o=nn.Linear(24, 2)), {"x": ids(), "y": rows()}),
    "factorization": lambda: (Call(lambda m, x: m.o((m.e(x).sum(1).square() - m.e(x).square().sum(1))),
                                   e=nn.Embedding(V, 4), o=nn.Linear(4, 2)), {"x": ids()}),
    "actor_critic": lambda: (Loss(lambda m, x, y, z: (
        -F.log_softmax(m.p(m.b(x).tanh()), -1).gather(1, y[:, None])[:, 0] *
        (z[:, 0] - m.v(m.b(x).tanh())[:, 0]).detach()).mean() + (z[:, :1] - m.v(m.b(x).tanh())).square().mean(),
        b=nn.Linear(H, H), p=nn.Linear(H, C), v=nn.Linear(H, 1)), {"x": rows(), "y": torch.randint(0, C, (B,)),
                                                                  "z": torch.randn(B, C)}),
    "ppo": lambda: (Loss(lambda m, x, y, z: -torch.minimum(
        ratio(m, x, y, z) * z[:, 0], ratio(m, x, y, z).clamp(0.8, 1.2) * z[:, 0]).mean(), p=nn.Linear(H, C)),
        {"x": rows(), "y": torch.randint(0, C, (B,)), "z": torch.randn(B, C)}),
    "tcn": lambda: (Head(nn.Conv1d(4, 8, 3, padding=2, dilation=2), nn.ReLU(), nn.Conv1d(8, 8, 3),
        nn.AdaptiveMaxPool1d(1),
                         nn.Flatten()), {"x": signal()}),
    "wavenet": lambda: (Call(lambda m, x: m.o(m.f(x).tanh() * m.g(x).sigmoid()), f=nn.Conv1d(4, 8, 2, dilation=2),
                             g=nn.Conv1d(4, 8, 2, dilation=2), o=nn.Conv1d(8, 4, 1)), {"x": signal()}),
    "text_cnn": lambda: (Call(lambda m, x: m.o(torch.cat([c(m.e(x).transpose(1, 2)).relu().amax(-1) for c in m.c], -1)),
                              e=nn.Embedding(V, H), c=nn.ModuleList(nn.Conv1d(H, 4, k) for k in (2, 3)), o=nn.Linear(8,
                                  2)),
                         {"x": ids()}),
    "lstm_lm": text(nn.LSTM(H, H, batch_first=True), nn.Linear(H, V)),
    "gru_lm": text(nn.GRU(H, H, batch_first=True), nn.Linear(H, V)),
    "seq2seq": lambda: (Call(lambda m, x, y: m.o(m.d(m.e(y), m.r(m.e(x))[1])[0]), e=nn.Embedding(V, H),
                             r=nn.GRU(H, 8, batch_first=True), d=nn.GRU(H, 8, batch_first=True), o=nn.Linear(8, V)),
                        {"x": ids(), "y": ids()}),
    "crnn": conv(nn.MaxPool2d(2), Call(lambda m, x: m.r(x.flatten(1, 2).transpose(1, 2))[0], r=nn.LSTM(
        64, 8, batch_first=True, bidirectional=True))),
    "point_net": lambda: (Call(lambda m, x: m.o(m.b(m.a(x).relu()).amax(1)), a=nn.Linear(3, 8), b=nn.Linear(8, 8),
                               o=nn.Linear(8, 2)), {"x": steps(3)}),
    "nerf": lambda: (Head(Call(lambda m, x: torch.cat([f(x * 2 ** i) for i in range(3) for f in (torch.sin,
        torch.cos)], -1)),
                          nn.Linear(18, H), nn.ReLU(), nn.Linear(H, 4)), {"x": rows(3)}),
    "siren": line(Call(lambda m, x: torch.sin(30 * x))), "kan": line(Call(
        lambda m, x: torch.exp(-((x.unsqueeze(-1) - m.g.weight[0]) ** 2)).flatten(1), g=nn.Linear(4, 1, bias=False)),
        nn.Linear(4 * H, H)),
    "capsule": line(Call(lambda m, x: (lambda v: (v.square().sum(-1, True) / (1 + v.square().sum(-1, True)) *
                                                  F.normalize(v, dim=-1)).flatten(1))(x.view(-1, 4, 4)))),
    "deep_ensemble": lambda: (Call(lambda m, x: torch.stack([l(x) for l in m.l]).mean(0),
                                   l=nn.ModuleList(nn.Linear(H, C) for _ in range(3))), {"x": rows()}),
    "mixture_density": lambda: (Loss(lambda m, x, z: -torch.logsumexp(F.log_softmax(m.p(x), -1) - (
        (z[:, :1] - m.u(x)) / m.s(x).exp()).square() / 2 - m.s(x), -1).mean(), p=nn.Linear(H, 3), u=nn.Linear(H, 3),
        s=nn.Linear(H, 3)), {"x": rows(), "z": torch.randn(B, C)}),
    "mlp_mixer": lambda: (Call(lambda m, x: m.c(x + m.t(x.transpose(1, 2)).transpose(1, 2)), t=nn.Sequential(
        nn.Linear(S, 8), nn.GELU(), nn.Linear(8, S)), c=nn.Sequential(nn.LayerNorm(H), nn.Linear(H, H))),
            {"x": steps()}),
    "hyper_network": lambda: (Call(lambda m, x, z: torch.bmm(m.w(z).view(-1, 4, H), x.unsqueeze(-1))[..., 0],
                                   w=nn.Linear(C, 4 * H)), {"x": rows(), "z": torch.randn(B, C)}),
    "gaussian_process": line(Call(lambda m, x: torch.exp(-torch.cdist(x, m.c.weight).square()) @ m.c.weight,
                                  c=nn.Linear(H, 4))),
    "stft": lambda: (Call(lambda m, x: m.l(torch.stft(x, 16, 8, window=torch.hann_window(16), return_complex=True).abs()
                                           .transpose(1, 2)), l=nn.Linear(9, 4)), {"x": torch.randn(B, 64)}),
    "log_det": lambda: (Loss(lambda m, x: torch.linalg.det(m.l(x).view(-1, 3, 3)).square().mean(), l=nn.Linear(H, 9)),
                        {"x": rows()}),
    "dueling": lambda: (Call(lambda m, x: m.v(x) + m.a(x) - m.a(x).mean(-1, True), v=nn.Linear(H, 1), a=nn.Linear(H,
        C)),
                        {"x": rows()}),
    "rezero": line(Call(lambda m, x: x + m.s.weight[0] * m.l(x), s=nn.Linear(1, 1, bias=False), l=nn.Linear(H, H))),
    "attention_pool": lambda: (Call(lambda m, x: (m.a(x).softmax(1) * m.l(x)).sum(1), a=nn.Linear(H, 1), l=nn.Linear(H,
        8)),
                               {"x": steps()}),
    "perceiver": lambda: (Call(lambda m, x: m.a(m.q.weight.expand(x.shape[0], -1, -1), x, x)[0],
                               q=nn.Embedding(3, H), a=nn.MultiheadAttention(H, 4, batch_first=True)), {"x": steps()}),
    "crf": lambda: (Loss(lambda m, x, y: crf(m, m.l(x), y), l=nn.Linear(H, 4), t=nn.Linear(4, 4, bias=False)),
                    {"x": steps(), "y": torch.randint(0, 4, (B, S))}),
    "neural_ode": line(Call(lambda m, x: [x := x + 0.1 * m.f(x).tanh() for _ in range(4)][-1], f=nn.Linear(H, H))),
    "squeeze_net_1d": lambda: (Head(nn.Conv1d(4, 8, 1), nn.ReLU(), nn.AvgPool1d(2), nn.Flatten(), nn.Linear(96, 3)),
                               {"x": signal()}),
    "triplet_embedding": lambda: (Loss(lambda m, x,
        y: F.relu(1 + (m.e(x).mean(1) - m.e(y).mean(1)).norm(dim=-1)).mean(),
                                       e=nn.Embedding(V, H)), {"x": ids(), "y": ids()}),
}


def ratio(m, x, y, z):
    return (F.log_softmax(m.p(x), -1) - F.log_softmax(z, -1)).gather(1, y[:, None])[:, 0].exp()


def vae(m, x, noise):
    mean, log_var = m.e(x).chunk(2, -1)
    code = mean + noise * (log_var / 2).exp()
    return (m.d(code) - x).square().mean() - (1 + log_var - mean.square() - log_var.exp()).mean() / 2


def vector_quantized(m, x):
    code = m.e(x)
    chosen = m.c((code.unsqueeze(1) - m.c.weight).square().sum(-1).argmin(-1))
    through = code + (chosen - code).detach()
    return (m.d(through) - x).square().mean() + (chosen - code.detach()).square().mean() + \
        0.25 * (code - chosen.detach()).square().mean()


def crf(m, scores, tags):
    gold = scores.gather(2, tags.unsqueeze(-1)).sum((1, 2)) + m.t.weight[tags[:, :-1], tags[:, 1:]].sum(-1)
    total = scores[:, 0]
    for i in range(1, S):
        total = torch.logsumexp(total.unsqueeze(2) + m.t.weight + scores[:, i].unsqueeze(1), 1)
    return (torch.logsumexp(total, -1) - gold).mean()


ALL = {**{f"act_{n.lower()}": (lambda make: lambda: line(make())())(m) for n, m in ACTIVATIONS.items()},
       **{f"rnn_{n}": (lambda make: lambda: text(make())())(m) for n, m in RECURRENT.items()},
       **{f"norm_{n}": m for n, m in NORMS.items()}, **{f"conv_{n}": m for n, m in CONVOLUTIONS.items()},
       **{f"loss_{n}": m for n, m in LOSSES.items()}, **{f"text_{n}": m for n, m in TEXT.items()},
       **{f"model_{n}": m for n, m in MODELS.items()}}


def kinds():
    return [f"nn_{n}" for n in ALL]


def make(kind):
    model, feeds = ALL[kind[3:]]()
    draw(model)
    if isinstance(model, Loss):
        return model.train(), feeds
    return with_loss(model, feeds)
