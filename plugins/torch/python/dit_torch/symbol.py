"""Sizes that compiled graphs take as symbols."""

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
