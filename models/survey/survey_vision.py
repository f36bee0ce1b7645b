"""Models of timm, torchvision and diffusers, small ones of each family, with a loss."""
import functools
import warnings

import torch
from survey_transformers import draw, with_loss

B = 4

# of each family of timm: a small model, or several, and what makes it smaller; default image 64
TIMM = {
    "beit_base_patch16_224": dict(img_size=64, embed_dim=48, depth=2, num_heads=4),
    "beitv2_base_patch16_224": dict(img_size=64, embed_dim=48, depth=2, num_heads=4),
    "botnet26t_256": dict(img_size=128), "lambda_resnet26t": dict(image=128),

    "gernet_s": {}, "repvgg_a0": {}, "mobileone_s0": {}, "cait_xxs24_224": dict(img_size=64, depth=2),
    "coat_tiny": dict(img_size=64), "coat_lite_tiny": dict(img_size=64), "convit_tiny": dict(img_size=64, depth=3),
    "convmixer_768_32": {}, "convnext_atto": dict(depths=(1, 1, 1, 1)),
    "convnextv2_atto": dict(depths=(1, 1, 1, 1)), "convnext_atto_ols": dict(depths=(1, 1, 1, 1)),
    "cs3darknet_s": {}, "cspresnet50": {}, "darknet17": {}, "crossvit_tiny_240": {}, "csatv2": dict(image=128),
    "davit_tiny": dict(depths=(1, 1, 1, 1)), "deit_tiny_patch16_224": dict(img_size=64, depth=2),
    "deit_tiny_distilled_patch16_224": dict(img_size=64, depth=2), "deit3_small_patch16_224": dict(img_size=64,
        depth=2),
    "densenet121": dict(block_config=(2, 2, 2, 2)), "dla34": {},
    "edgenext_xx_small": {}, "efficientformer_l1": dict(image=224), "efficientformerv2_s0": dict(image=224),
    "efficientnet_b0": {}, "efficientnetv2_rw_t": {}, "mixnet_s": {}, "mnasnet_small": {}, "fbnetc_100": {},
    "spnasnet_100": {}, "tinynet_e": {}, "mobilenetv2_035": {}, "efficientvit_b0": {},
        "efficientvit_m0": dict(image=224),
    "eva02_tiny_patch14_224": dict(img_size=56, depth=2), "fasternet_t0": {}, "fastvit_t8": dict(image=64),
    "focalnet_tiny_srf": {}, "gcvit_xxtiny": dict(image=224), "ghostnet_050": {},
    "ghostnetv2_100": {}, "ghostnetv3_050": {}, "hardcorenas_a": {}, "hgnet_tiny": {}, "hgnetv2_b0": {},
    "hiera_tiny_224": dict(img_size=(224, 224), stages=(1, 1, 1, 1)),
    "hrnet_w18_small": {}, "inception_next_atto": {}, "inception_v3": dict(image=128),
    "lcnet_035": {}, "levit_128s": dict(image=224),
    "mambaout_femto": {}, "maxvit_pico_rw_256": dict(image=256),
    "coatnet_pico_rw_224": dict(image=224), "maxvit_tiny_tf_224": dict(image=224),
    "poolformer_s12": {}, "poolformerv2_s12": {}, "convformer_s18": {},
    "mixer_s32_224": dict(img_size=64, num_blocks=2), "gmlp_ti16_224": dict(img_size=64, num_blocks=2),
    "resmlp_12_224": dict(img_size=64, num_blocks=2), "gmixer_12_224": dict(img_size=64, num_blocks=2),
    "mobilenetv3_small_050": {}, "mobilenetv4_conv_small_035": {}, "mobilenetv4_hybrid_medium": dict(image=128),
    "mobilevit_xxs": {}, "mobilevitv2_050": {}, "mvitv2_tiny": dict(image=64, img_size=64, depths=(1, 1, 1, 1)),
    "mvitv2_small_cls": dict(img_size=64, depths=(1, 1, 1, 1)),
    "nest_tiny": dict(image=224, img_size=224, depths=(1, 1, 1)), "nextvit_small": dict(image=64), "nfnet_l0": {},
    "nf_resnet26": {}, "eca_nfnet_l0": {}, "pit_ti_224": dict(image=224),
    "pvt_v2_b0": {}, "rdnet_tiny": {}, "regnetx_002": {}, "regnety_002": {},
    "regnetz_005": {}, "repghostnet_050": {}, "repvit_m0_9": {}, "repvit_m1": {}, "res2net50_14w_8s": {},
    "resnest14d": {}, "resnet10t": {}, "resnet18": {}, "resnext26ts": {}, "seresnet18": {},
    "ecaresnet26t": {}, "skresnet18": {}, "resnetblur18": {},
    "resnetaa34d": {}, "resnetv2_18": {}, "rexnet_100": {}, "selecsls42": {},
    "legacy_seresnet18": {}, "sequencer2d_s": dict(image=224), "shvit_s1": dict(image=128),
    "starnet_s050": {}, "swiftformer_xs": {}, "swin_tiny_patch4_window7_224": dict(image=224, depths=(1, 1, 1, 1)),
    "swinv2_tiny_window8_256": dict(image=256, depths=(1, 1, 1, 1)),
    "tiny_vit_5m_224": dict(image=224),
    "tnt_s_legacy_patch16_224": dict(image=224, depth=2), "tresnet_m": {}, "twins_pcpvt_small": dict(image=224),
    "twins_svt_small": dict(image=224), "vgg11": {}, "vgg11_bn": {}, "visformer_tiny": dict(image=224),
    "vit_tiny_patch16_224": dict(img_size=64, depth=2), "vit_base_patch16_clip_224": dict(img_size=64, embed_dim=48,
                                                                                          num_heads=4, depth=2),
    "vit_base_patch16_siglip_224": dict(img_size=64, embed_dim=48, num_heads=4, depth=2),
    "vit_base_patch16_rope_reg1_gap_256": dict(img_size=64, embed_dim=48, num_heads=4, depth=2),
    "vit_base_mci_224": dict(img_size=64, embed_dim=48, num_heads=4, depth=2),
    "vit_little_patch16_reg1_gap_256": dict(img_size=64, depth=2),
    "vit_wee_patch16_reg1_gap_256": dict(img_size=64, depth=2),
    "vit_pwee_patch16_reg1_gap_256": dict(img_size=64, depth=2),
    "vit_small_patch14_dinov2": dict(img_size=56, depth=2),
    "vit_small_patch14_reg4_dinov2": dict(img_size=56, depth=2),
    "vit_small_patch16_dinov3": dict(img_size=64, depth=2),
    "vit_small_r26_s32_224": dict(img_size=64, depth=2), "vit_tiny_r_s16_p8_224": dict(img_size=64, depth=2),
    "vit_relpos_small_patch16_224": dict(img_size=64, depth=2),


    "samvit_base_patch16_224": dict(image=224, embed_dim=48, num_heads=4, depth=3),
    "vitamin_small_224": dict(img_size=64), "volo_d1_224": dict(image=224, layers=(1, 1, 1, 1)),
    "ese_vovnet19b_dw": {}, "xception41": {},
    "xcit_nano_12_p16_224": dict(image=64, depth=2), "gcresnet33ts": {},
    "cpubone_b0": {}, "efficientvim_m1": dict(image=224), "lowformer_b0": {}, "iformer_t": dict(image=224), "sknet": {},
    "lcnetv2_base": {}, "aimv2_large_patch14_224": dict(img_size=56, embed_dim=48, num_heads=4, depth=2),
    "naflexvit_base_patch16_gap": dict(embed_dim=48, num_heads=4, depth=2),
    "test_vit": {}, "test_vit2": {}, "test_vit3": {}, "test_vit4": {}, "test_convnext": {}, "test_efficientnet": {},
    "test_byobnet": {}, "test_resnet": {}, "test_nfnet": {}, "test_mambaout": {},
}

