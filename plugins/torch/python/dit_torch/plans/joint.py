"""Image or video tokens and text tokens that attend together, each with weights of its own or not. Both are
split."""

from __future__ import annotations

from ..entries import Alone, Attention, Count, Gather, Plan, Refuse, Split

# Text and image of FLUX and its kin, with their positions.
_INPUTS: Plan = (
    Split("", "hidden_states", 1, 3, "image"),
    Split("", "encoder_hidden_states", 1, 3, "text"),
    Split("", "img_ids", -2, of="image"),
    Split("", "txt_ids", -2, of="text"),
)


def _blocks(path: str, rope: str | None, least: int = 0) -> Plan:
    """Text and image where blocks begin, and the tables of image tokens."""
    return (
        Split(f"{path}.0", "hidden_states", 1, 3, "image"),
        Split(f"{path}.0", "encoder_hidden_states", 1, 3, "text", least=least),
        *(() if rope is None else (Split(f"{path}.*", rope, 0, 2, of="image"),)),
    )


_CACHED = "keys of other passes are of one rank's tokens"

_FLUX: Plan = (
    *_INPUTS,
    Attention("transformer_blocks.*.attn", "text+image"),
    Attention("single_transformer_blocks.*.attn", "text+image"),
    Gather("proj_out", 1),
)

PLANS: dict[str, Plan] = {
    "AuraFlowTransformer2DModel": (
        *_blocks("joint_transformer_blocks", None),
        Attention("joint_transformer_blocks.*.attn", "text+image"),
        Attention("single_transformer_blocks.*.attn", "text+image"),
        Gather("proj_out", 1),
    ),
    "BriaTransformer2DModel": (
        *_INPUTS,
        Split("", "controlnet_block_samples", 1, 3, of="image"),
        Refuse("", "controlnet_single_block_samples", "they are added to other tokens than they are of"),
        Attention("transformer_blocks.*.attn", "text+image"),
        Attention("single_transformer_blocks.*.attn", "text+image"),
        Gather("proj_out", 1),
    ),
    "BriaFiboTransformer2DModel": (
        *_INPUTS,
        Split("", "text_encoder_layers", 1, 3, of="text"),
        Attention("transformer_blocks.*.attn", "text+image"),
        Attention("single_transformer_blocks.*.attn", "text+image"),
        Gather("proj_out", 1),
    ),
    "ChromaTransformer2DModel": (
        *_INPUTS,
        Split("", "controlnet_block_samples", 1, 3, of="image"),
        Split("", "controlnet_single_block_samples", 1, 3, of="image"),
        Attention("transformer_blocks.*.attn", "text+image"),
        Attention("single_transformer_blocks.*.attn", "text+image"),
        Gather("proj_out", 1),
    ),
    "CogVideoXTransformer3DModel": (
        *_blocks("transformer_blocks", "image_rotary_emb"),
        Attention("transformer_blocks.*.attn1", "text+image"),
        Gather("proj_out", 1),
    ),
    "CogView3PlusTransformer2DModel": (
        *_blocks("transformer_blocks", None),
        Attention("transformer_blocks.*.attn1", "text+image"),
        Gather("proj_out", 1),
    ),
    "CogView4Transformer2DModel": (
        *_blocks("transformer_blocks", "image_rotary_emb"),
        Split("transformer_blocks.*", "attention_mask", 1, 2, of="text"),
        Attention("transformer_blocks.*.attn1", "text+image", outer_mask=True),
        Gather("proj_out", 1),
    ),
    # What follows the blocks takes text and image apart by the number of text tokens.
    "ConsisIDTransformer3DModel": (
        *_blocks("transformer_blocks", "image_rotary_emb"),
        Attention("transformer_blocks.*.attn1", "text+image"),
        Gather("transformer_blocks.-1", 1, 0),
        Gather("transformer_blocks.-1", 1, 1, "text"),
    ),
    "EasyAnimateTransformer3DModel": (
        *_blocks("transformer_blocks", "image_rotary_emb"),
        Attention("transformer_blocks.*.attn1", "text+image"),
        Gather("proj_out", 1),
    ),
    "GlmImageTransformer2DModel": (
        Refuse("", "kv_caches", _CACHED),
        *_blocks("transformer_blocks", "image_rotary_emb"),
        Split("transformer_blocks.*", "attention_mask", 1, 2, of="text"),
        Attention("transformer_blocks.*.attn1", "text+image", outer_mask=True),
        Gather("proj_out", 1),
    ),
    "HunyuanImageTransformer2DModel": (
        Alone("context_embedder"),
        *_blocks("transformer_blocks", "image_rotary_emb", least=1),
        Split("single_transformer_blocks.*", "image_rotary_emb", 0, 2, of="image"),
        Attention("transformer_blocks.*.attn", "image+text"),
        Attention("single_transformer_blocks.*.attn", "image+text"),
        Gather("proj_out", 1),
    ),
    "HunyuanVideoTransformer3DModel": (
        Alone("context_embedder"),
        *_blocks("transformer_blocks", "freqs_cis", least=1),
        Split("single_transformer_blocks.*", "image_rotary_emb", 0, 2, of="image"),
        Count("transformer_blocks.*", "num_tokens"),
        Count("single_transformer_blocks.*", "num_tokens"),
        Attention("transformer_blocks.*.attn", "image+text"),
        Attention("single_transformer_blocks.*.attn", "image+text"),
        Gather("proj_out", 1),
    ),
    # What follows the blocks takes the last tokens of the sequence.
    "HunyuanVideoFramepackTransformer3DModel": (
        Alone("context_embedder"),
        *_blocks("transformer_blocks", "freqs_cis", least=1),
        Split("single_transformer_blocks.*", "image_rotary_emb", 0, 2, of="image"),
        Attention("transformer_blocks.*.attn", "image+text"),
        Attention("single_transformer_blocks.*.attn", "image+text"),
        Gather("single_transformer_blocks.-1", 1, 0),
    ),
    "LongCatImageTransformer2DModel": _FLUX,
    "OvisImageTransformer2DModel": _FLUX,
}
