"""Blocks that are compiled by themselves: the sizes of what they are given may vary.

A compiler takes sizes as constants until it has seen others, one input at a time: of a text that grows by a
token only some ranks' parts do, but everybody's masks and tables. All are symbols at once where they are
numbers of tokens.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from .entries import Plan, Split
from .parallel import Parallel
from .plan import modules_of
from .symbol import may_vary


class _Marking:
    """Around a block's compiled call."""

    def __init__(self, call: Callable[..., Any], parallel: Parallel) -> None:
        self.call, self.parallel = call, parallel
        self.seen: set[tuple[Any, ...]] = set()  # what graphs were made of
        self.dims: dict[str, set[int]] = {}  # of arguments, that were numbers of tokens each time

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not torch.compiler.is_compiling():
            for x in (*args, *kwargs.values()):
                if isinstance(x, Tensor):  # one tells of the others: this is in the way of each call
                    seen = (x.shape, x.dtype, self.parallel.tokens.numbers)
                    if seen not in self.seen:
                        self.seen.add(seen)
                        self._mark(args, kwargs, seen[2])
                    break
        return self.call(*args, **kwargs)

    def _mark(self, args: tuple[Any, ...], kwargs: dict[str, Any], counts: tuple[int, ...]) -> None:
        known = set(_sums(counts)) | set(_sums([self.parallel.place(count)[1] for count in counts]))
        for where, x in _tensors("", (args, kwargs)):
            now = {dim for dim, size in enumerate(x.shape) if size in known}
            # A graph is used again where no others are marked than when it was made.
            self.dims[where] = now & self.dims.get(where, now)
            for dim in self.dims[where]:
                may_vary(x, dim)


def _sums(counts: Any) -> Iterator[int]:
    """Of some of them: tokens that lie one after the other."""
    for several in range(1, len(counts) + 1):
        yield from map(sum, itertools.combinations(counts, several))


def _tensors(where: str, given: Any) -> Iterator[tuple[str, Tensor]]:
    """With names for their places."""
    if isinstance(given, Tensor):
        yield where, given
    elif isinstance(given, (list, tuple, dict)):
        for name, one in given.items() if isinstance(given, dict) else enumerate(given):
            yield from _tensors(f"{where}.{name}", one)


class VaryingSizes:
    """Of a transformer's blocks, whenever they are compiled, until remove(). Not of lists in which the tokens
    are split: what the first block gets is of other sizes, and nothing is known of them before."""

    def __init__(self, model: nn.Module, plan: Plan, parallel: Parallel) -> None:
        splits = [entry for entry in plan if isinstance(entry, Split) and entry.stream is not None]
        splitting = {module for entry in splits for module in modules_of(model, entry.module)}
        lists = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
        self.blocks = [block for one in lists if splitting.isdisjoint(one.modules()) for block in one]
        self.parallel = parallel

    def follow(self) -> None:
        """Those that have been compiled since."""
        for block in self.blocks:
            call = block._compiled_call_impl
            if call is not None and not isinstance(call, _Marking):
                block._compiled_call_impl = _Marking(call, self.parallel)

    def remove(self) -> None:
        for block in self.blocks:
            if isinstance(block._compiled_call_impl, _Marking):
                block._compiled_call_impl = block._compiled_call_impl.call
