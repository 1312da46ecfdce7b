"""Tokens that attend to each other and to a text, by themselves or together. No text token attends: the text
stays whole."""

from __future__ import annotations

import math
from typing import Any

from torch import nn

from ..entries import Alone, Attention, Change, Gather, Join, Plan, Refuse, Split, whole
from ..parallel import Parallel


def _proportional(given: dict[str, Any], parallel: Parallel) -> dict[str, Any]:
    """Lumina scales attention by the logarithm of its number of tokens to a base that pipelines give: to
    another base the number of this rank's has the same."""
    base = given.get("base_sequence_length")
    if base is None:
        return given
    total = parallel.tokens["image"]
    part = parallel.place(total)[1]
    return given | {"base_sequence_length": math.exp(math.log(base) * math.log(part) / math.log(total))}


def _transformer_2d(transformer: nn.Module) -> Plan:
    crosses_twice = transformer.config.only_cross_attention
    attn1 = "transformer_blocks.*.attn1"
    return (
        Split("transformer_blocks.0", "hidden_states", 1, 3, "image"),
        Alone(attn1, "encoder_hidden_states") if crosses_twice else Attention(attn1),
        Alone("transformer_blocks.*.attn2", "encoder_hidden_states"),
        Gather("transformer_blocks.-1", 1),
    )


PLANS = {
    "LuminaNextDiT2DModel": (
        Split("layers.0", "hidden_states", 1, 3, "image", least=2),  # of which there is a logarithm
        Split("layers.*", "image_rotary_emb", 1, 3, of="image"),
        Change("layers.*", "cross_attention_kwargs", _proportional),
        Attention("layers.*.attn1"),
        Alone("layers.*.attn2", "encoder_hidden_states"),
        Gather("layers.-1", 1),
    ),
    "NucleusMoEImageTransformer2DModel": lambda transformer: (
        Split("transformer_blocks.0", "hidden_states", 1, 3, "image"),
        Split("pos_embed", 0, 0, 2),
        Attention("transformer_blocks.*.attn", "image", "image+whole"),
        *(  # experts choose from all tokens
            entry
            for number, block in enumerate(transformer.transformer_blocks)
            if block.moe_enabled
            for entry in (
                *whole(f"transformer_blocks.{number}.img_mlp"),
                Join(f"transformer_blocks.{number}.img_mlp", "hidden_states_unmodulated", 1),
            )
        ),
        Gather("transformer_blocks.-1", 1),
    ),
    "PRXTransformer2DModel": (
        Split("blocks.0", "hidden_states", 1, 3, "image"),
        Split("blocks.*", "image_rotary_emb", 2, 6, of="image"),
        Attention("blocks.*.attention", "image", "whole+image", part_mask=True),
        Gather("blocks.-1", 1),
    ),
    "Kandinsky5Transformer3DModel": (
        Alone("text_transformer_blocks"),
        Refuse("", "sparse_params", "which tokens a token attends to is found out from all of them"),
        Split("visual_transformer_blocks.0", "visual_embed", 1, 3, "image"),
        Split("visual_transformer_blocks.*", "rope", 1, 6, of="image"),
        Attention("visual_transformer_blocks.*.self_attention"),
        Alone("visual_transformer_blocks.*.cross_attention", "encoder_hidden_states"),
        Gather("visual_transformer_blocks.-1", 1),
    ),
    "Transformer2DModel": _transformer_2d,
}
