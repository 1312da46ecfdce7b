"""Operators for compiled graphs, whose sizes are symbols: dit_native of libdit_torch.so, and dit_sized, the
same without it.

A graph that serves all sizes cannot name an exchange, which is of one size. It says what is the same for all
of them, and the sizes; which exchange that is, is looked up when the graph runs. There it is also made where
a size is new: on all ranks alike, as they come to the same operators with the same sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ._library import explained
from .layout import Layout
from .reference import KEY, OUTPUT, PREPARE, QUERY, SCATTER_PREPARE, VALUE, source_shape, target_shape


class Kind(NamedTuple):
    """What is the same for all sizes. All that shapes depend on is here, or a symbol: of ranks that share a
    cache of compiled graphs none finds another one's."""

    number: int  # of the transformer
    rank: int
    ranks: int
    heads: int
    kv_heads: int
    head_dim: int
    image_first: int
    text_replicated: int
    unit: int
    has_value: int


class Sizes(NamedTuple):
    batch: int
    text: int  # tokens, on all ranks together
    image: int
    rows: int  # of this rank, in the sequence layout


# Of exchanges, for a tensor's type and device; by the transformers' numbers.
finders: dict[int, Callable[[Kind, Sizes, Tensor], Any]] = {}


def exchange_of(kind: list[int], sizes: list[int], x: Tensor) -> Any:
    """An Exchange, to run with. Collective where it is not there any more."""
    of = Kind(*kind)
    if of.number not in finders:
        raise RuntimeError("the transformer was disabled: expected backward() before dit_torch.disable()")
    return finders[of.number](of, Sizes(*sizes), x)


def layout_of(kind: list[int], sizes: list[int]) -> tuple[Layout, int]:
    """And this rank's number in it."""
    of, now = Kind(*kind), Sizes(*sizes)
    tokens = (now.batch, now.text, now.image)
    heads = (of.heads, of.kv_heads, of.head_dim)
    return Layout(*tokens, *heads, of.ranks, bool(of.image_first), bool(of.text_replicated)), of.rank


def arrived(x: Tensor, kind: list[int], sizes: list[int], what: int) -> Tensor:
    """Of the shape of what arrives, and like x."""
    if what == OUTPUT:
        return x.new_empty(_of_rows(Kind(*kind), Sizes(*sizes)))
    return x.new_empty(target_shape(*layout_of(kind, sizes), what))


def sent(x: Tensor, kind: list[int], sizes: list[int], what: int) -> Tensor:
    """Of the shape of what is sent, and like x."""
    if what == OUTPUT:
        return x.new_empty(source_shape(*layout_of(kind, sizes), what))
    batch, rows, heads, head_dim = _of_rows(Kind(*kind), Sizes(*sizes))
    return x.new_empty((batch, rows, heads if what == QUERY else Kind(*kind).kv_heads, head_dim))


def _of_rows(of: Kind, now: Sizes) -> tuple[int, int, int, int]:
    """In the sequence layout, by the symbol of its rows."""
    return now.batch, now.rows, of.heads, of.head_dim


def _start(x: Tensor, kind: list[int], sizes: list[int], *others: Any, **named: Any) -> Tensor:
    exchange = exchange_of(kind, sizes, x)
    return exchange.call("start", x, exchange.name, *others, **named)


def _start_like(x: Tensor, *_: Any, **__: Any) -> Tensor:
    return x.new_empty(0)


def _finish(token: Tensor, kind: list[int], sizes: list[int], *others: Any, **named: Any) -> Tensor:
    exchange = exchange_of(kind, sizes, token)
    return exchange.call("finish", token, exchange.name, *others, **named)


def _finish_like(token: Tensor, kind: list[int], sizes: list[int], what: int, *_: Any, **__: Any) -> Tensor:
    return arrived(token, kind, sizes, what)


def _scatter_qkv(
    q: Tensor, k: Tensor, v: Tensor, kind: list[int], sizes: list[int], *others: Any, **named: Any
) -> tuple[Tensor, Tensor, Tensor]:
    exchange = exchange_of(kind, sizes, q)
    return exchange.call("scatter_qkv", q, k, v, exchange.name, *others, **named)


def _scatter_qkv_like(
    q: Tensor, k: Tensor, v: Tensor, kind: list[int], sizes: list[int], *_: Any, **__: Any
) -> tuple[Tensor, Tensor, Tensor]:
    all_of_them = zip((q, k, v), (QUERY, KEY, VALUE), strict=True)
    q, k, v = (arrived(x, kind, sizes, what) for x, what in all_of_them)
    return q, k, v


def _gather(o: Tensor, kind: list[int], sizes: list[int], layer: int) -> Tensor:
    exchange = exchange_of(kind, sizes, o)
    return exchange.call("gather", o, exchange.name, layer)


def _gather_like(o: Tensor, kind: list[int], sizes: list[int], layer: int) -> Tensor:
    return arrived(o, kind, sizes, OUTPUT)


def _name_of(x: Tensor, kind: list[int], sizes: list[int]) -> str:
    """For dit_native, of an exchange."""
    return exchange_of(kind, sizes, x).name


def _define(name: str, schema: str, function: Callable[..., Any], like: Callable[..., Any]) -> None:
    """Not as a custom_op, which takes four times as long on its way to the function. A backward pass comes to
    the operator at the end of the forward pass first, which says what there is to say."""
    for library in (_operators, _native):
        library.define(name + schema)
        torch.library.register_fake(f"{library.ns}::{name}", like, lib=library)
    for device in ("CPU", "CUDA"):
        _operators.impl(name, function, device)


_WHICH = "int[] kind, SymInt[] sizes"
_operators = torch.library.Library("dit_sized", "DEF")
_native = torch.library.Library("dit_native", "DEF")
_operators.define(f"name_of(Tensor x, {_WHICH}) -> str")
_operators.define("explained(str words, str name) -> str")
_operators.impl("explained", explained, "CompositeExplicitAutograd")
for _device in ("CPU", "CUDA"):
    _operators.impl("name_of", _name_of, _device)
_define(
    "start",
    f"(Tensor x, {_WHICH}, int what, SymInt layer, {PREPARE}, Tensor? after=None) -> Tensor",
    _start,
    _start_like,
)
_define(
    "finish",
    f"(Tensor token, {_WHICH}, int what, SymInt layer, Tensor? after=None) -> Tensor",
    _finish,
    _finish_like,
)
_define(
    "scatter_qkv",
    f"(Tensor q, Tensor k, Tensor v, {_WHICH}, SymInt layer, {SCATTER_PREPARE}) -> (Tensor, Tensor, Tensor)",
    _scatter_qkv,
    _scatter_qkv_like,
)
_define("gather", f"(Tensor o, {_WHICH}, SymInt layer) -> Tensor", _gather, _gather_like)
