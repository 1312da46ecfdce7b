"""The number of an attention layer, for operators: one compiled graph serves all layers."""

from __future__ import annotations

from .symbol import Symbol


class LayerNumber(Symbol):
    def __init__(self, number: int) -> None:
        super().__init__(number)
