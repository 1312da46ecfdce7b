"""Latte: blocks of a frame's tokens, and blocks of a place's tokens in all frames, in turn."""

from __future__ import annotations

from torch import Tensor, nn

from ..entries import Alone, Attention, Change, Gather, Plan, Split
from ..parallel import Parallel


def _latte(transformer: nn.Module) -> Plan:
    """Blocks in turn: tokens of a frame attend to each other, and each token to those of other frames in its
    place, which every rank has for its places."""

    def of_places(x: Tensor, parallel: Parallel) -> Tensor:
        """x is [batch * places, ...]."""
        places = parallel.tokens["image"]
        return x.unflatten(0, (-1, places)).narrow(1, *parallel.place(places)).flatten(0, 1)

    return (
        Split("pos_embed", 0, 1, 3, "image"),
        Change("temporal_transformer_blocks.*", "timestep", of_places),
        Attention("transformer_blocks.*.attn1"),
        Alone("transformer_blocks.*.attn2", "encoder_hidden_states"),
        Alone("temporal_transformer_blocks"),
        Gather("proj_out", 1),
    )


PLANS = {"LatteTransformer3DModel": _latte}
