"""Sana and its kin: linear attention, and layers that mix a token with its neighbours by a convolution.

Every rank has all tokens where such a layer begins, and computes it for the rows of its own ones, and one
more on each side: what the convolutions see beyond changes nothing of its own.
"""

from __future__ import annotations

from torch import Tensor

from ..entries import Alone, Change, Gather, OwnWay, Plan, Split
from ..parallel import Parallel


def _rows(tokens: int, per_row: int, parallel: Parallel) -> slice:
    """Of this rank's tokens, and one more on each side."""
    (start, count), rows = parallel.place(tokens), tokens // per_row
    first = min(max(start // per_row - 1, 0), rows - 1)
    return slice(first, max(min((start + count - 1) // per_row + 2, rows), first + 1))


def _own(x: Tensor, tokens: int, per_row: int, parallel: Parallel, dim: int) -> Tensor:
    """This rank's tokens of those rows, which a dimension has one after the other."""
    start, count = parallel.place(tokens)
    return x.narrow(dim, start - _rows(tokens, per_row, parallel).start * per_row, count)


def _some_rows(x: Tensor, parallel: Parallel) -> Tensor:
    """x is [batch, channels, height, width]."""
    rows = _rows(x.shape[2] * x.shape[3], x.shape[3], parallel)
    return x[:, :, rows.start : rows.stop]


def _own_of_rows(x: Tensor, parallel: Parallel) -> Tensor:
    own = _own(x.flatten(2), parallel.tokens["image"], x.shape[3], parallel, 2)
    return own.unsqueeze(2)


def _some_frames(x: Tensor, parallel: Parallel) -> Tensor:
    """x is [batch, frames, height, width, channels]."""
    per_frame = x.shape[2] * x.shape[3]
    frames = _rows(x.shape[1] * per_frame, per_frame, parallel)
    return x[:, frames.start : frames.stop].contiguous()


def _own_of_frames(x: Tensor, parallel: Parallel) -> Tensor:
    per_frame = x.shape[2] * x.shape[3]
    own = _own(x.flatten(1, 3), parallel.tokens["image"], per_frame, parallel, 1)
    return own[:, None, None]


def _plan(*own: Change) -> Plan:
    blocks = "transformer_blocks.*"
    return (
        Split("transformer_blocks.0", "hidden_states", 1, 3, "image"),
        Split("", "controlnet_block_samples", 1, 3),
        Split(blocks, "timestep", 1, 3, of="image"),
        OwnWay(f"{blocks}.attn1", (("to_q", "norm_q"), ("to_k", "norm_k"), ("to_v",)), "to_out.0"),
        Alone(f"{blocks}.attn2", "encoder_hidden_states"),
        Gather(f"{blocks}.norm2", 1),
        *own,
        Split("norm_out", "temb", 1, 3, of="image"),
        Gather("proj_out", 1),
    )


_FF = "transformer_blocks.*.ff"

PLANS = {
    "SanaTransformer2DModel": _plan(Change(_FF, "hidden_states", _some_rows), Change(_FF, 0, _own_of_rows)),
    "SanaVideoTransformer3DModel": _plan(
        Change(_FF, "hidden_states", _some_frames), Change(_FF, 0, _own_of_frames)
    ),
}

REFUSED = {
    "SanaWMTransformer3DModel": (
        "it goes through the frames in their order, with what it remembers of those before, and convolutions "
        "over frames in its attention"
    )
}
