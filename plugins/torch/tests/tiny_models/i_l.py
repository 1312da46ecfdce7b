"""Classes I to L."""

from __future__ import annotations

import torch

import tiny

from .table import Inputs, grid, mask, model, noise, steps


@model(
    "Ideogram4Transformer2DModel",
    in_channels=8,
    num_layers=2,
    attention_head_dim=16,
    num_attention_heads=3,
    intermediate_size=32,
    adaln_dim=12,
    llm_features_dim=20,
    mrope_section=(4, 2, 2),
)
def _ideogram4(batch: int) -> Inputs:
    """One sequence of 7 text tokens, of which the first are padding, and 15 of the image."""
    text = mask(batch, 7).flip(1)
    valid = torch.cat([text, torch.ones(batch, 15, dtype=torch.bool)], dim=1)
    ids = torch.cat([torch.arange(7.0)[:, None].expand(-1, 3), grid(3, 5, axes=3) + 7])
    return {
        "hidden_states": noise(batch, 22, 8),
        "timestep": steps(batch) / 1000,
        "encoder_hidden_states": noise(batch, 22, 20, seed=1),
        "position_ids": ids.long().expand(batch, -1, -1),
        "segment_ids": valid.long(),
        "indicator": torch.where(torch.arange(22) < 7, 3, 2).expand(batch, -1) * valid,
    }


_JOY = {
    "in_channels": 4,
    "hidden_size": 48,
    "num_attention_heads": 3,
    "text_dim": 20,
    "num_layers": 2,
    "rope_dim_list": [4, 6, 6],
}


@model("JoyImageEditTransformer3DModel", **_JOY)
def _joyimage_edit(batch: int) -> Inputs:
    """Three pictures, each of one frame."""
    return {
        "hidden_states": noise(batch, 3, 4, 1, 6, 10),
        "timestep": steps(batch),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
    }


@model("JoyImageEditTransformer3DModel", variant="mrope", **_JOY, rope_type="mrope")
def _joyimage_edit_mrope(batch: int) -> Inputs:
    return _joyimage_edit(batch)


@model("JoyImageEditPlusTransformer3DModel", **_JOY)
def _joyimage_edit_plus(batch: int) -> Inputs:
    """Pictures of 15 and 6 patches; in the second sample one less, and padding."""
    shapes = [[(1, 3, 5), (1, 2, 3)], [(1, 3, 5), (1, 1, 5)]]
    return {
        "hidden_states": noise(batch, 21, 4, 1, 2, 2),
        "timestep": steps(batch),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "encoder_hidden_states_mask": mask(batch, 7, torch.float32),
        "shape_list": shapes[:batch],
    }


@model(
    "Kandinsky5Transformer3DModel",
    in_text_dim=20,
    in_text_dim2=14,
    time_dim=12,
    model_dim=48,
    ff_dim=32,
    num_text_blocks=2,
    num_visual_blocks=2,
    axes_dims=(4, 6, 6),
    visual_cond=True,
)
def _kandinsky5(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 3, 6, 10, 9),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "timestep": steps(batch),
        "pooled_projections": noise(batch, 14, seed=2),
        "visual_rope_pos": tuple(torch.arange(count) for count in (3, 3, 5)),
        "text_rope_pos": torch.arange(7),
    }


_KANDINSKY6 = {
    "in_visual_dim": 4,
    "out_visual_dim": 4,
    "in_text_dim": 20,
    "in_text_dim2": 14,
    "time_dim": 12,
    "model_dim": 48,
    "ff_dim": 32,
    "num_text_blocks": 2,
    "num_visual_blocks": 2,
    "axes_dims": (4, 6, 6),
    "in_audio_dim": 5,
    "out_audio_dim": 5,
    "visual_token_type_num_embeddings": 2,
    "ca_rope": True,
}


@model("Kandinsky6Transformer3DModel", variant="silent", **_KANDINSKY6)
def _kandinsky6_silent(batch: int) -> Inputs:
    return _kandinsky6(batch) | {"audio_hidden_states": None}


