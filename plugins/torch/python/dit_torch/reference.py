"""The operators' semantics over plain torch.distributed, under the name dit_reference.

It is what the operators of libdit_torch.so are compared with, and what is used where that library is not
there. Same arguments, same layouts; each start is a blocking all-to-all, and policies are exact only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from .group import Group
from .layout import Layout

QUERY, KEY, VALUE, OUTPUT = range(4)


@dataclass
class _Exchange:
    """What stands behind a name."""

    layout: Layout
    group: Group
    under_way: dict[int, Tensor] = field(default_factory=dict)  # by `what`


_exchanges: dict[str, _Exchange] = {}


def make_exchange(name: str, layout: Layout, group: Group) -> None:
    _exchanges[name] = _Exchange(layout, group)


def free_exchange(name: str) -> None:
    _exchanges.pop(name, None)


def _common(a: range, b: range) -> range:
    return range(max(a.start, b.start), max(min(a.stop, b.stop), max(a.start, b.start)))


def _rows_in_sequence(layout: Layout, rank: int, wanted: range) -> list[range]:
    """Row numbers, in `rank`'s sequence layout, of the joint tokens `wanted`, for text and image apart."""
    rows, first = [], 0
    for tokens in layout.sequence_tokens(rank):
        common = _common(tokens, wanted)
        rows.append(range(common.start - tokens.start + first, common.stop - tokens.start + first))
        first += len(tokens)
    return rows


def _rows_in_heads(layout: Layout, owner: int, held: range) -> list[range]:
    """Row numbers, where the joint tokens `held` lie together, of `owner`'s tokens."""
    rows = []
    for tokens in layout.sequence_tokens(owner):
        common = _common(tokens, held)
        rows.append(range(common.start - held.start, common.stop - held.start))
    return rows


def _scattered(layout: Layout, rows: list[range], sender: int, receiver: int) -> list[range]:
    """Replicated text needs no way but a rank's own."""
    if layout.text_replicated and sender != receiver:
        text = 1 if layout.image_first else 0
        rows = [range(0) if number == text else part for number, part in enumerate(rows)]
    return rows


def _blocks(exchange: _Exchange, what: int) -> tuple[list, list]:
    """For each peer the (rows, heads) that are sent, and those that are received."""
    layout, rank = exchange.layout, exchange.group.rank
    send, receive = [], []
    for peer in range(layout.ranks):
        if what == OUTPUT:
            held, theirs = layout.query_tokens(rank), layout.query_tokens(peer)
            all_mine = range(len(layout.heads_of(rank)))
            send.append((_rows_in_heads(layout, peer, held), all_mine))
            receive.append((_rows_in_sequence(layout, rank, theirs), layout.heads_of(peer)))
            continue
        query = what == QUERY
        heads_of = layout.heads_of if query else layout.kv_heads_of
        everything = range(layout.tokens)
        theirs, held = (
            (layout.query_tokens(peer), layout.query_tokens(rank)) if query else (everything, everything)
        )
        sent = _scattered(layout, _rows_in_sequence(layout, rank, theirs), rank, peer)
        send.append((sent, heads_of(peer)))
        received = _scattered(layout, _rows_in_heads(layout, peer, held), peer, rank)
        receive.append((received, range(len(heads_of(rank)))))
    return send, receive


def target_shape(layout: Layout, rank: int, what: int) -> tuple[int, int, int, int]:
    """Of what arrives."""
    if what == OUTPUT:
        return layout.sequence_shape(rank)
    return layout.query_shape(rank) if what == QUERY else layout.key_shape(rank)


def _pieces(x: Tensor, block: tuple[list[range], range]) -> list[Tensor]:
    rows, heads = block
    return [x[:, part.start : part.stop, heads.start : heads.stop] for part in rows]


def _exchanged(outgoing: list[Tensor], counts: list[int], exchange: _Exchange) -> Tensor:
    """What all ranks have for this one, `counts` numbers of each, one after the other."""
    x = torch.cat(outgoing)
    arrived = x.new_empty(sum(counts))
    size = x.element_size()
    exchange.group.all_to_all(
        arrived.view(torch.uint8),
        x.view(torch.uint8),
        [count * size for count in counts],
        [part.numel() * size for part in outgoing],
    )
    return arrived


def _flat(x: Tensor, block: tuple[list[range], range]) -> Tensor:
    return torch.cat([piece.reshape(-1) for piece in _pieces(x, block)])


