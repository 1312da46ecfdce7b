"""An exchange: how one attention shape's Q, K, V and output travel between the ranks of a group.

Exchanges have names, so that operators take tensors and a string. Compiled graphs, whose sizes are symbols,
take what is the same for all sizes, and the sizes, instead: see sized.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import gradients
from ._library import call
from .sized import Kind, Sizes

QUERY, KEY, VALUE, OUTPUT = range(4)


class Prepare:
    """RMSNorm and rotary position embedding of Q or K on its way; see dit_prepare in dit.h.

    :param weight: of RMSNorm, [head_dim], or [heads, head_dim] with NORM_TOKEN
    :param text_weight: of text tokens; None: as `weight`
    :param cosine: fp32 [tokens, head_dim / 2], all tokens in the order of the joint sequence; or
        [batch, rows, heads, head_dim / 2] of x's own; `sine` likewise
    :param round_norm: the norm's result is rounded to x's type before RoPE
    """

    # A plain class: compilers of older torch (2.6) take no named tuples that are defaults of arguments.
    def __init__(
        self,
        weight: Tensor | None = None,
        text_weight: Tensor | None = None,
        cosine: Tensor | None = None,
        sine: Tensor | None = None,
        epsilon: float = 0.0,
        norm: int = 0,  # NORM_NONE, NORM_HEAD, NORM_TOKEN
        rope: int = 0,  # ROPE_NONE, ROPE_INTERLEAVED, ROPE_HALVES
        round_norm: bool = True,
    ) -> None:
        self.weight, self.text_weight = weight, text_weight
        self.shared = (cosine, sine, epsilon, norm, rope, round_norm)  # by Q and K of an exchange

    def arguments(self) -> tuple[Any, ...]:
        """In the operators' order."""
        return (self.weight, self.text_weight, *self.shared)

    @property
    def is_nothing(self) -> bool:
        return self.shared[3] == NORM_NONE and self.shared[4] == ROPE_NONE

    def of_sample(self, number: int) -> Prepare:
        """For that sample of x alone."""
        cosine, sine, *rest = self.shared
        if cosine is None or cosine.dim() == 2:
            return self
        angles = (cosine[number : number + 1], sine[number : number + 1])
        return Prepare(self.weight, self.text_weight, *angles, *rest)


NORM_NONE, NORM_HEAD, NORM_TOKEN = range(3)
ROPE_NONE, ROPE_INTERLEAVED, ROPE_HALVES = range(3)


class Pending(NamedTuple):
    """A started transfer, for Exchange.finish."""

    token: Tensor
    what: int
    source: gradients.Source | None = None  # where gradients are wanted


class Exchange:
    """A name's operators. Tensors are [batch, rows, heads, head_dim]; any strides whose last is 1."""

    def __init__(self, name: str, native: bool, kind: Kind, sizes: Sizes) -> None:
        self.kind, self.sizes = kind, sizes
        self.name = name
        self.native = native  # the operators of libdit_torch.so; else the reference
        self.which: tuple[Any, ...] = (name,)  # as operators are told

    def call(self, operator: str, *arguments: Any, **named: Any) -> Any:
        if not self.native:
            return getattr(torch.ops.dit_reference, operator)(*arguments, **named)
        return call(getattr(torch.ops.dit, operator), self.name, *arguments, **named)

    def start(
        self, what: int, x: Tensor, layer: int, prepare: Prepare | None = None, after: Tensor | None = None
    ) -> Pending:
        """Starts to send x. It stays untouched until finish; one start of a `what` is under way at a time.

        :param after: a token of a start that comes before, so that no compiler changes their order
        """
        prepared = (prepare or Prepare()).arguments()
        source = None
        if gradients.are_wanted(x, prepared):
            source = gradients.Source(x, prepared)
            x, prepared = x.detach(), gradients.without(prepared)
        token = self.call("start", x, *self.which, what, layer, *prepared, after)
        return Pending(token, what, source)

    def finish(self, pending: Pending, layer: int, after: Tensor | None = None) -> Tensor:
        """What arrived, in the other layout: dense. Valid until the same `what` was started twice more."""
        if pending.source is None:
            return self.call("finish", pending.token, *self.which, pending.what, layer, after)
        x, prepared = pending.source
        rest = (list(self.kind), list(self.sizes), pending.what, layer, after, *prepared)
        return torch.ops.dit_gradients.finish(pending.token, x, *rest)

    def scatter_qkv(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        layer: int,
        of_q: Prepare | None = None,
        of_k: Prepare | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Q, K and V to the head layout at once. of_q and of_k differ in their weights only."""
        of_q, of_k = of_q or Prepare(), of_k or Prepare()
        if self.kind.ranks == 1 and of_q.is_nothing and of_k.is_nothing:
            return q, k, v
        wanted = [gradients.are_wanted(x, p.arguments()) for x, p in ((q, of_q), (k, of_k), (v, Prepare()))]
        if any(wanted):  # one by one, with the same bits
            value = self.start(VALUE, v, layer)
            query = self.start(QUERY, q, layer, of_q, value.token)
            key = self.start(KEY, k, layer, of_k, query.token)
            return self.finish(query, layer), self.finish(key, layer), self.finish(value, layer)
        weights = (of_q.weight, of_q.text_weight, of_k.weight, of_k.text_weight)
        return self.call("scatter_qkv", q, k, v, *self.which, layer, *weights, *of_q.shared)

    def gather(self, o: Tensor, layer: int) -> Tensor:
        """Attention's output back to the sequence layout, which is the other one where a rank is alone."""
        if self.kind.ranks == 1:
            return o
        if gradients.are_wanted(o):
            return self.finish(self.start(OUTPUT, o, layer), layer)
        return self.call("gather", o, *self.which, layer)


class SizedExchange(Exchange):
    """In a graph: that of a kind and of sizes which are symbols. It is found when the graph runs."""

    def __init__(self, native: bool, kind: Kind, sizes: Sizes) -> None:
        self.native, self.kind, self.sizes = native, kind, sizes
        self.which = (list(kind), list(sizes))

    def call(self, operator: str, *arguments: Any, **named: Any) -> Any:
        operators = torch.ops.dit_native if self.native else torch.ops.dit_sized
        return getattr(operators, operator)(*arguments, **named)
