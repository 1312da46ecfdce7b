"""One model, several ways, in turns: started by torchrun, one rank a GPU. Rank 0 writes lines of JSON."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import importlib
import json
import os
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import measure
import torch
import torch.distributed as dist
import ways as ways_of
from cases import CASES, Case, Inputs, build, make_inputs, shortened, tiny
from torch import Tensor, nn

Made = TypeVar("Made")


class Race:
    """The state of one case: the weights, the inputs, the ways that work, and the record so far."""

    def __init__(self, case: Case, device: torch.device, arguments: argparse.Namespace) -> None:
        self.case, self.device, self.arguments = case, device, arguments
        self.model: nn.Module = build(case, device)
        self.inputs: Inputs = make_inputs(case, device)
        self.begin = time.perf_counter()
        self.in_parts: set[str] = set()  # ways whose compiled blocks have breaks

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

    def attempt(self, name: str, mode: str, make: Callable[[], Made]) -> Made | None:
        """What `make` gives, and a record of how long it took; None and a record of why, if a rank fails."""
        made, failure = None, ""
        begin = time.perf_counter()
        free = self._free()
        try:
            made = make()
            measure.synchronize(self.device)
        except Exception as error:
            failure = f"{type(error).__name__}: {error}".splitlines()[0][:300]
            if self.arguments.verbose:
                traceback.print_exc()
        failure = self._agreed(failure)
        record: dict[str, Any] = {"way": name, "mode": mode}
        if failure:
            self.say({**record, "fails": failure})
            return None
        taken = round((free - self._free()) / 2**30, 3)
        self.say({**record, "ready_seconds": round(time.perf_counter() - begin, 1), "device_gib": taken})
        return made

    def _free(self) -> int:
        return torch.cuda.mem_get_info(self.device)[0] if self.device.type == "cuda" else 0

    def _make(self, name: str, compiled: bool) -> ways_of.Way:
        """A way after two forward passes. Blocks that are no single graph, as torch says, are compiled in parts."""
        for whole in (True, False) if compiled else (True,):
            way = ways_of.prepare(name, self.model, self.case, self.device)
            if compiled:
                ways_of.compile_blocks(way, self.case, whole)
            try:
                for _ in range(2):
                    way.forward(self.inputs)
            except torch._dynamo.exc.Unsupported:
                if not whole:
                    raise
                self.in_parts.add(name)
                continue
            break
        return way

    def run(self, names: list[str], modes: list[str]) -> None:
        """All modes of all ways, but for those that patch diffusers' classes; these come last."""
        alone: dict[str, Tensor] = {}
        for chosen in (
            [name for name in names if name not in ways_of.PATCHING],
            [name for name in names if name in ways_of.PATCHING],
        ):
            ready: dict[str, ways_of.Way] = {}
            prepared = None
            for mode in modes if chosen else []:
                compiled = mode != "eager"
                if prepared != compiled:
                    ready = self._ready(chosen, mode, compiled)
                    prepared = compiled
                if self.arguments.rounds:
                    self._race(ready, mode, alone)

    def _ready(self, names: list[str], mode: str, compiled: bool) -> dict[str, ways_of.Way]:
        made = {name: self.attempt(name, mode, lambda n=name: self._make(n, compiled)) for name in names}
        return {name: way for name, way in made.items() if way is not None}

    def _race(self, ready: dict[str, ways_of.Way], mode: str, alone: dict[str, Tensor]) -> None:
        forwards: dict[str, measure.Forward] = {}
        for name, way in ready.items():
            forward = functools.partial(way.forward, self.inputs)
            if mode == "graph":
                replay = self.attempt(name, mode, functools.partial(way.captured, self.inputs))
                if replay is None:
                    continue
                forward = replay
            forwards[name] = forward
        limits = (self.arguments.seconds, self.arguments.rounds, self.arguments.passes)
        times = measure.in_turns(forwards, self.device, *limits)
        for name, forward in forwards.items():
            record: dict[str, Any] = {"way": name, "mode": mode, **dataclasses.asdict(times[name])}
            output = forward().float()
            alone.setdefault(mode, output if name == "one" else torch.empty(0))
            if name not in ("one", "bound") and alone[mode].numel():
                record["cosine"] = round(measure.cosine(output, alone[mode]), 7)
            record["peak_gib"] = round(measure.peak_memory(forward, self.device), 3)
            record |= ways_of.reported(name, ready[name])
            if name in self.in_parts and mode != "eager":
                record["in_parts"] = True
            if self.arguments.profile:
                record["profile"] = dataclasses.asdict(measure.profile(forward, self.device))
            self.say(record)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=CASES, required=True)
    parser.add_argument("--ways", default="one,bound,diffusers,packed,ours,cache-dit,cache-dit-async")
    parser.add_argument(
        "--modes",
        default="eager,compiled",
        help="of eager, compiled, graph: the compiled blocks in a CUDA graph",
    )
    parser.add_argument("--seconds", type=float, default=10, help="of each mode's turns, once three are done")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--passes", type=int, default=3, help="forward passes in a row in a turn")
    parser.add_argument("--json", type=Path, help="a line is added for each result")
    parser.add_argument("--layers", type=int, help="blocks of each kind: with --rounds 0 it fills the compiler's cache")
    parser.add_argument("--after", type=Path, help="loads what it needs, and waits for this file before it uses a GPU")
    parser.add_argument("--limit", type=int, default=600, help="seconds from then on, after which it ends itself")
    parser.add_argument("--profile", action="store_true", help="also where the GPU's time goes, of rank 0")
    parser.add_argument("--tiny", action="store_true", help="few layers and tokens, for a machine without a GPU")
    parser.add_argument("--verbose", action="store_true", help="whole tracebacks")
    return parser.parse_args()


def load(options: argparse.Namespace) -> None:
    """Imports, which take long, while another of these programs may be timed; then its turn."""
    import diffusers

    getattr(diffusers, CASES[options.case].transformer)
    if any(way.startswith("ours") for way in options.ways.split(",")):
        with contextlib.suppress(ImportError):
            importlib.import_module("dit_torch")
    while options.after and not options.after.exists():
        time.sleep(0.2)
    signal.alarm(options.limit)


@contextlib.contextmanager
def process_group() -> Any:
    local = int(os.environ["LOCAL_RANK"])
    if torch.cuda.is_available():
        if torch.cuda.device_count() < int(os.environ["LOCAL_WORLD_SIZE"]):
            os.environ["NCCL_HOSTID"] = f"rank-{local}"  # ranks that share a GPU: NCCL wants them on hosts of their own
        device = torch.device("cuda", local % torch.cuda.device_count())
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
    case = tiny(CASES[options.case]) if options.tiny else CASES[options.case]
    if options.layers:
        case = shortened(case, options.layers)
    load(options)
    with process_group() as device:
        race = Race(case, device, options)
        race.run(options.ways.split(","), options.modes.split(","))


if __name__ == "__main__":
    main()
