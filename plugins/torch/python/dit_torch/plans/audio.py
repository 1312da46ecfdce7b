"""Music, sounds and speech: one row of tokens, which may attend to a text. The text stays whole."""

from __future__ import annotations

from torch import Tensor, nn

from ..entries import Alone, Attention, Change, Count, Gather, Plan, Split
from ..parallel import Parallel


def _stable_audio3(transformer: nn.Module) -> Plan:
    memory = transformer.config.num_memory_tokens

    def without_memory(x: Tensor, parallel: Parallel) -> Tensor:
        """Of this rank's tokens; x is of all that are not memory."""
        first, count = parallel.place(parallel.tokens["image"])
        return x[:, max(first - memory, 0) : max(first + count - memory, 0)]

    return (
        Split("transformer_blocks.0", "hidden_states", 1, 3, "image"),
        Split("transformer_blocks.*", "rope", 0, 2, of="image"),
        Count("transformer_blocks.*", "num_memory_tokens"),
        Change("transformer_blocks.*", "local_seq", without_memory),
        Attention("transformer_blocks.*.self_attn"),
        Alone("transformer_blocks.*.cross_attn", "context"),
        Gather("transformer_blocks.-1", 1),
    )


PLANS = {
    "LongCatAudioDiTTransformer": (
        Split("blocks.0", "hidden_states", 1, 3, "image"),
        Split("blocks.*", "rope", 0, 2, of="image"),
        Split("blocks.*", "mask", 1, 2, of="image"),
        Attention("blocks.*.self_attn", part_mask=True),
        Alone("blocks.*.cross_attn", "encoder_hidden_states"),
        Gather("blocks.-1", 1),
    ),
    "MiniMaxMusic3Transformer1DModel": (
        Split("transformer_blocks.0", "hidden_states", 1, 3, "image"),
        Split("transformer_blocks.*", "rotary_emb", 0, 2, of="image"),
        Attention("transformer_blocks.*.attn"),
        Gather("transformer_blocks.-1", 1),
    ),
    "StableAudioDiTModel": (
        Split("transformer_blocks.0", "hidden_states", 1, 3, "image"),
        Split("transformer_blocks.*", "rotary_embedding", 0, 2, of="image"),
        Attention("transformer_blocks.*.attn1"),
        Alone("transformer_blocks.*.attn2", "encoder_hidden_states"),
        Gather("transformer_blocks.-1", 1),
    ),
    "StableAudio3DiTModel": _stable_audio3,
}
