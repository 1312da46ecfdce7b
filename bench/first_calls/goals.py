"""What the drop-in may take at most, by N: the total time of the first N calls over that without it. For 32 ranks on 32 cores."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Goal:
    form: str
    habit: str
    least_bytes: int
    most_bytes: int
    at_most: dict[int, float]  # ratio by N


GOALS = (
    Goal("blocking", "world", 16, 1024, {1: 1.3, 3: 1.0, 10: 0.35, 100: 0.30, 1000: 0.20}),
    Goal("blocking", "world", 4096, 4096, {1: 1.5, 3: 1.2, 10: 0.45, 100: 0.40, 1000: 0.36}),
    Goal("blocking", "dup", 16, 4096, {1: 1.2, 3: 1.1, 10: 0.7, 100: 0.40, 1000: 0.28}),
    Goal("nonblocking", "world", 16, 1024, {1: 1.3, 3: 1.1, 10: 0.6, 100: 0.45, 1000: 0.40}),
)
OPTION_AT_MOST = 1.05  # with an option over without it


def goal_of(form: str, habit: str, size: int, case: str) -> float | None:
    """Of the column `case`, which is N in words."""
    for goal in GOALS:
        if (goal.form, goal.habit) == (form, habit) and goal.least_bytes <= size <= goal.most_bytes and case.isdigit():
            return goal.at_most.get(int(case))
    return None
