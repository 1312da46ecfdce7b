"""Classes R to Z."""

from __future__ import annotations

import torch

import tiny

from .table import Inputs, mask, model, noise, rotary, steps


@model(
    "RFD4ProteinaTransformer",
    nlayers=3,
    token_dim=48,
    nheads=3,
    dim_cond=12,
    pair_repr_dim=16,
    latent_dim=8,
    t_emb_dim=16,
    feats_seq=("xt_bb_ca", "xt_local_latents"),
    feats_cond_seq=("time_emb_bb_ca", "time_emb_local_latents"),
    feats_pair_repr=("xt_bb_ca_pair_dists",),
    feats_pair_cond=("time_emb_bb_ca", "time_emb_local_latents"),
    tri_mult_c=8,
    num_sequence_classes=9,
)
def _rfd4_proteina(batch: int) -> Inputs:
    return {
        "bb_ca": noise(batch, 15, 3),
        "local_latents": noise(batch, 15, 8, seed=1),
        "bb_ca_time": steps(batch) / 1000,
        "local_latents_time": steps(batch, 400.0) / 1000,
        "padding_mask": mask(batch, 15),
        "conditioning": {
            "is_in_context_conditioning": torch.zeros(batch, 15),
            "supports_local_latent": torch.ones(batch, 15),
        },
        "recycle_depth": 2,
    }


_SANA = {
    "in_channels": 4,
    "out_channels": 4,
    "num_attention_heads": 3,
    "attention_head_dim": 16,
    "num_layers": 2,
    "num_cross_attention_heads": 3,
    "cross_attention_head_dim": 16,
    "cross_attention_dim": 48,
    "caption_channels": 20,
    "sample_size": 12,
}


@model("SanaTransformer2DModel", variant="controlled", **_SANA, guidance_embeds=True)
def _sana_controlled(batch: int) -> Inputs:
    """With a ControlNet, guidance embedded, and no norms of Q and K."""
    return _sana(batch) | {
        "guidance": torch.full((batch,), 4.5),
        "controlnet_block_samples": (noise(batch, 15, 48, seed=3),),
    }


@model("SanaTransformer2DModel", **_SANA, qk_norm="rms_norm_across_heads")
def _sana(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 4, 3, 5),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "timestep": steps(batch),
        "encoder_attention_mask": mask(batch, 7, torch.float32),
    }


@model(
    "SanaVideoTransformer3DModel",
    in_channels=4,
    out_channels=4,
    num_attention_heads=3,
    attention_head_dim=16,
    num_layers=2,
    num_cross_attention_heads=3,
    cross_attention_head_dim=16,
    cross_attention_dim=48,
    caption_channels=20,
    rope_max_seq_len=16,
)
def _sana_video(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 4, 3, 6, 10),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "timestep": steps(batch),
        "encoder_attention_mask": mask(batch, 7, torch.float32),
    }


@model(
    "SanaWMTransformer3DModel",
    in_channels=4,
    num_layers=2,
    hidden_size=48,
    num_attention_heads=3,
    softmax_every_n=2,
    linear_head_dim=16,
    caption_channels=20,
    mlp_ratio=2.0,
    chunk_plucker_channels=6,
    chunk_plucker_post_attn_blocks=2,
)
def _sana_wm(batch: int) -> Inputs:
    """A camera that goes forward through 3 frames of 3x5."""
    pose = torch.eye(4).repeat(batch, 3, 1, 1)
    pose[..., 2, 3] = 0.1 * torch.arange(3)
    lens = torch.tensor([5.0, 3.0, 2.5, 1.5]).expand(batch, 3, 4)
    return {
        "hidden_states": noise(batch, 4, 3, 3, 5),
        "timestep": steps(batch)[:, None, None].expand(-1, 1, 3),
        "encoder_hidden_states": noise(batch, 1, 7, 20, seed=1),
        "encoder_attention_mask": mask(batch, 7, torch.long),
        "camera_conditions": torch.cat([pose.flatten(2), lens], dim=-1),
        "chunk_plucker": noise(batch, 6, 3, 3, 5, seed=2),
    }


@model(
    "SanaWMLTX2RefinerTransformer3DModel",
    in_channels=8,
    out_channels=8,
    num_attention_heads=3,
    attention_head_dim=16,
    cross_attention_dim=48,
    audio_in_channels=6,
    audio_out_channels=6,
    audio_num_attention_heads=3,
    audio_attention_head_dim=8,
    audio_cross_attention_dim=24,
    num_layers=2,
    caption_channels=20,
)
def _sana_wm_refiner(batch: int) -> Inputs:
    cos, sin = rotary(30, 48)
    return {
        "hidden_states": noise(batch, 30, 8),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "timestep": steps(batch),
        "video_rotary_emb": (cos[None], sin[None]),
        "encoder_attention_mask": mask(batch, 7),
    }


