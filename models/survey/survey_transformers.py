"""Every model type of transformers that can be built from its configuration alone, as a small random model with a loss:
`kinds()` names them, `make(name)` builds one. Fields of the configurations that set sizes are known by their names
(SIZES); models that need more are in MORE."""
import functools
import inspect

import torch
import transformers as tf
from transformers.models.auto import modeling_auto as auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

B, S, V, IMAGE = 2, 8, 99, 32
IMAGE_TOKEN, MOST = 5, 20e6

# which head a model gets, if it has several: the first there is
HEADS = ["FOR_SEQ_TO_SEQ_CAUSAL_LM", "FOR_CAUSAL_LM", "FOR_MASKED_LM", "FOR_IMAGE_CLASSIFICATION",
         "FOR_SEMANTIC_SEGMENTATION", "FOR_DEPTH_ESTIMATION", "FOR_CTC", "FOR_AUDIO_CLASSIFICATION",
         "FOR_SPEECH_SEQ_2_SEQ", "FOR_SEQUENCE_CLASSIFICATION", "FOR_VIDEO_CLASSIFICATION",
         "FOR_TIME_SERIES_PREDICTION", "FOR_OBJECT_DETECTION", "FOR_ZERO_SHOT_OBJECT_DETECTION", "FOR_IMAGE_TO_IMAGE",
         "FOR_KEYPOINT_DETECTION", "FOR_TEXT_RECOGNITION", "FOR_TABLE_RECOGNITION", "FOR_MASKED_IMAGE_MODELING", None,
         "FOR_PRETRAINING", "FOR_IMAGE_TEXT_TO_TEXT", "FOR_MULTIMODAL_LM", "FOR_BACKBONE", "FOR_TEXT_TO_WAVEFORM",
         "FOR_TEXT_TO_SPECTROGRAM", "FOR_UNIVERSAL_SEGMENTATION", "FOR_IMAGE_MATTING", "FOR_POSE_ESTIMATION",
         "FOR_MASK_GENERATION"]


def named(value, *names):
    return {name: value for name in names}


