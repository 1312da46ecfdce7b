"""Image or video tokens and text tokens that attend together, each with weights of its own or not. Both are
split."""

from __future__ import annotations

from ..plan import Alone, Attention, Count, Gather, Split

PLANS = {
    "CogVideoXTransformer3DModel": (
        Split("transformer_blocks.0", "hidden_states", 1, 3, "image"),
        Split("transformer_blocks.0", "encoder_hidden_states", 1, 3, "text"),
        Split("transformer_blocks.*", "image_rotary_emb", 0, 2, of="image"),
        Attention("transformer_blocks.*.attn1", "text+image"),
        Gather("proj_out", 1),
    ),
    "HunyuanVideoTransformer3DModel": (
        Alone("context_embedder"),
        Split("transformer_blocks.0", "hidden_states", 1, 3, "image"),
        Split("transformer_blocks.0", "encoder_hidden_states", 1, 3, "text", least=1),
        Split("transformer_blocks.*", "freqs_cis", 0, 2, of="image"),
        Split("single_transformer_blocks.*", "image_rotary_emb", 0, 2, of="image"),
        Count("transformer_blocks.*", "num_tokens"),
        Count("single_transformer_blocks.*", "num_tokens"),
        Attention("transformer_blocks.*.attn", "image+text"),
        Attention("single_transformer_blocks.*.attn", "image+text"),
        Gather("proj_out", 1),
    ),
}