_SD3 = {
    "sample_size": 10,
    "in_channels": 4,
    "out_channels": 4,
    "num_layers": 2,
    "attention_head_dim": 16,
    "num_attention_heads": 3,
    "joint_attention_dim": 24,
    "caption_projection_dim": 48,
    "pooled_projection_dim": 12,
    "pos_embed_max_size": 8,
}


@model("SD3Transformer2DModel", **_SD3)
def _sd3(batch: int) -> Inputs:
    return tiny.sd3_inputs(batch=batch)


@model("SD3Transformer2DModel", variant="3.5", **_SD3, qk_norm="rms_norm", dual_attention_layers=(0,))
def _sd35(batch: int) -> Inputs:
    return tiny.sd3_inputs(batch=batch)


_WAN = {
    "num_attention_heads": 3,
    "attention_head_dim": 16,
    "in_channels": 4,
    "out_channels": 4,
    "text_dim": 20,
    "freq_dim": 16,
    "ffn_dim": 32,
    "num_layers": 2,
    "rope_max_seq_len": 16,
}


@model("SkyReelsV2Transformer3DModel", **_WAN, inject_sample_info=True)
def _skyreels_v2(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 4, 3, 6, 10),
        "timestep": steps(batch),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "fps": torch.arange(batch) % 2,
    }


@model("SkyReelsV2Transformer3DModel", variant="forcing", **_WAN)
def _skyreels_v2_forcing(batch: int) -> Inputs:
    """A timestep for each frame, as diffusion forcing has them."""
    return {
        "hidden_states": noise(batch, 4, 3, 6, 10),
        "timestep": torch.tensor([[100.0, 400.0, 700.0]] * batch),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "enable_diffusion_forcing": True,
    }


@model("SkyReelsV2Transformer3DModel", variant="causal", **_WAN, num_frame_per_block=3)
def _skyreels_v2_causal(batch: int) -> Inputs:
    """Two blocks of three frames: the first does not see the second."""
    return _skyreels_v2_forcing(batch) | {
        "hidden_states": noise(batch, 4, 6, 4, 6),
        "timestep": torch.tensor([[100.0] * 3 + [700.0] * 3] * batch),
    }


@model(
    "StableAudioDiTModel",
    in_channels=4,
    out_channels=4,
    num_layers=2,
    attention_head_dim=16,
    num_attention_heads=6,
    num_key_value_attention_heads=3,
    cross_attention_dim=48,
    time_proj_dim=16,
    global_states_input_dim=12,
    cross_attention_input_dim=20,
)
def _stable_audio(batch: int) -> Inputs:
    """The time is a token before those of 15 latents."""
    return {
        "hidden_states": noise(batch, 4, 15),
        "timestep": steps(batch) / 1000,
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "global_hidden_states": noise(batch, 1, 12, seed=2),
        "rotary_embedding": rotary(16, 8),
        "attention_mask": mask(batch, 15),
    }


@model(
    "StableAudio3DiTModel",
    io_channels=4,
    embed_dim=48,
    depth=2,
    num_heads=3,
    cond_token_dim=20,
    global_cond_dim=12,
    local_add_cond_dim=5,
    timestep_features_dim=16,
    num_memory_tokens=3,
)
def _stable_audio3(batch: int) -> Inputs:
    """Three tokens of memory before those of 15 latents."""
    return {
        "hidden_states": noise(batch, 4, 15),
        "timestep": steps(batch) / 1000,
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "global_hidden_states": noise(batch, 12, seed=2),
        "encoder_attention_mask": mask(batch, 7),
        "local_add_cond": noise(batch, 5, 15, seed=3),
    }


_TRANSFORMER_2D = {"num_attention_heads": 3, "attention_head_dim": 16, "num_layers": 2}


@model("Transformer2DModel", **_TRANSFORMER_2D, in_channels=8, norm_num_groups=2, cross_attention_dim=20)
def _transformer_2d(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 8, 3, 5),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "attention_mask": mask(batch, 15, torch.float32),
        "encoder_attention_mask": mask(batch, 7, torch.float32),
    }


@model(
    "Transformer2DModel",
    variant="patches",
    **_TRANSFORMER_2D,
    in_channels=4,
    out_channels=8,
    cross_attention_dim=48,
    sample_size=12,
    patch_size=2,
    activation_fn="gelu-approximate",
    num_embeds_ada_norm=1000,
    norm_type="ada_norm_single",
    norm_elementwise_affine=False,
    caption_channels=20,
)
def _transformer_2d_patches(batch: int) -> Inputs:
    """As PixArt was, before it had a class."""
    return {
        "hidden_states": noise(batch, 4, 6, 10),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "timestep": steps(batch),
        "encoder_attention_mask": mask(batch, 7, torch.float32),
        "added_cond_kwargs": {"resolution": None, "aspect_ratio": None},
    }


