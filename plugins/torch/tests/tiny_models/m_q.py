"""Classes M to Q."""

from __future__ import annotations

import torch

import tiny

from .table import Inputs, grid, mask, model, noise, steps


@model(
    "MiniMaxH3Transformer3DModel",
    num_attention_heads=3,
    attention_head_dim=16,
    hidden_size=24,
    num_layers=2,
    num_refiner_layers=2,
    ffn_dim=32,
    in_channels=2,
    audio_in_channels=6,
    text_dim=20,
    freq_dim=16,
    time_embed_hidden_dim=24,
    time_embed_dim=12,
    rope_freq_dim=2,
)
def _minimax_h3(batch: int, text: int = 7, width: int = 5) -> Inputs:
    """One sequence of 7 tokens of text, 6 of audio, 15 of video; audio has its own timestep."""
    kinds = torch.tensor([1] * text + [2] * 6 + [0] * 3 * width)
    places = torch.arange(len(kinds))
    before = text + 6
    positions = torch.cat(
        [torch.arange(float(before))[:, None].expand(-1, 3), grid(3, width, axes=3) + before]
    )
    return {
        "hidden_states": noise(batch, 3 * width, 8),
        "audio_hidden_states": noise(batch, 6, 6, seed=1),
        "encoder_hidden_states": noise(batch, text, 20, seed=2),
        "timestep": torch.tensor([0.7, 0.3]),
        "timestep_indices": (kinds == 2).long(),
        "token_tags": kinds,
        "position_ids": positions,
        "video_indices": places[kinds == 0],
        "audio_indices": places[kinds == 2],
        "text_indices": places[kinds == 1],
    }


@model(
    "MiniMaxMusic3Transformer1DModel",
    in_channels=8,
    condition_dim=20,
    num_layers=2,
    num_attention_heads=3,
    attention_head_dim=16,
    ff_inner_dim=32,
    rotary_dim=8,
    fourier_embedding_dim=16,
)
def _minimax_music3(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 8, 15),
        "timestep": steps(batch) / 1000,
        "encoder_hidden_states": noise(batch, 15, 20, seed=1),
    }


@model(
    "MochiTransformer3DModel",
    num_attention_heads=3,
    attention_head_dim=16,
    num_layers=3,
    pooled_projection_dim=16,
    in_channels=4,
    text_embed_dim=24,
    time_embed_dim=12,
)
def _mochi(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 4, 3, 6, 10),
        "encoder_hidden_states": noise(batch, 7, 24, seed=1),
        "timestep": steps(batch),
        "encoder_attention_mask": mask(batch, 7),
    }


_MOTIF = {
    "in_channels": 4,
    "out_channels": 4,
    "num_attention_heads": 3,
    "attention_head_dim": 16,
    "num_layers": 2,
    "num_single_layers": 3,
    "text_embed_dim": 20,
    "image_embed_dim": 14,
    "rope_axes_dim": (4, 6, 6),
}


@model("MotifVideoTransformer3DModel", **_MOTIF)
def _motif_video(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 4, 3, 6, 10),
        "timestep": steps(batch),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "encoder_attention_mask": mask(batch, 7, torch.long),
        "image_embeds": noise(batch, 4, 14, seed=2),
    }


@model(
    "MotifVideoTransformer3DModel",
    variant="decoder",
    **_MOTIF,
    num_decoder_layers=1,
    enable_text_cross_attention_dual=True,
    enable_text_cross_attention_single=True,
)
def _motif_video_decoder(batch: int) -> Inputs:
    """Its last layer attends to the tokens of the others."""
    return _motif_video(batch)


@model(
    "NucleusMoEImageTransformer2DModel",
    in_channels=8,
    out_channels=2,
    num_layers=3,
    attention_head_dim=16,
    num_attention_heads=6,
    num_key_value_heads=3,
    joint_attention_dim=20,
    axes_dims_rope=(4, 6, 6),
    dense_moe_strategy="leave_first_block_dense",
    num_experts=4,
    moe_intermediate_dim=12,
    capacity_factors=2.0,
)
def _nucleus_moe(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 15, 8),
        "img_shapes": [(1, 3, 5)] * batch,
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "encoder_hidden_states_mask": mask(batch, 7),
        "timestep": steps(batch) / 1000,
    }


