#!/usr/bin/env python3
"""What policies do to pictures: a trained model of train.py on several ranks, each a node of its own, against the exact
picture with the same seed.

    torchrun --nproc-per-node 4 evaluate.py --model gray-scott-flux --policies fine,good,balanced,fast --json out.json

Ranks share the GPUs that there are; without any all of it runs on CPUs. PSNR is in model units with a range of
four standard deviations, as that of `dit bench`. `other-kernel` among the policies is none: exact exchanges, and
attention by the plain formula in place of a fused kernel. What rounding alone changes tells how far a picture can
be held at all."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dit_torch
import fields
import model as models
import prompts
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

RANGE = 4.0  # of fields, in model units
OTHER_KERNEL = "other-kernel"


def psnr(a: Tensor, b: Tensor) -> list[float]:
    """dB of each field [count, 2, size, size]; infinity where they are equal."""
    errors = (a - b).double().square().flatten(1).mean(1).tolist()
    return [10 * math.log10(RANGE**2 / error) if error > 0 else math.inf for error in errors]


class Pictures:
    """The same pictures for all policies: classes in turn, a seed of its own for each."""

    def __init__(self, options: argparse.Namespace, device: torch.device) -> None:
        self.options, self.device = options, device
        self.transformer, _ = models.load(options.model, device, torch.bfloat16)
        count, classes = options.images, len(fields.REGIMES)
        self.labels = torch.arange(count, device=device) % classes
        centre = torch.tensor([[feed, kill] for _, feed, kill in fields.REGIMES], device=device)[self.labels]
        self.prompt = prompts.embed(self.labels, centre[:, 0], centre[:, 1])
        self.noise = torch.stack(
            [
                torch.randn(2, options.size, options.size, generator=torch.Generator().manual_seed(seed))
                for seed in range(options.seed, options.seed + count)
            ]
        ).to(device)

    def make(self, transformer: nn.Module, steps: int, policy: str) -> Tensor:
        """All of them, so many at a time. Each batch is a new image to the policy."""
        made = []
        for begin in range(0, len(self.noise), self.options.batch):
            part = slice(begin, begin + self.options.batch)
            prompt = (self.prompt[0][part], self.prompt[1][part])
            if policy != "exact":
                dit_torch.new_image(transformer)
            made.append(models.sample(transformer, self.noise[part], prompt, steps))
        return torch.cat(made)

    def with_policy(self, policy: str, steps: int) -> tuple[Tensor, dict[str, Any]]:
        other_kernel = policy == OTHER_KERNEL
        policy = "exact" if other_kernel else policy
        lossy = {} if policy == "exact" else {"steps": steps}
        # Here as on any links: presets are judged also where they would not pay.
        dit_torch.enable(self.transformer, schedule="flat", policy=policy, adapt=False, **lossy)
        begin = time.perf_counter()
        with sdpa_kernel(SDPBackend.MATH) if other_kernel else contextlib.nullcontext():
            made = self.make(self.transformer, steps, policy)
        told = dit_torch.report(self.transformer)
        sent = sum(level["sent_bytes"] for level in told.levels.values())
        facts = {
            "seconds": round(time.perf_counter() - begin, 2),
            "sent_share": round(sent / told.full_bytes, 4) if told.full_bytes else 1.0,
            "report": str(told),
        }
        dit_torch.disable(self.transformer)
        return made, facts


def judge(pictures: Pictures, policies: list[str], steps: int) -> Iterator[dict[str, Any]]:
    """A record for each policy, printed as soon as it is known."""
    exact, facts = pictures.with_policy("exact", steps)
    for policy in policies:
        record: dict[str, Any] = {"policy": policy, "steps": steps}
        try:
            made, facts = pictures.with_policy(policy, steps)
            if not made.isfinite().all():
                raise ValueError("a picture is not finite")
            values = psnr(made, exact)
            # JSON knows no infinity.
            record |= {"psnr_db": [round(v, 2) if math.isfinite(v) else None for v in values], **facts}
            told = f"{record['sent_share']:.1%} sent, {median_and_worst(record['psnr_db'])}, median and worst dB"
        except (RuntimeError, ValueError) as error:
            record["fails"] = told = str(error).splitlines()[0]
        if dist.get_rank() == 0:
            print(f"{steps} steps, {policy}: {told}", flush=True)
        yield record


def median_and_worst(psnr_db: list[float | None]) -> str:
    values = [math.inf if value is None else value for value in psnr_db]
    return "same bits" if min(values) == math.inf else f"{statistics.median(values):.1f} / {min(values):.1f}"


def table(records: list[dict[str, Any]]) -> str:
    """Markdown: what each policy sent, beside exact exchanges, and median and worst PSNR, by steps."""
    steps = sorted({record["steps"] for record in records})
    lines = [
        "| policy | " + " | ".join(f"{n} steps: bytes, median / worst dB" for n in steps) + " |",
        "|---" * (len(steps) + 1) + "|",
    ]
    for policy in dict.fromkeys(record["policy"] for record in records):
        cells = []
        for count in steps:
            found = next(r for r in records if (r["policy"], r["steps"]) == (policy, count))
            values = found.get("psnr_db")
            cells.append(f"{found['sent_share']:.1%}, {median_and_worst(values)} ({len(values)})" if values else "fails")
        lines.append(f"| `{policy}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="folder that train.py wrote")
    parser.add_argument("--policies", default=f"{OTHER_KERNEL},bf16,fine,good,balanced,fast,draft,paper,fp8")
    parser.add_argument("--steps", default="25,50")
    parser.add_argument("--images", type=int, default=36)
    parser.add_argument("--batch", type=int, default=12, help="images at a time")
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def main() -> None:
    options = parse()
    # Before the ranks meet: each stands for a node, to NCCL too, which lets no two ranks of a node share a GPU.
    os.environ["NCCL_HOSTID"] = os.environ["TAPA_DEVICE_NODE"] = f"node-{dit_torch.launch().rank}"
    dit_torch.init()
    device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    pictures = Pictures(options, device)
    facts = {"images": options.images, "size": options.size, "ranks": dist.get_world_size()}
    records = []
    for steps in options.steps.split(","):
        for record in judge(pictures, options.policies.split(","), int(steps)):
            records.append(record)
            if dist.get_rank() == 0 and options.json:  # again after each: policies take minutes
                options.json.write_text(json.dumps({**facts, "records": records}, indent=1, allow_nan=False) + "\n")
    if dist.get_rank() == 0:
        print(table(records))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