SIZES = {
    **named(32, "hidden_size", "d_model", "n_embd", "dim", "embed_dim", "word_embed_proj_dim", "embedding_size",
            "encoder_hidden_size", "decoder_hidden_size", "d_embed", "emb_dim", "encoder_hidden_dim", "projection_dim",
            "n_hidden", "hidden_dim", "text_config_hidden_size", "projection_hidden_size", "text_embed_dim",
            "vision_embed_dim", "conv_dim_out", "output_hidden_size", "adapter_hidden_size", "embed_proj_dim"),
    **named(2, "num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers",
            "num_encoder_layers", "num_decoder_layers", "depth", "num_attention_layers", "encoder_num_layers"),
    **named(4, "num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads",
            "decoder_attention_heads", "num_encoder_attention_heads", "num_decoder_attention_heads", "attention_heads",
            "num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
    **named(2, "num_key_value_heads", "num_experts_per_tok", "top_k", "moe_top_k", "num_experts_per_token",
            "encoder_num_key_value_heads", "decoder_num_key_value_heads", "n_group", "num_kv_heads", "moe_k"),
    **named(1, "topk_group"),
    **named(64, "intermediate_size", "ffn_dim", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim", "n_inner",
        "ffn_hidden_size",
            "d_inner", "dff", "max_position_embeddings", "n_positions", "n_ctx", "max_target_positions",
            "max_sequence_length", "max_seq_len", "dim_feedforward", "encoder_ffn_hidden_size", "mlp_dim"),
    **named(16, "moe_intermediate_size", "shared_expert_intermediate_size", "expert_ffn_hidden_size"),
    **named(8, "head_dim", "d_kv", "attention_head_size", "v_head_dim", "qk_nope_head_dim", "qk_rope_head_dim",
            "rotary_dim", "d_head", "kv_channels", "global_head_dim", "swa_head_dim"),
    **named(16, "q_lora_rank", "kv_lora_rank"),
    **named(V, "vocab_size", "text_vocab_size", "src_vocab_size", "tgt_vocab_size", "vocab_size_per_layer_input",
            "decoder_vocab_size", "encoder_vocab_size"),
    **named(IMAGE, "image_size", "input_size", "img_size"),
    **named(8, "patch_size"),
    **named(False, "use_cache", "tie_word_embeddings", "use_mask_token"),
    **named(0, "pad_token_id"), **named(1, "bos_token_id", "decoder_start_token_id"), **named(2, "eos_token_id"),
    **named(0.0, "layerdrop", "encoder_layerdrop", "decoder_layerdrop", "drop_path_rate", "mask_time_prob",
            "mask_feature_prob", "router_jitter_noise"),
    **named(False, "apply_spec_augment", "output_attentions", "output_hidden_states"),
    "hidden_act": None,
}

LAYERS = ("layer_types", "mlp_layer_types", "layers_block_type", "hybrid_layer_pattern", "block_types")


def sized(name, value, layers=2):
    """The small value of a field; None: as it is"""
    if "drop" in name and isinstance(value, float):
        return 0.0
    if name.endswith("_token_id") and isinstance(value, int) and value < V:
        return None  # tempoc knows the padding rows of common models by their usual number
    if isinstance(value, bool):
        return SIZES[name] if isinstance(SIZES.get(name), bool) else None
    if name in LAYERS and isinstance(value, (list, tuple)):
        kinds = list(dict.fromkeys(value))
        return (kinds * layers)[:max(layers, len(kinds))] if len(kinds) < 4 else None
    if isinstance(value, (int, float)) or value is None:
        wanted = SIZES.get(name)
        if wanted is None or isinstance(wanted, bool):
            return None
        if value is None and name.endswith(("_id", "size", "heads", "rank")):
            return None
        return wanted
    if isinstance(value, (list, tuple)) and value and all(type(v) is int for v in value):
        if name in ("depths", "num_layers", "layer_depths", "num_blocks", "layers", "encoder_depths"):
            return type(value)([1] * len(value))
        if name in ("image_size",):
            return type(value)([IMAGE] * len(value))
    return None


def shrink(cls, more=None):
    """A small configuration of the class"""
    more = {name: value() if callable(value) else value for name, value in (more or {}).items()}
    default = cls()
    fields, subs = {}, getattr(default, "sub_configs", None) or {}
    layers = more.get("num_hidden_layers", 2)
    for name, value in vars(default).items():
        name = name.lstrip("_") if name not in ("_name_or_path",) else name
        if name in more or name in subs:
            continue
        small = sized(name, value, layers)
        if small is not None and small != value:
            fields[name] = small
    for name in subs:
        value = getattr(default, name, None)
        if isinstance(more.get(name), tf.PreTrainedConfig):
            continue
        if isinstance(value, tf.PreTrainedConfig):
            fields[name] = shrink(type(value), more.pop(name, None))
    for name in LAYERS:
        if name in fields and "num_hidden_layers" in fields and name != "block_types":
            fields["num_hidden_layers"] = max(fields["num_hidden_layers"], len(fields[name]))
    for name in LAYERS:
        if name in fields and "num_hidden_layers" in fields and len(fields[name]) < fields["num_hidden_layers"]:
            fields[name] = (list(fields[name]) * 9)[:fields["num_hidden_layers"]]
    fields.update(more)
    return cls(**fields)


STAGES = {"depths": [1, 1, 1, 1], "hidden_sizes": [16, 24, 32, 48], "embedding_size": 16}
WINDOWS = {"embed_dim": 32, "depths": [1, 1, 1, 1], "num_heads": [2, 2, 4, 4], "image_size": 64, "patch_size": 4,
           "window_size": 4, "encoder_stride": 32}
MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8}
VIDEO = {"num_frames": 4}
SERIES = {"prediction_length": 4, "context_length": 8, "lags_sequence": [1, 2], "num_time_features": 1}


def small_resnet(out=("stage4",)):
    return tf.ResNetConfig(embedding_size=16, hidden_sizes=[16, 24, 32, 48], depths=[1, 1, 1, 1],
        out_features=list(out))


