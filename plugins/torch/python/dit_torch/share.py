"""share(): what one rank has, for all: where each rank would compute other bits."""

from __future__ import annotations

import pickle
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils import _pytree as pytree

from .digest import has_bits
from .process_groups import ranks_of

Shared = TypeVar("Shared")


class _Kept:
    """Stands for a tensor in what is sent of the rest."""

    def __init__(self, x: Tensor) -> None:
        if not has_bits(x):
            raise ValueError(f"a tensor is on {x.device}, {x.layout}: expected one of plain numbers")
        self.shape, self.dtype, self.kind = x.shape, x.dtype, x.device.type


def share(tensors: Shared, source: int = 0, group: dist.ProcessGroup | None = None) -> Shared:
    """What rank `source` gives: a tensor, or lists, tuples and dicts of tensors and of anything that can be
    pickled. Others get copies of its tensors, on their current device where those lie on one. What they give
    is not looked at: None will do. Collective.

    :param source: as torch.distributed numbers ranks
    :param group: None: all ranks
    """
    ranks = ranks_of(group)
    if source not in ranks:
        raise ValueError(f"source = {source}: expected one of the group's ranks, {ranks}")
    own = dist.get_rank() == source
    leaves, form = pytree.tree_flatten(tensors if own else None)
    sent: list[Any] = [None]
    kept, problem = leaves, None
    if own:
        try:
            kept = [_Kept(x) if isinstance(x, Tensor) else x for x in leaves]
            sent = [pickle.dumps((kept, form))]
        except Exception as error:  # the others are not to wait
            sent, problem = [f"rank {source} has nothing to share: {type(error).__name__}: {error}"], error
    dist.broadcast_object_list(sent, src=source, group=group)
    if isinstance(sent[0], str):
        raise ValueError(sent[0]) from problem
    if not own:
        kept, form = pickle.loads(sent[0])
    given = leaves if own else [None] * len(kept)
    return pytree.tree_unflatten(
        [
            _broadcast(one, x, source, group) if isinstance(one, _Kept) else one
            for one, x in zip(kept, given, strict=True)
        ],
        form,
    )


def _broadcast(kept: _Kept, given: Tensor | None, source: int, group: Any) -> Tensor:
    """Over a device where the group has no other way, as NCCL's."""
    device = (
        torch.device(kept.kind, torch.cuda.current_device()) if kept.kind == "cuda" else torch.device("cpu")
    )
    x = torch.empty(kept.shape, dtype=kept.dtype, device=device) if given is None else given.detach()
    way = x.contiguous()
    if kept.kind == "cpu" and not _takes_hosts(group):
        way = way.cuda()
    dist.broadcast(way.view(-1).view(torch.uint8), src=source, group=group)  # bytes: of any type
    return x if given is not None else way.to(device)


def _takes_hosts(group: Any) -> bool:
    return "cpu" in str(dist.get_backend_config(group)) or dist.get_backend(group) != "nccl"
