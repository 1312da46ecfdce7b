"""Which ranks' GPUs reach each other: not all do in hosts of cards that refuse peer access, or with bridges
between pairs. Ranks out of reach are nodes of their own, which memory of the host joins."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch

Gather = Callable[[Any], list[Any]]  # everybody's value, by rank; collective


def name_node(node: str, rank: int, gather: Gather) -> str:
    """Of this rank, equal on ranks of one node that reach each other. Collective.

    :param node: of this rank's host
    """
    told = gather((node, _gpu()))
    if all(gpu is None for _, gpu in told):
        return node
    rows = gather(_reached([gpu if where == node else None for where, gpu in told], rank))
    here = [other for other, (where, _) in enumerate(told) if where == node]
    group = next(at for at, members in enumerate(groups(here, rows)) if rank in members)
    return node if group == 0 else f"{node}#{group}"


def groups(ranks: list[int], rows: list[list[bool]]) -> list[list[int]]:
    """Each rank joins the first group whose members it all reaches, both ways.

    :param rows: whether a rank reaches another one
    """
    found: list[list[int]] = []
    for rank in ranks:
        for members in found:
            if all(rows[rank][other] and rows[other][rank] for other in members):
                members.append(rank)
                break
        else:
            found.append([rank])
    return found


def _gpu() -> str | None:
    """What this process's GPU is called; None: it uses none yet."""
    if not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return None
    return _name(torch.cuda.current_device())


def _name(device: int) -> str:
    return str(getattr(torch.cuda.get_device_properties(device), "uuid", ""))


def _reached(gpus: list[str | None], rank: int) -> list[bool]:
    """What is not known here is within reach: the library finds out when it opens the memory."""
    own = gpus[rank]
    if own is None:
        return [True] * len(gpus)
    if os.environ.get("TAPA_GPU_PEERS") == "0":
        return [gpu is None or other == rank for other, gpu in enumerate(gpus)]
    mine = torch.cuda.current_device()
    visible = {_name(device): device for device in range(torch.cuda.device_count())}
    there = [visible.get(gpu or "", mine) for gpu in gpus]
    return [device == mine or torch.cuda.can_device_access_peer(mine, device) for device in there]
