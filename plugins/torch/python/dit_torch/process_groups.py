"""Process groups of torch.distributed: made alike on all ranks, kept, and whether they still live."""

from __future__ import annotations

import contextlib
import hashlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .alarm import wait_for

NO_GROUP: Any = object()  # None would be all ranks
_kept: weakref.WeakValueDictionary[tuple[str, str], dist.ProcessGroup] = weakref.WeakValueDictionary()


def kept_group(parts: list[list[int]], purpose: str, **options: Any) -> dist.ProcessGroup:
    """A process group of that part that has this rank. Collective over the ranks of all parts. It stays, and
    is given again for the same ranks and purpose."""
    key = (purpose, str(parts))
    group = _kept.get(key)
    if group is None or not lives(group):
        own = next(part for part in parts if dist.get_rank() in part)
        group = _kept[key] = _new_group(parts, own, purpose, **options)
    return group


def _new_group(parts: list[list[int]], own: list[int], purpose: str, **options: Any) -> dist.ProcessGroup:
    """Where the parts have all of the job's ranks each of these takes part in making each group, as torch
    wants it. Else members alone do."""
    if sorted(rank for part in parts for rank in part) != list(range(dist.get_world_size())):
        with _name_of_its_own(f"{purpose} {parts}"):
            return dist.new_group(own, use_local_synchronization=True, **options)
    made = [dist.new_group(part, **options) for part in parts]
    return made[parts.index(own)]


@contextlib.contextmanager
def _name_of_its_own(what: str) -> Iterator[None]:
    """Torch names groups that their members make by how many a rank is in (2.11) or has made (2.15): on
    other ranks they have other names then, or that of one that was destroyed; and so would the next group of
    all ranks, a program's own one also. So ours are not counted, and are named by what they are for."""
    c10d, number = torch.distributed.distributed_c10d, hashlib.sha256(what.encode())
    own = {"_hash_ranks_to_str": lambda ranks: number.hexdigest()}
    with _set(c10d, own), _set(c10d._world, {"group_count": int(number.hexdigest(), 16)}):
        yield


@contextlib.contextmanager
def _set(where: Any, values: dict[str, Any]) -> Iterator[None]:
    """Meanwhile; only what this torch has."""
    before = {name: getattr(where, name) for name in values if hasattr(where, name)}
    for name in before:
        setattr(where, name, values[name])
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(where, name, value)


def lives(group: dist.ProcessGroup | None) -> bool:
    """Whether torch.distributed still knows a group. Programs may end it, and begin anew."""
    try:
        return dist.is_initialized() and bool(dist.get_process_group_ranks(group or dist.group.WORLD))
    except (KeyError, ValueError, RuntimeError):
        return False


def gathered(
    x: Tensor, ranks: int, group: dist.ProcessGroup | None, look: Callable[[], None] | None = None
) -> Tensor:
    """x of all ranks of a group, all of one shape, by rank: [ranks, ...]. Collective.

    :param look: of a group of gloo's: asked while others are waited for; raises where that is in vain
    """
    every = x.new_empty((ranks, *x.shape))
    own = x.contiguous().view(-1)
    work = dist.all_gather_into_tensor(every.view(-1), own, group=group, async_op=look is not None)
    if look is not None:
        wait_for(work, look, group, own, every)
    return every


def ranks_of(process_group: dist.ProcessGroup | None) -> list[int]:
    """Of a group that this process is in, None: of all. Raises where there is no such group."""
    if not dist.is_initialized():
        raise RuntimeError(
            "torch.distributed is not initialised: call dit_torch.init() or "
            "torch.distributed.init_process_group() first, and start with torchrun, mpirun or srun"
        )
    if process_group is dist.GroupMember.NON_GROUP_MEMBER or (
        isinstance(process_group, dist.ProcessGroup) and dist.get_rank(process_group) < 0
    ):
        raise ValueError("group: this process is not a member; expected a group that it belongs to")
    if process_group is not None and not isinstance(process_group, dist.ProcessGroup):
        raise ValueError(
            f"group = {process_group!r}: expected a process group of torch.distributed, as "
            "torch.distributed.new_group() gives it, or None for all ranks"
        )
    return list(dist.get_process_group_ranks(process_group or dist.group.WORLD))