TORCHVISION = ["alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "efficientnet_v2_s", "googlenet",
               "inception_v3", "maxvit_t", "mnasnet0_5", "mobilenet_v2", "mobilenet_v3_small", "regnet_x_400mf",
               "regnet_y_400mf", "resnet18", "resnet50", "resnext50_32x4d", "wide_resnet50_2", "shufflenet_v2_x0_5",
               "squeezenet1_0", "squeezenet1_1", "swin_t", "swin_v2_t", "vgg11", "vgg11_bn", "vit_b_32", "fcn_resnet50",
               "deeplabv3_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large", "r3d_18", "mc3_18",
               "r2plus1d_18", "s3d", "mvit_v1_b", "mvit_v2_s", "swin3d_t", "raft_small"]
TV_IMAGE = {"inception_v3": 96, "maxvit_t": 224, "alexnet": 96, "vit_b_32": 64, "swin_t": 64, "swin_v2_t": 64}


def no_dropout(model):
    for module in model.modules():
        for name in ("drop_prob", "p", "drop_rate", "stochastic_depth_prob"):
            if isinstance(getattr(module, name, None), float) and "rop" in type(module).__name__ + name:
                setattr(module, name, 0.0)
        if type(module).__name__ == "StochasticDepth":
            module.p = 0.0
    return model


