"""Attention over more streams of tokens than an exchange knows.

The largest stays split. Q, K and V of all others are put together on every rank before the exchange, as if
they were whole, and each rank takes its part of their output. Attention does not mind the order of keys: the
others' come first.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .parallel import Parallel
from .plan import gather
from .sequence import WHOLE, names_of, sizes_of_part

MOST_STREAMS = 2  # of an exchange


class ManyStreams:
    """Of one call.

    :param rows: tokens of all of them that this rank has
    """

    def __init__(self, streams: str, rows: int, parallel: Parallel, where: str) -> None:
        self.parallel = parallel
        self.names = names_of(streams)
        self.sizes = dict(sizes_of_part(streams, rows, parallel, where))
        self.largest, *rest = [name for name in self.names if name != WHOLE]
        for name in rest:  # one by one: compilers take no max() of symbols by a key
            if parallel.tokens[name] > parallel.tokens[self.largest]:
                self.largest = name
        self.others = [name for name in self.names if name != self.largest]
        self.streams = f"{WHOLE}+{self.largest}"

    def _total(self, name: str) -> int:
        return self.sizes[name] if name == WHOLE else self.parallel.tokens[name]

    def gathered(self, x: Tensor) -> Tensor:
        """[batch, rows, heads, head_dim] of this rank, in the order of `streams`."""
        parts = dict(zip(self.names, x.split(list(self.sizes.values()), dim=1), strict=True))
        for name in self.others:
            if name != WHOLE:
                parts[name] = gather(parts[name].contiguous(), 1, self._total(name), self.parallel)
        return torch.cat([parts[name] for name in [*self.others, self.largest]], dim=1)

    def own(self, o: Tensor) -> Tensor:
        """This rank's part of the output, in the module's order."""
        sizes = [*(self._total(name) for name in self.others), self.sizes[self.largest]]
        parts = dict(zip([*self.others, self.largest], o.split(sizes, dim=1), strict=True))
        for name in self.others:
            if name != WHOLE:
                parts[name] = parts[name].narrow(1, *self.parallel.place(self._total(name)))
        return torch.cat([parts[name] for name in self.names], dim=1)

    def mask(self, mask: Any) -> Any:
        """Of all tokens, in the order of `streams`."""
        if not isinstance(mask, Tensor):
            if mask is None:
                return None
            raise ValueError(f"attn_mask is a {type(mask).__name__}; expected a tensor")
        for dim in range(max(mask.dim() - 2, 0), mask.dim()):
            if mask.shape[dim] == sum(self._total(name) for name in self.names):
                mask = self._in_order(mask, dim)
        return mask

    def _in_order(self, mask: Tensor, dim: int) -> Tensor:
        parts = mask.split([self._total(name) for name in self.names], dim=dim)
        by_name = dict(zip(self.names, parts, strict=True))
        return torch.cat([by_name[name] for name in [*self.others, self.largest]], dim=dim)
