"""What bench/first-calls prints: ratios of runs in turn, and goals beside them. Pure."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence

from .goals import OPTION_AT_MOST, goal_of
from .runs import Job, Round, Way


@dataclasses.dataclass
class Cell:
    """A time in one way over that in another: the median of the rounds, the least and the most; and microseconds, medians."""

    name: str
    median: float
    least: float
    most: float
    us: float
    over_us: float
    goal: float | None = None

    @staticmethod
    def of(name: str, rounds: Sequence[Round], way: Way, case: str, goal: float | None) -> Cell:
        times = [(done[way.name][case], done[way.over][case]) for done in rounds]
        ratios = [time / over for time, over in times]
        us, over_us = (statistics.median(side) for side in zip(*times, strict=True))
        return Cell(name, statistics.median(ratios), min(ratios), max(ratios), us, over_us, goal)

    @property
    def missed(self) -> bool:
        return self.goal is not None and self.median > self.goal

    def __str__(self) -> str:
        text = f"{self.median:.2f} ({self.least:.2f}-{self.most:.2f})"
        return f"**{text}** > {self.goal:.2f}" if self.missed else text


def columns_of(rounds: Sequence[Round], habit: str) -> list[str]:
    """What stands behind the name of the habit in what the program says."""
    return [case.removeprefix(f"{habit} ") for case in next(iter(rounds[0].values())) if case.startswith(f"{habit} ")]


def table(way: Way, form: str, habit: str, by_size: Mapping[int, Sequence[Round]], goals: bool) -> tuple[str, list[Cell]]:
    """A row for each size, a column for each N."""
    columns, rows, cells = [], [], []
    for size, rounds in by_size.items():
        own = columns_of(rounds, habit)
        columns += [case for case in own if case not in columns]
        row = {}
        for case in own:
            goal = OPTION_AT_MOST if way.over == "drop-in" else goal_of(form, habit, size, case) if way.name == "drop-in" else None
            name = f"{form}, {habit}, {size} bytes, {case} calls" if form != "fft" else f"{size}^3, {case}"
            row[case] = Cell.of(name, rounds, way, f"{habit} {case}", goal if goals else None)
        rows.append((size, row))
        cells += row.values()
    what = "transforms of CUBE^3, steps" if form == "fft" else f"{form}, {habit}"
    lines = [
        f"## {what}: {way.name} over {way.over}",
        "",
        f"| {'cube' if form == 'fft' else 'bytes'} | " + " | ".join(columns) + " |",
        "|---" * (len(columns) + 1) + "|",
        *(f"| {size:,} | " + " | ".join(str(row.get(case, "")) for case in columns) + " |" for size, row in rows),
    ]
    return "\n".join(lines) + "\n", cells


def more(name: str, rounds: Sequence[Round], way: Way, case: str) -> str:
    """What takes so much more in this way, in milliseconds."""
    pairs = [(done[way.name][case] / 1e3, done[way.over][case] / 1e3) for done in rounds]
    differences = [time - over for time, over in pairs]
    time, over = (statistics.median(side) for side in zip(*pairs, strict=True))
    spread = f"({min(differences):+.1f} to {max(differences):+.1f})"
    return f"| {name}, {way.name} | {over:.1f} | {time:.1f} | {statistics.median(differences):+.1f} {spread} | {len(pairs)} |"


def beside_calls(way: Way, measured: Mapping[Job, Sequence[Round]]) -> list[str]:
    """Rows of MPI_Init in all runs, and of runs without an all-to-all."""
    rows = []
    inits = [done for rounds in measured.values() for done in rounds if all("init" in times for times in done.values())]
    if inits:
        rows.append(more("MPI_Init", inits, way, "init"))
    for job, rounds in measured.items():
        if job.form == "none" and rounds:
            rows.append(more("no all-to-all: MPI_Init to the end of MPI_Finalize", rounds, way, "life"))
            rows.append(more("no all-to-all: the whole command", rounds, way, "command"))
        elif job.form == "fft" and rounds:
            rows.append(more(f"{job}: the whole command", rounds, way, "command"))
    return rows
