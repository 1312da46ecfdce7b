"""FLUX's kin: blocks of text and image tokens, with weights of their own or not; positions are inputs."""

from __future__ import annotations

from ..entries import Attention, Gather, Plan, Split

_FLUX: Plan = (
    Split("", "hidden_states", 1, 3, "image"),
    Split("", "encoder_hidden_states", 1, 3, "text"),
    Split("", "img_ids", 0, 2),
    Split("", "txt_ids", 0, 2),
    Split("", "img_ids", 1, 3),
    Split("", "txt_ids", 1, 3),
    Attention("transformer_blocks.*.attn", "text+image"),
    Attention("single_transformer_blocks.*.attn", "text+image"),
    Gather("proj_out", 1),
)

PLANS = {
    "LongCatImageTransformer2DModel": _FLUX,
    "OvisImageTransformer2DModel": _FLUX,
}
