"""What an enabled transformer knows: its group, its schedule, how many tokens there are, its exchanges."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ._inductor import keep_apart
from .exchange import Exchange, SizedExchange
from .exchanges import Exchanges, Key
from .group import Group
from .layer_number import LayerNumber
from .layout import part_place
from .sized import Kind, Sizes, finders
from .tokens import Tokens

SCHEDULES = ("auto", "flat", "v-first", "pipelined")

enabled: dict[int, Parallel] = {}  # by their numbers


class NotCopied:
    """What stands for other ranks, too: a copy on this one would be none of theirs."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            "an enabled transformer can be neither copied nor pickled: call dit_torch.disable(transformer) "
            "first; its state_dict() and save_pretrained() are as ever"
        )


@dataclass(eq=False)
class Way(NotCopied):
    """Ranks that split the tokens of a pass, and how these travel."""

    group: Group
    schedule: str  # one of SCHEDULES; "auto": flat or v-first, as exchanges are short or not
    exchanges: Exchanges
    halves: bool  # they are one of two halves


@dataclass(eq=False)
class Parallel(NotCopied):
    """One enabled transformer. Processors and hooks hold it; compiled graphs only see its numbers.

    :ivar ways: that a pass may go: of all ranks, of half of them
    """

    number: int  # of its own
    ways: list[Way]
    tokens: Tokens = field(default_factory=Tokens)

    def __post_init__(self) -> None:
        self._go(self.ways[0])
        enabled[self.number] = self
        finders[self.number] = self._find

    def _go(self, way: Way) -> None:
        self._way = way
        self.group, self.exchanges = way.group, way.exchanges
        # What graphs depend on. It is compared in each call of one: here, so that there is little to look at.
        self.rank, self.size, self.one_node = way.group.rank, way.group.size, way.group.one_node
        self.native = way.group.library is not None
        self.exact, self.sage, self.schedule = way.exchanges.exact, way.exchanges.sage, way.schedule

    def use(self, way: Way) -> None:
        """In the pass that begins. Collective with a lossy policy, where it is another one."""
        before = self._way
        if way is before:
            return
        self._go(way)
        if not before.exchanges.exact:
            before.exchanges.leave()

    @property
    def no_training(self) -> str:
        """What there is no backward pass with, in words."""
        if self._way.halves:
            return "cfg_parallel"
        return "" if self.exchanges.never_lossy else f"policy = {self.exchanges.policy!r}"

    def close(self) -> None:
        enabled.pop(self.number, None)
        finders.pop(self.number, None)

    def place(self, total: int) -> tuple[int, int]:
        """The first of this rank's part of so many tokens, and how many they are. No range, which would make
        a number of a compiler's symbol."""
        return part_place(total, self.size, self.rank)

    def layer(self, number: LayerNumber) -> int:
        """What operators are told: to exact transfers all layers are alike."""
        return 0 if self.exact else number.value()

    def joint(
        self,
        x: Tensor,
        text: str | int | None = "text",
        image: str | int | None = "image",
        image_first: bool = False,
        text_replicated: bool = False,
        heads: int | None = None,
        kv_heads: int | None = None,
        unit: int = 0,
        has_value: bool = True,
    ) -> Exchange:
        """The exchange of attention over two streams of tokens together (or one, where the other is None).

        :param x: Q, K or V in the sequence layout, [batch, rows, heads, head_dim]
        :param text: name of the stream in `tokens`, or how many there are; likewise `image`
        :param heads: of Q, where x has others; `kv_heads` likewise
        :param unit: exchanges that are under way at the same time have different ones
        :param has_value: V travels by it, too
        """
        rows, of_x, head_dim = x.shape[1:]
        kind = Kind(
            _number(self.number),
            _number(self.rank),
            _number(self.size),
            _number(of_x if heads is None else heads),
            _number(of_x if kv_heads is None else kv_heads),
            _number(head_dim),
            int(image_first),
            int(text_replicated),
            _number(unit),
            int(has_value),
        )
        sizes = Sizes(x.shape[0], self.tokens.get(text), self.tokens.get(image), rows)
        if not torch.compiler.is_compiling():
            return self._find(kind, sizes, x)
        if self.native:
            _prepare_for_graphs()
        return SizedExchange(self.native, kind, sizes)

    def _find(self, kind: Kind, sizes: Sizes, x: Tensor) -> Exchange:
        return Exchange(self.name_of(kind, sizes, x.dtype, x.device), self.native, kind, sizes)

    def name_of(self, kind: Kind, sizes: Sizes, dtype: torch.dtype, device: torch.device) -> str:
        """An exchange's, which is made where it is the first of these sizes: collective then."""
        shape = (*sizes[:3], kind.heads, kind.kv_heads, kind.head_dim)
        flags = (bool(kind.image_first), bool(kind.text_replicated))
        return self.exchanges.get(Key(shape, *flags, dtype, device, kind.unit, bool(kind.has_value)))

    @property
    def settled(self) -> str:
        """The schedule as it is known so far, of the shape that was seen last."""
        fast = list(self.exchanges.fast.values())
        if self.sage:
            return "v-first"
        return _chosen(fast[-1]) if self.schedule == "auto" and fast else self.schedule

    def schedule_of(self, exchange: Exchange, x: Tensor) -> str:
        """One of SCHEDULES but "auto". x: what travels by it."""
        if self.schedule != "auto":
            return self.schedule
        if isinstance(exchange, SizedExchange):
            return _decide_for_graphs(tuple(exchange.kind), x.dtype, x.device)
        return _chosen(self.exchanges.are_fast(exchange.name))


def _number(value: int) -> int:
    """As a constant, also where a graph has a symbol for it. Compilers of older torch (2.6) make none of
    operator.index, but know how long a range is; there numbers of this object are symbols, too.
    """
    return len(range(value))


def _chosen(fast: bool) -> str:
    return "flat" if fast else "v-first"


@torch._dynamo.assume_constant_result
def _prepare_for_graphs() -> None:
    keep_apart()


_SOME_TOKENS = 4096  # of a picture of 1024 x 1024


@torch._dynamo.assume_constant_result
def _decide_for_graphs(given: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> str:
    """One schedule for all sizes, as the first graph is traced: of the tokens that are known then.
    Collective: all ranks trace their first one in the same pass."""
    kind = Kind(*given)  # compilers take no named tuple here
    parallel = enabled[kind.number]
    known = parallel.exchanges.fast
    if not known:
        tokens = {name: parallel.tokens[name] for name in parallel.tokens}
        text, image = tokens.get("text", 0), tokens.get("image", _SOME_TOKENS)
        shape = (1, text, image, kind.heads, kind.kv_heads, kind.head_dim)
        flags = (bool(kind.image_first), bool(kind.text_replicated))
        parallel.exchanges.measure(Key(shape, *flags, dtype, device, 0))
    return _chosen(next(iter(known.values())))
