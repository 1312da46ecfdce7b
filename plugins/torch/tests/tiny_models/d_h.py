"""Classes D to H."""

from __future__ import annotations

import torch

import tiny

from .table import Inputs, grid, mask, model, noise, rotary, steps


@model(
    "DiTTransformer2DModel",
    num_attention_heads=3,
    attention_head_dim=16,
    in_channels=4,
    out_channels=8,
    num_layers=2,
    sample_size=10,
    num_embeds_ada_norm=1000,
)
def _dit(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 4, 10, 10),  # square, or it is refused
        "timestep": steps(batch).long(),
        "class_labels": 3 + torch.arange(batch),
    }


@model(
    "EasyAnimateTransformer3DModel",
    num_attention_heads=3,
    attention_head_dim=16,
    in_channels=8,
    out_channels=4,
    patch_size=2,
    num_layers=3,
    mmdit_layers=2,
    time_embed_dim=12,
    add_norm_text_encoder=True,
    text_embed_dim=20,
)
def _easyanimate(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 4, 3, 6, 10),
        "timestep": steps(batch),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "control_latents": noise(batch, 4, 3, 6, 10, seed=2),
    }


@model(
    "ErnieImageTransformer2DModel",
    hidden_size=48,
    num_attention_heads=3,
    num_layers=2,
    ffn_hidden_size=32,
    in_channels=8,
    out_channels=8,
    text_in_dim=20,
    rope_axes_dim=(4, 6, 6),
)
def _ernie_image(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 8, 3, 5),
        "timestep": steps(batch),
        "text_bth": noise(batch, 7, 20, seed=1),
        "text_lens": 7 - 2 * torch.arange(batch),
    }


@model(
    "FluxTransformer2DModel",
    in_channels=8,
    num_layers=2,
    num_single_layers=2,
    attention_head_dim=16,
    num_attention_heads=3,
    joint_attention_dim=24,
    pooled_projection_dim=12,
    guidance_embeds=True,
    axes_dims_rope=(4, 6, 6),
)
def _flux(batch: int) -> Inputs:
    return tiny.flux_inputs(batch=batch)


@model(
    "Flux2Transformer2DModel",
    in_channels=8,
    num_layers=2,
    num_single_layers=2,
    attention_head_dim=16,
    num_attention_heads=3,
    joint_attention_dim=24,
    timestep_guidance_channels=16,
    axes_dims_rope=(4, 4, 4, 4),
)
def _flux2(batch: int) -> Inputs:
    return tiny.flux2_inputs(batch=batch)


@model(
    "Flux3Transformer2DModel",
    in_channels=8,
    cond_in_channels=6,
    num_layers=2,
    num_single_layers=2,
    attention_head_dim=16,
    num_attention_heads=3,
    joint_attention_dim=20,
    timestep_channels=16,
    axes_dims_rope=(4, 4, 4, 4),
)
def _flux3(batch: int, text: int = 7, width: int = 5) -> Inputs:
    return {
        "hidden_states": noise(batch, 3 * width, 8),
        "encoder_hidden_states": noise(batch, text, 20, seed=1),
        "timestep": steps(batch) / 1000,
        "img_ids": grid(3, width, axes=4),
        "txt_ids": grid(text, axes=4),
        "image_cond_hidden_states": noise(batch, 11, 6, seed=2),
        "image_cond_ids": grid(2, 1, 11, axes=4)[:11] + 1,
    }


@model(
    "GlmImageTransformer2DModel",
    in_channels=4,
    out_channels=4,
    num_layers=2,
    attention_head_dim=16,
    num_attention_heads=3,
    text_embed_dim=20,
    time_embed_dim=12,
    condition_dim=8,
    prior_vq_quantizer_codebook_size=30,
)
def _glm_image(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 4, 6, 10),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "prior_token_id": torch.arange(15).expand(batch, -1),
        "prior_token_drop": torch.arange(batch) == 1,
        "timestep": steps(batch),
        "target_size": torch.tensor([[48.0, 80.0]] * batch),
        "crop_coords": torch.zeros(batch, 2),
        "attention_mask": mask(batch, 7, torch.float32),
    }


@model(
    "HeliosTransformer3DModel",
    num_attention_heads=3,
    attention_head_dim=16,
    in_channels=4,
    out_channels=4,
    text_dim=24,
    freq_dim=16,
    ffn_dim=32,
    num_layers=2,
    rope_dim=(4, 6, 6),
    is_amplify_history=True,
)
def _helios(batch: int, text: int = 7, width: int = 5) -> Inputs:
    return {
        "hidden_states": noise(batch, 4, 2, 6, 2 * width, seed=1),
        "timestep": steps(batch).long(),
        "encoder_hidden_states": noise(batch, text, 24, seed=2),
        "indices_hidden_states": torch.arange(6, 8).expand(batch, -1),
        "indices_latents_history_short": torch.arange(5, 6).expand(batch, -1),
        "latents_history_short": noise(batch, 4, 1, 6, 2 * width, seed=3),
        "indices_latents_history_mid": torch.arange(2, 5).expand(batch, -1),
        "latents_history_mid": noise(batch, 4, 3, 6, 2 * width, seed=4),
    }


