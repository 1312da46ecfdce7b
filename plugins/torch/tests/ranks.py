"""Ranks as processes of this machine, joined by gloo."""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def _rank(
    rank: int, ranks: int, meeting: str, results: Any, body: Callable[..., Any], args: tuple, named: dict
) -> None:
    dist.init_process_group(
        "gloo", f"file://{meeting}", rank=rank, world_size=ranks, timeout=timedelta(seconds=180)
    )
    try:
        results.put((rank, None, body(*args, **named)))
    except BaseException as error:  # pytest's failures are no Exceptions
        traceback.print_exc()
        results.put((rank, f"{type(error).__name__}: {error}", None))
    dist.barrier()
    dist.destroy_process_group()


def _end(process: Any) -> int | str | None:
    """Its exit code; a process that stays is killed."""
    process.join(timeout=60)
    if not process.is_alive():
        return process.exitcode
    process.kill()
    return "killed"


def be_a_node() -> None:
    """To the library this rank is a node of its own, from the next enable() on."""
    os.environ["TAPA_DEVICE_NODE"] = f"node {dist.get_rank()}"


def run(ranks: int, body: Callable[..., Any], *args: Any, timeout: float = 300.0, **named: Any) -> list[Any]:
    """body(*args, **named) on each rank; what it returned (plain data, numpy arrays), by rank. Fails with the
    words of the first rank that failed."""
    torch.set_num_threads(1)  # no pool of threads that a fork would lose
    context = mp.get_context("fork")  # everything is imported already
    results = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        given = (ranks, os.path.join(folder, "meeting"), results, body, args, named)
        processes = [context.Process(target=_rank, args=(rank, *given)) for rank in range(ranks)]
        for process in processes:
            process.start()
        try:
            told = sorted((results.get(timeout=timeout) for _ in processes), key=lambda one: one[0])
        finally:
            ends = [_end(process) for process in processes]
    for rank, error, _ in told:
        if error is not None:
            raise RuntimeError(f"rank {rank}: {error}")
    if any(ends):
        raise RuntimeError(f"ranks did not end well: {ends}")
    return [value for _, _, value in told]
