"""What the attention processors of all families share: the order of projections, exchanges and attention.

A family's processor says how Q, K and V are projected, which norm and rotary embedding go with them, and what
else could be computed while they travel. Which of it happens when is the schedule's:

    flat       Q, K, V are projected, then travel together; attention; output travels
    v-first    V leaves before Q and K are projected, Q before K is; what needs none of them comes last
    pipelined  v-first for each sample of the batch by itself: while one travels another is attended

Between nodes, and GPUs that do not reach each other, what needs no attention is computed while the output
travels. All give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .. import sage
from .._library import ELEMENT_TYPES
from ..attention import attend
from ..exchange import (
    KEY,
    NORM_HEAD,
    NORM_TOKEN,
    OUTPUT,
    QUERY,
    ROPE_INTERLEAVED,
    ROPE_NONE,
    VALUE,
    Exchange,
    Pending,
    Prepare,
)
from ..layer_number import LayerNumber
from ..parallel import Parallel
from ..symbol import may_vary

Kernel = Callable[[Tensor, Tensor, Tensor, Any], Tensor]


class Processor:
    """Base of the families' processors. One object for each attention module."""

    _parallel_config: Any = None  # diffusers asks for it

    def __init__(self, parallel: Parallel, layer: int, original: Any, where: str) -> None:
        self.parallel = parallel
        self.layer = LayerNumber(layer)
        self.original = original  # diffusers' processor
        self.where = where  # the module's name

    @property
    def _attention_backend(self) -> Any:
        """What diffusers' set_attention_backend writes: it stays after disable()."""
        return getattr(self.original, "_attention_backend", None)

    @_attention_backend.setter
    def _attention_backend(self, backend: Any) -> None:
        self.original._attention_backend = backend

    def attention(
        self,
        projections: Projections,
        norms: Norms,
        rope: tuple[Tensor, Tensor] | None = None,
        mask: Any = None,
        kernel: Kernel | None = None,
        sample_by_sample: bool = True,
        **streams: Any,
    ) -> Tensor:
        """Projects, exchanges, attends, exchanges back. Returns the output in the sequence layout,
        [batch, rows, heads * head_dim].

        :param norms: of Q and K
        :param rope: cosine and sine, as Prepare has them
        :param mask: for all tokens of the joint sequence, as attention takes it
        :param kernel: attention, of Q, K, V and the mask
        :param sample_by_sample: else "pipelined" is "v-first"
        :param streams: of Parallel.joint: which tokens there are
        """
        layer = self.parallel.layer(self.layer)
        if norms.travel():
            of_q, of_k = norms.prepare(rope)
        else:
            projections = Normed(projections, norms)
            of_q = of_k = prepare_rope(rope, norms.rope)
        if self.parallel.sage:
            if mask is not None or kernel is not None:
                raise ValueError(
                    f"policy = 'sage-int8': {self.where} has a mask, or attends in a way of its own; "
                    "expected neither, which its kernel does not know"
                )
            has_behind = self._has_behind(projections)
            given = (self.parallel, projections, of_q, of_k, layer, has_behind, self.where, streams)
            return sage.attention(*given).flatten(2, 3)
        kernel = self._attend if kernel is None else kernel  # torch 2.11 compiles no `or` of functions
        if self.parallel.schedule == "pipelined" and sample_by_sample:
            return self._pipelined(projections, of_q, of_k, mask, kernel, layer, streams).flatten(2, 3)
        v = projections.value()
        exchange = self.parallel.joint(v, **streams)
        if self.parallel.schedule_of(exchange, v) == "flat":
            q, k, v = exchange.scatter_qkv(projections.query(), projections.key(), v, layer, of_q, of_k)
            projections.beside()
        else:
            under_way = self._start(exchange, projections, v, of_q, of_k, layer)
            projections.beside()
            q, k, v = self._finish(exchange, under_way, layer)
        o = kernel(q, k, v, mask)
        if not self._has_behind(projections):
            return exchange.gather(o, layer).flatten(2, 3)
        output = exchange.start(OUTPUT, o, layer)
        projections.behind()
        return exchange.finish(output, layer).flatten(2, 3)

    def _has_behind(self, projections: Projections) -> bool:
        return not self.parallel.one_node and projections.has_behind()

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Any) -> Tensor:
        backend = getattr(self.original, "_attention_backend", None)  # no property, which graphs look through
        return attend(q, k, v, mask, backend).to(q.dtype)

    def _start(
        self,
        exchange: Exchange,
        projections: Projections,
        v: Tensor,
        of_q: Prepare,
        of_k: Prepare,
        layer: int,
    ) -> tuple[Pending, Pending, Pending]:
        value = exchange.start(VALUE, v, layer)
        query = exchange.start(QUERY, projections.query(), layer, of_q, value.token)
        key = exchange.start(KEY, projections.key(), layer, of_k, query.token)
        return query, key, value

    def _finish(
        self, exchange: Exchange, under_way: tuple[Pending, Pending, Pending], layer: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = under_way
        v = exchange.finish(value, layer, key.token)
        q = exchange.finish(query, layer, key.token)
        k = exchange.finish(key, layer, key.token)
        return q, k, v

    def _pipelined(
        self,
        projections: Projections,
        of_q: Prepare,
        of_k: Prepare,
        mask: Any,
        kernel: Kernel,
        layer: int,
        streams: dict[str, Any],
    ) -> Tensor:
        v = projections.value()
        samples = v.shape[0]
        exchanges = [self.parallel.joint(v[:1], unit=unit, **streams) for unit in range(samples)]
        last: Tensor | None = None  # of all starts so far: ranks start in one order
        values = []
        for unit, exchange in enumerate(exchanges):
            values.append(exchange.start(VALUE, v[unit : unit + 1], layer, after=last))
            last = values[-1].token
        q, k = projections.query(), projections.key()
        under_way = []
        for unit, exchange in enumerate(exchanges):
            query = exchange.start(QUERY, q[unit : unit + 1], layer, of_q.of_sample(unit), last)
            key = exchange.start(KEY, k[unit : unit + 1], layer, of_k.of_sample(unit), query.token)
            under_way.append((query, key, values[unit]))
            last = key.token
        projections.beside()
        outputs: list[Pending] = []
        for unit, exchange in enumerate(exchanges):
            own = None if mask is None else mask[unit : unit + 1]
            q, k, v = self._finish(exchange, under_way[unit], layer)
            o = kernel(q, k, v, own)
            outputs.append(exchange.start(OUTPUT, o, layer, after=last))
            last = outputs[-1].token
        if self._has_behind(projections):
            projections.behind()
        return torch.cat([e.finish(o, layer) for e, o in zip(exchanges, outputs, strict=True)])


class Projections:
    """How a module's Q, K and V come about: [batch, rows, heads, head_dim] in the sequence layout each.

    Each is called once, in the schedule's order.
    """

    text_rows = 0  # of the rows, which come first, or last
    image_first = False

    def query(self) -> Tensor:
        raise NotImplementedError

    def key(self) -> Tensor:
        raise NotImplementedError

    def value(self) -> Tensor:
        raise NotImplementedError

    def beside(self) -> None:
        """Computes what needs none of them, while they travel."""

    def has_behind(self) -> bool:
        """Whether `behind` has something to do."""
        return False

    def behind(self) -> None:
        """Computes what does not need attention's output, while that travels."""


class Normed(Projections):
    """With norms that are called before Q and K leave."""

    def __init__(self, inner: Projections, norms: Norms) -> None:
        self.inner, self.norms = inner, norms
        self.text_rows, self.image_first = inner.text_rows, inner.image_first

    def query(self) -> Tensor:
        return self._normed(self.inner.query(), self.norms.query, self.norms.text_query)

    def key(self) -> Tensor:
        return self._normed(self.inner.key(), self.norms.key, self.norms.text_key)

    def value(self) -> Tensor:
        return self.inner.value()

    def beside(self) -> None:
        self.inner.beside()

    def has_behind(self) -> bool:
        return self.inner.has_behind()

    def behind(self) -> None:
        self.inner.behind()

    def _normed(self, x: Tensor, norm: Any, text_norm: Any) -> Tensor:
        if text_norm is None or self.text_rows == 0:
            return self._call(norm, x)
        first = x.shape[1] - self.text_rows if self.image_first else self.text_rows
        by = (norm, text_norm) if self.image_first else (text_norm, norm)
        parts = zip(by, (x[:, :first], x[:, first:]), strict=True)
        return torch.cat([self._call(one, part) for one, part in parts], dim=1)

    def _call(self, norm: Any, x: Tensor) -> Tensor:
        if norm is None:
            return x
        # A kernel sends V with Q and K: they stay of its type.
        if self.norms.all_heads:
            return norm(x.flatten(2, 3)).unflatten(-1, x.shape[2:]).to(x.dtype)
        return norm(x).to(x.dtype)


class Turned(Normed):
    """With norms, and turned, before Q and K leave.

    :param turn: of a tensor of this rank's tokens
    """

    def __init__(self, inner: Projections, norms: Norms, turn: Callable[[Tensor], Tensor]) -> None:
        super().__init__(inner, norms)
        self.turn = turn

    def query(self) -> Tensor:
        return self.turn(super().query())

    def key(self) -> Tensor:
        return self.turn(super().key())


def heads(x: Tensor, head_dim: int) -> Tensor:
    """[batch, rows, heads * head_dim] -> [batch, rows, heads, head_dim]"""
    return x.unflatten(-1, (-1, head_dim))


def joined(first: Tensor | None, second: Tensor) -> Tensor:
    """Two streams' rows one after the other; the first may be absent."""
    return second if first is None else torch.cat([first, second], dim=1)


def is_bare(module: nn.Module) -> bool:
    """Whether nobody has put something around a module's forward: offloading, casting, a cache, a hook."""
    if module._forward_hooks or module._forward_pre_hooks:
        return False
    own = module.__dict__.get("forward")
    # accelerate leaves the class's on the module when it takes its hooks away.
    return own is None or getattr(own, "__func__", None) is type(module).forward


class Norms(NamedTuple):
    """Those of Q and K of an attention module: of image tokens, and of text tokens if they have others."""

    query: Any
    key: Any
    text_query: Any = None
    text_key: Any = None
    all_heads: bool = False  # a norm takes all heads of a token together
    rounded: bool = True  # to Q's and K's type, before they are turned
    rope: int = ROPE_INTERLEAVED  # how they are turned

    def travel(self) -> bool:
        """Whether the exchange applies them: RMSNorms whose weights are there. Others are called."""
        if (self.query is None) != (self.key is None) or (self.text_query is None) != (self.text_key is None):
            return False
        # No slice of this tuple: compilers of older torch (2.6) take none.
        given = [norm for norm in (self.query, self.key, self.text_query, self.text_key) if norm is not None]
        if self.query is None:
            return not given
        return all(map(_is_rms_norm, given)) and len({epsilon_of(norm) for norm in given}) == 1

    def prepare(self, rope: tuple[Tensor, Tensor] | None) -> tuple[Prepare, Prepare]:
        return self._prepare(self.query, self.text_query, rope), self._prepare(self.key, self.text_key, rope)

    def _prepare(self, norm: Any, text_norm: Any, rope: tuple[Tensor, Tensor] | None) -> Prepare:
        if norm is None:
            return prepare_rope(rope, self.rope)
        cosine, sine = (None, None) if rope is None else rope
        return Prepare(
            weight=weight_of(norm),
            text_weight=None if text_norm is None else weight_of(text_norm),
            cosine=cosine,
            sine=sine,
            epsilon=epsilon_of(norm),
            norm=NORM_TOKEN if self.all_heads else NORM_HEAD,
            rope=ROPE_NONE if rope is None else self.rope,
            round_norm=self.rounded,
        )


def prepare_rope(rope: tuple[Tensor, Tensor] | None, how: int) -> Prepare:
    if rope is None:
        return Prepare()
    return Prepare(cosine=rope[0], sine=rope[1], rope=how)


# Class -> what it adds to its weight.
_RMS_NORMS = {"RMSNorm": 0.0, "Krea2RMSNorm": 1.0}


def weight_of(norm: Any) -> Tensor:
    """What a norm multiplies by."""
    added = _RMS_NORMS[type(norm).__name__]
    return norm.weight + added if added else norm.weight


def _is_rms_norm(norm: Any) -> bool:
    weight = getattr(norm, "weight", None)
    return (
        type(norm).__name__ in _RMS_NORMS
        and getattr(norm, "bias", None) is None
        and is_bare(norm)
        and weight is not None
        and weight.dtype in ELEMENT_TYPES
        and not weight.is_meta
    )


def epsilon_of(norm: Any) -> float:
    epsilon = norm.eps
    return torch.finfo(torch.float32).eps if epsilon is None else float(epsilon)


def half_table(table: Tensor) -> Tensor:
    """[tokens, head_dim] with each number twice, as diffusers makes them -> [tokens, head_dim / 2], fp32."""
    return may_vary(table[..., ::2].float().contiguous(), 0)


__all__ = [
    "Norms",
    "Processor",
    "Projections",
    "Turned",
    "epsilon_of",
    "half_table",
    "heads",
    "is_bare",
    "joined",
]
