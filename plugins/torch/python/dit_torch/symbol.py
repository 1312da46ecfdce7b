"""A number that compiled graphs take as a symbol."""

from __future__ import annotations

import torch
from torch import Tensor


def may_vary(x: Tensor, dim: int) -> Tensor:
    """x, of whose size a graph that takes x makes a symbol at once. Else the first graph is of that size
    alone; and ranks, whose parts of a few tokens more grow one after the other, compile the next one so, too.
    """
    if not torch.compiler.is_compiling():
        torch._dynamo.maybe_mark_dynamic(x, dim)
    return x


class Symbol:
    """torch.compile takes an int of a module as a constant, and compiles anew for another one, until it gives
    up. The size of a tensor that is marked dynamic is a symbol (not yet in torch 2.4). The tensor has no
    elements, and is no input of the graph.

    :param weakly: where a graph needs the number it may be a constant, as where a program asks for that
    """

    _LEAST = 2  # sizes 0 and 1 are constants

    def __init__(self, number: int, weakly: bool = False) -> None:
        self._sized = torch.empty(number + self._LEAST, 0)
        mark = torch._dynamo.maybe_mark_dynamic if weakly else torch._dynamo.mark_dynamic
        mark(self._sized, 0)

    def value(self) -> int:
        return self._sized.shape[0] - self._LEAST
