"""Image or video tokens that attend to each other, and to a text by cross-attention. The text stays whole."""

from __future__ import annotations

from ..plan import Alone, Attention, Gather, Split

PLANS = {
    "PixArtTransformer2DModel": (
        Split("pos_embed", 0, 1, 3, "image"),
        Attention("transformer_blocks.*.attn1"),
        Alone("transformer_blocks.*.attn2", "encoder_hidden_states"),
        Gather("proj_out", 1),
    ),
}
