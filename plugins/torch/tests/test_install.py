"""install(): all_to_all_single of others goes through our exchange."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.utils._python_dispatch import TorchDispatchMode

import dit_torch
import needs
import ranks
import tiny

pytestmark = needs.LIBRARY


def _exchanged() -> list[bool]:
    rank, size = dist.get_rank(), dist.get_world_size()
    before = (dist.all_to_all_single, funcol.all_to_all_single)
    rows = torch.arange(size * 6.0).reshape(size, 6) + 100 * rank
    uneven = [1 + (rank + peer) % 2 for peer in range(size)]  # symmetric: what is sent is what comes back
    given = torch.arange(sum(uneven) * 3.0).reshape(-1, 3) + 100 * rank
    expected, expected_uneven = torch.empty_like(rows), torch.empty_like(given)
    dist.all_to_all_single(expected, rows)
    dist.all_to_all_single(expected_uneven, given, uneven, uneven)

    dit_torch.install(devices=("cpu",))
    found, found_uneven = torch.empty_like(rows), torch.empty_like(given)
    told = [dist.all_to_all_single is not before[0]]
    dist.all_to_all_single(found, rows)
    work = dist.all_to_all_single(found_uneven, given, uneven, uneven, async_op=True)
    work.wait()
    told += [torch.equal(found, expected), torch.equal(found_uneven, expected_uneven)]
    functional = funcol.all_to_all_single(rows, None, None, dist.group.WORLD)
    told.append(torch.equal(functional, expected))

    def compiled(x: torch.Tensor) -> torch.Tensor:
        return 2 * funcol.all_to_all_single(x + 1, None, None, dist.group.WORLD)

    graph = torch.compile(compiled, fullgraph=True, backend="aot_eager")
    told.append(torch.equal(graph(rows), 2 * (expected + 1)))
    with pytest.raises(RuntimeError, match="before"):
        dit_torch.install()
    told += _without_order(rank, size)
    late = dist.all_to_all_single  # as a module has it that is imported now
    dit_torch.uninstall()
    late(found.zero_(), rows)
    told.append(torch.equal(found, expected))
    told.append((dist.all_to_all_single, funcol.all_to_all_single) == before)
    return told


def _without_order(rank: int, size: int) -> list[bool]:
    """Tensors that are not contiguous, on some ranks only."""
    rows = torch.arange(size * 4.0).reshape(size, 4) + 100 * rank
    expected = torch.stack([torch.arange(rank * 4.0, rank * 4.0 + 4) + 100 * peer for peer in range(size)])
    given = rows if rank else rows.t().contiguous().t()
    found = torch.empty(4, size).t() if rank else torch.empty(size, 4)
    dist.all_to_all_single(found, given)
    functional = funcol.all_to_all_single(given, None, None, dist.group.WORLD)
    return [torch.equal(found, expected), torch.equal(functional, expected)]


@pytest.mark.parametrize("size", [2, 3])
def test_all_to_all_single(size: int) -> None:
    for told in ranks.run(size, _exchanged):
        assert all(told), told


class _Carried(TorchDispatchMode):
    """Counts collectives by the operators that run at last: whose they are, and of which kind."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        whose, name = operator._schema.name.split("::")
        for kind in ("all_to_all", "all_gather"):
            if kind in name:
                self.counts[f"{'dit' if whose == 'dit' else 'torch'} {kind}"] += 1
        return operator(*args, **(kwargs or {}))


def _enable_diffusers_ulysses(model: nn.Module) -> None:
    """diffusers takes torch's accelerator for the device, and fails where there is none."""
    from diffusers import ContextParallelConfig

    counting = getattr(torch, "accelerator", torch.cpu)  # the former is new in torch 2.6
    with (
        mock.patch.object(torch._C, "_get_accelerator", return_value=torch.device("cpu")),
        mock.patch.object(counting, "device_count", return_value=1),
    ):
        config = ContextParallelConfig(ulysses_degree=dist.get_world_size())
        model.enable_parallelism(config=config)  # type: ignore[operator]


def _with_diffusers_ulysses() -> list[tuple[bool, dict[str, int]]]:
    """Before install(), with it, after uninstall(): whether the bits are the first ones; who carried what."""
    model, given = tiny.flux(4), tiny.flux_inputs(text=8)  # tokens that divide by two, as diffusers wants
    _enable_diffusers_ulysses(model)
    outputs, told = [], []
    for before in (lambda: None, lambda: dit_torch.install(devices=("cpu",)), dit_torch.uninstall):
        before()
        with torch.no_grad(), _Carried() as carried:
            outputs.append(model(**given, return_dict=False)[0])
        told.append((torch.equal(outputs[-1], outputs[0]), dict(carried.counts)))
    return told


@pytest.mark.skipif(not hasattr(DeviceMesh, "_flatten"), reason="diffusers' Ulysses wants torch 2.5")
def test_diffusers_ulysses() -> None:
    # Q, K, V and the output of attention in each of four blocks. The model's output is put together by an
    # all-gather, which stays torch's.
    plain = (True, {"torch all_to_all": 16, "torch all_gather": 1})
    installed = (True, {"dit all_to_all": 16, "torch all_gather": 1})
    assert ranks.run(2, _with_diffusers_ulysses) == [[plain, installed, plain]] * 2
