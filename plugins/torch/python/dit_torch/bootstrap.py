"""The functions by which libdit's ranks reach each other to begin with, over a gloo process group."""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ._library import Bootstrap
from .processes import Process, shared_names, who_ended

# By another name than install() looks for: the exchange that it installs stands on this one.
_plain_all_to_all = dist.all_to_all_single


def node() -> str:
    """Equal on ranks that share a node: a machine's processes that see each other. TAPA_DEVICE_NODE makes
    several nodes of one, for trials."""
    this = shared_names() or platform.node()
    label = os.environ.get("TAPA_DEVICE_NODE")
    return this if label is None else f"{this}/{label}"


def _bytes(address: int | None, count: int) -> Tensor:
    """A tensor over memory of the caller's."""
    if not address or count == 0:
        return torch.empty(0, dtype=torch.uint8)
    return torch.frombuffer((ctypes.c_ubyte * count).from_address(address), dtype=torch.uint8)


class Callbacks:
    """Holds the functions, and what they stand on, until the group is closed. A thread of the library's calls
    them, one at a time.

    :param processes: of all ranks
    """

    def __init__(self, gloo: dist.ProcessGroup, rank: int, processes: list[Process]) -> None:
        size = len(processes)
        self._gloo, self._size, self._processes = gloo, size, processes
        self._error = ctypes.create_string_buffer(1)
        self._functions = (
            Bootstrap.ALLGATHER(self._guarded(self._allgather)),
            Bootstrap.ALLTOALLV(self._guarded(self._alltoallv)),
            Bootstrap.LAST_ERROR(lambda user: ctypes.addressof(self._error)),
        )
        allgather, alltoallv, last_error = self._functions
        self.struct = Bootstrap(
            struct_size=ctypes.sizeof(Bootstrap),
            rank=rank,
            size=size,
            allgather=allgather,
            alltoallv=alltoallv,
            last_error=last_error,
            node=node().encode(),
        )

    def _guarded(self, function: Any) -> Any:
        def call(user: Any, *arguments: Any) -> int:
            try:
                function(*arguments)
            except Exception as error:  # told by last_error: nothing may be thrown through C
                words = f"{type(error).__name__}: {error}{who_ended(self._processes)}"
                self._error = ctypes.create_string_buffer(words.encode())
                return 1
            return 0

        return call

    def _allgather(self, mine: int, everything: int, count: int) -> None:
        dist.all_gather_into_tensor(
            _bytes(everything, count * self._size), _bytes(mine, count), group=self._gloo
        )

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
        _plain_all_to_all(
            arrived, torch.cat(outgoing), counts, [part.numel() for part in outgoing], group=self._gloo
        )
        for rank, part in enumerate(arrived.split(counts)):
            _bytes(_at(receive, receive_offsets[rank], counts[rank]), counts[rank]).copy_(part)


def _at(address: int | None, offset: int, count: int) -> int | None:
    return None if address is None or count == 0 else address + offset
