"""Classes A to C."""

from __future__ import annotations

import torch

from .table import Inputs, grid, mask, model, noise, rotary, steps


@model(
    "AceStepTransformer1DModel",
    hidden_size=48,
    intermediate_size=32,
    num_hidden_layers=2,
    num_attention_heads=6,
    num_key_value_heads=3,
    head_dim=8,
    in_channels=12,
    audio_acoustic_hidden_dim=4,
    sliding_window=4,
    encoder_hidden_size=20,
)
def _ace_step(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 29, 4),
        "timestep": steps(batch, 0.7) / 1000,
        "timestep_r": steps(batch, 0.2) / 1000,
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "context_latents": noise(batch, 29, 8, seed=2),
    }


@model(
    "AllegroTransformer3DModel",
    num_attention_heads=3,
    attention_head_dim=24,
    num_layers=2,
    cross_attention_dim=72,
    sample_height=6,
    sample_width=10,
    sample_frames=3,
    caption_channels=20,
)
def _allegro(batch: int) -> Inputs:
    frames, height, width = 3, 3, 5
    ids = grid(frames, height, width, axes=3).long()
    tables = [rotary(count, 8, seed=count) for count in (frames, height, width)]
    picture = torch.ones(batch, frames, 2 * height, 2 * width)
    picture[:, :, :, -2:] = 0
    return {
        "hidden_states": noise(batch, 4, frames, 2 * height, 2 * width),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "timestep": steps(batch),
        "attention_mask": picture,
        "encoder_attention_mask": mask(batch, 7),
        "image_rotary_emb": (tuple(tables), tuple(ids.T[:, None])),
    }


@model(
    "AnyFlowTransformer3DModel",
    num_attention_heads=3,
    attention_head_dim=16,
    in_channels=4,
    out_channels=4,
    text_dim=20,
    freq_dim=16,
    ffn_dim=32,
    num_layers=2,
    rope_max_seq_len=16,
)
def _anyflow(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 3, 4, 6, 10),  # frames before channels
        "timestep": steps(batch)[:, None].expand(-1, 3),
        "r_timestep": steps(batch, 400.0)[:, None].expand(-1, 3),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
    }


@model(
    "AnyFlowFARTransformer3DModel",
    batches=(1,),
    num_attention_heads=3,
    attention_head_dim=16,
    in_channels=4,
    out_channels=4,
    text_dim=20,
    freq_dim=16,
    ffn_dim=32,
    num_layers=2,
    rope_max_seq_len=32,
    chunk_partition=(1, 2, 2),
)
def _anyflow_far(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 5, 4, 8, 12),
        "timestep": steps(batch)[:, None].expand(-1, 5),
        "r_timestep": steps(batch, 400.0)[:, None].expand(-1, 5),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "chunk_partition": [1, 2, 2],
    }


@model(
    "AuraFlowTransformer2DModel",
    sample_size=12,
    num_mmdit_layers=2,
    num_single_dit_layers=2,
    attention_head_dim=16,
    num_attention_heads=3,
    joint_attention_dim=20,
    caption_projection_dim=48,
    pos_embed_max_size=36,
)
def _auraflow(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 4, 6, 10),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "timestep": steps(batch) / 1000,
    }


@model(
    "BriaTransformer2DModel",
    in_channels=8,
    num_layers=2,
    num_single_layers=2,
    attention_head_dim=16,
    num_attention_heads=3,
    joint_attention_dim=20,
    axes_dims_rope=[4, 6, 6],
)
def _bria(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 15, 8),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "timestep": steps(batch),
        "img_ids": grid(3, 5, axes=3),
        "txt_ids": torch.zeros(7, 3),
    }


@model(
    "BriaFiboTransformer2DModel",
    in_channels=8,
    num_layers=2,
    num_single_layers=2,
    attention_head_dim=16,
    num_attention_heads=3,
    joint_attention_dim=20,
    axes_dims_rope=[4, 6, 6],
    text_encoder_dim=12,
)
def _bria_fibo(batch: int) -> Inputs:
    valid = torch.cat([mask(batch, 7), torch.ones(batch, 15, dtype=torch.bool)], dim=1)
    pairs = valid[:, :, None] & valid[:, None, :]
    return {
        "hidden_states": noise(batch, 15, 8),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "text_encoder_layers": [noise(batch, 7, 12, seed=2 + layer) for layer in range(4)],
        "timestep": steps(batch),
        "img_ids": grid(3, 5, axes=3),
        "txt_ids": torch.zeros(7, 3),
        "joint_attention_kwargs": {"attention_mask": torch.where(pairs, 0.0, -1e4)[:, None]},
    }


