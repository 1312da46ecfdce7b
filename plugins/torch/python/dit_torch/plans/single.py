"""Models that put all tokens, of text and image, into one sequence for their blocks: that is split."""

from __future__ import annotations

from ..entries import Alone, Attention, Gather, Plan, Split


def _sequence(path: str, name: str = "x") -> Plan:
    """Blocks as those of Z-Image: what is split of their arguments, and their attention."""
    return (
        Split(f"{path}.0", name, 1, 3, "image"),
        Split(f"{path}.*", "freqs_cis", 1, 3, of="image"),
        Split(f"{path}.*", "noise_mask", 1, 2, of="image"),
        Attention(f"{path}.*.attention"),
    )


PLANS: dict[str, Plan] = {
    # Image tokens are taken out of the sequence behind the blocks.
    "BriaFibo2Transformer2DModel": (
        Alone("perceiver"),
        *_sequence("noise_refiner"),
        Gather("noise_refiner.-1", 1),
        *_sequence("layers"),
        Alone("layers.*.cross_attention", "encoder_hidden_states"),
        Gather("layers.-1", 1),
    ),
    "ErnieImageTransformer2DModel": (
        Split("layers.0", "x", 0, 3, "image"),
        Split("layers.*", "rotary_pos_emb", 1, of="image"),
        Split("layers.*", "temb", 0, 3, of="image"),
        Attention("layers.*.self_attention"),
        Gather("final_linear", 0),
    ),
}
