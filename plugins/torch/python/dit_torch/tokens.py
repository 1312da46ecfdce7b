"""How many tokens there are: symbols where torch.compile sees them."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from .symbol import may_vary


class Tokens:
    """Of each stream ("text", "image", ...), on all ranks together."""

    def __init__(self) -> None:
        # Sizes of tensors without elements, as they are: compilers know that a sum of such symbols is no 0 or
        # 1, and ask nothing of it in each call. A size that is one of these is a constant.
        self._counts: dict[str, Tensor | int] = {}
        self.numbers: tuple[int, ...] = ()  # all of them, outside of graphs

    def __getitem__(self, stream: str) -> int:
        count = self._counts[stream]
        return count.shape[0] if isinstance(count, Tensor) else count

    def __setitem__(self, stream: str, number: int) -> None:
        if torch.compiler.is_compiling():  # it is a symbol already
            self._counts[stream] = number
        elif stream not in self._counts or self[stream] != number:
            self._counts[stream] = may_vary(torch.empty(number, 0), 0)
            self.numbers = tuple([self[one] for one in self])

    def __contains__(self, stream: str) -> bool:
        return stream in self._counts

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts)

    def __str__(self) -> str:
        return str({stream: self[stream] for stream in self})

    def get(self, stream: str | int | None) -> int:
        """0 where there is no such stream. A number stands for itself."""
        if isinstance(stream, int):
            return stream
        return self[stream] if stream is not None and stream in self._counts else 0