@model("Kandinsky6Transformer3DModel", **_KANDINSKY6)
def _kandinsky6(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 3, 6, 10, 9),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "pooled_projections": noise(batch, 14, seed=2),
        "timestep": steps(batch),
        "audio_hidden_states": noise(batch, 11, 5, seed=3),
        "encoder_attention_mask": mask(batch, 7),
        "visual_token_type_ids": torch.tensor([[0, 1, 1]] * batch),
    }


@model(
    "Kandinsky6SRTransformer3DModel",
    batches=(1,),
    in_visual_dim=4,
    out_visual_dim=4,
    time_dim=12,
    model_dim=48,
    ff_dim=32,
    num_visual_blocks=2,
    axes_dims=(4, 6, 6),
    nabla_threshold=0.6,
    nabla_window=(1, 1, 1),
)
def _kandinsky6_sr(batch: int) -> Inputs:
    """Blocks of 8x8 tokens attend to blocks."""
    return {"hidden_states": noise(batch, 3, 8, 16, 9), "timestep": steps(batch)}


@model(
    "Krea2Transformer2DModel",
    in_channels=8,
    num_layers=2,
    attention_head_dim=16,
    num_attention_heads=6,
    num_key_value_heads=3,
    intermediate_size=32,
    timestep_embed_dim=16,
    text_hidden_dim=24,
    num_text_layers=3,
    text_num_attention_heads=3,
    text_num_key_value_heads=3,
    text_intermediate_size=32,
    axes_dims_rope=(4, 6, 6),
)
def _krea2(batch: int, text: int = 7, width: int = 5) -> Inputs:
    return {
        "hidden_states": noise(batch, 3 * width, 8),
        "encoder_hidden_states": noise(batch, text, 3, 24, seed=1),
        "timestep": steps(batch) / 1000,
        "position_ids": torch.cat([torch.zeros(text, 3), grid(3, width, axes=3)]),
        "encoder_attention_mask": mask(batch, text),
    }


@model(
    "LatteTransformer3DModel",
    num_attention_heads=3,
    attention_head_dim=16,
    in_channels=4,
    out_channels=8,
    num_layers=2,
    cross_attention_dim=48,
    attention_bias=True,
    sample_size=12,
    patch_size=2,
    activation_fn="gelu-approximate",
    num_embeds_ada_norm=1000,
    norm_type="ada_norm_single",
    norm_elementwise_affine=False,
    caption_channels=20,
    video_length=3,
)
def _latte(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 4, 3, 6, 10),
        "timestep": steps(batch),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
    }


@model(
    "LongCatAudioDiTTransformer",
    dit_dim=48,
    dit_depth=2,
    dit_heads=3,
    dit_text_dim=20,
    latent_dim=8,
)
def _longcat_audio(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 15, 8),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "encoder_attention_mask": mask(batch, 7),
        "timestep": steps(batch) / 1000,
        "attention_mask": mask(batch, 15),
        "latent_cond": noise(batch, 15, 8, seed=2),
    }


@model(
    "LongCatImageTransformer2DModel",
    in_channels=8,
    num_layers=2,
    num_single_layers=2,
    attention_head_dim=16,
    num_attention_heads=3,
    joint_attention_dim=20,
    axes_dims_rope=[4, 6, 6],
)
def _longcat_image(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 15, 8),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "timestep": steps(batch) / 1000,
        "img_ids": grid(3, 5, axes=3) + 7,
        "txt_ids": torch.arange(7.0)[:, None].expand(-1, 3),
    }


@model(
    "LTXVideoTransformer3DModel",
    in_channels=8,
    out_channels=8,
    num_attention_heads=3,
    attention_head_dim=16,
    cross_attention_dim=48,
    num_layers=2,
    caption_channels=24,
)
def _ltx(batch: int) -> Inputs:
    return tiny.ltx_inputs(batch=batch)


_LTX2 = {
    "in_channels": 8,
    "out_channels": 8,
    "num_attention_heads": 3,
    "attention_head_dim": 16,
    "cross_attention_dim": 48,
    "audio_in_channels": 6,
    "audio_out_channels": 6,
    "audio_num_attention_heads": 3,
    "audio_attention_head_dim": 8,
    "audio_cross_attention_dim": 24,
    "num_layers": 2,
    "caption_channels": 20,
}


