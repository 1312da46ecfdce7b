"""How a rank that fails in a forward pass tells the others, who would wait for it until their time limit.

It leaves a word in the store of torch.distributed, which those look for who have waited for some time.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch

INTERVAL = timedelta(seconds=0.1)  # until a wait looks whether it is in vain
_MOST = 2000  # letters of an error that others are told; who has ended comes last in it


class Abandoned(RuntimeError):
    """Another rank has failed in a forward pass: this rank's cannot be completed."""


class Alarm:
    """Of the ranks of a group, until the next failure of theirs.

    :param group: its name
    :param number: how many failures there have been, alike on all of them
    :ivar passes: how many forward passes have begun since then on this rank. A rank whose host is ahead may
        fail in a later one: what comes before is complete all the same
    """

    def __init__(self, group: str, number: int) -> None:
        self._store = torch.distributed.distributed_c10d._get_default_store()
        self._key = f"dit_torch/failed/{group}/{number}"
        self.passes = 0

    def raise_for(self, rank: int, error: BaseException | None) -> str:
        """Tells the others why rank `rank` comes to nothing more, in words that it returns. The first one's
        stay."""
        what = "left" if error is None else f"{type(error).__name__}: {error}".splitlines()[0]
        words = f"rank {rank} failed in its forward pass ({what[:_MOST]})"
        # Where who keeps the store has ended others are told by their connections to it.
        with contextlib.suppress(RuntimeError):
            if not self._store.check([self._key]):
                self._store.set(self._key, f"{self.passes} {words}")
        return words

    def look(self, so_far: bool = False) -> None:
        """Raises Abandoned where another rank has failed.

        :param so_far: in a pass that has begun on this rank
        """
        try:
            stored = self._store.get(self._key).decode() if self._store.check([self._key]) else ""
        except RuntimeError:
            return
        number, _, words = stored.partition(" ")
        if stored and not (so_far and int(number) > self.passes):
            raise Abandoned(
                f"{words}: this rank's pass cannot be completed; expected the error to be caught on all "
                "ranks, whose next forward pass begins anew"
            )


def wait_for(work: Any, look: Callable[[], None], group: Any, *memory: Any) -> None:
    """Returns when a collective of gloo's is done. `look` is asked now and then, and raises where that is in
    vain.

    :param memory: what gloo may still use then
    """
    while True:
        try:
            work.wait(INTERVAL)
            return
        except RuntimeError:
            if work.is_completed():
                try:
                    work.wait()  # well after all
                except RuntimeError:
                    look()  # who failed has closed its connections, too
                    raise
                return
        try:
            look()
        except BaseException:
            # Its thread waits on, until who it waits for has ended the group, and the group's end for it.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))
            _left.append((work, group, memory))
            raise


_left: list[tuple[Any, Any, Any]] = []  # collectives that were in vain


def take_ended() -> list[Any]:
    """Groups whose collectives that were in vain have come to an end since."""
    ended = [one for one in _left if one[0].is_completed()]
    _left[:] = [one for one in _left if not one[0].is_completed()]
    for _, group, _ in ended:
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(group))
    return [group for _, group, _ in ended]
