"""The MLP of a single-stream block beside its attention: one Linear takes both results, side by side."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .base import Projections, is_bare


class BesideMlp(Projections):
    """Projections of such a block. Of a plain Linear what the hidden layer adds is computed while attention's
    output travels; any other (LoRA, quantised weights) is called."""

    linear: nn.Module
    mlp: Tensor  # the hidden layer, from `beside` on
    added: Tensor | None = None  # by it, from `behind` on

    def has_behind(self) -> bool:
        return is_plain(self.linear)

    def behind(self) -> None:
        weight = self.linear.weight[:, -self.mlp.shape[-1] :]
        self.added = F.linear(self.mlp, weight, self.linear.bias)

    def output(self, o: Tensor) -> Tensor:
        """The Linear's, of attention's output: [batch, rows, heads * head_dim]."""
        if self.added is None:
            out: Tensor = self.linear(torch.cat([o, self.mlp], dim=2))
            return out
        weight = self.linear.weight[:, : o.shape[-1]]
        return torch.addmm(self.added.flatten(0, 1), o.flatten(0, 1), weight.t()).view_as(self.added)


def is_plain(linear: nn.Module) -> bool:
    """Whether a part of its weight gives a part of its result."""
    return type(linear) is nn.Linear and type(linear.weight) is nn.Parameter and is_bare(linear)