@model(
    "BriaFibo2Transformer2DModel",
    in_channels=4,
    dim=48,
    n_layers=3,
    n_refiner_layers=2,
    n_heads=3,
    cap_feat_dim=20,
    injection_layer_ids=(0, 2),
    perceiver_num_layers=2,
    min_num_gist_tokens=3,
    max_num_gist_tokens=7,
    gist_step=2,
    gist_min_text_len=3,
    gist_max_text_len=9,
    axes_dims=(4, 6, 6),
    axes_lens=(32, 16, 16),
)
def _bria_fibo2(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 4, 6, 10),
        "timestep": steps(batch) / 1000,
        "encoder_hidden_states": noise(batch, 3, 9, 20, seed=1),
        "encoder_attention_mask": mask(batch, 9),
        "context_latents": [noise(batch, 4, 4, 6, seed=2)],
    }


@model(
    "ChromaTransformer2DModel",
    in_channels=8,
    num_layers=2,
    num_single_layers=2,
    attention_head_dim=16,
    num_attention_heads=3,
    joint_attention_dim=20,
    axes_dims_rope=(4, 6, 6),
    approximator_num_channels=32,
    approximator_hidden_dim=24,
    approximator_layers=2,
)
def _chroma(batch: int, text: int = 7, width: int = 5) -> Inputs:
    image = 3 * width
    return {
        "hidden_states": noise(batch, image, 8),
        "encoder_hidden_states": noise(batch, text, 20, seed=1),
        "timestep": steps(batch) / 1000,
        "img_ids": grid(3, width, axes=3),
        "txt_ids": torch.zeros(text, 3),
        "attention_mask": torch.cat([mask(batch, text), torch.ones(batch, image, dtype=torch.bool)], dim=1),
    }


@model(
    "ChronoEditTransformer3DModel",
    num_attention_heads=3,
    attention_head_dim=16,
    in_channels=4,
    out_channels=4,
    text_dim=20,
    freq_dim=16,
    ffn_dim=32,
    num_layers=2,
    image_dim=12,
    added_kv_proj_dim=48,
    rope_max_seq_len=16,
)
def _chronoedit(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 4, 3, 6, 10),
        "timestep": steps(batch),
        "encoder_hidden_states": noise(batch, 512, 20, seed=1),  # of which the last 512 are the text
        "encoder_hidden_states_image": noise(batch, 5, 12, seed=2),
    }


@model(
    "CogVideoXTransformer3DModel",
    num_attention_heads=3,
    attention_head_dim=16,
    in_channels=4,
    out_channels=4,
    time_embed_dim=12,
    text_embed_dim=20,
    num_layers=2,
    sample_width=10,
    sample_height=6,
    sample_frames=9,
    max_text_seq_length=7,
    use_rotary_positional_embeddings=True,
)
def _cogvideox(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 3, 4, 6, 10),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "timestep": steps(batch),
        "image_rotary_emb": rotary(45, 16),
    }


@model(
    "CogVideoXTransformer3DModel",
    variant="learned",
    num_attention_heads=3,
    attention_head_dim=16,
    in_channels=4,
    out_channels=4,
    time_embed_dim=12,
    ofs_embed_dim=12,
    text_embed_dim=20,
    num_layers=2,
    sample_width=10,
    sample_height=6,
    sample_frames=9,
    max_text_seq_length=7,
)
def _cogvideox_learned(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 3, 4, 6, 10),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "timestep": steps(batch),
        "ofs": torch.full((batch,), 2.0),
    }


@model(
    "CogView3PlusTransformer2DModel",
    in_channels=4,
    out_channels=4,
    num_layers=2,
    attention_head_dim=16,
    num_attention_heads=3,
    text_embed_dim=20,
    time_embed_dim=12,
    condition_dim=8,
    pos_embed_max_size=12,
    sample_size=12,
)
def _cogview3plus(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 4, 6, 10),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "timestep": steps(batch),
    } | _cogview_sizes(batch)


def _cogview_sizes(batch: int) -> Inputs:
    return {
        "original_size": torch.tensor([[48.0, 80.0]] * batch),
        "target_size": torch.tensor([[48.0, 80.0]] * batch),
        "crop_coords": torch.tensor([[0.0, 8.0]] * batch),
    }


