"""One model, several ways, in turns: started by torchrun, one rank a GPU. Rank 0 writes a line of JSON per result."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import time
import traceback
from pathlib import Path
from typing import Any

import measure
import torch
import torch.distributed as dist
import ways as ways_of
from cases import CASES, Case, Inputs, build, make_inputs, tiny
from torch import Tensor, nn


class Race:
    """The state of one case: the weights, the inputs, the ways that work, and the record so far."""

    def __init__(self, case: Case, device: torch.device, arguments: argparse.Namespace) -> None:
        self.case, self.device, self.arguments = case, device, arguments
        self.model: nn.Module = build(case, device)
        self.inputs: Inputs = make_inputs(case, device)
        self.begin = time.perf_counter()

    def say(self, record: dict[str, Any]) -> None:
        if dist.get_rank() != 0:
            return
        record = {"case": self.case.name, **record, "at_seconds": round(time.perf_counter() - self.begin, 1)}
        line = json.dumps(record)
        print(line, flush=True)
        if self.arguments.json:
            with open(self.arguments.json, "a", encoding="utf-8") as file:
                file.write(line + "\n")

    def _agreed(self, failure: str) -> str:
        """The first failure of any rank, or nothing: a way that fails on one rank is left out on all."""
        failures: list[str | None] = [None] * dist.get_world_size()
        dist.all_gather_object(failures, failure)
        return next((f for f in failures if f), "")

    def prepare(self, name: str, compiled: bool) -> tuple[ways_of.Way | None, Tensor | None]:
        """The way after two forward passes, with their output; None where it does not run."""
        way, output, failure = None, None, ""
        begin = time.perf_counter()
        free = torch.cuda.mem_get_info(self.device)[0] if self.device.type == "cuda" else 0
        try:
            way = ways_of.prepare(name, self.model, self.case, self.device)
            if compiled:
                ways_of.compile_blocks(way, self.case)
            way.forward(self.inputs)
            output = way.forward(self.inputs).float().clone()
            measure.synchronize(self.device)
        except Exception as error:
            failure = f"{type(error).__name__}: {error}".splitlines()[0][:300]
            if self.arguments.verbose:
                traceback.print_exc()
        failure = self._agreed(failure)
        record: dict[str, Any] = {"way": name, "compiled": compiled}
        if failure or way is None:
            self.say({**record, "fails": failure})
            return None, None
        way_ = way
        record["peak_gib"] = round(measure.peak_memory(lambda: way_.forward(self.inputs), self.device), 3)
        if self.device.type == "cuda":
            record["device_gib"] = round((free - torch.cuda.mem_get_info(self.device)[0]) / 2**30, 3)
        self.say({**record, "ready_seconds": round(time.perf_counter() - begin, 1)})
        return way, output

    def run(self, names: list[str], modes: list[bool]) -> None:
        """All modes of all ways, but for those that patch diffusers' classes; these come last."""
        alone: dict[bool, Tensor] = {}
        for chosen in (
            [name for name in names if name not in ways_of.PATCHING],
            [name for name in names if name in ways_of.PATCHING],
        ):
            for compiled in modes if chosen else []:
                ready, outputs = self._ready(chosen, compiled)
                alone.setdefault(compiled, outputs.get("one", torch.empty(0)))
                self._race(ready, outputs, alone[compiled], compiled)
                ready.clear()

    def _ready(self, names: list[str], compiled: bool) -> tuple[dict[str, ways_of.Way], dict[str, Tensor]]:
        ready, outputs = {}, {}
        for name in names:
            way, output = self.prepare(name, compiled)
            if way is not None and output is not None:
                ready[name], outputs[name] = way, output
        return ready, outputs

    def _race(self, ready: dict[str, ways_of.Way], outputs: dict[str, Tensor], alone: Tensor, compiled: bool) -> None:
        if not ready:
            return
        forwards = {name: (lambda w=way: w.forward(self.inputs)) for name, way in ready.items()}
        times = measure.in_turns(forwards, self.device, self.arguments.seconds, self.arguments.rounds)
        for name in ready:
            record: dict[str, Any] = {"way": name, "compiled": compiled, **dataclasses.asdict(times[name])}
            if name not in ("one", "bound") and alone.numel():
                record["cosine"] = round(measure.cosine(outputs[name], alone), 7)
            self.say(record)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=CASES, required=True)
    parser.add_argument("--ways", default="one,bound,diffusers,packed,ours,cache-dit,cache-dit-async")
    parser.add_argument("--modes", default="eager,compiled", help="of eager, compiled")
    parser.add_argument("--seconds", type=float, default=10, help="of each mode's turns, once three are done")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path, help="a line is added for each result")
    parser.add_argument("--tiny", action="store_true", help="few layers and tokens, for a machine without a GPU")
    parser.add_argument("--verbose", action="store_true", help="whole tracebacks")
    return parser.parse_args()


@contextlib.contextmanager
def process_group() -> Any:
    local = int(os.environ["LOCAL_RANK"])
    if torch.cuda.is_available():
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
    else:
        device = torch.device("cpu")
        torch.accelerator.device_count = lambda: 1  # diffusers divides by it
        dist.init_process_group("gloo")
    try:
        yield device
    finally:
        dist.destroy_process_group()


def main() -> None:
    options = arguments()
    torch._dynamo.config.recompile_limit = 64
    torch._dynamo.config.accumulated_recompile_limit = 1024
    torch.set_float32_matmul_precision("high")
    with process_group() as device:
        case = tiny(CASES[options.case]) if options.tiny else CASES[options.case]
        race = Race(case, device, options)
        race.run(options.ways.split(","), [mode == "compiled" for mode in options.modes.split(",")])


if __name__ == "__main__":
    main()
