"""What ranks are given: each computes a part of one picture, so they have to be given the same one.

A program that forgets to seed its generator gives each rank its own noise, and nothing fails: the picture is
one of no seed at all. So each pass compares three numbers of all ranks: of what the host knows of its
arguments, of the bits of its tensors, and of the weights.

Where tensors are on a device the host does not wait for the verdict. A pass whose arguments differ gives NaN
there, and the next one says why; it waits for no more than the beginning of the one before.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ._library import call
from .difference import Fact, difference
from .digest import digest, digests, digests_on_host, word
from .given import Given, taken_apart
from .group import Group
from .patch import signature_of
from .verdict import Verdict, is_captured
from .weights import Weights

_WHAT_TO_DO = (
    "; expected the same on all of them: give pipelines a generator, with the same seed on each rank, and "
    "the same prompt and options. Where ranks compute bits of their own, as text encoders may, let one of "
    "them do it, and give what dit_torch.share(tensors) returns"
)
_all: weakref.WeakValueDictionary[int, Inputs] = weakref.WeakValueDictionary()  # by transformers' numbers


class Noted(NamedTuple):
    """A pass, as this rank was asked for it."""

    facts: dict[str, Fact]
    names: list[str]  # of the tensors
    bits: Tensor  # their digests, on the device
    weights: Tensor

    def row(self) -> Tensor:
        """What is compared, [NUMBERS]."""
        words = self.weights.new_full((), word(str(self.facts)))
        return torch.stack((words, digest(self.bits), self.weights))


class Inputs:
    """Of one transformer.

    :param number: the transformer's
    :param group: of all ranks
    :param half: where halves of the ranks compute branches: of the ranks of this one. Then who puts these
        together says when passes are compared, as the halves are at different ones
    """

    def __init__(self, model: nn.Module, number: int, group: Group, half: Group | None) -> None:
        self.number, self.group, self.half = number, group, half
        self._names = list(signature_of(model).parameters)
        self._weights = Weights(model)
        self._passes = 0
        self._noted: Noted | None = None
        self._verdict: Verdict | None = None
        self._weights.compare(group)
        self.also: Callable[[], dict[str, str]] = dict  # what else has to be alike when a pass begins
        _all[number] = self

    def take(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a pass that begins, compared. Collective."""
        named = dict(zip(self._names, args, strict=False)) | kwargs
        given = taken_apart(named, self._names)
        for name, one in given.tensors.items():
            if one.is_nested or one.layout != torch.strided:
                kind = "nested" if one.is_nested else one.layout
                raise TypeError(
                    f"{name} is a tensor that is {kind}: expected a dense one, whose bits ranks compare, or "
                    "dit_torch.enable(..., compare=False)"
                )
        tensors = (n for n in ("hidden_states", *self._names) if isinstance(named.get(n), Tensor))
        carrier = next(tensors, "")
        if not carrier:
            names = ", ".join(self._names)
            raise TypeError(f"no argument of forward() is a tensor: expected some of {names}")
        x = named[carrier]
        given.words["torch.autocast"] = _autocast(x.device.type)
        compiling = torch.compiler.is_compiling()
        x = _taken(x, *given.flat(), self.number) if compiling else self.note(x, given)
        if carrier in kwargs:
            return args, kwargs | {carrier: x}
        at = self._names.index(carrier)
        return (*args[:at], x, *args[at + 1 :]), kwargs

    def note(self, x: Tensor, given: Given) -> Tensor:
        """x, to compute with."""
        if is_captured() and self._verdict is None:
            return x  # a graph is captured after a first pass, which prepares this
        if self._verdict is None or self._verdict.device != x.device:
            # A half may be a pass ahead of the other, which its verdicts wait for.
            self._verdict = Verdict(x.device, behind=1 if self.half is None else 2)
        self._raise(*self._verdict.take())
        self._passes += 1
        facts = {name: Fact(words) for name, words in given.facts().items()}
        facts["the number of passes"] = Fact(str(self._passes))
        facts |= {name: Fact(words) for name, words in self.also().items()}
        here = {name: one for name, one in given.tensors.items() if one.device == x.device}
        others = {name: one for name, one in given.tensors.items() if name not in here and not one.is_meta}
        for name, bits in zip(others, digests_on_host(list(others.values())), strict=True):
            facts[name] = Fact(facts[name].words, bits)
        weights = self._weights.look(given.tensors, x.device)
        self._noted = Noted(facts, list(here), digests(list(here.values())), weights)
        return x if self.half is not None else self.compare(x)

    @torch.compiler.disable  # who puts branches together calls it from where compilers look
    def compare(self, x: Tensor, branch: str = "") -> Tensor:
        """x, to go on with: other numbers where a device found that ranks are not alike. Collective.

        :param branch: which one of guidance the pass is
        """
        if self._noted is None or self._verdict is None:
            return x
        every = self._gathered(self.group, branch)
        differ = (every != every[0]).any(dim=0)
        if not self._verdict.later:
            self._raise(differ.tolist(), self._noted)
            return x
        self._verdict.put(differ, self._noted)
        return torch.where(differ[:2].any(), float("nan"), x) if x.is_floating_point() else x

    @torch.compiler.disable
    def alike_in_half(self, branch: str) -> bool:
        """Whether the ranks that compute together do the same, where that is known at once. Collective."""
        if self.half is None or self.half.size == 1 or self._verdict is None or self._verdict.later:
            return True
        every = self._gathered(self.half, branch)
        return bool((every == every[0]).all())

    @torch.compiler.disable
    def settle(self) -> None:
        """Raises where ranks differ in a pass that has begun, for which the host waits. Collective where they
        do."""
        while self._verdict is not None and self._verdict.waits():
            self._raise(*self._verdict.take_next())

    def forget(self) -> None:
        """After a failure, which ranks have had in different passes: they are counted anew."""
        self._passes, self._noted = 0, None
        if self._verdict is not None:
            self._verdict.forget()

    def seen(self) -> bool:
        """Whether a difference is known that no pass has raised yet."""
        return self._verdict is not None and self._verdict.seen()

    def _gathered(self, group: Group, branch: str) -> Tensor:
        """The row of all ranks, [ranks, NUMBERS]."""
        assert self._noted is not None
        self._noted.facts["the guidance branch"] = Fact(branch)
        row = self._noted.row()
        if group.library is None:
            return group.gather_tensors(row)
        group.on_device |= row.is_cuda
        return call(torch.ops.dit.all_gather, group.name, row.unsqueeze(0), 0, group.size, group.name)

    def _raise(self, differ: list[bool], noted: Noted | None) -> None:
        """Says what differs in a pass, if something does. Collective where it does."""
        if noted is not None and (differ[0] or differ[1]):
            facts = dict(noted.facts)
            for name, bits in zip(noted.names, noted.bits.tolist(), strict=True):
                facts[name] = Fact(facts[name].words, bits)
            found = difference(self.group.ranks, self.group.gather(facts))
            raise ValueError((found or "what a replay of a captured pass was given differs") + _WHAT_TO_DO)
        if differ[2]:
            self._weights.compare(self.group)


def _autocast(device: str) -> str:
    """What it computes in there."""
    return str(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else "off"


@torch.library.custom_op(
    "dit_reference::taken",
    mutates_args=(),
    schema="(Tensor x, Tensor[] tensors, str[] names, SymInt[] whole, float[] real, str[] words, int number) "
    "-> Tensor",
)
def _taken(
    x: Tensor,
    tensors: list[Tensor],
    names: list[str],
    whole: list[int],
    real: list[float],
    words: list[str],
    number: int,
) -> Tensor:
    """In a graph: what others of its operators are given comes from here."""
    taken = _all[number].note(x, Given.of(tensors, names, whole, real, words))
    return x.clone() if taken is x else taken


@_taken.register_fake
def _(x: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(x)


def _note_counts(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.counts = [len(inputs[at]) for at in (1, 3, 4)]


def _backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    tensors, whole, real = ([None] * count for count in ctx.counts)
    return gradient, tensors, None, whole, real, None, None


_taken.register_autograd(_backward, setup_context=_note_counts)