@model("LTX2VideoTransformer3DModel", **_LTX2)
def _ltx2(batch: int, text: int = 7, width: int = 5) -> Inputs:
    """Video of 30 tokens, audio of 11."""
    return {
        "hidden_states": noise(batch, 6 * width, 8),
        "audio_hidden_states": noise(batch, 11, 6, seed=1),
        "encoder_hidden_states": noise(batch, text, 20, seed=2),
        "audio_encoder_hidden_states": noise(batch, text, 20, seed=3),
        "timestep": steps(batch),
        "encoder_attention_mask": mask(batch, text),
        "audio_encoder_attention_mask": mask(batch, text),
        "num_frames": 2,
        "height": 3,
        "width": width,
        "audio_num_frames": 11,
    }


@model(
    "LTX2VideoTransformer3DModel",
    variant="2.3",
    **_LTX2,
    gated_attn=True,
    cross_attn_mod=True,
    audio_gated_attn=True,
    audio_cross_attn_mod=True,
    rope_type="split",
)
def _ltx2_3(batch: int) -> Inputs:
    """As LTX-2.3, with a timestep for each token of the video."""
    by_token = torch.where(torch.arange(30) < 15, 0.0, 600.0).expand(batch, -1)
    return _ltx2(batch) | {
        "timestep": by_token,
        "audio_timestep": steps(batch),
        "sigma": steps(batch),
        "video_self_attention_mask": (mask(batch, 30)[:, None] | mask(batch, 30)[:, :, None]).float(),
    }


@model("LTX2VideoTransformer3DModel", variant="perturbed", **_LTX2, gated_attn=True, perturbed_attn=True)
def _ltx2_perturbed(batch: int) -> Inputs:
    """As guidance by other attention has it: in one layer no sample attends, or the second one does not."""
    return _ltx2(batch) | {
        "spatio_temporal_guidance_blocks": [1],
        "perturbation_mask": torch.arange(float(batch)),
        "video_coords": noise(batch, 3, 30, 2, seed=4).abs(),
    }


@model("LTX2VideoTransformer3DModel", variant="places", **_LTX2)
def _ltx2_places(batch: int) -> Inputs:
    """With places that all samples share, and a mask of text for each token of the video."""
    return _ltx2(batch) | {
        "video_coords": noise(1, 3, 30, 2, seed=4).abs(),
        "encoder_attention_mask": noise(batch, 30, 7, seed=5),
    }


@model("LTX2VideoTransformer3DModel", variant="short", **_LTX2, rope_type="split")
def _ltx2_short(batch: int) -> Inputs:
    """With less audio than ranks, and video that does not listen to it."""
    short = {"audio_hidden_states": noise(batch, 1, 6, seed=1), "audio_num_frames": 1}
    return _ltx2(batch) | short | {"isolate_modalities": batch > 1}


@model(
    "LuminaNextDiT2DModel",
    sample_size=12,
    hidden_size=48,
    num_layers=2,
    num_attention_heads=6,
    num_kv_heads=3,
    multiple_of=8,
    cross_attention_dim=20,
)
def _lumina_next(batch: int) -> Inputs:
    angles = noise(3, 5, 4, seed=9)
    return {
        "hidden_states": noise(batch, 4, 6, 10),
        "timestep": steps(batch) / 1000,
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "encoder_mask": mask(batch, 7, torch.float32),
        "image_rotary_emb": torch.polar(torch.ones_like(angles), angles),
        "cross_attention_kwargs": {"base_sequence_length": 9},
    }


@model(
    "Lumina2Transformer2DModel",
    sample_size=12,
    in_channels=4,
    hidden_size=48,
    num_layers=2,
    num_refiner_layers=2,
    num_attention_heads=6,
    num_kv_heads=3,
    multiple_of=8,
    axes_dim_rope=(4, 2, 2),
    axes_lens=(32, 16, 16),
    cap_feat_dim=20,
)
def _lumina2(batch: int, text: int = 7, width: int = 5) -> Inputs:
    return {
        "hidden_states": noise(batch, 4, 6, 2 * width),
        "timestep": steps(batch) / 1000,
        "encoder_hidden_states": noise(batch, text, 20, seed=1),
        "encoder_attention_mask": mask(batch, text),
    }