DETECTION = {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None, "num_queries": 5}
# fields of the configuration for single model types; a dictionary is of a part
MORE = {
    "bamba": MAMBA, "granitemoehybrid": MAMBA, "falcon_h1": {**MAMBA, "mamba_d_ssm": 64},
    "resnet": STAGES, "rt_detr_resnet": STAGES, **{kind: {**STAGES, "image_size": 96,
        "patch_size": 4} for kind in ("convnext", "convnextv2", "dinov3_convnext")},
    "bit": {**STAGES, "hidden_sizes": [16, 32, 32, 64], "num_groups": 4},
    "cvt": {"image_size": 64},
    "swin": WINDOWS, "swinv2": WINDOWS, "donut-swin": {**WINDOWS, "window_size": 2}, "maskformer-swin": WINDOWS,
    "swin2sr": {"embed_dim": 32, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4, "image_size": 16,
                "patch_size": 1},
    "efficientnet": {"width_coefficient": 0.25, "depth_coefficient": 0.2, "image_size": 96, "hidden_dim": 320},
    "align": {"vision_config": {"width_coefficient": 0.25, "depth_coefficient": 0.2, "image_size": 96,
        "hidden_dim": 320}},
    "esm": {"vocab_size": V, "pad_token_id": 1, "mask_token_id": 4},
    "layoutlmv3": {"coordinate_size": 6, "shape_size": 4}, "levit": {"image_size": 224, "patch_size": 16},
    "lilt": {"hidden_size": 48}, "luke": {"entity_vocab_size": 50}, "mluke": {"entity_vocab_size": 50},
    "lxmert": {"l_layers": 1, "x_layers": 1, "r_layers": 1}, "mamba2": {"num_heads": 8, "head_dim": 8, "state_size": 8,
                                                                          "n_groups": 1, "chunk_size": 8},
    "moonshine": {"encoder_num_key_value_heads": 4, "decoder_num_key_value_heads": 4},
    "perceiver": {"num_latents": 8, "d_latents": 32, "num_self_attends_per_block": 2, "qk_channels": 32,
                  "v_channels": 32},
    "mobilevitv2": {"image_size": 64, "patch_size": 2}, "mobilevit": {"image_size": 64, "patch_size": 2},
        "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "reformer": {"is_decoder": True, "axial_pos_embds": False, "attn_layers": ["local", "local"],
                 "local_attn_chunk_length": 4},
    "bros": {"hidden_size": 128}, "audio-spectrogram-transformer": {"max_length": 64, "num_mel_bins": 16},
    "videomae": VIDEO, "timesformer": VIDEO, "vivit": VIDEO,
    "xclip": {"vision_config": {"num_frames": 4}},
    **{kind: {**DETECTION, "backbone_config": small_resnet} for kind in
       ("detr", "conditional_detr", "table-transformer", "dab-detr")},
    "deformable_detr": {**DETECTION, "backbone_config": lambda: small_resnet(("stage2", "stage3", "stage4"))},
    "time_series_transformer": SERIES, "informer": SERIES, "autoformer": SERIES,
    "xmod": {"default_language": "en_XX"},
    "roc_bert": {"pronunciation_vocab_size": V, "shape_vocab_size": V},
    "sam": {"vision_config": {"output_channels": 32}}, "zaya": {"num_experts_per_tok": 1},
    "gemma3": {"mm_tokens_per_image": 4}, "mobilenet_v1": {"image_size": 96}, "mobilenet_v2": {"image_size": 96},
    "regnet": STAGES, "upernet": {"backbone_config": lambda: small_resnet(("stage1", "stage2", "stage3", "stage4")),
                                  "backbone": None},
}
VARIANTS = [{}, {"num_key_value_heads": 4}, {"num_key_value_heads": 4, "head_dim": None}]
CONVOLUTIONAL = 96  # images of models that halve them often, so that batch statistics are of more than a few numbers


@functools.cache
def classes():
    """model type -> names of model classes, the preferred first"""
    found = {}
    for head in HEADS:
        mapping = getattr(auto, f"MODEL_{head}_MAPPING_NAMES" if head else "MODEL_MAPPING_NAMES", {})
        for kind, name in mapping.items():
            found.setdefault(kind, []).append(name if isinstance(name, str) else name[0])
    return found


def kinds():
    return [f"tf_{kind.replace('-', '_').replace('.', '_')}" for kind in CONFIG_MAPPING_NAMES if kind in classes()]


def configs(kind):
    """Small configurations to try, with what was wrong with those that cannot be made"""
    for variant in VARIANTS:
        try:
            config = shrink(CONFIG_MAPPING[kind], {**variant, **MORE.get(kind, {})})
        except Exception as e:
            yield None, f"{type(e).__name__}: {e}"
            continue
        config._attn_implementation = "eager"
        config._experts_implementation = "batched_mm"
        config.return_dict = True
        for name in ("image_token_id", "image_token_index"):
            if getattr(config, name, None) is not None:
                setattr(config, name, IMAGE_TOKEN)
        yield config, None


