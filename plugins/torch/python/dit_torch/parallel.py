"""What an enabled transformer knows: its group, its schedule, how many tokens there are, its exchanges."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ._inductor import keep_apart
from .exchange import Exchange
from .exchanges import Exchanges, Key
from .group import Group
from .layer_number import LayerNumber
from .layout import even_part

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
class Parallel(NotCopied):
    """One enabled transformer. Processors and hooks hold it; compiled graphs only see its numbers."""

    number: int  # of its own
    group: Group
    schedule: str  # one of SCHEDULES; "auto": flat or v-first, as the links are fast or not
    exchanges: Exchanges
    tokens: dict[str, int] = field(default_factory=dict)  # of "text", "image", ..., on all ranks together
    halves: bool = False  # it is one of two, with cfg_parallel

    def __post_init__(self) -> None:
        enabled[self.number] = self

    @property
    def native(self) -> bool:
        return self.group.library is not None

    @property
    def no_training(self) -> str:
        """What there is no backward pass with, in words."""
        if self.halves:
            return "cfg_parallel"
        return "" if self.exchanges.never_lossy else f"policy = {self.exchanges.policy!r}"

    def close(self) -> None:
        enabled.pop(self.number, None)

    def part(self, total: int) -> range:
        """This rank's part of so many tokens."""
        return even_part(total, self.group.size, self.group.rank)

    def layer(self, number: LayerNumber) -> int:
        """What operators are told: to exact transfers all layers are alike."""
        return 0 if self.exchanges.exact else number.value()

    def joint(
        self,
        x: Tensor,
        text: str | None = "text",
        image: str | None = "image",
        image_first: bool = False,
        text_replicated: bool = False,
        kv_heads: int | None = None,
        unit: int = 0,
        has_value: bool = True,
    ) -> Exchange:
        """The exchange of attention over two streams of tokens together (or one, where the other is None).

        :param x: Q, K or V in the sequence layout, [batch, rows, heads, head_dim]
        :param text: name of the stream in `tokens`; likewise `image`
        :param unit: exchanges that are under way at the same time have different ones
        :param has_value: V travels by it, too
        """
        # Numbers also where a graph has symbols for them: an exchange is made for one size.
        shape = (
            _number(x.shape[0]),
            0 if text is None else _number(self.tokens.get(text, 0)),
            0 if image is None else _number(self.tokens.get(image, 0)),
            _number(x.shape[2]),
            _number(x.shape[2] if kv_heads is None else kv_heads),
            _number(x.shape[3]),
        )
        find = _find_for_graph if torch.compiler.is_compiling() else _find
        name = find(
            _number(self.number),
            _number(self.exchanges.generation),
            shape,
            image_first,
            text_replicated,
            x.dtype,
            x.device,
            unit,
            has_value,
        )
        return Exchange(name, self.native)

    @property
    def settled(self) -> str:
        """The schedule as it is known so far, of the shape that was seen last."""
        fast = list(self.exchanges.fast.values())
        return _chosen(fast[-1]) if self.schedule == "auto" and fast else self.schedule

    def schedule_of(self, exchange: Exchange) -> str:
        """One of SCHEDULES but "auto"."""
        if self.schedule != "auto":
            return self.schedule
        decide = _decide_for_graph if torch.compiler.is_compiling() else _decide
        return decide(self.number, exchange.name)


def _number(value: int) -> int:
    """As a constant, also where a graph has a symbol for it. Compilers of older torch (2.6) make none of
    operator.index, but know how long a range is; there numbers of this object are symbols, too.
    """
    return len(range(value))


def _chosen(fast: bool) -> str:
    return "flat" if fast else "v-first"


def _decide(number: int, name: str) -> str:
    return _chosen(enabled[number].exchanges.are_fast(name))


@torch._dynamo.assume_constant_result
def _decide_for_graph(number: int, name: str) -> str:
    return _decide(number, name)


def _find(number: int, generation: int, *key: Any) -> str:
    return enabled[number].exchanges.get(Key(*key))


@torch._dynamo.assume_constant_result  # made while a graph is traced, before it runs
def _find_for_graph(number: int, *rest: Any) -> str:
    if enabled[number].native:
        keep_apart()
    return _find(number, *rest)
