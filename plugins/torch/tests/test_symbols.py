"""Sizes are symbols to torch.compile: a graph serves all text lengths and picture sizes."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

import dit_torch
import ranks
import tiny
import tiny_models
from all_models import tensors
from dit_torch._inductor import keep_apart
from dit_torch._library import library


def _of_table(cls: str, **config: Any) -> tuple[Callable[[int], nn.Module], Callable[..., Any]]:
    """With a configuration of its own."""
    entry = tiny_models.TINY[cls]

    def make(heads: int) -> nn.Module:
        if cls not in tiny_models.dit_classes():
            pytest.skip(f"this diffusers has no {cls}")
        return dataclasses.replace(entry, config=entry.config | config).make()

    def inputs(text: int, batch: int = 1, width: int = 5) -> dict[str, Any]:
        return entry.inputs(batch, text=text, width=width)  # type: ignore[call-arg]

    return make, inputs


OF_TABLE = {
    "chroma": "ChromaTransformer2DModel",
    "cogview4": "CogView4Transformer2DModel",
    "flux3": "Flux3Transformer2DModel",
    "helios": "HeliosTransformer3DModel",
    "hunyuan-video-1.5": "HunyuanVideo15Transformer3DModel",
    "krea2": "Krea2Transformer2DModel",
    "ltx2": "LTX2VideoTransformer3DModel",
    "lumina2": "Lumina2Transformer2DModel",
    "minimax-h3": "MiniMaxH3Transformer3DModel",
    "qwenimage21": "QwenImage21Transformer2DModel",
    "z-image": "ZImageTransformer2DModel",
}
BLOCKS = {  # which diffusers names none of
    "cogview4": "CogView4TransformerBlock",
    "lumina2": "Lumina2TransformerBlock",
    "sd3": "JointTransformerBlock",
}
FAMILIES: dict[str, tuple[Callable[[int], Any], Callable[..., dict[str, Any]]]] = {
    "qwenimage": (tiny.qwenimage, tiny.qwenimage_inputs),
    "flux": (tiny.flux, tiny.flux_inputs),
    "flux2": (tiny.flux2, tiny.flux2_inputs),
    "wan": (tiny.wan, tiny.wan_inputs),
    "sd3": (tiny.sd3, tiny.sd3_inputs),
    # with diffusers' processors, under its plan
    "ltx": (tiny.ltx, tiny.ltx_inputs),
    "chronoedit": (
        _of_table("ChronoEditTransformer3DModel", text_dim=24, image_dim=None, added_kv_proj_dim=None)[0],
        tiny.wan_inputs,
    ),
    **{name: _of_table(cls) for name, cls in OF_TABLE.items()},
}
GUIDED = ["qwenimage", "flux", "wan", "sd3"]
# Of the others diffusers' own code branches on what tensors hold.
WHOLE = [name for name in FAMILIES if name not in ("hunyuan-video-1.5", "lumina2", "qwenimage21", "z-image")]
# Of each kind: by blocks, a graph for each of them is too many.
LAYERS = {"regional": 6, "whole": 3}
# Text length and width of the picture: other lengths first, then other widths.
SIZES = [(9, 5), (10, 5), (11, 5), (12, 5), (12, 6), (13, 7), (14, 4)]


def _make(name: str, how: str) -> nn.Module:
    model: Any = FAMILIES[name][0](4)
    kinds = {"num_layers", "num_single_layers", "n_layers"} & model.config.keys()
    model = tiny.randomise(type(model).from_config(model.config, **dict.fromkeys(kinds, LAYERS[how])))
    if name in BLOCKS:
        model._repeated_blocks = [BLOCKS[name]]
    return model


def _compile(model: nn.Module, how: str, backend: str = "eager") -> None:
    if how == "regional":
        model.compile_repeated_blocks(fullgraph=True, backend=backend)
    else:
        model.compile(fullgraph=True, backend=backend)


def _outputs(model: Any, name: str, guided: bool) -> list[np.ndarray]:
    """Of all sizes; with guidance of two branches, whose texts are of other lengths, in two steps each, or in
    one call where diffusers' pipelines have it so."""
    outputs = []
    in_turn = guided and hasattr(model, "cache_context")
    for text, width in SIZES:
        if not in_turn:
            given = FAMILIES[name][1](text, 1 + guided, width=width)
            outputs.append(tensors(model(**given, return_dict=False))[0].numpy())
            continue
        for _ in range(2):
            both = []
            for branch, rows in (("cond", text), ("uncond", text // 2 + 2)):
                with model.cache_context(branch):
                    both.append(model(**FAMILIES[name][1](text=rows, width=width), return_dict=False)[0])
            outputs.append((both[0] + 3 * both[1]).numpy())
    return outputs


def _counted(name: str, how: str, guided: bool, **options: Any) -> tuple[int, list[np.ndarray]]:
    """How many graphs it takes, and what comes out; with options, enabled with these."""
    with torch.no_grad():
        model = _make(name, how)
        if options:
            dit_torch.enable(model, timeout_seconds=60, **options)
        _compile(model, how)
        counters.clear()
        outputs = _outputs(model, name, guided)
        graphs = counters["stats"]["unique_graphs"]
        if options:
            dit_torch.disable(model)
        torch._dynamo.reset()
    return graphs, outputs


CASES = [(name, "regional", False) for name in FAMILIES] + [(name, "whole", False) for name in WHOLE]
CASES += [(name, how, True) for name in GUIDED for how in ("regional", "whole")]


@pytest.mark.parametrize(("name", "how", "cfg_parallel"), CASES)
def test_as_many_graphs_as_plain_diffusers(name: str, how: str, cfg_parallel: bool) -> None:
    # In this process: the ranks, which are forks of it, have then imported all of the compiler.
    torch.set_num_threads(1)  # no pool that they would lose
    keep_apart()
    plain, expected = _counted(name, how, cfg_parallel)
    for graphs, found in ranks.run(2, _counted, name, how, cfg_parallel, cfg_parallel=cfg_parallel):
        away = max(float(np.abs(a - b).max()) for a, b in zip(found, expected, strict=True))
        assert away < 1e-4
        assert graphs <= plain + 1


def _trained(how: str) -> tuple[list[int], float]:
    """Graphs for training, of one process and of all together, and how far their gradients are apart."""
    given = [tiny.flux_inputs(text, width=width) for text, width in SIZES]
    graphs, gradients = [], []
    for together in (False, True):
        model = tiny.flux(4).train()
        if together:
            dit_torch.enable(model, timeout_seconds=60)
        _compile(model, how, "aot_eager")
        counters.clear()
        for inputs in given:
            model.zero_grad()
            output = model(**inputs, return_dict=False)[0]
            (output * tiny.noise(*output.shape, seed=11)).sum().backward()
            if together:
                dit_torch.sum_gradients(model)
            gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
        graphs.append(counters["stats"]["unique_graphs"])
        if together:
            dit_torch.disable(model)
        torch._dynamo.reset()
    pairs = zip(gradients[: len(given)], gradients[len(given) :], strict=True)
    return graphs, max(float((a - b).abs().max() / a.abs().max()) for a, b in pairs)


@pytest.mark.parametrize("how", ["regional", "whole"])
def test_training_takes_as_many_graphs_as_plain_diffusers(how: str) -> None:
    for (plain, ours), away in ranks.run(2, _trained, how):
        assert away < 1e-5
        assert ours <= plain + 1


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
    ranks.be_a_node()
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
