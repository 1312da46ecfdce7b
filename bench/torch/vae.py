"""Decoding by diffusers' VAEs at full size, random weights: whole and in tiles on one GPU, and the same tiles on all.

    torchrun --nproc-per-node 2 bench/torch/vae.py [--cases wan,hunyuan,...] [--rounds N] [--json FILE] [--tiny]

Milliseconds of a decode, medians of turns, of the slower rank; "one" is what each rank computes for itself. Tiles are those
of the class, or of --tiling NAME=NUMBER,... Rank 0 prints. --tiny: a few pixels, for a machine without a GPU.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import diffusers
import dit_torch
import measure
import torch
import torch.distributed as dist
from torch import Tensor

_FLUX = {
    "block_out_channels": (128, 256, 512, 512),
    "down_block_types": ("DownEncoderBlock2D",) * 4,
    "up_block_types": ("UpDecoderBlock2D",) * 4,
    "layers_per_block": 2,
    "latent_channels": 16,
    "sample_size": 1024,
    "use_quant_conv": False,
    "use_post_quant_conv": False,
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A VAE and what it decodes."""

    vae: str  # class in diffusers
    config: dict[str, Any]
    latents: tuple[int, ...]
    note: str


CASES = {
    "wan": Case("AutoencoderKLWan", {}, (1, 16, 21, 60, 104), "81 frames of 832x480"),
    "wan-720p": Case("AutoencoderKLWan", {}, (1, 16, 21, 90, 160), "81 frames of 1280x720"),
    "hunyuan": Case("AutoencoderKLHunyuanVideo", {}, (1, 16, 13, 60, 104), "49 frames of 832x480"),
    "qwenimage": Case("AutoencoderKLQwenImage", {}, (1, 16, 1, 166, 166), "1328x1328"),
    "flux": Case("AutoencoderKL", _FLUX, (1, 16, 256, 256), "2048x2048"),
}
TINY = Case("AutoencoderKLWan", {"base_dim": 4, "num_res_blocks": 1}, (1, 16, 2, 30, 40), "5 frames of 320x240, tiny")


def build(case: Case, device: torch.device) -> Any:
    torch.manual_seed(1)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    with torch.device(device):
        return getattr(diffusers, case.vae)(**case.config).to(dtype).eval()


def decode(vae: Any, latents: Tensor) -> Tensor:
    return vae.decode(latents).sample


def attempt(ways: dict[str, Callable[[], Tensor]], name: str, way: Callable[[], Tensor]) -> Tensor | None:
    """Adds it, warmed up, where it has the memory."""
    try:
        result = way()
    except torch.OutOfMemoryError:
        return None
    ways[name] = way
    return result


@torch.no_grad()
def race(name: str, case: Case, device: torch.device, rounds: int, tiling: dict[str, int]) -> dict[str, Any]:
    vaes = [build(case, device) for _ in range(3)]
    generator = torch.Generator(device).manual_seed(2)
    latents = torch.randn(case.latents, generator=generator, device=device).to(next(vaes[0].parameters()).dtype)
    shared, tiled, whole = vaes
    dit_torch.enable_vae(shared, **tiling)
    vars(tiled).update({key: value for key, value in vars(shared).items() if key.startswith(("use_", "tile_"))})
    ways: dict[str, Callable[[], Tensor]] = {}
    attempt(ways, "one, whole", partial(decode, whole, latents))
    alone = attempt(ways, "one, tiles", partial(decode, tiled, latents))
    together = attempt(ways, "all, tiles", partial(decode, shared, latents))
    times = measure.in_turns(ways, device, 60.0, rounds, 1)
    told = {"case": name, "note": case.note, "ranks": dist.get_world_size()}
    told |= {way: [round(x, 1) for x in (time.median, time.low, time.high)] for way, time in times.items()}
    if alone is not None and together is not None:
        told["speedup"] = round(times["one, tiles"].median / times["all, tiles"].median, 2)
        told["equal"] = torch.equal(alone, together)
    dit_torch.disable_vae(shared)
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES), help=f"of {', '.join(CASES)}")
    parser.add_argument("--tiling", default="", help="NAME=NUMBER,..., as enable_vae() takes it")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    dit_torch.init()
    device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    tiling = {name: int(number) for name, _, number in (one.partition("=") for one in given.tiling.split(",") if one)}
    for name, case in {"tiny": TINY}.items() if given.tiny else ((name, CASES[name]) for name in given.cases.split(",")):
        line = json.dumps(race(name, case, device, given.rounds, tiling))
        if dist.get_rank() == 0:
            print(line, flush=True)
            if given.json:
                with open(given.json, "a", encoding="utf-8") as file:
                    file.write(line + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
