"""Motif-Video: its last blocks attend to the tokens that the others have made, in place of a text."""

from __future__ import annotations

from torch import nn

from ..entries import Alone, Attention, Gather, Plan, Split


def _motif_video(transformer: nn.Module) -> Plan:
    blocks, decoders = "single_transformer_blocks", transformer.num_decoder_layers
    number = len(transformer.single_transformer_blocks)
    first = number - decoders
    with_text = ["transformer_blocks.*", *(f"{blocks}.{at}" for at in range(first))]
    encoder: Plan = (
        Split("transformer_blocks.0", "hidden_states", 1, 3, "image"),
        Split("transformer_blocks.*", "image_rotary_emb", 0, 2, of="image"),
        Split(f"{blocks}.*", "image_rotary_emb", 0, 2, of="image"),
        *(Attention(f"{where}.attn", "image+whole") for where in with_text),
        *(
            Alone(f"{where}.cross_attn", "encoder_hidden_states")
            for where in with_text
            if _crosses(transformer, where)
        ),
        Gather(f"{blocks}.{first - 1}", 1),
    )
    if not decoders:
        return encoder
    return (
        *encoder,
        Split(f"{blocks}.{first}", "hidden_states", 1, 3, "image"),
        Split(f"{blocks}.{first}", "encoder_hidden_states", 1, 3, "text", least=1),
        *(Attention(f"{blocks}.{at}.attn", "image+text") for at in range(first, number)),
        Gather(f"{blocks}.{number - 1}", 1),
    )


def _crosses(transformer: nn.Module, where: str) -> bool:
    block = transformer.get_submodule(where.replace("*", "0"))
    return block.cross_attn is not None


PLANS = {"MotifVideoTransformer3DModel": _motif_video}
