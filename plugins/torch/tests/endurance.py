"""Many images in a row, and a rank that is killed: for the tests of CPUs and for check_gpu.py.

As a program (a process for each rank, with the variables of torchrun), which prints what came of it as JSON:

    python endurance.py cpu|cuda images SCHEDULE POLICY    what is held, see images_in_a_row
    python endurance.py cpu|cuda killed [halves]    the last rank kills itself within a forward pass; what the
                                           others are told, and after how many seconds. halves: of the ranks
                                           compute a guidance branch each
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from typing import Any

import torch
import torch.distributed as dist

import dit_torch
import tiny

TIMEOUT = 5.0  # seconds until a rank that does not come is named


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _memory(device: torch.device) -> dict[str, int]:
    """What this process holds; of a GPU what others hold, too."""
    with open("/proc/self/statm", encoding="ascii") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    with open("/proc/self/maps", encoding="ascii") as file:
        mappings = sum(1 for _ in file)
    held = {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "mappings": mappings,
        "resident_mib": resident >> 20,
    }
    if device.type == "cuda":
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info(device)
        held |= {"device_mib": (total - free) >> 20, "allocated": torch.cuda.memory_allocated(device)}
    return held


def images_in_a_row(device: torch.device, count: int, schedule: str, policy: str) -> dict[str, list[int]]:
    """What is held after a quarter of the images and after all, a multiple of four; prompts differ in length,
    batches in size."""
    steps = 3
    model = tiny.flux(4).to(device)
    dit_torch.enable(
        model,
        schedule=schedule,
        policy=policy,
        adapt=False,
        **({} if policy == "exact" else {"steps": steps}),
    )
    held = []
    with torch.no_grad():
        for image in range(count):
            given = tiny.flux_inputs(text=5 + image % 2 * 4, batch=1 + image // 2 % 2, seed=image)
            given = {name: x.to(device) for name, x in given.items()}
            for step in range(steps):
                moment = torch.full_like(given["timestep"], 1 - step / steps)
                output = model(**given | {"timestep": moment}, return_dict=False)[0]
            assert bool(output.isfinite().all())
            if image + 1 in (count // 16 * 4, count):  # two alike
                held.append(_memory(device))
    dit_torch.disable(model)
    return {name: [before, held[1][name]] for name, before in held[0].items()}


def grown(held: dict[str, list[int]]) -> dict[str, list[int]]:
    """What is more after all images than after the first quarter. Allocators may round: 8 MiB, 8 mappings."""
    slack = {"resident_mib": 8, "mappings": 8, "device_mib": 0}
    return {name: two for name, two in held.items() if two[1] > two[0] + slack.get(name, 0)}


def _kill(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed(device: torch.device, halves: str = "") -> tuple[float, str]:
    model = (tiny.sd3 if halves else tiny.flux)(4).to(device)
    dit_torch.enable(model, schedule="v-first", timeout_seconds=TIMEOUT, cfg_parallel=bool(halves))
    inputs = tiny.sd3_inputs(batch=2) if halves else tiny.flux_inputs()
    given = {name: x.to(device) for name, x in inputs.items()}
    with torch.no_grad():
        model(**given)
        if dist.get_rank() == dist.get_world_size() - 1:
            model.transformer_blocks[1].attn.to_q.register_forward_pre_hook(_kill)
        begin = time.monotonic()
        try:
            for _ in range(3):  # what happens on a GPU is told by the call behind it
                model(**given)[0].sum().item()
        except RuntimeError as error:
            return time.monotonic() - begin, str(error)
    return time.monotonic() - begin, ""


def main() -> None:
    name, what, *rest = sys.argv[1:]
    dit_torch.init(backend="gloo" if name == "cpu" else None)
    device = torch.device(name) if name == "cpu" else torch.device(name, torch.cuda.current_device())
    told = killed(device, *rest) if what == "killed" else images_in_a_row(device, 200, *rest)
    print(json.dumps(told), flush=True)
    os._exit(0)  # the groups of torch.distributed would wait for one that is gone


if __name__ == "__main__":
    main()
