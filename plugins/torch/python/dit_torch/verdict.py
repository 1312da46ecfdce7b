"""Whether ranks are alike, as a device finds it: the host asks for it later, when it costs no wait."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

NUMBERS = 3  # that are compared


def is_captured() -> bool:
    """Whether this pass is put into a CUDA graph: nothing can be read from the device."""
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


class Verdict:
    """Which of the numbers differ, pass by pass.

    :param behind: a pass's verdict is asked for when so many more have begun
    :ivar later: a verdict is known when the device gets there; else at once
    """

    def __init__(self, device: torch.device, behind: int = 1) -> None:
        self.device, self.behind = device, behind
        self.later = device.type != "cpu"
        self._rows = self._on_host(behind + 1)
        self._there: list[torch.cuda.Event | None] = [None] * (behind + 1)
        self._of: list[Any] = [None] * (behind + 1)
        self._put, self._taken = 0, 0
        # Of captured passes, which are repeated without a word to us: whether one of them has ever differed.
        self._captured = False
        self._of_captured: Any = None
        self._ever = torch.zeros(NUMBERS, dtype=torch.bool, device=device)
        self._ever_on_host = self._on_host(1)[0]

    def _on_host(self, rows: int) -> Tensor:
        return torch.zeros(rows, NUMBERS, dtype=torch.bool, pin_memory=self.device.type == "cuda")

    def put(self, differ: Tensor, of: Any) -> None:
        """Of the pass that has begun, [NUMBERS].

        :param of: what take() is to tell of the pass
        """
        if is_captured():
            self._captured, self._of_captured = True, of
            self._ever_on_host.copy_(self._ever.logical_or_(differ), non_blocking=True)
            return
        at = self._put % len(self._rows)
        self._rows[at].copy_(differ, non_blocking=True)
        self._of[at] = of
        if self.device.type == "cuda":
            self._there[at] = torch.cuda.current_stream(self.device).record_event()
        self._put += 1

    def forget(self) -> None:
        """Those of passes that have begun and that nobody has asked for."""
        self._taken = self._put

    def seen(self) -> bool:
        """Whether one that nobody has asked for is known to differ. No wait."""
        rows = [self._rows[number % len(self._rows)] for number in range(self._taken, self._put)]
        return any(bool(row.any()) for row in (*rows, self._ever_on_host))

    def take(self) -> tuple[list[bool], Any]:
        """When a pass begins: the oldest verdict that was not asked for, or what replays have found, and what
        was put with it. The host waits for the beginning of that pass, which is long past, and for replays.
        The same on all ranks."""
        if is_captured():
            return [False] * NUMBERS, None
        if self._captured:
            torch.cuda.current_stream(self.device).synchronize()
            found = self._ever_on_host.tolist()
            self._ever.zero_()
            self._ever_on_host.zero_()
            if any(found):
                return found, self._of_captured
        if self._put - self._taken < self.behind:
            return [False] * NUMBERS, None
        return self.take_next()

    def waits(self) -> bool:
        """Whether there is one that nobody has asked for."""
        return self._put > self._taken

    def take_next(self) -> tuple[list[bool], Any]:
        """The oldest of those, and what was put with it."""
        at = self._taken % len(self._rows)
        self._taken += 1
        there, of, self._of[at] = self._there[at], self._of[at], None
        if there is not None:
            there.synchronize()
        return self._rows[at].tolist(), of
