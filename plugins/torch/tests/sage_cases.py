"""Attention under policy="sage-int8" without a model: of Q, K and V that all ranks have whole."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dit_torch import sage
from dit_torch.exchange import Prepare
from dit_torch.exchanges import SAGE, Exchanges
from dit_torch.group import Group
from dit_torch.layout import Layout
from dit_torch.parallel import Parallel, Way
from dit_torch.processors.base import Projections


class Case(NamedTuple):
    """An attention shape."""

    batch: int
    text: int
    image: int
    heads: int
    head_dim: int
    image_first: bool = False

    def tensors(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """Keys have a mean, and sums that no order of adding rounds, so that all ranks find the same mean."""
        generator = torch.Generator().manual_seed(self.text + self.image)
        shape = (self.batch, self.text + self.image, self.heads, self.head_dim)
        q, v = (torch.randn(shape, generator=generator) for _ in range(2))
        k = torch.randint(-128, 256, shape, generator=generator) / 64
        q, k, v = (x.to(device, torch.bfloat16) for x in (q, k, v))
        return q, k, v


class _Given(Projections):
    def __init__(self, *own: Tensor) -> None:
        self.own = own

    def query(self) -> Tensor:
        return self.own[0]

    def key(self) -> Tensor:
        return self.own[1]

    def value(self) -> Tensor:
        return self.own[2]


class Attention:
    """Of a shape, on the ranks of a group."""

    def __init__(self, group: Group, case: Case) -> None:
        exchanges = Exchanges(group, owner=1000, policy=SAGE)
        self.parallel = Parallel(1000, [Way(group, "flat", exchanges, False)])
        self.parallel.tokens["text"], self.parallel.tokens["image"] = case.text, case.image
        shape = (case.batch, case.text, case.image, case.heads, case.heads, case.head_dim)
        places = Layout(*shape, group.size, case.image_first).sequence_tokens(group.rank)
        self.rows = [token for part in places for token in part]
        self.streams = {"image_first": case.image_first}

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """This rank's rows of the result."""
        own = _Given(*(x[:, self.rows] for x in (q, k, v)))
        plain = (Prepare(), Prepare(), 0, False, "attention", self.streams)
        return sage.attention(self.parallel, own, *plain)

    def close(self) -> None:
        self.parallel.exchanges.close()
        self.parallel.close()
