"""The ranks that check_gpu.py runs on, and what all of its checks need."""

from __future__ import annotations

import os

import torch
from torch import Tensor

import dit_torch.group
from operator_cases import CASES, Case, make


class Check:
    """What all checks need."""

    def __init__(self) -> None:
        this = dit_torch.launch()
        if torch.cuda.device_count() < this.local_size:
            os.environ["NCCL_HOSTID"] = f"rank-{this.rank}"  # NCCL shares a GPU only between hosts
        dit_torch.init()
        torch.backends.cudnn.allow_tf32 = False  # convolutions as exact as all else in fp32
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.group = dit_torch.group.take(None, timeout_seconds=120)  # enable() takes the same one
        self.rank, self.size = this.rank, this.size
        self.made = 0
        self.facts: dict[str, object] = {"ranks": self.size, "device": torch.cuda.get_device_name()}

    def say(self, *words: object) -> None:
        if self.rank == 0:
            print(*words, flush=True)

    def exchange(self, case: Case, dtype: torch.dtype, on_host: bool = False, **more: object) -> str:
        self.made += 1
        device = torch.device("cpu") if on_host else self.device
        return make(self.group, f"check {self.made}", case, dtype, device, **more)

    def free(self, *names: str) -> None:
        torch.cuda.synchronize()
        assert self.group.library is not None
        for name in names:
            self.group.library.free_exchange(name)

    def nearest_level(self) -> str:
        """What rules of policies call the links between these ranks."""
        name = self.exchange(CASES[0], torch.float32)
        levels = self.report(name)["levels"]
        self.free(name)
        return next((level["name"] for level in levels if level["peers"]), levels[0]["name"])

    def report(self, name: str) -> dict:
        assert self.group.library is not None
        return self.group.library.report(name)


def require_same(what: str, on_device: Tensor, on_host: Tensor) -> None:
    if not torch.equal(on_device.cpu(), on_host):
        away = (on_device.cpu().double() - on_host.double()).abs().max()
        raise AssertionError(f"{what}: differs from the host's bits, by up to {away:.3g}")
