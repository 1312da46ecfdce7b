"""Sizes are symbols to torch.compile: a graph serves all text lengths and picture sizes."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

import dit_torch
import ranks
import tiny
from dit_torch._library import library

FAMILIES = {
    "qwenimage": (tiny.qwenimage, tiny.qwenimage_inputs),
    "flux": (tiny.flux, tiny.flux_inputs),
    "wan": (tiny.wan, tiny.wan_inputs),
    "sd3": (tiny.sd3, tiny.sd3_inputs),
}
# Text length and width of the picture: other lengths first, then other widths.
SIZES = [(text, 5) for text in range(9, 21)] + [(11, 6), (12, 7), (13, 4), (14, 8), (15, 3), (16, 2)]


def _make(name: str) -> nn.Module:
    model = FAMILIES[name][0](4)
    if name == "sd3":
        model._repeated_blocks = ["JointTransformerBlock"]  # diffusers names none
    return model


def _compile(model: nn.Module, how: str) -> None:
    if how == "regional":
        model.compile_repeated_blocks(fullgraph=True, backend="eager")
    else:
        model.compile(fullgraph=True, backend="eager")


def _outputs(model: Any, name: str, guided: bool) -> list[np.ndarray]:
    """Of all sizes; with guidance of two branches, whose texts are of other lengths, in two steps each, or in
    one call where diffusers' pipelines have it so."""
    outputs = []
    in_turn = guided and hasattr(model, "cache_context")
    for text, width in SIZES:
        if not in_turn:
            given = FAMILIES[name][1](text, 1 + guided, width=width)
            outputs.append(model(**given, return_dict=False)[0].numpy())
            continue
        for _ in range(2):
            both = []
            for branch, rows in (("cond", text), ("uncond", text // 2 + 2)):
                with model.cache_context(branch):
                    both.append(model(**FAMILIES[name][1](text=rows, width=width), return_dict=False)[0])
            outputs.append((both[0] + 3 * both[1]).numpy())
    return outputs


def _plain(name: str, how: str, guided: bool) -> tuple[int, list[np.ndarray]]:
    """Graphs of plain diffusers, and its results."""
    model = _make(name)
    _compile(model, how)
    counters.clear()
    outputs = _outputs(model, name, guided)
    graphs = counters["stats"]["unique_graphs"]
    torch._dynamo.reset()
    return graphs, outputs


def _swept(name: str, how: str, cfg_parallel: bool) -> tuple[int, int, float]:
    """Graphs of plain diffusers, ours, and how far results are from one rank's."""
    with torch.no_grad():
        # One rank computes it for all: the others have the processors meanwhile.
        told = [_plain(name, how, cfg_parallel) if torch.distributed.get_rank() == 0 else None]
        torch.distributed.broadcast_object_list(told)
        plain, expected = told[0]
        model = _make(name)
        dit_torch.enable(model, cfg_parallel=cfg_parallel, timeout_seconds=60)
        _compile(model, how)
        counters.clear()
        found = _outputs(model, name, cfg_parallel)
        graphs = counters["stats"]["unique_graphs"]
        dit_torch.disable(model)
    away = max(float(np.abs(a - b).max()) for a, b in zip(found, expected, strict=True))
    return plain, graphs, away


@pytest.mark.parametrize("cfg_parallel", [False, True])
@pytest.mark.parametrize("how", ["regional", "whole"])
@pytest.mark.parametrize("name", FAMILIES)
def test_as_many_graphs_as_plain_diffusers(name: str, how: str, cfg_parallel: bool) -> None:
    for plain, graphs, away in ranks.run(2, _swept, name, how, cfg_parallel):
        assert away < 1e-4
        assert graphs <= plain + 1


def _fails_to_compile(how: str, cfg_parallel: bool) -> tuple[str, float, bool]:
    """The last rank's compiler does, at another text length."""
    fails = False

    def backend(graph: Any, inputs: Any) -> Any:
        if fails:
            raise MemoryError("none is left to compile with")
        return graph

    model = tiny.qwenimage(4)

    def step(text: int) -> torch.Tensor:
        given = tiny.qwenimage_inputs(text=text)
        for branch in ("cond", "uncond"):
            with model.cache_context(branch):
                output = model(**given, return_dict=False)[0]
        return output.clone()

    with torch.no_grad():
        one = step(9)
        dit_torch.enable(model, cfg_parallel=cfg_parallel, timeout_seconds=60)
        if how == "regional":
            model.compile_repeated_blocks(fullgraph=True, backend=backend)
        else:
            model.compile(fullgraph=True, backend=backend)
        step(9)
        step(9)
        torch._dynamo.reset()
        fails = torch.distributed.get_rank() == 1
        torch.distributed.barrier()
        begin = time.monotonic()
        with pytest.raises(Exception) as told:  # torch's own, or that of a rank that was told
            step(9)
        seconds = time.monotonic() - begin
        fails = False
        again = step(9)
        dit_torch.disable(model)
    return str(told.value), seconds, torch.allclose(again, one, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("how", "cfg_parallel"), [("regional", True), ("whole", True), ("whole", False)])
def test_a_rank_that_fails_to_compile_is_not_waited_for(how: str, cfg_parallel: bool) -> None:
    first, second = ranks.run(2, _fails_to_compile, how, cfg_parallel, timeout=200)
    assert "rank 1 failed in its forward pass" in first[0]
    assert "none is left to compile with" in second[0]
    assert first[1] < 30  # half of the time limit
    assert first[2] and second[2]


def _halves() -> tuple[list[float], list[int]]:
    """Branches in a call each, and together in one; texts and pictures of other sizes in turn."""
    away, graphs = [], []
    for name, together in (("qwenimage", False), ("flux", True)):
        make, inputs = FAMILIES[name]
        model = make(4)
        calls = [
            inputs(text, 1 + together, width=width) for text, width in ((9, 5), (12, 6), (14, 7), (17, 4))
        ]
        with torch.no_grad():
            expected = [model(**given, return_dict=False)[0] for given in calls]
            dit_torch.enable(model, cfg_parallel=True, timeout_seconds=60)
            model.compile_repeated_blocks(fullgraph=True, backend="eager")
            counters.clear()
            for given, one in zip(calls, expected, strict=True):
                for branch in ("cond", "uncond") if not together else (None,):
                    with contextlib.nullcontext() if branch is None else model.cache_context(branch):
                        output = model(**given, return_dict=False)[0]
                    away.append(float((output - one).abs().max()))
            graphs.append(counters["stats"]["unique_graphs"])
            dit_torch.disable(model)
        torch._dynamo.reset()
    return away, graphs


@pytest.mark.parametrize("size", [4, 6])
def test_halves_of_several_ranks(size: int) -> None:
    for away, graphs in ranks.run(size, _halves):
        assert max(away) < 1e-4
        assert graphs[0] <= 3 and graphs[1] <= 6, graphs  # the second has blocks of two kinds


def _between_nodes() -> tuple[list[float], int, str]:
    """The schedule is decided once for all sizes. Samples whose texts differ have a mask."""
    os.environ["TAPA_DEVICE_NODE"] = f"node {torch.distributed.get_rank()}"
    model = tiny.qwenimage(4)
    calls = [
        tiny.qwenimage_inputs(text, 2, width=width) for text, width in ((9, 5), (12, 5), (14, 7), (17, 4))
    ]
    with torch.no_grad():
        expected = [model(**given, return_dict=False)[0] for given in calls]
        dit_torch.enable(model, timeout_seconds=60)
        _compile(model, "regional")
        counters.clear()
        found = [model(**given, return_dict=False)[0] for given in calls]
        graphs, schedule = counters["stats"]["unique_graphs"], dit_torch.report(model).schedule
        dit_torch.disable(model)
    away = [float((a - b).abs().max()) for a, b in zip(found, expected, strict=True)]
    return away, graphs, schedule


def test_the_schedule_between_nodes_costs_no_graph() -> None:
    for away, graphs, schedule in ranks.run(2, _between_nodes):
        assert max(away) < 1e-4
        assert graphs <= 3
        assert schedule == "v-first" or library() is None
