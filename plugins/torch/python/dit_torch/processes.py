"""Which processes of a group have ended: torch.distributed only says that some connection was closed."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    """A process as others may look for it."""

    rank: int  # of torch.distributed
    names: str  # who shares them sees the same processes by the same numbers
    number: int
    started: str  # since the system did: another one of this number is another process

    def has_ended(self) -> bool:
        """False also for one that cannot be seen from here."""
        return (
            self.started != ""
            and self.names == shared_names()
            and _state(self.number) != (self.started, True)
        )


def this_process(rank: int) -> Process:
    number = os.getpid()
    return Process(rank, shared_names(), number, _state(number)[0])


def numbering(ranks: list[int]) -> str:
    """Words for what counts the ranks of a group from 0; none where that is as torch.distributed does.

    :param ranks: of the group, as torch.distributed numbers them
    """
    return "" if ranks == list(range(len(ranks))) else f"; ranks are numbered within the group {ranks}"


def who_ended(processes: list[Process], seconds: float = 1.0) -> str:
    """Words that name the ranks whose processes have; none if there are none.

    :param seconds: to wait for a first one: a process closes its connections a moment before it ends
    """
    until = time.monotonic() + seconds
    while True:
        gone = [process for process in processes if process.has_ended()]
        if gone or time.monotonic() > until:
            return "".join(f"; rank {one.rank} of all (process {one.number}) has ended" for one in gone)
        time.sleep(0.01)


def shared_names() -> str:
    """Equal on processes of a machine that know each other by the same numbers; "": not known."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    try:
        return f"{boot.read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _state(number: int) -> tuple[str, bool]:
    """When it started, and whether it runs."""
    try:
        text = Path(f"/proc/{number}/stat").read_text()
    except OSError:
        return "", False
    fields = text[text.rindex(")") + 2 :].split()  # the program's name before may have spaces
    return fields[19], fields[0] not in "ZX"
