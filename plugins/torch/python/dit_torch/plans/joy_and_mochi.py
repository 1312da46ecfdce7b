"""Tokens of pictures and of a text that attend together: JoyImage and Mochi."""

from __future__ import annotations

from typing import Any

from ..parallel import Parallel
from ..plan import Alone, Attention, Change, Gather, Split, split

_BLOCKS = "double_blocks.*"


def _two_tables(given: Any, parallel: Parallel) -> Any:
    """Rotary tables of pictures, and of texts or None."""
    pictures, text = given
    return (
        split(pictures, Split(_BLOCKS, "image_rotary_emb", 0, 2, of="image"), parallel),
        split(text, Split(_BLOCKS, "image_rotary_emb", 0, 2, of="text"), parallel),
    )


PLANS = {
    "JoyImageEditTransformer3DModel": (
        Split("double_blocks.0", "hidden_states", 1, 3, "image"),
        Split("double_blocks.0", "encoder_hidden_states", 1, 3, "text"),
        Change(_BLOCKS, "image_rotary_emb", _two_tables),
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
