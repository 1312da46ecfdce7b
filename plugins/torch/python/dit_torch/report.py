"""report(): what an enabled transformer does."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from .enable import enabled


@dataclass(frozen=True)
class Report:
    """str() of it is for people."""

    model: str
    rank: int
    ranks: int
    schedule: str
    policy: str
    plan: tuple[str, ...]
    exchanges: tuple[str, ...]

    def __str__(self) -> str:
        lines = [
            f"{self.model} on {self.ranks} ranks, schedule {self.schedule}, policy {self.policy}",
            *(f"  {entry}" for entry in self.plan),
            *(f"  exchange {name}" for name in self.exchanges),
        ]
        return "\n".join(lines)


def report(transformer: nn.Module) -> Report:
    """Facts about an enabled transformer on this rank. Local."""
    this = enabled(transformer)
    parallel = this.parallel
    return Report(
        this.family.model,
        parallel.group.rank,
        parallel.group.size,
        parallel.schedule,
        parallel.exchanges.policy,
        tuple(str(entry) for entry in this.plan),
        tuple(parallel.exchanges.made.values()),
    )
