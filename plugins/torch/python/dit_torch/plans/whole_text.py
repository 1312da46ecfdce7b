"""Models whose text stays whole, as each block brings some of its own, or attends over it in order."""

from __future__ import annotations

from ..entries import Attention, Gather, Plan, Split

PLANS: dict[str, Plan] = {
    # Text attends to the text before it, and what is generated to all.
    "Cosmos3OmniTransformer": (
        Split("layers.0", "gen_seq", 0, 2, "image"),
        Split("layers.*", "rotary_emb", 0, 2, of="image", at=2),
        Split("layers.*", "rotary_emb", 0, 2, of="image", at=3),
        Attention("layers.*.self_attn", "image", "whole+image", skip=1),
        Gather("layers.-1", 0, 1),
    ),
    "HiDreamImageTransformer2DModel": (
        Split("x_embedder", 0, 1, 3, "image"),
        Split("double_stream_blocks.*", "hidden_states_masks", 1, 2, of="image"),
        Split("double_stream_blocks.*", "image_rotary_emb", 1, of="image+whole"),
        Split("single_stream_blocks.*", "hidden_states_masks", 1, 2, of="image+whole"),
        Split("single_stream_blocks.*", "image_rotary_emb", 1, of="image+whole"),
        Attention("double_stream_blocks.*.block.attn1", "image+whole"),
        Attention("single_stream_blocks.*.block.attn1", "image+whole"),
        Gather("final_layer", 1),
    ),
}
