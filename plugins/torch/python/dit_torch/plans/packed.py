"""Models whose blocks get one sequence of all tokens, of text and of pictures."""

from __future__ import annotations

from ..entries import Alone, Attention, Gather, Plan, Split


def _blocks(blocks: str, attention: str, name: str, *tables: Split) -> Plan:
    """The sequence is split from the first block's input to the last one's output."""
    return (
        Split(f"{blocks}.0", name, 1, 3, "image"),
        *tables,
        Attention(f"{blocks}.*.{attention}"),
        Gather(f"{blocks}.-1", 1),
    )


def _tables(blocks: str, name: str, dim: int, dims: int) -> Split:
    return Split(f"{blocks}.*", name, dim, dims, of="image")


PLANS = {
    "Ideogram4Transformer2DModel": _blocks(
        "layers",
        "attention",
        "hidden_states",
        _tables("layers", "image_rotary_emb", 1, 3),
        Split("layers.*", "adaln_input", 1, 3, of="image"),
    ),
    "Krea2Transformer2DModel": (
        Alone("text_fusion"),
        *_blocks(
            "transformer_blocks",
            "attn",
            "hidden_states",
            _tables("transformer_blocks", "image_rotary_emb", 0, 2),
        ),
    ),
    "Lumina2Transformer2DModel": (
        Alone("context_refiner"),
        *_blocks(
            "noise_refiner", "attn", "hidden_states", _tables("noise_refiner", "image_rotary_emb", 1, 3)
        ),
        *_blocks("layers", "attn", "hidden_states", _tables("layers", "image_rotary_emb", 1, 3)),
    ),
    "MiniMaxH3Transformer3DModel": (
        Alone("token_refiner"),
        *_blocks(
            "transformer_blocks",
            "attn",
            "hidden_states",
            _tables("transformer_blocks", "rotary_emb", 0, 2),
            _tables("transformer_blocks", "adaln_indices", 0, 1),
        ),
    ),
    "OmniGenTransformer2DModel": _blocks(
        "layers", "self_attn", "hidden_states", _tables("layers", "image_rotary_emb", 0, 2)
    ),
}
