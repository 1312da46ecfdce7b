"""Programs made smaller, as long as they fail in the same way. Pure: starts nothing."""

from collections.abc import Callable

from lines import Line
from model import legal


def smaller(lines: list[Line], threads: int, fails: Callable[[list[Line]], bool], most_tries: int = 60) -> list[Line]:
    """Leaves out what the failure does not need. `fails(lines)`: whether a program still fails."""
    tries = 0
    piece = max(1, len(lines) // 2)
    while piece >= 1 and tries < most_tries:
        at, found = 0, False
        while at < len(lines) and tries < most_tries:
            candidate = legal(lines[:at] + lines[at + piece :], threads)
            tries += 1
            if len(candidate) < len(lines) and fails(candidate):
                lines, found = candidate, True
            else:
                at += piece
        if not found or piece > 1:
            if piece == 1:
                break
            piece //= 2
    return lines
