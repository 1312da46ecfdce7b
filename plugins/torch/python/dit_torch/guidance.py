"""Which ranks compute which call of a transformer, as its calls show the branches of guidance.

Diffusers' pipelines compute the two branches of classifier-free guidance in one of two ways:

* in one call, with a batch of twice the size: each half of the ranks takes half of the samples;
* in two calls, in a `cache_context` called "cond" or "uncond" each. The first half of the ranks computes the
  first call, the second half the second.

That there will be two calls is only known once two came. All of it is a function of the calls alone, which
are the same on all ranks: none decides by itself.
"""

from __future__ import annotations

import enum
from collections import Counter
from typing import NamedTuple

import torch

BRANCHES = ("cond", "uncond")


class Role(enum.Enum):
    """Of a call."""

    ALONE = "by itself"
    FIRST = "first of two"  # the first half of the ranks computes it
    SECOND = "second of two"  # the second half does
    SAMPLES = "half of its samples"  # on each half


class Size(NamedTuple):
    """Of the latents, before tokens are split: alike on all ranks."""

    shape: torch.Size
    dtype: torch.dtype


class Call(NamedTuple):
    """:ivar branch: one of BRANCHES; None: in no such context"""

    branch: str | None
    size: Size

    @property
    def other(self) -> Call | None:
        """What comes with it in a step."""
        if self.branch is None:
            return None
        return Call(BRANCHES[1 - BRANCHES.index(self.branch)], self.size)


class Calls:
    """Follows the calls of a transformer.

    :ivar pairs: sizes whose calls came in twos last: the first one of such two
    :ivar follows: the call under way is the other branch of the one before it
    """

    def __init__(self) -> None:
        self.counts: Counter[Role] = Counter()
        self.forget()

    def forget(self) -> None:
        """What was seen: the next call may come after any other."""
        self.pairs: dict[Size, Call] = {}
        self.follows = False
        self._last: Call | None = None
        self._first: Call | None = None  # whose second is awaited

    def next(self, call: Call, splits: bool, apart: bool = True) -> Role:
        """The role of the call that begins now.

        :param splits: a call can be split by its samples
        :param apart: anything but ALONE is possible now
        """
        role = self._role(call, splits) if apart else self._alone()
        self.counts[role] += 1
        return role

    def _alone(self) -> Role:
        self.forget()
        return Role.ALONE

    def _role(self, call: Call, splits: bool) -> Role:
        before, self._last = self._last, call
        first, self._first = self._first, None
        self.follows = before is not None and before == call.other
        if first is not None and self.follows:
            return Role.SECOND
        if first is not None:
            self.pairs.pop(first.size, None)  # no guidance any more
        if self.pairs.get(call.size) == call:
            self._first = call
            return Role.FIRST
        if self.follows:
            assert before is not None
            self.pairs[call.size] = before
        return Role.SAMPLES if splits and call.size.shape[0] % 2 == 0 else Role.ALONE


def why_not(ranks: int, verify: bool, against: str) -> str:
    """Why calls cannot be shared by halves of so many ranks; "" where they can.

    :param against: what the model says against it
    """
    if ranks % 2 != 0:
        return f"{ranks} rank{'s' if ranks > 1 else ''} cannot be halved"
    return "verify = True compares passes of all ranks" if verify else against


def text_of(counts: Counter[Role], ranks: int, together: bool, reason: str) -> str:
    """For report(): what was chosen for the calls so far, and why.

    :param together: all ranks split the tokens of what they cannot share; else both halves compute it
    """
    half = f"{ranks // 2} rank{'s' if ranks > 2 else ''}"
    words = []
    if pairs := counts[Role.FIRST] + counts[Role.SECOND]:
        words.append(f"{pairs} calls were one of two branches, each computed by {half}")
    if samples := counts[Role.SAMPLES]:
        words.append(f"{samples} calls had an even number of samples, a half of them for {half}")
    if (alone := counts[Role.ALONE]) or not counts:
        by = f"all {ranks} ranks" if together else f"both halves of {ranks} ranks"
        words.append(f"{alone} calls were computed by {by}" + (f" ({reason})" if reason else ""))
    return "; ".join(words)