@model(
    "OmniGenTransformer2DModel",
    in_channels=4,
    hidden_size=48,
    num_attention_heads=3,
    num_key_value_heads=3,
    intermediate_size=32,
    num_layers=2,
    pad_token_id=0,
    vocab_size=40,
    max_position_embeddings=64,
    original_max_position_embeddings=64,
    rope_scaling={"short_factor": [1.0] * 8, "long_factor": [1.0] * 8},
    pos_embed_max_size=8,
    time_step_dim=16,
)
def _omnigen(batch: int) -> Inputs:
    """9 tokens of causal text, 4 of them an image's, which see each other; 1 of time; 15 of the picture."""
    tokens = 9 + 1 + 15
    causal = torch.arange(tokens)[None] <= torch.arange(tokens)[:, None]
    causal[2:6, 2:6] = True
    causal[10:] = True
    return {
        "hidden_states": noise(batch, 4, 6, 10),
        "timestep": steps(batch) / 1000,
        "input_ids": 1 + torch.arange(9).expand(batch, -1),
        "input_img_latents": [noise(1, 4, 4, 4, seed=2 + sample) for sample in range(batch)],
        "input_image_sizes": {sample: [[2, 6]] for sample in range(batch)},
        "attention_mask": causal.float().expand(batch, -1, -1),
        "position_ids": torch.arange(tokens).expand(batch, -1),
    }


@model(
    "OvisImageTransformer2DModel",
    in_channels=8,
    out_channels=8,
    num_layers=2,
    num_single_layers=2,
    attention_head_dim=16,
    num_attention_heads=3,
    joint_attention_dim=20,
    axes_dims_rope=(4, 6, 6),
)
def _ovis_image(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 15, 8),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "timestep": steps(batch) / 1000,
        "img_ids": grid(3, 5, axes=3),
        "txt_ids": torch.arange(7.0)[:, None].expand(-1, 3),
    }


@model(
    "PixArtTransformer2DModel",
    num_attention_heads=3,
    attention_head_dim=16,
    in_channels=4,
    out_channels=8,
    num_layers=2,
    cross_attention_dim=48,
    sample_size=12,
    use_additional_conditions=True,
    caption_channels=20,
)
def _pixart(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 4, 6, 10),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "timestep": steps(batch),
        "encoder_attention_mask": mask(batch, 7, torch.float32),
        "added_cond_kwargs": {
            "resolution": torch.tensor([[48.0, 80.0]] * batch),
            "aspect_ratio": torch.tensor([[0.6]] * batch),
        },
    }


@model(
    "PRXTransformer2DModel",
    in_channels=4,
    context_in_dim=20,
    hidden_size=48,
    num_heads=3,
    depth=2,
    axes_dim=[8, 8],
)
def _prx(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 4, 6, 10),
        "timestep": steps(batch) / 1000,
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "attention_mask": mask(batch, 7),
    }


@model(
    "QwenImageTransformer2DModel",
    in_channels=8,
    out_channels=2,
    num_layers=2,
    attention_head_dim=16,
    num_attention_heads=3,
    joint_attention_dim=24,
    axes_dims_rope=(4, 6, 6),
)
def _qwenimage(batch: int) -> Inputs:
    return tiny.qwenimage_inputs(batch=batch)


@model(
    "QwenImage21Transformer2DModel",
    in_channels=8,
    out_channels=8,
    num_layers=2,
    attention_head_dim=16,
    num_attention_heads=3,
    context_in_dim=20,
    axes_dims_rope=(4, 6, 6),
)
def _qwenimage21(batch: int, text: int = 9, width: int = 3) -> Inputs:
    """9 text tokens, the fourth of which stands for an image of 2x2; then a picture of 2x6."""
    slots = torch.zeros(batch, text + width, dtype=torch.bool)
    slots[:, 3] = True
    slots[:, text:] = True
    return {
        "hidden_states": noise(batch, 4 + 4 * width, 8),
        "encoder_hidden_states": noise(batch, text, 20, seed=1),
        "timestep": steps(batch) / 1000,
        "img_shapes": [[(1, 2, 2), (1, 2, 2 * width)]] * batch,
        "img_mask": slots,
        "encoder_hidden_states_mask": mask(batch, text),
    }
