"""Two halves of a group's ranks, and what goes from one to the other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ._library import call
from .awaited import Awaited
from .group import Group
from .process_groups import kept_group
from .verdict import is_captured


class Halves:
    """The first and the second half of a group's ranks, and the pairs with one rank of each. Collective."""

    def __init__(self, whole: Group) -> None:
        if whole.size % 2 != 0:
            raise ValueError(f"cfg_parallel = True with {whole.size} ranks: expected an even number of ranks")
        self.whole, size = whole, whole.size // 2
        self.number, place = divmod(whole.rank, size)
        self.places = (place, place + size)  # of the pair's ranks in the group
        self.parts = [whole.ranks[:size], whole.ranks[size:]]
        self.half = kept_group(self.parts, "half")
        pairs = [list(pair) for pair in zip(*self.parts, strict=True)]
        whole.make_beside("pair", pairs)
        self._beside: torch.cuda.Stream | None = None
        self.groups = [whole]  # that fail together

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Also where a result is read, outside of a forward pass, the others are told of an error."""
        try:
            yield
        except BaseException as error:
            for group in self.groups:
                group.fail(error)
            raise

    @torch.compiler.disable  # in a graph it would go where its result is not used: on one of two ranks
    def gather(self, x: Tensor) -> Tensor:
        """x of the first half and x of the second, [2, ...]."""
        with self._failing():
            return self._gather(x)

    @torch.compiler.disable
    def meet(self) -> None:
        """So that what fails on one half fails on both."""
        self.whole.gather_beside("pair", torch.zeros(1), 2)

    def _gather(self, x: Tensor) -> Tensor:
        if not self._by_library(x):
            return self.whole.gather_beside("pair", x, 2)
        both = x.new_empty((2, *x.shape))
        rows = [int(place in self.places) for place in range(self.whole.size)]
        self._all_to_all(both, torch.stack((x, x)), rows, rows)
        return both

    @torch.compiler.disable
    def send(self, x: Tensor) -> Sent:
        """To the other half, which receives as often. What others do is not waited for; x may be changed."""
        if not self._by_library(x):
            own = x.detach().clone(memory_format=torch.contiguous_format)
            return Sent(own, self.whole.pass_beside("pair", own, self.whole.ranks[self.whole.rank]), self)
        # Beside what this rank computes: where the other half takes it late, only what is sent next waits.
        stream = torch.cuda.current_stream(x.device)
        if not is_captured():
            self._beside = self._beside or torch.cuda.Stream(x.device)
            self._beside.wait_stream(stream)
            stream = self._beside
        with torch.cuda.stream(stream):
            own = x.detach().clone(memory_format=torch.contiguous_format)
            x.record_stream(stream)
            rows = [int(place == self.places[1 - self.number]) for place in range(self.whole.size)]
            self._all_to_all(own.new_empty((0, *own.shape)), own.unsqueeze(0), [0] * len(rows), rows)
        return Sent(own, stream.record_event(), self)

    @torch.compiler.disable
    def receive(self, like: Like) -> Tensor:
        """What the other half sent."""
        x = torch.empty(like.shape, dtype=like.dtype, device=like.device)
        if not self._by_library(x):
            with self._failing():
                self.whole.wait_beside("pair", self.whole.pass_beside("pair", x, self._other), x)
            return x
        rows = [int(place == self.places[1 - self.number]) for place in range(self.whole.size)]
        self._all_to_all(x.unsqueeze(0), x.new_empty((0, *x.shape)), rows, [0] * len(rows))
        return x

    @torch.compiler.disable
    def settle(self) -> None:
        """Before anything else goes from half to half, of any transformer's: what was sent is received."""
        if self.whole.on_its_way is not None:
            self.whole.on_its_way.settle()

    @property
    def _other(self) -> int:
        return self.whole.ranks[self.places[1 - self.number]]

    def _by_library(self, x: Tensor) -> bool:
        found = x.is_cuda and self.whole.is_open  # as in plan.gather
        self.whole.on_device |= found
        return found

    def _all_to_all(self, *arguments: Any) -> None:
        call(torch.ops.dit.all_to_all, self.whole.name, *arguments, self.whole.name)


class Sent:
    """What was sent, and is on its way."""

    def __init__(self, x: Tensor, end: Any, halves: Halves) -> None:
        self.x, self.end, self.halves = x, end, halves

    @torch.compiler.disable
    def wait(self) -> None:
        """Before anything else is sent."""
        if isinstance(self.end, torch.cuda.Event):
            self.end.wait()
            return
        with self.halves._failing():
            self.halves.whole.wait_beside("pair", self.end, self.x)


class Like(NamedTuple):
    """Of what a call is expected to give."""

    shape: torch.Size
    dtype: torch.dtype
    device: torch.device


class First:
    """A first call whose second is awaited. Until it is settled nothing else goes from half to half."""

    @torch.compiler.disable
    def __init__(self, halves: Halves, like: Like, output: Tensor | None) -> None:
        """:param output: None on the half that does not compute it"""
        self.halves, self.like, self.output = halves, like, output
        self.sent = None if output is None else halves.send(output)
        self._recoveries = halves.whole.recoveries
        self._reads = threading.Lock()  # a program may read it in threads of its own
        halves.whole.on_its_way = self

    @torch.compiler.disable
    def promise(self) -> Tensor:
        """The output, for those who asked for it."""
        return Awaited(*self.like, self.value) if self.output is None else self.output

    @torch.compiler.disable
    def value(self) -> Tensor:
        with self._reads:
            if self.output is None:
                if self._is_lost:
                    raise RuntimeError(
                        "the result of a guidance branch was not read before a forward pass failed, and is "
                        "lost since: expected nothing that was computed before the failure to be used"
                    )
                self.output = self.halves.receive(self.like)
            return self.output

    @property
    def _is_lost(self) -> bool:
        """Whether ranks began anew, after a failure, before it was received."""
        return self.halves.whole.recoveries != self._recoveries

    @torch.compiler.disable
    def settle(self) -> None:
        """Before the next exchange of the halves: what was sent has been received."""
        if self.halves.whole.on_its_way is self:
            self.halves.whole.on_its_way = None
        if self._is_lost:
            return
        self.value()
        if self.sent is not None:
            self.sent.wait()
            self.sent = None
