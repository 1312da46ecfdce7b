"""Single collective calls through PyTorch: dit_torch's exchange beside torch.distributed's NCCL, in turns.

    torchrun --nproc-per-node 2 bench/torch/calls.py [--sizes A,B] [--seconds S] [--json FILE]

all_to_all: torch.distributed.all_to_all_single, as it is and after dit_torch.install(), of tensors of torch's
allocator. all_gather: dist.all_gather_into_tensor, and dit_torch's for the output of a model. A size is a rank's whole
buffer in bytes. Microseconds of a call: one by one (a call and a wait for it), in a row (20, one wait) and in a CUDA
graph of 20; medians, of the slower rank. Rank 0 prints.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial

import dit_torch
import torch
import torch.distributed as dist
from dit_torch.group import give, take
from torch import Tensor

ROW = 20  # calls in a row, and in a graph
WAYS = ("NCCL", "dit_torch")
ROW_BYTES = 128
Call = Callable[[], Tensor]


def repeat(call: Call, wait: Callable[[], None] | None = None) -> None:
    for _ in range(ROW):
        call()
        if wait is not None:
            wait()


def timed(body: Callable[[], object]) -> float:
    """Microseconds of one of the calls that it makes."""
    begin = time.perf_counter()
    body()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) * 1e6 / ROW


def captured(call: Call) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        repeat(call)
    return graph


def measure(calls: dict[str, Call], seconds: float) -> dict[str, dict[str, float]]:
    """By mode and way, all in turns."""
    runs: dict[tuple[str, str], Callable[[], object]] = {}
    for way, call in calls.items():
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        runs["one by one", way] = partial(repeat, call, torch.cuda.synchronize)
        runs["in a row", way] = partial(repeat, call)
        runs["graph", way] = captured(call).replay
    samples: dict[tuple[str, str], list[float]] = {key: [] for key in runs}
    begin = time.perf_counter()
    again = torch.ones(1, device="cuda")
    while True:
        for key, run in runs.items():
            torch.cuda.synchronize()
            dist.barrier()
            torch.cuda.synchronize()
            samples[key].append(timed(run))
        again.fill_(float(time.perf_counter() - begin < seconds))
        dist.broadcast(again, 0)  # all ranks make as many turns
        if not again.item():
            break
    medians = torch.tensor([statistics.median(s) for s in samples.values()], dtype=torch.float64, device="cuda")
    dist.all_reduce(medians, op=dist.ReduceOp.MAX)
    found: dict[str, dict[str, float]] = {}
    for (mode, way), value in zip(samples, medians.tolist(), strict=True):
        found.setdefault(mode, {})[way] = round(value, 1)
    return found


def all_to_alls(size: int, plain: Callable[..., object]) -> dict[str, Call]:
    """Into memory that is kept."""
    ranks = dist.get_world_size()
    send = torch.randint(0, 255, (size // ranks * ranks,), dtype=torch.uint8, device="cuda")
    outputs = {way: torch.empty_like(send) for way in WAYS}

    def nccl() -> Tensor:
        plain(outputs["NCCL"], send)
        return outputs["NCCL"]

    def ours() -> Tensor:
        dist.all_to_all_single(outputs["dit_torch"], send)
        return outputs["dit_torch"]

    return {"NCCL": nccl, "dit_torch": ours}


def all_gathers(size: int, group: str) -> dict[str, Call]:
    """Into new memory, as the output of a forward pass is."""
    ranks = dist.get_world_size()
    rows = size // (ROW_BYTES * ranks)
    part = torch.randint(0, 255, (1, rows, ROW_BYTES), dtype=torch.uint8, device="cuda")

    def nccl() -> Tensor:
        whole = part.new_empty(1, rows * ranks, ROW_BYTES)
        dist.all_gather_into_tensor(whole.view(-1), part.view(-1))
        return whole

    return {"NCCL": nccl, "dit_torch": lambda: torch.ops.dit.all_gather(part, 1, rows * ranks, group)}


def require_equal(calls: dict[str, Call]) -> None:
    right, found = (call() for call in calls.values())
    if not torch.equal(right, found):
        raise AssertionError("the two ways brought different bytes")


def tell(row: dict[str, object], file: str | None) -> None:
    times = {way: float(str(row[way])) for way in WAYS}
    print(
        f"{row['collective']:10} {row['bytes']:>11} {row['mode']:10}",
        *(f"{way} {us:8.1f}" for way, us in times.items()),
        f"{times['NCCL'] / times['dit_torch']:.2f}",
        flush=True,
    )
    if file:
        with open(file, "a") as lines:
            lines.write(json.dumps(row) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    sizes = "2048,65536,1048576,4194304,16777216,67108864,268435456,1073741824"
    parser.add_argument("--sizes", default=sizes)
    parser.add_argument("--seconds", type=float, default=1.5, help="of each size and collective")
    parser.add_argument("--json", help="a file, to which a line is appended for each row")
    options = parser.parse_args()
    dit_torch.init()
    plain = dist.all_to_all_single
    dit_torch.install()
    group = take(None, 300.0)
    for what, most in (("all_to_all", 1 << 30), ("all_gather", 1 << 26)):
        for size in map(int, options.sizes.split(",")):
            if size > most:
                continue
            calls = all_to_alls(size, plain) if what == "all_to_all" else all_gathers(size, group.name)
            require_equal(calls)
            for mode, times in measure(calls, options.seconds).items():
                if dist.get_rank() == 0:
                    tell({"collective": what, "bytes": size, "mode": mode, **times}, options.json)
            torch.cuda.empty_cache()
    give(group)
    dit_torch.uninstall()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