@model(
    "HiDreamImageTransformer2DModel",
    patch_size=2,
    in_channels=4,
    num_layers=2,
    num_single_layers=2,
    attention_head_dim=16,
    num_attention_heads=3,
    caption_channels=[20, 24],
    text_emb_dim=12,
    axes_dims_rope=(4, 6, 6),
    max_resolution=(8, 10),
    llama_layers=[0, 1, 1, 0],
    force_inference_output=True,
)
def _hidream(batch: int) -> Inputs:
    """3x5 patches of at most 20: the others are padding, which is masked."""
    return {
        "hidden_states": noise(batch, 4, 6, 10),
        "timesteps": steps(batch),
        "encoder_hidden_states_t5": noise(batch, 7, 20, seed=1),
        "encoder_hidden_states_llama3": noise(2, batch, 5, 24, seed=2),
        "pooled_embeds": noise(batch, 12, seed=3),
    }


@model(
    "HunyuanDiT2DModel",
    num_attention_heads=3,
    attention_head_dim=16,
    in_channels=4,
    patch_size=2,
    sample_size=10,
    hidden_size=48,
    num_layers=4,
    cross_attention_dim=20,
    cross_attention_dim_t5=16,
    pooled_projection_dim=12,
    text_len=7,
    text_len_t5=5,
)
def _hunyuan_dit(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 4, 6, 10),
        "timestep": steps(batch),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "text_embedding_mask": mask(batch, 7, torch.long),
        "encoder_hidden_states_t5": noise(batch, 5, 16, seed=2),
        "text_embedding_mask_t5": mask(batch, 5, torch.long),
        "image_meta_size": torch.tensor([[48.0, 80.0, 48.0, 80.0, 0.0, 0.0]] * batch),
        "style": torch.zeros(batch, dtype=torch.long),
        "image_rotary_emb": rotary(15, 16),
    }


@model(
    "HunyuanImageTransformer2DModel",
    in_channels=8,
    out_channels=8,
    num_attention_heads=3,
    attention_head_dim=16,
    num_layers=2,
    num_single_layers=2,
    num_refiner_layers=2,
    guidance_embeds=True,
    text_embed_dim=20,
    text_embed_2_dim=12,
    rope_axes_dim=(8, 8),
)
def _hunyuan_image(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 8, 3, 5),
        "timestep": steps(batch),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "encoder_attention_mask": mask(batch, 7, torch.long),
        "encoder_hidden_states_2": noise(batch, 5, 12, seed=2),
        "encoder_attention_mask_2": mask(batch, 5, torch.long),
        "guidance": torch.full((batch,), 3500.0),
    }


_HUNYUAN_VIDEO = {
    "in_channels": 4,
    "out_channels": 4,
    "num_attention_heads": 3,
    "attention_head_dim": 16,
    "num_layers": 2,
    "num_single_layers": 2,
    "num_refiner_layers": 2,
    "text_embed_dim": 20,
    "pooled_projection_dim": 12,
    "rope_axes_dim": (4, 6, 6),
}


@model("HunyuanVideoTransformer3DModel", **_HUNYUAN_VIDEO)
def _hunyuan_video(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 4, 3, 6, 10),
        "timestep": steps(batch),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "encoder_attention_mask": mask(batch, 7, torch.long),
        "pooled_projections": noise(batch, 12, seed=2),
        "guidance": torch.full((batch,), 6000.0),
    }


@model(
    "HunyuanVideoTransformer3DModel",
    variant="i2v",
    **_HUNYUAN_VIDEO | {"image_condition_type": "token_replace"},
)
def _hunyuan_video_i2v(batch: int) -> Inputs:
    """The tokens of the first frame have a modulation of their own."""
    return _hunyuan_video(batch)


@model(
    "HunyuanVideo15Transformer3DModel",
    in_channels=9,
    out_channels=4,
    num_attention_heads=3,
    attention_head_dim=16,
    num_layers=2,
    num_refiner_layers=2,
    text_embed_dim=20,
    text_embed_2_dim=12,
    image_embed_dim=14,
    rope_axes_dim=(4, 6, 6),
)
def _hunyuan_video15(batch: int, text: int = 7, width: int = 5) -> Inputs:
    return {
        "hidden_states": noise(batch, 9, 3, 3, width),
        "timestep": steps(batch),
        "encoder_hidden_states": noise(batch, text, 20, seed=1),
        "encoder_attention_mask": mask(batch, text, torch.long),
        "encoder_hidden_states_2": noise(batch, 5, 12, seed=2),
        "encoder_attention_mask_2": mask(batch, 5, torch.long),
        "image_embeds": noise(batch, 4, 14, seed=3),
    }


@model(
    "HunyuanVideoFramepackTransformer3DModel",
    **_HUNYUAN_VIDEO,
    has_image_proj=True,
    image_proj_dim=14,
    has_clean_x_embedder=True,
)
def _hunyuan_video_framepack(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 4, 3, 6, 10),
        "timestep": steps(batch),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "encoder_attention_mask": mask(batch, 7, torch.long),
        "pooled_projections": noise(batch, 12, seed=2),
        "image_embeds": noise(batch, 4, 14, seed=3),
        "indices_latents": torch.arange(10, 13),
        "guidance": torch.full((batch,), 6000.0),
        "latents_clean": noise(batch, 4, 2, 6, 10, seed=4),
        "indices_latents_clean": torch.tensor([0, 9]),
        "latents_history_2x": noise(batch, 4, 2, 6, 10, seed=5),
        "indices_latents_history_2x": torch.arange(7, 9),
        "latents_history_4x": noise(batch, 4, 4, 6, 10, seed=6),
        "indices_latents_history_4x": torch.arange(3, 7),
    }