@model("WanTransformer3DModel", **_WAN)
def _wan(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 4, 3, 6, 10),
        "timestep": steps(batch),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
    }


@model(
    "WanAnimateTransformer3DModel",
    **_WAN | {"in_channels": 12},
    latent_channels=4,
    image_dim=12,
    added_kv_proj_dim=48,
    motion_encoder_channel_sizes={"4": 6, "8": 6, "16": 6},
    motion_encoder_size=16,
    motion_style_dim=8,
    motion_dim=4,
    motion_encoder_dim=8,
    face_encoder_hidden_dim=8,
    face_encoder_num_heads=3,
    inject_face_latents_blocks=2,
)
def _wan_animate(batch: int) -> Inputs:
    """Three frames; a pose for all but the first, and a face for each frame of the video."""
    return {
        "hidden_states": noise(batch, 12, 3, 6, 10),
        "timestep": steps(batch),
        "encoder_hidden_states": noise(batch, 512, 20, seed=1),  # of which the last 512 are the text
        "encoder_hidden_states_image": noise(batch, 5, 12, seed=2),
        "pose_hidden_states": noise(batch, 4, 2, 6, 10, seed=3),
        "face_pixel_values": noise(batch, 3, 8, 16, 16, seed=4),
    }


@model(
    "WanAnimate2Transformer3DModel",
    batches=(1,),
    text_len=7,
    in_dim=8,
    dim=48,
    ffn_dim=32,
    freq_dim=16,
    text_dim=20,
    out_dim=4,
    num_heads=3,
    num_layers=2,
    use_img_emb=False,
)
def _wan_animate2(batch: int) -> Inputs:
    """The pass over the reference, which fills the cache of keys and values."""
    from diffusers.models.transformers.transformer_wan_animate_2 import WanAnimate2KVCache

    sizes = torch.tensor([[3, 3, 5]])
    return {
        "hidden_states": [noise(4, 3, 6, 10)],
        "timestep": steps(1),
        "encoder_hidden_states": [noise(5, 20, seed=1)],
        "condition_latents": [noise(4, 3, 6, 10, seed=2)],
        "kv_cache": WanAnimate2KVCache(2),
        "kv_cache_mode": "extract",
        "seq_len": 45,
        "offset_grid_sizes": sizes,
        "reference_grid_sizes": sizes,
        "origin_len": 9,
        "origin_area": [48, 80],
    }


@model("WanVACETransformer3DModel", **_WAN, vace_layers=[0, 1], vace_in_channels=6)
def _wan_vace(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 4, 3, 6, 10),
        "timestep": steps(batch),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "control_hidden_states": noise(batch, 6, 3, 6, 10, seed=2),
        "control_hidden_states_scale": torch.tensor([0.8, 1.2]),
    }


_Z_IMAGE = {
    "in_channels": 4,
    "dim": 48,
    "n_layers": 2,
    "n_refiner_layers": 2,
    "n_heads": 3,
    "n_kv_heads": 3,
    "cap_feat_dim": 20,
    "axes_dims": [4, 6, 6],
    "axes_lens": [128, 16, 16],
}


@model("ZImageTransformer2DModel", **_Z_IMAGE)
def _z_image(batch: int, text: int = 7, width: int = 5) -> Inputs:
    """Pictures and texts of different size: the shorter sequences are padded, and masked."""
    return {
        "x": [noise(4, 1, 6 + 8 * sample, 2 * width, seed=sample) for sample in range(batch)],
        "t": steps(batch) / 1000,
        "cap_feats": [noise(text + 30 * sample, 20, seed=10 + sample) for sample in range(batch)],
    }


@model("ZImageTransformer2DModel", variant="omni", **_Z_IMAGE, siglip_feat_dim=14)
def _z_image_omni(batch: int) -> Inputs:
    """A given picture and one to make, in each sample."""
    return {
        "x": [[noise(4, 1, 4, 6, seed=s), noise(4, 1, 6, 10, seed=9 + s)] for s in range(batch)],
        "t": steps(batch) / 1000,
        "cap_feats": [[noise(7, 20, seed=20 + s), noise(5, 20, seed=30 + s)] for s in range(batch)],
        "siglip_feats": [[noise(2, 3, 14, seed=40 + s), None] for s in range(batch)],
        "image_noise_mask": [[0, 1]] * batch,
    }
