"""The number of an attention layer, for operators: one compiled graph serves all layers."""

from __future__ import annotations

import torch

_LEAST = 2  # sizes 0 and 1 are constants


class LayerNumber:
    """torch.compile takes an int of a module as a constant, and compiles anew for another one, until it gives
    up. The size of a tensor that is marked dynamic is a symbol (not yet in torch 2.4). The tensor has no
    elements, and is no input of the graph."""

    def __init__(self, number: int) -> None:
        self._sized = torch.empty(number + _LEAST, 0)
        torch._dynamo.mark_dynamic(self._sized, 0)

    def value(self) -> int:
        return self._sized.shape[0] - _LEAST
