"""What bench/codes prints: ratios of pairs of runs. Pure."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence

from .runs import Run


@dataclasses.dataclass
class Ratios:
    """Of a figure with the drop-in over that without, by pairs of runs."""

    median: float
    least: float
    most: float

    @staticmethod
    def of(pairs: Sequence[tuple[float | None, float | None]]) -> Ratios | None:
        ratios = [taken / plain for plain, taken in pairs if plain and taken is not None]
        return Ratios(statistics.median(ratios), min(ratios), max(ratios)) if ratios else None

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.least:.2f} to {self.most:.2f})"


@dataclasses.dataclass
class Measured:
    """A code: pairs of runs for each way beside plain, and the figures of a run with the report."""

    name: str
    pairs: dict[str, list[tuple[Run, Run]]]
    figures: dict[str, float]
    equal: bool

    def speed(self, way: str) -> Ratios | None:
        """Above 1 the drop-in is faster, as goals are given."""
        return Ratios.of([(taken.seconds, plain.seconds) for plain, taken in self.pairs[way]])

    def own_speed(self, way: str) -> Ratios | None:
        return Ratios.of([(taken.own_seconds, plain.own_seconds) for plain, taken in self.pairs[way]])

    def cost(self, way: str, figure: str) -> Ratios | None:
        return Ratios.of([(getattr(plain, figure), getattr(taken, figure)) for plain, taken in self.pairs[way]])


def median(pairs: list[tuple[Run, Run]], side: int) -> str:
    return f"{statistics.median(pair[side].seconds for pair in pairs):.2f}"


def row(code: Measured, way: str) -> str:
    pairs = code.pairs[way]
    figures = [f"{code.figures[name]:.1f} %" if name in code.figures and way == "taken" else "" for name in ("all_to_all", "taken")]
    costs = [f"{ratios.median:.2f}" if (ratios := code.cost(way, figure)) else "" for figure in ("cpu_seconds", "page_faults", "switches")]
    name = code.name + (", TAPA_ENABLE=0" if way == "off" else "")
    cells = [
        name,
        median(pairs, 0),
        median(pairs, 1),
        f"**{code.speed(way) or ''}**",
        str(code.own_speed(way) or ""),
        *costs,
        *figures,
        "yes" if code.equal else "NO",
    ]
    return "| " + " | ".join(cells) + " |"


HEAD = (
    "code",
    "plain s",
    "drop-in s",
    "speed",
    "its own clock",
    "CPU time",
    "page faults",
    "switches",
    "in all-to-all",
    "taken",
    "equal results",
)


def table(codes: list[Measured]) -> str:
    lines = ["| " + " | ".join(HEAD) + " |", "|---" * len(HEAD) + "|"]
    lines += [row(code, way) for code in codes for way in code.pairs if code.pairs[way]]
    return "\n".join(lines)
