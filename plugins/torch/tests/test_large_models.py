"""The recipes of docs/torch.md for weights that do not fit: two ranks compute what one does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

import dit_torch
import ranks
import tiny

FAMILIES = ("flux", "qwenimage", "wan")


def _shard(model: Any) -> None:
    """FSDP2 over the ranks that share a picture."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    blocks = [block for part in model.children() if isinstance(part, nn.ModuleList) for block in part]
    for module in (*blocks, model):
        fully_shard(module, mesh=mesh)


def _cast(model: Any) -> None:
    model.enable_layerwise_casting(storage_dtype=torch.float8_e4m3fn, compute_dtype=torch.float32)


def _offload(model: Any) -> None:
    host = torch.device("cpu")
    model.enable_group_offload(
        onload_device=host, offload_device=host, offload_type="block_level", num_blocks_per_group=1
    )


def _quantise(model: Any) -> None:
    quantization = pytest.importorskip("torchao.quantization")
    quantization.quantize_(
        model,
        quantization.Int8WeightOnlyConfig(),
        lambda part, name: isinstance(part, nn.Linear) and "blocks." in name,
    )


RECIPES: dict[str, Callable[[Any], None]] = {
    "shard": _shard,
    "cast": _cast,
    "offload": _offload,
    "quantise": _quantise,
}


def _differences(recipe: str) -> dict[str, tuple[float, float, int]]:
    """How far two ranks are from one with such weights, and that from whole ones; bytes that a rank holds."""
    told = {}
    for family in FAMILIES:
        make, make_inputs = tiny.MODELS[family]
        given = make_inputs()
        whole, alone, model = make(4), make(4), make(4)
        RECIPES[recipe](model)
        if recipe != "shard":  # whose parts are all ranks' together
            RECIPES[recipe](alone)
        with torch.no_grad():
            exact = whole(**given, return_dict=False)[0]
            one = alone(**given, return_dict=False)[0]
            dit_torch.enable(model)
            every = model(**given, return_dict=False)[0]
            again = model(**given, return_dict=False)[0]
            dit_torch.disable(model)
        assert torch.equal(every, again), family
        local = [getattr(p, "_local_tensor", p) for p in model.parameters()]
        held = sum(p.numel() * p.element_size() for p in local)
        told[family] = float((every - one).abs().max()), float((one - exact).abs().max()), held
    return told


@pytest.mark.parametrize("recipe", RECIPES)
def test_two_ranks_compute_what_one_does(recipe: str) -> None:
    if recipe == "quantise":
        pytest.importorskip("torchao")
    for told in ranks.run(2, _differences, recipe):
        for family, (difference, change, held) in told.items():
            assert difference < 2e-5, (recipe, family)
            assert (change > 1e-4) == (recipe in ("cast", "quantise")), (recipe, family, change)
            whole = sum(p.numel() * p.element_size() for p in tiny.MODELS[family][0](4).parameters())
            if recipe in ("shard", "cast"):
                assert held < 0.75 * whole, (recipe, family)
