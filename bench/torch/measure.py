"""Times of forward passes, one way after the other in turns, and what an output is compared by."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Mapping

import torch
import torch.distributed as dist
from torch import Tensor

Forward = Callable[[], Tensor]


@dataclasses.dataclass
class Times:
    """Milliseconds of a forward pass, of the slower rank."""

    median: float
    low: float
    high: float


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _slowest(milliseconds: float, device: torch.device) -> float:
    value = torch.tensor([milliseconds], dtype=torch.float64, device=device)
    dist.all_reduce(value, op=dist.ReduceOp.MAX)
    return float(value.item())


def _once(forward: Forward, count: int, device: torch.device) -> float:
    """Milliseconds of one of `count` forward passes in a row, as a sampler makes them."""
    synchronize(device)
    dist.barrier()
    synchronize(device)
    begin = time.perf_counter()
    for _ in range(count):
        forward()
    synchronize(device)
    return _slowest((time.perf_counter() - begin) * 1e3 / count, device)


def in_turns(ways: Mapping[str, Forward], device: torch.device, seconds: float, rounds: int = 9, passes: int = 3) -> dict[str, Times]:
    """All ways in turn, until `rounds` are done or `seconds` are over (never fewer than three); `passes` in a row each."""
    samples: dict[str, list[float]] = {name: [] for name in ways}
    begin = time.perf_counter()
    for turn in range(rounds):
        for name, forward in ways.items():
            samples[name].append(_once(forward, passes, device))
        spent = _slowest(time.perf_counter() - begin, device)
        if turn >= 2 and spent > seconds:
            break
    return {name: Times(statistics.median(s), min(s), max(s)) for name, s in samples.items()}


def cosine(a: Tensor, b: Tensor) -> float:
    a64, b64 = a.flatten().double(), b.flatten().double()
    return float((a64 @ b64 / (a64.norm() * b64.norm())).item())


def peak_memory(forward: Forward, device: torch.device) -> float:
    """GiB that the allocator held at most during a forward pass, weights included; 0 on a CPU."""
    if device.type != "cuda":
        forward()
        return 0.0
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    forward()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) / 2**30


@dataclasses.dataclass
class Profile:
    """Where the GPU's time goes in a forward pass."""

    wall_ms: float  # from the first kernel's begin to the last one's end
    busy_ms: float  # of it with a kernel running
    exchange_ms: float  # with kernels of NCCL or of an exchange
    kernels: int
    longest: list[tuple[str, float, int]]  # name, ms, calls


def profile(forward: Forward, device: torch.device) -> Profile:
    """Of one forward pass, with the profiler's own overhead on the host."""
    from torch.profiler import ProfilerActivity

    activities = [ProfilerActivity.CUDA if device.type == "cuda" else ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities) as profiler:
        forward()
        synchronize(device)
    events = [e for e in profiler.events() if e.device_type.name == device.type.upper()]
    spans = sorted((e.time_range.start, e.time_range.end) for e in events)
    busy, end = 0.0, 0.0
    for begin, until in spans:
        busy += max(0.0, until - max(begin, end))
        end = max(end, until)
    sums: dict[str, list[float]] = {}
    for e in events:
        entry = sums.setdefault(e.name[:80], [0.0, 0])
        entry[0] += e.time_range.elapsed_us() / 1e3
        entry[1] += 1
    words = ("nccl", "tapa", "dit::", "dit_")
    exchange = sum(ms for name, (ms, _) in sums.items() if any(word in name.lower() for word in words))
    longest = sorted(((n, round(ms, 3), int(count)) for n, (ms, count) in sums.items()), key=lambda x: -x[1])
    wall = (end - spans[0][0]) / 1e3 if spans else 0.0
    return Profile(round(wall, 3), round(busy / 1e3, 3), round(exchange, 3), len(events), longest[:14])
