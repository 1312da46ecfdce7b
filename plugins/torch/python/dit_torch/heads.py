"""What attention over all tokens, of a part of the heads, takes in place of what a module was given: masks,
and heads of K and V that several of Q share."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .layout import Layout
from .parallel import Parallel
from .plan import gather_all
from .sequence import WHOLE, names_of


def shared_heads(k: Tensor, v: Tensor, layout: Layout, rank: int, gqa: bool) -> tuple[Tensor, Tensor, bool]:
    """Fewer heads of K and V than of Q: where this rank's do not share them evenly each gets its own."""
    sharing = layout.heads // layout.kv_heads
    if sharing == 1:
        return k, v, gqa
    own, held = layout.heads_of(rank), layout.kv_heads_of(rank)
    wanted = [head // sharing - held.start for head in own]
    each = len(own) // len(held)
    if wanted == [number // each for number in range(each * len(held))]:
        return k, v, True
    return k[:, :, wanted], v[:, :, wanted], False


def whole_mask(mask: Tensor, streams: str, parallel: Parallel) -> Tensor:
    """Of all tokens, from one of this rank's that is true where both the query and the key are.

    A query that is not attends to nothing: what comes out for it is of no use to anybody, and a mask of keys
    does, which is as long as the sequence, not its square. Numbers are added, and matter to all queries.
    """
    mine = mask.diagonal(dim1=-2, dim2=-1)
    every = gather_all(mine, mine.dim() - 1, streams, parallel)
    if mask.dtype == torch.bool:
        return every[..., None, :]
    return every[..., :, None] * every[..., None, :]


def without_padding(mask: Tensor, rows: int, streams: str, parallel: Parallel) -> Tensor:
    """A mask of all tokens, which diffusers' prepare_attention_mask takes for a shorter one: it adds as many
    zeros as this rank has tokens."""
    names = names_of(streams)
    if WHOLE in names:
        return mask
    total = sum(parallel.tokens[name] for name in names)
    return mask[..., :total] if rows < total and mask.shape[-1] == total + rows else mask


def own_mask(
    mask: Any, is_causal: bool, layout: Layout, keys: Layout, rank: int, q: Tensor, where: str
) -> tuple[Any, bool]:
    """What a mask of all tokens and heads is for the queries and heads of this rank.

    :param q: those queries
    """
    start, rows = layout.query_place(rank)
    everything = rows == layout.tokens
    if mask is None:
        if everything and layout.tokens == keys.tokens:
            return None, is_causal
        at = start + torch.arange(rows, device=q.device)
        return (torch.arange(keys.tokens, device=q.device) <= at[:, None])[None, None], False
    if not isinstance(mask, Tensor):
        if everything and getattr(mask, "shape", (0, 0))[1] == 1:
            return mask, is_causal
        raise ValueError(
            f"{where}: attn_mask is a {type(mask).__name__}, which cannot be cut by heads or queries; "
            "expected a tensor"
        )
    while mask.dim() < 4:
        mask = mask.unsqueeze(-3)
    for dim in range(4):  # one that was expanded, perhaps to this rank's queries
        mask = mask.narrow(dim, 0, 1) if mask.stride(dim) == 0 and mask.shape[dim] > 1 else mask
    expected = (q.shape[0], layout.heads, layout.tokens, keys.tokens)
    if any(size != 1 and size != wanted for size, wanted in zip(mask.shape, expected, strict=True)):
        raise ValueError(
            f"{where}: attn_mask has the shape {tuple(mask.shape)}; expected one for all tokens of all "
            f"ranks, {expected}, or 1 in places of it"
        )
    if mask.shape[1] > 1:
        heads = layout.heads_of(rank)
        mask = mask[:, heads.start : heads.stop]
    if mask.shape[2] > 1 and not everything:
        mask = mask.narrow(2, start, rows)
    return mask, is_causal
