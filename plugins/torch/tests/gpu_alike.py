"""What ranks compare, on GPUs, for check_gpu.py: digests, passes that differ, replays of graphs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import dit_torch
import tiny
from dit_torch.digest import digests
from gpu_ranks import Check, require_same


def check_digests(check: Check) -> None:
    """The host's bits, and at memory speed."""
    noise = torch.randn(300, 257)
    odd: list[Tensor] = [noise, noise.t(), noise[:, 1:], noise.bfloat16()[1:], noise.flatten()[:7], noise > 0]
    tensors = [*odd, torch.zeros(0), torch.tensor(1.5), *(noise[: at + 1] for at in range(60))]
    require_same("digests", digests([x.to(check.device) for x in tensors]), digests(tensors))
    weights = [torch.randn(1 << 28, device=check.device) for _ in range(8)]  # 8 GiB
    inputs = [torch.randn(shape, device=check.device) for shape in ((4096, 32), (512, 2048), (4608, 3), (1,))]
    for name, x in {"8 GiB": weights, "FLUX.1's inputs": inputs}.items():
        digests(x)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(20):
            digests(x)
        end.record()
        end.synchronize()
        check.facts[f"digest of {name}, ms"] = begin.elapsed_time(end) / 20
        check.say(f"   digest of {name}: {begin.elapsed_time(end) / 20:.3f} ms")


def _output(model: nn.Module, given: dict[str, Any]) -> Tensor:
    return model(**given, return_dict=False)[0]


def _told(model: nn.Module, given: dict[str, Any]) -> str:
    try:
        _output(model, given)
    except ValueError as error:
        return str(error)
    return ""


@torch.no_grad()
def check_alike(check: Check) -> None:
    """A pass whose ranks are given different things gives NaN, and the next one says why; so do replays."""
    for way in ("eager", "blocks", "whole", "graph"):
        model = tiny.flux(4).to(check.device)
        given = {name: x.to(check.device) for name, x in tiny.flux_inputs().items()}
        other = given | {"guidance": given["guidance"] + check.rank}
        dit_torch.enable(model)
        torch._dynamo.reset()
        if way == "blocks":
            model.compile_repeated_blocks(fullgraph=True)
        call = torch.compile(model, fullgraph=True) if way == "whole" else model
        right = _output(call, given).clone()
        if way == "graph":
            told = _replayed(model, given, other["guidance"], right)
        else:
            assert _output(call, other).isnan().all(), f"{way}: no NaN where ranks differ"
            told = _told(call, given)
        assert told.startswith("guidance differs between ranks 0 and 1"), (way, told)
        assert torch.equal(_output(call, given), right), f"{way}: other bits behind it"
        dit_torch.disable(model)


def _replayed(model: nn.Module, given: dict[str, Any], other: Tensor, right: Tensor) -> str:
    """What the next pass says when a replay was given something else."""
    guidance = given["guidance"].clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = _output(model, given | {"guidance": guidance})
    for number in range(50):
        graph.replay()
        assert torch.equal(result, right), f"replay {number}: other bits"
    guidance.copy_(other)
    graph.replay()
    torch.cuda.synchronize()
    assert result.isnan().all() and dit_torch.report(model).ranks_differ, "replay: no NaN where ranks differ"
    return _told(model, given)
