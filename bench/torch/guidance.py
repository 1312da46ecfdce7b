"""A guided step: two forward passes, and what is made of them; by all ranks, or a branch by each half of them."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

BRANCHES = ("cond", "uncond")
SCALE = 4.0


def combined(cond: Tensor, uncond: Tensor) -> Tensor:
    return uncond + SCALE * (cond - uncond)


def _pass(model: nn.Module, name: str, inputs: dict[str, Any]) -> Tensor:
    with model.cache_context(name):  # type: ignore[operator]
        return model(**inputs)[0]


def step(model: nn.Module, inputs: dict[str, Any]) -> Tensor:
    """As diffusers' pipelines make it: one pass after the other. Inputs of no branches are one pass."""
    if BRANCHES[0] not in inputs:
        return model(**inputs)[0]
    return combined(*(_pass(model, name, inputs[name]) for name in BRANCHES))


class Halves:
    """As LightX2V, SGLang and vLLM-Omni make it: each half of the ranks runs the pass of one branch, and the results
    are gathered once a step, of pairs with one rank of each half."""

    def __init__(self, device: torch.device) -> None:
        ranks = dist.get_world_size()
        if ranks % 2 != 0:
            raise ValueError(f"{ranks} ranks: expected an even number")
        self.ranks = ranks // 2
        shape, names = (2, 1, self.ranks), ("branch", "ring", "ulysses")
        self.mesh = dist.device_mesh.init_device_mesh(device.type, shape, mesh_dim_names=names)
        self.name = BRANCHES[self.mesh.get_local_rank("branch")]

    def step(self, model: nn.Module, inputs: dict[str, Any]) -> Tensor:
        if self.name not in inputs:
            raise NotImplementedError("the case has no guidance")
        own = _pass(model, self.name, inputs[self.name]).contiguous()
        both = own.new_empty((2 * own.shape[0], *own.shape[1:]))
        dist.all_gather_into_tensor(both, own, group=self.mesh.get_group("branch"))
        return combined(*both.chunk(2))
