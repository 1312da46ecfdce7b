"""Models that attend in a way of their own, in each head by itself: linear attention, blocks of tokens that
are chosen by what is in them, parts of the sequence in turn."""

from __future__ import annotations

from ..entries import Alone, Gather, OwnWay, Split

PLANS = {
    "Kandinsky6SRTransformer3DModel": (
        Split("visual_transformer_blocks.0", "hidden_states", 1, 3, "image"),
        OwnWay(
            "visual_transformer_blocks.*.self_attention",
            (("to_query",), ("to_key",), ("to_value",)),
            "out_layer",
            "num_heads",
        ),
        Gather("visual_transformer_blocks.-1", 1),
    ),
    "WanAnimate2Transformer3DModel": (
        Split("blocks.0", "hidden_states", 1, 3, "image"),
        OwnWay("blocks.*.self_attn", (("to_q", "norm_q"), ("to_k", "norm_k"), ("to_v",)), "to_out.0"),
        Alone("blocks.*.cross_attn", "encoder_hidden_states"),
        Gather("blocks.-1", 1),
    ),
}
