"""The functions by which libdit's ranks reach each other to begin with, over a gloo process group."""

from __future__ import annotations

import atexit
import ctypes
import os
import platform
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ._library import Bootstrap
from .alarm import Abandoned, wait_for
from .process_groups import NO_GROUP
from .processes import Process, numbering, shared_names, who_ended

# By another name than install() looks for: the exchange that it installs stands on this one.
_plain_all_to_all = dist.all_to_all_single


def node() -> str:
    """Equal on ranks that share a node: a machine's processes that see each other. TAPA_DEVICE_NODE makes
    several nodes of one, for trials."""
    this = shared_names() or platform.node()
    label = os.environ.get("TAPA_DEVICE_NODE")
    return this if label is None else f"{this}/{label}"


def _reach() -> str | None:
    """Of ranks on hosts, for trials: TAPA_GPU_PEERS as group:NAME names those that reach each other."""
    named = os.environ.get("TAPA_GPU_PEERS", "")
    return named if named.startswith("group:") else None


def _bytes(address: int | None, count: int) -> Tensor:
    """A tensor over memory of the caller's."""
    if not address or count == 0:
        return torch.empty(0, dtype=torch.uint8)
    return torch.frombuffer((ctypes.c_ubyte * count).from_address(address), dtype=torch.uint8)


_all: weakref.WeakSet[Callbacks] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    for callbacks in list(_all):
        callbacks.end(seconds=2.0)


class GivenUp(RuntimeError):
    """The group was closed while a rank was waited for."""


class Callbacks:
    """Holds the functions, and what they stand on, until the group is closed. A thread of the library's calls
    them, one at a time.

    :param node: equal on ranks that share one
    :param processes: of all ranks
    :param look: asked while others are waited for; raises where that is in vain
    """

    def __init__(
        self,
        gloo: dist.ProcessGroup,
        rank: int,
        node: str,
        processes: list[Process],
        look: Callable[[], None],
    ) -> None:
        size = len(processes)
        self._gloo, self._size, self._processes, self._look = gloo, size, processes, look
        self._numbering = numbering([process.rank for process in processes])
        self._given_up = threading.Event()
        self._busy = False
        self.broken = False  # a call has failed: ranks may have come to different ones
        self._process = os.getpid()  # forked ones have no such thread
        _all.add(self)
        self._error = ctypes.create_string_buffer(1)
        self._functions = (
            Bootstrap.ALLGATHER(self._guarded(self._allgather)),
            Bootstrap.ALLTOALLV(self._guarded(self._alltoallv)),
            Bootstrap.LAST_ERROR(lambda user: ctypes.addressof(self._error)),
        )
        allgather, alltoallv, last_error = self._functions
        reach = _reach()
        on_device = torch.cuda.is_available() and torch.cuda.is_initialized()
        self.struct = Bootstrap(
            struct_size=ctypes.sizeof(Bootstrap),
            rank=rank,
            size=size,
            allgather=allgather,
            alltoallv=alltoallv,
            last_error=last_error,
            node=node.encode(),
            reach=None if reach is None else reach.encode(),
            on_device=int(on_device),
            device=torch.cuda.current_device() if on_device else 0,
        )

    def _guarded(self, function: Any) -> Any:
        def call(user: Any, *arguments: Any) -> int:
            self._busy = True
            try:
                if self._given_up.is_set():
                    raise GivenUp("closed")
                function(*arguments)
            except Exception as error:  # told by last_error: nothing may be thrown through C
                self.broken = True
                if isinstance(error, Abandoned):
                    words = str(error)
                else:
                    who = "" if isinstance(error, GivenUp) else who_ended(self._processes)
                    words = f"{type(error).__name__}: {error}{self._numbering}{who}"
                self._error = ctypes.create_string_buffer(words.encode())
                return 1
            finally:
                self._busy = False
            return 0

        return call

    def give_up(self) -> None:
        """Who waits for a rank stops soon: a thread that is in Python when Python ends takes the whole
        process with it."""
        self._given_up.set()
        self._gloo = NO_GROUP  # its sockets and threads do not wait for a collection of garbage

    def end(self, seconds: float) -> None:
        """The same, and waits until nobody waits any more."""
        self.give_up()
        until = time.monotonic() + (seconds if self._process == os.getpid() else 0)
        while self._busy and time.monotonic() < until:
            time.sleep(0.01)

    def _wait(self, work: Any, *memory: Tensor) -> None:
        def look() -> None:
            if self._given_up.is_set():
                raise GivenUp("closed")
            self._look()

        wait_for(work, look, self._gloo, *memory)

    # gloo has memory of its own, as it may still write when who gave it up has gone on.

    def _allgather(self, mine: int, everything: int, count: int) -> None:
        every = torch.empty(count * self._size, dtype=torch.uint8)
        own = _bytes(mine, count).clone()
        self._wait(dist.all_gather_into_tensor(every, own, group=self._gloo, async_op=True), every, own)
        _bytes(everything, every.numel()).copy_(every)

    def _alltoallv(
        self,
        send: int | None,
        send_bytes: Any,
        send_offsets: Any,
        receive: int | None,
        receive_bytes: Any,
        receive_offsets: Any,
    ) -> None:
        """gloo takes what lies together: blocks are brought together, and laid out again."""
        size = self._size
        outgoing = [_bytes(_at(send, send_offsets[r], send_bytes[r]), send_bytes[r]) for r in range(size)]
        counts = [receive_bytes[r] for r in range(size)]
        arrived = torch.empty(sum(counts), dtype=torch.uint8)
        sent = [part.numel() for part in outgoing]
        packed = torch.cat(outgoing)
        work = _plain_all_to_all(arrived, packed, counts, sent, group=self._gloo, async_op=True)
        self._wait(work, arrived, packed)
        for rank, part in enumerate(arrived.split(counts)):
            _bytes(_at(receive, receive_offsets[rank], counts[rank]), counts[rank]).copy_(part)


def _at(address: int | None, offset: int, count: int) -> int | None:
    return None if address is None or count == 0 else address + offset
