"""Tokens of pictures and of a text that attend together: JoyImage and Mochi."""

from __future__ import annotations

from ..entries import Alone, Attention, Gather, Split

PLANS = {
    "JoyImageEditTransformer3DModel": (
        Split("double_blocks.0", "hidden_states", 1, 3, "image"),
        Split("double_blocks.0", "encoder_hidden_states", 1, 3, "text"),
        Split("double_blocks.*", "image_rotary_emb", 0, 2, of="image", at=0),
        Split("double_blocks.*", "image_rotary_emb", 0, 2, of="text", at=1),
        Attention("double_blocks.*.attn", "image+text"),
        Gather("double_blocks.-1", 1),
    ),
    "JoyImageEditPlusTransformer3DModel": (
        Split("double_blocks.0", "hidden_states", 1, 3, "image"),
        Split("double_blocks.0", "encoder_hidden_states", 1, 3, "text"),
        Split("double_blocks.*", "image_rotary_emb", 1, 3, of="image"),
        Attention("double_blocks.*.attn", "image+text"),
        Gather("double_blocks.-1", 1),
    ),
    "MochiTransformer3DModel": (
        Alone("time_embed"),
        Split("transformer_blocks.0", "hidden_states", 1, 3, "image"),
        Split("transformer_blocks.*", "image_rotary_emb", 0, 3, of="image"),
        Attention("transformer_blocks.*.attn1", "image+whole"),
        Gather("transformer_blocks.-1", 1),
    ),
}
