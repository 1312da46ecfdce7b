"""Wan's relatives: video tokens that attend to each other, and to a text and an image, which stay whole."""

from __future__ import annotations

from ..entries import Alone, Attention, Gather, Plan, Split, whole


def _blocks(blocks: str) -> Plan:
    """Of a list of Wan's blocks, without where their tokens start."""
    return (
        Split(f"{blocks}.*", "rotary_emb", 1, 4, of="image"),
        Attention(f"{blocks}.*.attn1"),
        Alone(f"{blocks}.*.attn2", "encoder_hidden_states"),
    )


PLANS = {
    "SkyReelsV2Transformer3DModel": (
        Split("blocks.0", "hidden_states", 1, 3, "image"),
        Split("blocks.*", "temb", 2, 4, of="image"),
        *_blocks("blocks"),
        Gather("blocks.-1", 1),
    ),
    "WanAnimateTransformer3DModel": (
        Split("blocks.0", "hidden_states", 1, 3, "image"),
        *_blocks("blocks"),
        Alone("face_adapter"),  # each frame to its face
        *whole("face_adapter.*"),
        Gather("proj_out", 1),
    ),
    "WanVACETransformer3DModel": (
        Split("vace_blocks.0", "hidden_states", 1, 3, "image"),
        Split("vace_blocks.0", "control_hidden_states", 1, 3),
        *_blocks("vace_blocks"),
        Split("blocks.0", "hidden_states", 1, 3, "image"),
        *_blocks("blocks"),
        Gather("proj_out", 1),
    ),
}
