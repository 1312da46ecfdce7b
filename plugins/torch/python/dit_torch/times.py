"""What part of the exchange's time shows. Pure: spans are pairs of begin and end, in one unit of time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Span = tuple[float, float]


def union(spans: Iterable[Span]) -> list[Span]:
    """The same time in spans that do not touch, in order."""
    joined: list[Span] = []
    for begin, end in sorted(span for span in spans if span[0] < span[1]):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined


def without(spans: Iterable[Span], others: Iterable[Span]) -> list[Span]:
    """The time in `spans` and in none of `others`, in spans that do not touch."""
    left: list[Span] = []
    covers = union(others)
    first = 0
    for begin, end in union(spans):
        while first < len(covers) and covers[first][1] <= begin:
            first += 1
        for cover in covers[first:]:
            if cover[0] >= end:
                break
            if begin < cover[0]:
                left.append((begin, cover[0]))
            begin = max(begin, cover[1])
        if begin < end:
            left.append((begin, end))
    return left


def length(spans: Iterable[Span]) -> float:
    return sum(end - begin for begin, end in union(spans))


@dataclass(frozen=True)
class Times:
    """Where the time of forward passes went on this rank, in milliseconds."""

    wall_ms: float  # from the begin of the first span to the end of the last one
    compute_ms: float  # of it with computation
    exchange_ms: float  # with the exchange, what waits for other ranks included
    exposed_ms: float  # with the exchange alone: what shows of it

    @property
    def idle_ms(self) -> float:
        """With neither: the device waits for the host."""
        return self.wall_ms - self.compute_ms - self.exposed_ms

    @property
    def bound_ms(self) -> float:
        """What would be left were all of the exchange hidden behind computation."""
        return self.wall_ms - self.exposed_ms

    def __str__(self) -> str:
        part = 100 * self.exposed_ms / self.wall_ms if self.wall_ms else 0.0
        return (
            f"{self.wall_ms:.2f} ms: computation {self.compute_ms:.2f}, exchange {self.exchange_ms:.2f}, "
            f"of which {self.exposed_ms:.2f} shows ({part:.1f} %), idle {self.idle_ms:.2f}; "
            f"bound, with nothing exposed: {self.bound_ms:.2f} ms"
        )


def times_of(exchange: Iterable[Span], compute: Iterable[Span]) -> Times:
    """Of spans in microseconds."""
    exchange, compute = union(exchange), union(compute)
    everything = union([*exchange, *compute])
    wall = everything[-1][1] - everything[0][0] if everything else 0.0
    exposed = length(without(exchange, compute))
    return Times(*(one / 1e3 for one in (wall, length(compute), length(exchange), exposed)))