def _all_to_all(x: Tensor, exchange: _Exchange, what: int) -> Tensor:
    send, receive = _blocks(exchange, what)
    target = x.new_empty(target_shape(exchange.layout, exchange.group.rank, what))
    counts = [sum(piece.numel() for piece in _pieces(target, block)) for block in receive]
    arrived = _exchanged([_flat(x, block) for block in send], counts, exchange)
    at = 0
    for block in receive:
        for piece in _pieces(target, block):
            piece.copy_(arrived[at : at + piece.numel()].view(piece.shape))
            at += piece.numel()
    return target


def move_back(gradient: Tensor, name: str, what: int) -> Tensor:
    """From the gradient of what arrived that of what was sent: what went to several ranks gets their sum."""
    exchange = _exchanges[name]
    send, receive = _blocks(exchange, what)
    source = gradient.new_zeros(source_shape(exchange.layout, exchange.group.rank, what))
    counts = [sum(piece.numel() for piece in _pieces(source, block)) for block in send]
    arrived = _exchanged([_flat(gradient, block) for block in receive], counts, exchange)
    at = 0
    for block in send:
        for piece in _pieces(source, block):
            piece.add_(arrived[at : at + piece.numel()].view(piece.shape))
            at += piece.numel()
    return source


def source_shape(layout: Layout, rank: int, what: int) -> tuple[int, int, int, int]:
    """Of what is sent."""
    if what == OUTPUT:
        return layout.query_shape(rank)
    batch, rows, heads, head_dim = layout.sequence_shape(rank)
    return batch, rows, heads if what == QUERY else layout.kv_heads, head_dim


def is_permutation(layout: Layout, what: int) -> bool:
    """Whether each number goes to one rank, and Q's way back is the output's."""
    alike = what in (QUERY, OUTPUT) or (layout.kv_heads == layout.heads and layout.ranks <= layout.heads)
    return alike and not layout.text_replicated


def _normed(x: Tensor, weight: Tensor | None, epsilon: float, norm: int) -> Tensor:
    dims = (-1,) if norm == 1 else (-2, -1)
    y = x * torch.rsqrt(x.pow(2).mean(dims, keepdim=True) + epsilon)
    return y if weight is None else y * weight.float().view(x.shape[2:] if norm == 2 else (-1,))


class Tables(NamedTuple):
    """Of a rotary embedding: of all tokens in the order of the joint sequence."""

    cosine: Tensor
    sine: Tensor
    rope: int


def _own(table: Tensor, layout: Layout, rank: int) -> Tensor:
    """The rows of this rank's tokens."""
    return torch.cat([table.narrow(0, *place) for place in layout.sequence_places(rank)])


def _angles(table: Tensor, layout: Layout, rank: int) -> Tensor:
    """[batch, rows, heads, head_dim / 2] of this rank's tokens, or 1 in places of it."""
    return table if table.dim() == 4 else _own(table, layout, rank)[None, :, None, :]


def turned_back(gradient: Tensor, layout: Layout, rank: int, tables: Tables) -> Tensor:
    """From the gradient of what a rotary embedding gave that of what it took, in the sequence layout."""
    cosine, sine = (_angles(table, layout, rank) for table in tables[:2])
    return turned(gradient.float(), cosine, -sine, tables.rope).to(gradient.dtype)


def turned(x: Tensor, cosine: Tensor, sine: Tensor, rope: int) -> Tensor:
    """`cosine` and `sine` are of x's own numbers, or 1 in places of it."""
    if rope == 1:
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * cosine - b * sine, b * cosine + a * sine], dim=-1).flatten(3)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cosine - b * sine, b * cosine + a * sine], dim=-1)


def prepared(
    x: Tensor,
    layout: Layout,
    rank: int,
    weight: Tensor | None,
    text_weight: Tensor | None,
    cosine: Tensor | None,
    sine: Tensor | None,
    epsilon: float,
    norm: int,
    rope: int,
    round_norm: bool,
) -> Tensor:
    """dit_prepare: RMSNorm and rotary position embedding in fp32, of a tensor in the sequence layout."""
    if norm == 0 and rope == 0:
        return x
    y = x.float()
    if norm != 0:
        at = layout.sequence_places(rank)[0][1]
        first, second = y[:, :at], y[:, at:]
        of_text = weight if text_weight is None else text_weight
        weights = (weight, of_text) if layout.image_first else (of_text, weight)
        y = torch.cat(
            [_normed(first, weights[0], epsilon, norm), _normed(second, weights[1], epsilon, norm)], dim=1
        )
        if round_norm:
            y = y.to(x.dtype).float()
    if rope != 0:
        assert cosine is not None and sine is not None
        y = turned(y, _angles(cosine, layout, rank), _angles(sine, layout, rank), rope)
    return y.to(x.dtype)