@model(
    "CogView4Transformer2DModel",
    in_channels=4,
    out_channels=4,
    num_layers=2,
    attention_head_dim=16,
    num_attention_heads=3,
    text_embed_dim=20,
    time_embed_dim=12,
    condition_dim=8,
    rope_axes_dim=(16, 16),
)
def _cogview4(batch: int, text: int = 7, width: int = 5) -> Inputs:
    return {
        "hidden_states": noise(batch, 4, 6, 2 * width),
        "encoder_hidden_states": noise(batch, text, 20, seed=1),
        "timestep": steps(batch),
        "attention_mask": mask(batch, text, torch.float32),
    } | _cogview_sizes(batch)


@model(
    "ConsisIDTransformer3DModel",
    num_attention_heads=3,
    attention_head_dim=16,
    in_channels=4,
    out_channels=4,
    time_embed_dim=12,
    text_embed_dim=20,
    num_layers=2,
    sample_width=10,
    sample_height=6,
    sample_frames=9,
    max_text_seq_length=7,
    use_rotary_positional_embeddings=True,
    is_train_face=True,
    cross_attn_interval=1,
    cross_attn_dim_head=8,
    cross_attn_num_heads=2,
    LFE_id_dim=10,
    LFE_vit_dim=12,
    LFE_depth=2,
    LFE_dim_head=4,
    LFE_num_heads=2,
    LFE_num_querie=3,
    LFE_output_dim=32,
    LFE_num_scale=2,
)
def _consisid(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 3, 4, 6, 10),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "timestep": steps(batch),
        "image_rotary_emb": rotary(45, 16),
        "id_cond": noise(batch, 10, seed=2),
        "id_vit_hidden": [noise(batch, 5, 12, seed=3), noise(batch, 5, 12, seed=4)],
    }


_COSMOS = {
    "in_channels": 4,
    "out_channels": 4,
    "num_attention_heads": 3,
    "attention_head_dim": 16,
    "num_layers": 2,
    "text_embed_dim": 20,
    "adaln_lora_dim": 8,
    "max_size": (4, 8, 12),
    "concat_padding_mask": False,  # needs torchvision
}


@model("CosmosTransformer3DModel", **_COSMOS)
def _cosmos(batch: int) -> Inputs:
    return {
        "hidden_states": noise(batch, 4, 3, 6, 10),
        "timestep": steps(batch),
        "encoder_hidden_states": noise(batch, 7, 20, seed=1),
        "fps": 24,
    }


@model(
    "CosmosTransformer3DModel",
    variant="frames",
    **_COSMOS | {"in_channels": 5, "extra_pos_embed_type": None},
    use_crossattn_projection=True,
    crossattn_proj_in_channels=14,
    encoder_hidden_states_channels=20,
)
def _cosmos_frames(batch: int) -> Inputs:
    """A timestep for each frame, as Cosmos 2.5 has them."""
    return {
        "hidden_states": noise(batch, 4, 3, 6, 10),
        "timestep": torch.tensor([0.0, 0.5, 0.7]).expand(batch, 3)[:, None, :, None, None],
        "encoder_hidden_states": noise(batch, 7, 14, seed=1),
        "condition_mask": torch.ones(batch, 1, 3, 6, 10),
    }


@model(
    "Cosmos3OmniTransformer",
    batches=(1,),
    head_dim=16,
    hidden_size=48,
    intermediate_size=32,
    latent_channel=4,
    patch_latent_dim=16,
    num_attention_heads=6,
    num_hidden_layers=2,
    num_key_value_heads=3,
    vocab_size=50,
    rope_axes_dim=(4, 2, 2),
)
def _cosmos3(batch: int) -> Inputs:
    """7 tokens of text, then 3 frames of 15, of which the first is given."""
    text, image = 7, 45
    positions = torch.cat([torch.arange(float(text))[:, None].expand(-1, 3), grid(3, 3, 5, axes=3) + text])
    return {
        "input_ids": torch.arange(3, 3 + text),
        "text_indexes": torch.arange(text),
        "position_ids": positions.T.contiguous(),
        "und_len": text,
        "sequence_length": text + image,
        "vision_tokens": [noise(1, 4, 3, 6, 10)],
        "vision_token_shapes": [(3, 3, 5)],
        "vision_sequence_indexes": torch.arange(text, text + image),
        "vision_mse_loss_indexes": torch.arange(text + 15, text + image),
        "vision_timesteps": torch.full((30,), 600.0),
        "vision_noisy_frame_indexes": [torch.tensor([1, 2])],
    }