def models(kind):
    """Small models to try, each a function, with what was wrong with others"""
    for config, wrong in configs(kind):
        if config is None:
            yield None, wrong
            continue
        for cls in (getattr(tf, name, None) for name in classes()[kind]):
            if cls is None:
                continue
            try:
                with torch.device("meta"):
                    size = sum(p.numel() for p in cls(config).parameters())
            except Exception as e:
                yield None, f"{cls.__name__}: {type(e).__name__} {e}"
                continue
            if size > MOST:
                yield None, f"{cls.__name__}: {size} parameters"
            else:
                yield functools.partial(cls, config), None


def find(config, *names, default=None):
    """A field of the configuration, or else of one of its parts"""
    for name in names:
        if getattr(config, name, None) is not None:
            return getattr(config, name)
    for sub in getattr(config, "sub_configs", {}):
        part = getattr(config, sub, None)
        found = find(part, *names) if part is not None else None
        if found is not None:
            return found
    return default


def image(config, channels=None):
    size = find(config, "image_size", "input_size", "img_size", default=64)
    size = tuple(size)[:2] if isinstance(size, (list, tuple)) else (size, size)
    return torch.randn(B, channels or find(config, "num_channels", "in_channels", default=3), *size)


def ids(config, length=S):
    low = 3 if V > 3 else 0
    top = min(V, find(config, "vocab_size", default=V) or V)
    return torch.randint(low, top, (B, length))


def mask(length=S):
    made = torch.ones(B, length, dtype=torch.int64)
    made[1, length - 2:] = 0
    return made


def series(config):
    past = config.context_length + max(config.lags_sequence)
    shapes = {"past_values": (B, past), "past_time_features": (B, past, 1), "past_observed_mask": (B, past),
              "future_values": (B, 4), "future_time_features": (B, 4, 1)}
    return {n: torch.ones(shape) if "mask" in n else torch.rand(shape) + 0.5 for n, shape in shapes.items()}


def mels(config, first="mel"):
    size = find(config, "num_mel_bins", "input_feat_per_channel", "feature_projection_input_dim", default=80)
    return torch.randn(B, size, 64) if first == "mel" else torch.randn(B, 64, size)


FEEDS = {
    "input_ids": ids,
    "attention_mask": lambda c: mask(),
    "decoder_input_ids": ids,
    "pixel_values": image,
    "input_values": lambda c: torch.randn(B, 1600),
    "input_features": mels,
    "past_values": lambda c: torch.randn(B, find(c, "context_length", default=32),
                                         find(c, "num_input_channels", default=1)),
    "bbox": lambda c: torch.randint(0, 50, (B, S, 4)).sort(-1).values,
}
FEEDS_OF = {
    "time_series_transformer": series, "informer": series, "autoformer": series,
    "audio-spectrogram-transformer": lambda c: {"input_values": torch.randn(B, 64, 16)},
    "wav2vec2-bert": lambda c: {"input_features": torch.randn(B, 64, 160)},
    "lxmert": lambda c: {"input_ids": ids(c), "visual_feats": torch.randn(B, 4, 2048), "visual_pos": torch.rand(B, 4,
        4)},
}


def plain_feeds(model):
    config, names = model.config, list(inspect.signature(model.forward).parameters)
    main = getattr(model, "main_input_name", "input_ids")
    wanted = [main] + [n for n in names if n in ("input_ids", "attention_mask", "decoder_input_ids", "pixel_values",
                                                 "bbox") and n != main]
    if "input_ids" not in [main, *names] and "attention_mask" in wanted:
        wanted.remove("attention_mask")
    made = {n: FEEDS[n](config) for n in wanted if n in FEEDS}
    if "pixel_values" in made and not find(config, "patch_size") and made["pixel_values"].shape[-1] < CONVOLUTIONAL:
        made["pixel_values"] = torch.randn(B, made["pixel_values"].shape[1], CONVOLUTIONAL, CONVOLUTIONAL)
    return made


