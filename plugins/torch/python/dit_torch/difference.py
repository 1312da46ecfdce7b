"""What ranks have that should be alike: which of it is not, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Fact(NamedTuple):
    """What a rank has of one thing."""

    words: str
    bits: int = 0  # a digest, of what has bits


def difference(ranks: Sequence[int], every: Sequence[dict[str, Fact]]) -> str | None:
    """Of the first rank and the first one that has something else; None: there is none.

    :param ranks: their numbers, as torch.distributed has them
    :param every: what each of them has, by name, in one order on all ranks
    """
    first = every[0]
    for rank, other in zip(ranks[1:], every[1:], strict=True):
        names = [name for name in dict.fromkeys((*first, *other)) if first.get(name) != other.get(name)]
        if names:
            one, two = (facts.get(names[0]) for facts in (first, other))
            more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
            return f"{names[0]} differs between ranks {ranks[0]} and {rank}: {_both(one, two)}{more}"
    return None


def _both(one: Fact | None, two: Fact | None) -> str:
    if one is not None and two is not None and one.words == two.words:
        return f"both have {one.words}, with other bits"
    return " and ".join("nothing" if fact is None else fact.words for fact in (one, two))