def timm_model(name):
    import timm
    more = dict(TIMM[name])
    size = more.get("img_size", 64)
    size = more.pop("image", size[0] if isinstance(size, tuple) else size)
    model = timm.create_model(name, pretrained=False, num_classes=10, **more)
    for module in model.modules():
        if hasattr(module, "fused_attn"):
            module.fused_attn = False
    return model, {"x": torch.randn(B, 3, size, size)}


class Out(torch.nn.Module):
    """The main output of a model of several"""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        made = self.model(x)
        made = made["out"] if isinstance(made, dict) else made
        return made.logits if hasattr(made, "logits") else made


def torchvision_model(name):
    import torchvision
    from torchvision.models import get_model
    more = {"aux_logits": False} if name in ("googlenet", "inception_v3") else {}
    if name in ("googlenet", "inception_v3"):
        more["init_weights"] = False
    if "resnet50" in name and name[0] in "fd" or "mobilenet_v3_large" in name:
        more["weights_backbone"] = None
    if name == "vit_b_32":
        more["image_size"] = 64
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = get_model(name, weights=None, num_classes=10, **more) if name != "raft_small" else get_model(name)
    if name in ("r3d_18", "mc3_18", "r2plus1d_18", "swin3d_t"):
        return Out(model), {"x": torch.randn(B, 3, 8, 48, 48)}
    if name == "s3d":
        return Out(model), {"x": torch.randn(B, 3, 16, 64, 64)}
    if name.startswith("mvit"):
        return Out(model), {"x": torch.randn(1, 3, 16, 224, 224)}
    return Out(model), {"x": torch.randn(B, 3, *[TV_IMAGE.get(name, 64)] * 2)}


