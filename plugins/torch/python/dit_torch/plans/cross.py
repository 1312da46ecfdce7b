"""Image or video tokens that attend to each other, and to a text by cross-attention. The text stays whole."""

from __future__ import annotations

from typing import Any

from ..entries import Alone, Attention, Gather, Needs, Plan, Split, whole


def _ace_step(transformer: Any) -> Plan:
    kinds = enumerate(transformer.layer_types)
    why = "flash attention has windows, which it takes from the number of tokens of a rank"
    windows = (
        Needs(f"layers.{at}", "attention_mask", why) for at, kind in kinds if kind.startswith("sliding")
    )
    return (
        Split("layers.0", "hidden_states", 1, 3, "image"),
        Split("layers.*", "position_embeddings", 0, 2, of="image"),
        *windows,
        Attention("layers.*.self_attn"),
        Alone("layers.*.cross_attn", "encoder_hidden_states"),
        Gather("norm_out", 1),
    )


PLANS = {
    "AceStepTransformer1DModel": _ace_step,
    "AllegroTransformer3DModel": (
        Split("transformer_blocks.0", "hidden_states", 1, 3, "image"),
        Split("transformer_blocks.*", "image_rotary_emb", 1, 2, of="image", at=1),
        Attention("transformer_blocks.*.attn1"),
        Alone("transformer_blocks.*.attn2", "encoder_hidden_states"),
        Gather("proj_out", 1),
    ),
    "AnyFlowTransformer3DModel": (
        Split("blocks.0", "hidden_states", 1, 3, "image"),
        Split("blocks.*", "temb", 1, 4, of="image"),
        Split("blocks.*", "rotary_emb", 2, 4, of="image"),
        Attention("blocks.*.attn1"),
        Alone("blocks.*.attn2", "encoder_hidden_states"),
        Gather("blocks.-1", 1),
    ),
    # Its attention has masks by number of token, and caches of keys: every rank computes all of it.
    "AnyFlowFARTransformer3DModel": (
        Split("blocks.0", "hidden_states", 1, 3, "image"),
        Split("blocks.*", "temb", 1, 4, of="image"),
        *whole("blocks.*.attn1"),
        Alone("blocks.*.attn1"),
        Alone("blocks.*.attn2", "encoder_hidden_states"),
        Gather("blocks.-1", 1),
    ),
    "CosmosTransformer3DModel": (
        Split("transformer_blocks.0", "hidden_states", 1, 3, "image"),
        Split("transformer_blocks.*", "embedded_timestep", 1, 3, of="image"),
        Split("transformer_blocks.*", "temb", 1, 3, of="image"),
        Split("transformer_blocks.*", "image_rotary_emb", 0, 2, of="image"),
        Split("transformer_blocks.*", "extra_pos_emb", 1, 3, of="image"),
        Split("transformer_blocks.*", "controlnet_residual", 1, 3, of="image", optional=True),
        Attention("transformer_blocks.*.attn1"),
        Alone("transformer_blocks.*.attn2", "encoder_hidden_states"),
        Split("norm_out", "embedded_timestep", 1, 3, of="image"),
        Split("norm_out", "temb", 1, 3, of="image"),
        Gather("proj_out", 1),
    ),
    "DiTTransformer2DModel": (
        Split("pos_embed", 0, 1, 3, "image"),
        Attention("transformer_blocks.*.attn1"),
        Gather("proj_out_2", 1),
    ),
    "HunyuanDiT2DModel": (
        Split("pos_embed", 0, 1, 3, "image"),
        Split("", "controlnet_block_samples", 1, 3),
        Split("blocks.*", "image_rotary_emb", 0, 2, of="image"),
        Attention("blocks.*.attn1"),
        Alone("blocks.*.attn2", "encoder_hidden_states"),
        Gather("proj_out", 1),
    ),
    "PixArtTransformer2DModel": (
        Split("pos_embed", 0, 1, 3, "image"),
        Attention("transformer_blocks.*.attn1"),
        Alone("transformer_blocks.*.attn2", "encoder_hidden_states"),
        Gather("proj_out", 1),
    ),
}
