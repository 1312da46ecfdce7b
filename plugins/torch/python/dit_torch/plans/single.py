"""Models that put all tokens, of text and image, into one sequence for their blocks: that is split."""

from __future__ import annotations

from ..plan import Alone, Attention, Gather, Split

PLANS = {
    "ZImageTransformer2DModel": (
        Alone("context_refiner"),
        Alone("siglip_refiner"),
        Split("noise_refiner.0", "x", 1, 3, "image"),
        Split("noise_refiner.*", "freqs_cis", 1, 3, of="image"),
        Split("noise_refiner.*", "noise_mask", 1, 2, of="image"),
        Attention("noise_refiner.*.attention"),
        Gather("noise_refiner.-1", 1),
        Split("layers.0", "x", 1, 3, "image"),
        Split("layers.*", "freqs_cis", 1, 3, of="image"),
        Split("layers.*", "noise_mask", 1, 2, of="image"),
        Split("", "controlnet_block_samples", 1, 3),
        Attention("layers.*.attention"),
        Split("all_final_layer.*", "noise_mask", 1, 2, of="image"),
        Gather("all_final_layer.*", 1),
    ),
}
