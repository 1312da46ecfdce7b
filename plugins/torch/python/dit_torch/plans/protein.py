"""Residues of a protein, which attend to each other by what is known of pairs of them. The pairs are whole
on every rank."""

from __future__ import annotations

from ..entries import Attention, Gather, Join, Split

PLANS = {
    "RFD4ProteinaTransformer": (
        Split("transformer_layers.0", "values", 1, 3, "image"),
        Split("transformer_layers.*", "condition", 1, 3, of="image"),
        Split("transformer_layers.*", "mask", 1, 2, of="image"),
        Join("transformer_layers.*.mhba.mha", "mask", 1),
        Attention("transformer_layers.*.mhba.mha"),
        Join("pair_update_layers.*", "values", 1),
        Gather("transformer_layers.-1", 1),
    ),
}
