"""How many tokens there are: symbols where torch.compile sees them."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from .symbol import Symbol


class Tokens:
    """Of each stream ("text", "image", ...), on all ranks together."""

    def __init__(self) -> None:
        self._counts: dict[str, Symbol | int] = {}

    def __getitem__(self, stream: str) -> int:
        count = self._counts[stream]
        return count.value() if isinstance(count, Symbol) else count

    def __setitem__(self, stream: str, number: int) -> None:
        if torch.compiler.is_compiling():  # it is a symbol already
            self._counts[stream] = number
        elif stream not in self._counts or self[stream] != number:
            self._counts[stream] = Symbol(number, weakly=True)

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