def feeds_to_try(kind, model):
    """Inputs by name, as most models of their kind take them"""
    if FEEDS_OF.get(kind):
        yield FEEDS_OF[kind](model.config)
    made = plain_feeds(model)
    yield made
    if "input_features" in made:
        yield {**made, "input_features": mels(model.config, "time")}
    if "input_values" in made:
        yield {**made, "input_values": made["input_values"].unsqueeze(1)}
    if "pixel_values" in made:
        pixels, frames = made["pixel_values"], find(model.config, "num_frames", default=2)
        yield {**made, "pixel_values": pixels.unsqueeze(1).repeat(1, frames, 1, 1, 1) + torch.randn(B, frames, 1, 1, 1)}
        if "input_ids" in made:
            for tokens in (1, 4, 8, 16, 17, 2, 32, 64):
                row = torch.full((B, tokens), IMAGE_TOKEN)
                yield {"input_ids": torch.cat((row, made["input_ids"].clamp(min=IMAGE_TOKEN + 1)), 1),
                       "pixel_values": pixels}
            yield {n: t for n, t in made.items() if n != "pixel_values"}


class Task(torch.nn.Module):
    """A model with a loss over the first of its outputs that has a gradient: cross-entropy where that is scores of
    tokens or classes, else the mean square of what a row of targets by channel is off."""

    def __init__(self, model, names):
        super().__init__()
        self.m, self.names = model, names
        self.named = hasattr(model, "config") or len(names) > 1 and "args" not in \
            inspect.signature(model.forward).parameters

    def output(self, *args):
        rest = [self.m(**dict(zip(self.names, args))) if self.named else self.m(*args)]
        while rest:
            value = rest.pop(0)
            if isinstance(value, (list, tuple)):
                rest = list(value) + rest
            elif torch.is_tensor(value):
                if value.is_floating_point() and value.requires_grad and value.ndim > 1:
                    return value
            elif hasattr(value, "values"):
                rest = list(value.values()) + rest
        raise ValueError("no output has a gradient")

    def forward(self, *args):
        out, target = self.output(*args[:-1]), args[-1]
        if target.is_floating_point():
            return (out - target).square().mean()
        return torch.nn.functional.cross_entropy(out.reshape(-1, out.shape[-1]), target.reshape(-1))


def draw(model):
    """Parameters that are all apart from each other, from 0 and from 1"""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if not p.is_floating_point():
                continue
            if p.ndim >= 2:
                fan = p.numel() // max(p.shape[0], 1)
                p.copy_(torch.randn_like(p) * (0.7 / max(fan, 1) ** 0.5))
            else:
                p.add_(torch.randn_like(p) * 0.1)


def with_loss(model, feeds):
    """(module with a loss, inputs by name), in training mode without dropout"""
    model.train()
    for module in model.modules():
        if isinstance(module, (torch.nn.Dropout, torch.nn.Dropout1d, torch.nn.Dropout2d, torch.nn.Dropout3d,
                               torch.nn.AlphaDropout)):
            module.p = 0.0
    task = Task(model, list(feeds))
    out = task.output(*feeds.values())
    if not torch.isfinite(out).all():
        raise ValueError("the output is not finite")
    tokens = out.ndim == 3 and feeds.get("decoder_input_ids", feeds.get("input_ids")) is not None and \
        out.shape[:2] == feeds.get("decoder_input_ids", feeds.get("input_ids")).shape and out.shape[-1] >= V - 2
    if tokens:
        feeds["labels"] = torch.randint(3, V - 2, out.shape[:2])
    elif out.ndim == 2 and out.shape[0] == B and 2 <= out.shape[-1] <= 1000 and out.shape[-1] != 32:
        feeds["labels"] = torch.randint(0, out.shape[-1], (B,))
    else:
        feeds["target"] = torch.randn(out.shape[-1])
    return task, feeds


def make(name):
    kind = next(k for k in CONFIG_MAPPING_NAMES if f"tf_{k.replace('-', '_').replace('.', '_')}" == name)
    failures = []
    for build, wrong in models(kind):
        if build is None:
            failures.append(wrong)
            continue
        model = build()
        draw(model)
        for feeds in feeds_to_try(kind, model):
            try:
                return with_loss(model, feeds)
            except Exception as e:
                failures.append(f"{type(model).__name__}: {type(e).__name__} {e}")
    raise ValueError("; ".join(f[:160] for f in failures[:3]) or "no class")


def warm():
    tf.logging.set_verbosity_error()
    task, feeds = make("tf_llama")
    task(*feeds.values())
