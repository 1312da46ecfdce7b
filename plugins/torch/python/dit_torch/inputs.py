"""What ranks were given: each computes a part of one picture, so they have to be given the same one.

A program that forgets to seed its generator gives each rank its own noise, and nothing fails: the picture is
one of no seed at all. So the first forward pass of each size compares a few numbers of each argument.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .group import Group
from .patch import signature_of

_NUMBERS = 32  # of each tensor
# Ranks that encoded the same prompt by themselves may differ in the last places of 16 bits.
_TOLERANCE = 0.1


class Inputs:
    """Of one transformer. compare() is collective where a size is new: sizes are the same on all ranks."""

    def __init__(self, model: nn.Module, group: Group) -> None:
        self.group = group
        self._names = list(signature_of(model).parameters)
        self._known: set[tuple[Any, ...]] = set()

    def compare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raises ValueError on all ranks where an argument differs between them."""
        if self.group.size == 1 or is_captured():
            return
        tensors = tensors_of(dict(zip(self._names, args, strict=False)) | kwargs)
        size = tuple((name, tuple(x.shape)) for name, x in tensors.items())
        if size in self._known:
            return
        told = self.group.gather({name: _numbers(x) for name, x in tensors.items()})
        for name in dict.fromkeys(name for one in told for name in one):
            for rank, one in zip(self.group.ranks, told, strict=True):
                if not _alike(told[0].get(name), one.get(name)):
                    raise ValueError(
                        f"{name} differs between ranks {self.group.ranks[0]} and {rank}: expected the same "
                        "on all of them; give pipelines a generator, with the same seed on each rank, and "
                        "the same prompt"
                    )
        self._known.add(size)


def is_captured() -> bool:
    """Whether this pass is put into a CUDA graph: nothing can be read from the device."""
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


def tensors_of(given: dict[str, Any]) -> dict[str, Tensor]:
    """Those among arguments, and in lists of them, by name."""
    found: dict[str, Tensor] = {}
    for name, value in given.items():
        if isinstance(value, (list, tuple)):
            found |= tensors_of({f"{name}[{at}]": one for at, one in enumerate(value)})
        elif isinstance(value, Tensor) and not value.is_meta:
            found[name] = value
    return found


def _numbers(x: Tensor) -> tuple[tuple[int, ...], list[float]]:
    """Its shape, and some of its numbers, from all parts of it."""
    step = max(1, x.numel() // _NUMBERS) | 1  # odd: not the same column of each row
    return tuple(x.shape), x.detach().reshape(-1)[::step].double().tolist()


def _alike(one: Any, other: Any) -> bool:
    if one is None or other is None or one[0] != other[0]:
        return one == other
    a, b = (torch.tensor(numbers[1], dtype=torch.float64) for numbers in (one, other))
    if a.isfinite().all() and b.isfinite().all():
        return bool((a - b).abs().sum() <= _TOLERANCE * a.abs().sum())
    return bool((a.isfinite() == b.isfinite()).all())
