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
    "Lumina2Transformer2DModel": (
        Alone("context_refiner"),
        *_blocks(
            "noise_refiner", "attn", "hidden_states", _tables("noise_refiner", "image_rotary_emb", 1, 3)
        ),
        *_blocks("layers", "attn", "hidden_states", _tables("layers", "image_rotary_emb", 1, 3)),
    ),
    "OmniGenTransformer2DModel": _blocks(
        "layers", "self_attn", "hidden_states", _tables("layers", "image_rotary_emb", 0, 2)
    ),
}