def diffusers_models():
    import diffusers as df
    flat = dict(sample_size=16, block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=4)
    x, t = (lambda c=3: torch.randn(B, c, 16, 16)), torch.tensor([1, 3, 5, 8])
    text = (lambda d=16: torch.randn(B, 5, d))
    return {
        "unet2d": (lambda: df.UNet2DModel(down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                                          up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=8, **flat),
                   lambda: {"sample": x(), "timestep": t}),
        "unet2d_condition": (lambda: df.UNet2DConditionModel(
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D",
                "CrossAttnUpBlock2D"),
            cross_attention_dim=16, attention_head_dim=8, **flat),
            lambda: {"sample": x(4), "timestep": t, "encoder_hidden_states": text()}),
        "autoencoder_kl": (lambda: df.AutoencoderKL(
            down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, **flat),
            lambda: {"sample": x()}),
        "vq_model": (lambda: df.VQModel(
            down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
            num_vq_embeddings=8, **flat), lambda: {"sample": x()}),
        "dit": (lambda: df.DiTTransformer2DModel(num_attention_heads=2, attention_head_dim=16, in_channels=3,
            num_layers=2,
                                                 sample_size=16, patch_size=4, num_embeds_ada_norm=10,
                                                 norm_num_groups=4),
                lambda: {"hidden_states": x(), "timestep": t, "class_labels": torch.tensor([1, 2, 3, 4])}),
        "pixart": (lambda: df.PixArtTransformer2DModel(
            num_attention_heads=2, attention_head_dim=16, in_channels=4, out_channels=4, num_layers=2, sample_size=16,
            patch_size=4, cross_attention_dim=32, caption_channels=16, norm_num_groups=4,
                use_additional_conditions=False),
            lambda: {"hidden_states": x(4), "timestep": t, "encoder_hidden_states": text()}),
        "sd3": (lambda: df.SD3Transformer2DModel(
            sample_size=16, patch_size=4, in_channels=4, num_layers=2, attention_head_dim=8, num_attention_heads=4,
            joint_attention_dim=16, caption_projection_dim=32, pooled_projection_dim=16, out_channels=4,
            pos_embed_max_size=8),
            lambda: {"hidden_states": x(4), "encoder_hidden_states": text(), "pooled_projections": torch.randn(B, 16),
                     "timestep": t}),
        "transformer2d": (lambda: df.Transformer2DModel(num_attention_heads=2, attention_head_dim=16, in_channels=32,
                                                        num_layers=1, norm_num_groups=4, cross_attention_dim=16),
                          lambda: {"hidden_states": x(32), "encoder_hidden_states": text()}),
        "prior": (lambda: df.PriorTransformer(num_attention_heads=2, attention_head_dim=16, num_layers=2,
            embedding_dim=16,
                                              num_embeddings=5, additional_embeddings=4),
                  lambda: {"hidden_states": torch.randn(B, 16), "timestep": t, "proj_embedding": torch.randn(B, 16),
                           "encoder_hidden_states": text()}),
        "unet1d": (lambda: df.UNet1DModel(block_out_channels=(16, 16), down_block_types=("DownBlock1D", "DownBlock1D"),
                                          up_block_types=("UpBlock1D", "UpBlock1D"), mid_block_type="UNetMidBlock1D",
                                          in_channels=2, out_channels=2, extra_in_channels=16, sample_size=32),
                   lambda: {"sample": torch.randn(B, 2, 32), "timestep": t}),
        "controlnet": (lambda: df.ControlNetModel(
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), block_out_channels=(16, 32), layers_per_block=1,
            cross_attention_dim=16, attention_head_dim=8, norm_num_groups=4, conditioning_embedding_out_channels=(8,
                16)),
            lambda: {"sample": x(4), "timestep": t, "encoder_hidden_states": text(),
                     "controlnet_cond": torch.randn(B, 3, 32, 32)}),
        "autoencoder_tiny": (lambda: df.AutoencoderTiny(
            encoder_block_out_channels=(8, 8), decoder_block_out_channels=(8, 8), num_encoder_blocks=(1, 1),
            num_decoder_blocks=(1, 1)), lambda: {"sample": x()}),
        "unet3d_condition": (lambda: df.UNet3DConditionModel(
            down_block_types=("CrossAttnDownBlock3D", "DownBlock3D"), up_block_types=("UpBlock3D",
                "CrossAttnUpBlock3D"),
            cross_attention_dim=16, attention_head_dim=8, **flat),
            lambda: {"sample": torch.randn(B, 4, 2, 16, 16), "timestep": t, "encoder_hidden_states": text()}),
        "flux": (lambda: df.FluxTransformer2DModel(
            patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16,
                num_attention_heads=2,
            joint_attention_dim=16, pooled_projection_dim=16, axes_dims_rope=[4, 4, 8]),
            lambda: {"hidden_states": torch.randn(B, 16, 4), "encoder_hidden_states": text(),
                     "pooled_projections": torch.randn(B, 16), "timestep": t / 10,
                     "img_ids": torch.zeros(16, 3), "txt_ids": torch.zeros(5, 3)}),
        "sana": (lambda: df.SanaTransformer2DModel(
            in_channels=4, out_channels=4, num_attention_heads=2, attention_head_dim=16, num_layers=2,
            num_cross_attention_heads=2, cross_attention_head_dim=16, cross_attention_dim=32, caption_channels=16,
            sample_size=16, patch_size=4),
            lambda: {"hidden_states": x(4), "encoder_hidden_states": text(), "timestep": t}),
    }


@functools.cache
def diffusers_names():
    try:
        import diffusers  # noqa: F401
    except ImportError:
        return []
    return list(diffusers_models())


def kinds():
    return [f"timm_{n}" for n in TIMM] + [f"tv_{n}" for n in TORCHVISION] + [f"df_{n}" for n in diffusers_names()]


def make(kind):
    prefix, name = kind.split("_", 1)
    if prefix == "df":
        build, feeds = diffusers_models()[name]
        model, feeds = build(), feeds()
        if hasattr(model, "set_attn_processor"):
            from diffusers.models.attention_processor import AttnProcessor
            try:
                model.set_attn_processor(AttnProcessor())
            except Exception:
                pass
    else:
        model, feeds = (timm_model if prefix == "timm" else torchvision_model)(name)
    draw(no_dropout(model))
    return with_loss(model, feeds)