# Schemas are spelled out, as in the C++ operators: older versions of torch cannot tell them from annotations.
_TABLES = "Tensor? cosine=None, Tensor? sine=None"
_NUMBERS = "float epsilon=0.0, int norm=0, int rope=0, bool round_norm=False"
PREPARE = f"Tensor? weight=None, Tensor? text_weight=None, {_TABLES}, {_NUMBERS}"
SCATTER_PREPARE = (
    "Tensor? q_weight=None, Tensor? q_text_weight=None, Tensor? k_weight=None, Tensor? k_text_weight=None, "
    f"{_TABLES}, {_NUMBERS}"
)
_START = f"(Tensor x, str exchange, int what, SymInt layer, {PREPARE}, Tensor? after=None) -> Tensor"
_FINISH = "(Tensor token, str exchange, int what, SymInt layer, Tensor? after=None) -> Tensor"
_SCATTER = (
    f"(Tensor q, Tensor k, Tensor v, str exchange, SymInt layer, {SCATTER_PREPARE}) "
    "-> (Tensor, Tensor, Tensor)"
)


@torch.library.custom_op("dit_reference::start", mutates_args=(), schema=_START)
def start(
    x: Tensor,
    exchange: str,
    what: int,
    layer: int,
    weight: Tensor | None = None,
    text_weight: Tensor | None = None,
    cosine: Tensor | None = None,
    sine: Tensor | None = None,
    epsilon: float = 0.0,
    norm: int = 0,
    rope: int = 0,
    round_norm: bool = False,
    after: Tensor | None = None,
) -> Tensor:
    own = _exchanges[exchange]
    rank = own.group.rank
    expected = own.layout.query_shape(rank) if what == OUTPUT else own.layout.sequence_shape(rank)
    if what in (KEY, VALUE):
        expected = (*expected[:2], own.layout.kv_heads, expected[3])
    if tuple(x.shape) != expected:
        raise ValueError(f"x: shape {tuple(x.shape)}, expected {expected} for exchange {exchange}")
    x = prepared(x, own.layout, rank, weight, text_weight, cosine, sine, epsilon, norm, rope, round_norm)
    own.under_way[what] = _all_to_all(x, own, what)
    return x.new_empty(0)


@start.register_fake
def _(x: Tensor, *args: object, **kwargs: object) -> Tensor:
    return x.new_empty(0)


def _arrived(x: Tensor, exchange: str, what: int) -> Tensor:
    """Of the shape of what arrives, and like x."""
    own = _exchanges[exchange]
    return x.new_empty(target_shape(own.layout, own.group.rank, what))


@torch.library.custom_op("dit_reference::finish", mutates_args=(), schema=_FINISH)
def finish(token: Tensor, exchange: str, what: int, layer: int, after: Tensor | None = None) -> Tensor:
    return _exchanges[exchange].under_way.pop(what)


@finish.register_fake
def _(token: Tensor, exchange: str, what: int, layer: int, after: Tensor | None = None) -> Tensor:
    return _arrived(token, exchange, what)


@torch.library.custom_op("dit_reference::scatter_qkv", mutates_args=(), schema=_SCATTER)
def scatter_qkv(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    exchange: str,
    layer: int,
    q_weight: Tensor | None = None,
    q_text_weight: Tensor | None = None,
    k_weight: Tensor | None = None,
    k_text_weight: Tensor | None = None,
    cosine: Tensor | None = None,
    sine: Tensor | None = None,
    epsilon: float = 0.0,
    norm: int = 0,
    rope: int = 0,
    round_norm: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    own = _exchanges[exchange]
    where, shared = (own.layout, own.group.rank), (cosine, sine, epsilon, norm, rope, round_norm)
    q = prepared(q, *where, q_weight, q_text_weight, *shared)
    k = prepared(k, *where, k_weight, k_text_weight, *shared)
    return _all_to_all(q, own, QUERY), _all_to_all(k, own, KEY), _all_to_all(v, own, VALUE)


@scatter_qkv.register_fake
def _(
    q: Tensor, k: Tensor, v: Tensor, exchange: str, *args: object, **kwargs: object
) -> tuple[Tensor, Tensor, Tensor]:
    return _arrived(q, exchange, QUERY), _arrived(k, exchange, KEY), _arrived(v, exchange, VALUE)


@torch.library.custom_op(
    "dit_reference::gather", mutates_args=(), schema="(Tensor o, str exchange, SymInt layer) -> Tensor"
)
def gather(o: Tensor, exchange: str, layer: int) -> Tensor:
    return _all_to_all(o, _exchanges[exchange], OUTPUT)


@gather.register_fake
def _(o: Tensor, exchange: str, layer: int) -> Tensor:
    return _arrived(o, exchange, OUTPUT)
