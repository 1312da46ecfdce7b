"""What compare() found: a row for each way of making the same pictures."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from .pictures import Quality


@dataclass(frozen=True)
class Picture:
    """What one way made of a prompt and a seed."""

    prompt: str
    seed: int
    seconds: float  # of the slowest rank
    sent_bytes: int  # of all ranks together
    full_bytes: int  # what exact exchanges send
    quality: Quality


@dataclass(frozen=True)
class Way:
    """A policy, or another kernel of attention. Figures of quality are over all frames of all pictures."""

    name: str
    pictures: tuple[Picture, ...]
    note: str = ""

    @property
    def seconds(self) -> float:
        return statistics.median(picture.seconds for picture in self.pictures)

    @property
    def share(self) -> float:
        """Of the bytes that exact exchanges send."""
        full = sum(picture.full_bytes for picture in self.pictures)
        return sum(picture.sent_bytes for picture in self.pictures) / full if full else 1.0

    @property
    def sent_bytes(self) -> float:
        """Of a picture, all ranks together."""
        return statistics.mean(picture.sent_bytes for picture in self.pictures)

    @property
    def psnr(self) -> list[float]:
        return [one for picture in self.pictures for one in picture.quality.psnr]

    @property
    def ssim(self) -> list[float]:
        return [one for picture in self.pictures for one in picture.quality.ssim]


HEADER = ("", "seconds", "MiB sent", "bytes", "PSNR median", "PSNR worst", "SSIM median", "SSIM worst")


def decibels(value: float) -> str:
    return "same" if value == math.inf else f"{value:.1f}"


@dataclass(frozen=True)
class Comparison:
    """The same on all ranks; str() of it is a table for people."""

    ways: tuple[Way, ...]  # "exact" is the first one

    def rows(self) -> list[tuple[str, ...]]:
        return [
            (
                way.name,
                f"{way.seconds:.2f}",
                f"{way.sent_bytes / 2**20:.1f}",
                f"{way.share:.1%}",
                decibels(statistics.median(way.psnr)),
                decibels(min(way.psnr)),
                f"{statistics.median(way.ssim):.4f}",
                f"{min(way.ssim):.4f}",
            )
            for way in self.ways
        ]

    def notes(self) -> list[str]:
        return [f"{way.name}: {way.note}" for way in self.ways if way.note]

    def __str__(self) -> str:
        rows = [HEADER, *self.rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
        ]
        return "\n".join([*lines, *self.notes()])
