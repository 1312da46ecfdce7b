"""Images over a slow link: exact exchanges against NCCL's, and policies that send less, in turns. Started on the nodes
of tools/cluster by bench/torch/slow-link, one rank a node; rank 0 writes lines of JSON. With --nvlink the same over
a fast link, with --here over what joins the GPUs of this machine, started by torchrun.

A policy's bytes differ from step to step, so it is timed over whole images; of exact ways every step is alike."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import time
import traceback
from pathlib import Path
from typing import Any

import measure
import torch
import torch.distributed as dist
import ways as ways_of
from cases import CASES, Case, Inputs, build, make_inputs, shortened, tiny
from torch import Tensor


@dataclasses.dataclass
class Image:
    """One way's denoising: Euler steps from the same noise."""

    way: ways_of.Way
    inputs: Inputs
    steps: int

    def run(self, count: int) -> tuple[float, Tensor]:
        """Seconds of the first `count` steps, on the slower rank, and the latents behind them."""
        x: Tensor = self.inputs["hidden_states"]
        measure.synchronize(x.device)
        dist.barrier()
        begin = time.perf_counter()
        for step in range(count):
            now = {
                **self.inputs,
                "hidden_states": x,
                "timestep": torch.full_like(self.inputs["timestep"], 1 - step / self.steps),
            }
            x = x - self.way.forward(now) / self.steps
        measure.synchronize(x.device)
        spent = torch.tensor([time.perf_counter() - begin], dtype=torch.float64, device=x.device)
        dist.all_reduce(spent, op=dist.ReduceOp.MAX)
        return float(spent.item()), x


def lossy(name: str) -> bool:
    return name.split(":")[2:3] not in ([], ["exact"])


def case_of(options: argparse.Namespace) -> Case:
    case = tiny(CASES[options.case]) if options.tiny else CASES[options.case]
    return shortened(case, options.layers) if options.layers else case


def prepare(name: str, model: torch.nn.Module, options: argparse.Namespace, device: torch.device) -> ways_of.Way:
    case = case_of(options)
    more = {"steps": options.steps} if lossy(name) else {}
    way = ways_of.prepare(name, model, case, device, **more)
    if options.compile:
        ways_of.compile_blocks(way, case)
    return way


def race(options: argparse.Namespace, device: torch.device) -> None:
    case = case_of(options)
    model = build(case, device)
    inputs = make_inputs(case, device)
    images: dict[str, Image] = {}
    for name in options.ways.split(","):
        failure, begin = "", time.perf_counter()
        try:
            images[name] = Image(prepare(name, model, options, device), inputs, options.steps)
            images[name].run(2)
        except Exception as error:
            traceback.print_exc()
            failure = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        failures: list[str | None] = [None] * dist.get_world_size()
        dist.all_gather_object(failures, failure)
        if any(failures):
            images.pop(name, None)
            say(options, {"way": name, "fails": next(f for f in failures if f)})
        else:
            say(options, {"way": name, "ready_seconds": round(time.perf_counter() - begin, 1)})
    exact: Tensor | None = None
    for turn in range(options.rounds):
        for name, image in images.items():
            count = options.steps if lossy(name) else min(options.exact_steps, options.steps)
            seconds, x = image.run(count)
            if not lossy(name) and exact is None:
                exact = x
            record = {"way": name, "turn": turn, "steps": count, "ms": round(seconds * 1e3 / count, 2)}
            record |= ways_of.reported(name, image.way)
            if not lossy(name) and exact is not None:
                record["cosine"] = round(measure.cosine(x, exact), 7)
            say(options, record)


def say(options: argparse.Namespace, record: dict[str, Any]) -> None:
    if dist.get_rank() != 0:
        return
    line = json.dumps({"case": options.case, "mode": "slow-link", "rate": options.rate, **record})
    print(line, flush=True)
    if options.json:
        with open(options.json, "a", encoding="utf-8") as file:
            file.write(line + "\n")


def apart(options: argparse.Namespace, rank: int) -> dict[str, str]:
    """By these variables the machine is several: to the device engine, and to NCCL if it shall not use what joins the GPUs."""
    host = {"TAPA_GPU_PEERS": f"group:{rank}", "TAPA_GPU_WIRE": "sockets"}
    engine = host if options.host else {"TAPA_DEVICE_NODE": f"node-{rank}"}
    return engine | ({"TAPA_GPU_WIRE": "nccl"} if options.nvlink else {"NCCL_HOSTID": f"node-{rank}"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=CASES, default="flux-1024")
    parser.add_argument("--ways", default="diffusers,packed,ours,ours:auto:balanced,ours:auto:fast")
    parser.add_argument("--steps", type=int, default=50, help="of an image; policies are timed over all of them")
    parser.add_argument("--exact-steps", type=int, default=5, help="so many of exact ways")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rate", default="", help="of the link, for the record")
    parser.add_argument("--json", type=Path, help="a line is added for each result")
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    parser.add_argument(
        "--nvlink",
        action="store_true",
        help="NCCL goes between nodes by what joins the GPUs: a fast link; with torchrun",
    )
    parser.add_argument(
        "--host",
        action="store_true",
        help="the link stands for the memory of one host, whose GPUs do not reach each other",
    )
    parser.add_argument(
        "--here",
        action="store_true",
        help="the machine as it is, with torchrun; TAPA_GPU_PEERS=0 NCCL_P2P_DISABLE=1 refuse peers",
    )
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--layers", type=int, help="blocks of each kind: with --rounds 0 it fills the compiler's cache")
    parser.add_argument("--limit", type=int, default=600, help="seconds, after which it ends itself")
    options = parser.parse_args()
    torch._dynamo.config.recompile_limit = 64
    torch._dynamo.config.accumulated_recompile_limit = 1024
    signal.alarm(options.limit)
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["RANK"])
    size = int(os.environ.get("OMPI_COMM_WORLD_SIZE") or os.environ["WORLD_SIZE"])
    os.environ |= {} if options.here else apart(options, rank)
    if torch.cuda.is_available():
        device = torch.device("cuda", rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", rank=rank, world_size=size, device_id=device)
    else:
        device = torch.device("cpu")
        torch.accelerator.device_count = lambda: 1  # diffusers divides by it
        dist.init_process_group("gloo", rank=rank, world_size=size)
    begin = time.perf_counter()
    race(options, device)
    say(options, {"seconds": round(time.perf_counter() - begin, 1)})
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
