"""torch.compile sees one graph, whole or block by block, and it computes the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch._dynamo.utils import counters

import dit_torch
import dit_torch.group
import ranks
import tiny


def _compiled(name: str, schedule: str, whole: bool) -> list[np.ndarray | int]:
    make, inputs = tiny.MODELS[name]
    model, given = make(3), inputs(batch=2)
    with torch.no_grad():
        dit_torch.enable(model, schedule=schedule)
        eager = model(**given, return_dict=False)[0]
        if whole:
            compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        else:
            model.compile_repeated_blocks(fullgraph=True, backend="aot_eager")
            compiled = model
        outputs = [compiled(**given, return_dict=False)[0] for _ in range(2)]
        graphs = counters["stats"]["unique_graphs"]
        longer = inputs(batch=2, text=9)
        other = compiled(**longer, return_dict=False)[0]
        dit_torch.disable(model)
        dit_torch.enable(model, schedule=schedule)  # what was compiled before must not be used
        again = compiled(**given, return_dict=False)[0]
        dit_torch.disable(model)
    return [eager.numpy(), *(x.numpy() for x in outputs), again.numpy(), graphs, other.shape[1]]


SCHEDULES = ("v-first", "pipelined", "flat")
OLD = torch.__version__ < torch.torch_version.TorchVersion("2.9")  # not tried from 2.7 on


@pytest.mark.parametrize(
    ("name", "schedule", "whole", "graphs"),
    [(name, SCHEDULES[at % 3], True, 2) for at, name in enumerate(tiny.MODELS)]
    + [("flux", "flat", False, 3)],
)
def test_one_graph(name: str, schedule: str, whole: bool, graphs: int) -> None:
    """The hook that splits inputs is a graph of its own; so is each kind of block."""
    if OLD and name == "qwenimage":
        pytest.skip("diffusers' own rotary embedding of Qwen-Image stops the compiler of torch 2.6")
    for eager, first, second, again, seen, _ in ranks.run(2, _compiled, name, schedule, whole):
        for output in (first, second, again):
            np.testing.assert_allclose(output, eager, rtol=0, atol=1e-5)
        assert seen <= graphs + (0 if whole else 1)


def _compiled_with_policy(dynamic: bool | None) -> list[np.ndarray | int]:
    ranks.be_a_node()
    model = tiny.flux(4, num_layers=6, num_single_layers=6)
    given = tiny.flux_inputs()
    images = []
    with torch.no_grad():
        for compiled in (False, True):
            dit_torch.enable(model, schedule="v-first", policy="balanced", steps=3, adapt=False)
            if compiled:
                model.compile_repeated_blocks(fullgraph=True, dynamic=dynamic, backend="aot_eager")
            for step in range(3):
                now = {**given, "timestep": torch.full((1,), 1 - step / 3)}
                image = model(**now, return_dict=False)[0]
            images.append(image.numpy())
            dit_torch.disable(model)
    return [*images, counters["stats"]["unique_graphs"]]


@pytest.mark.skipif(OLD, reason="torch 2.6 compiles each layer for itself")
@pytest.mark.parametrize("dynamic", [None, False])
def test_layers_with_a_policy_share_graphs(dynamic: bool | None) -> None:
    """A layer's references are its own; its compiled code is not: torch stops after 8 recompilations."""
    for eager, compiled, graphs in ranks.run(2, _compiled_with_policy, dynamic):
        np.testing.assert_allclose(compiled, eager, rtol=0, atol=1e-5)
        assert graphs <= 4, graphs  # the first block of a kind sees inputs with strides of their own


def _compiled_with_other_steps() -> tuple[list[np.ndarray], list[int]]:
    """Pictures of 2 and of 3 steps in turn, without and with a second branch."""
    ranks.be_a_node()
    model = tiny.flux(3)
    given, other = tiny.flux_inputs(), tiny.flux_inputs(seed=1)
    images, graphs = [], []
    with torch.no_grad():
        for compiled in (False, True):
            dit_torch.enable(model, schedule="v-first", policy="balanced", steps=2, adapt=False)
            if compiled:
                model.compile_repeated_blocks(fullgraph=True, backend="aot_eager")
            for picture in range(8):
                steps = 2 + picture % 2
                dit_torch.set_steps(model, steps)
                for step in range(steps):
                    for branch in (given, other)[: 1 + picture // 4]:
                        now = {**branch, "timestep": torch.full((1,), 1 - step / steps)}
                        image = model(**now, return_dict=False)[0]
                images.append(image.numpy())
                graphs.append(counters["stats"]["unique_graphs"])
            dit_torch.disable(model)
    return images, graphs[8:]


def test_other_numbers_of_steps_and_branches_use_the_same_graphs() -> None:
    for images, graphs in ranks.run(2, _compiled_with_other_steps):
        for eager, compiled in zip(images[:8], images[8:], strict=True):
            np.testing.assert_allclose(compiled, eager, rtol=0, atol=1e-5)
        assert graphs[-1] == graphs[0], graphs


def _gradients(how: str) -> list[float]:
    """How far compiled training is from eager one process: parameters, and what goes in."""
    model = tiny.flux(4, num_layers=1, num_single_layers=1).train()
    given = tiny.flux_inputs()
    given["hidden_states"].requires_grad_(True)

    def once(call: Any) -> list[torch.Tensor]:
        model.zero_grad()
        given["hidden_states"].grad = None
        output = call(**given, return_dict=False)[0]
        (output * tiny.noise(*output.shape, seed=11)).sum().backward()
        if hasattr(model, "_dit_torch"):
            dit_torch.sum_gradients(model)
        return [p.grad.clone() for p in model.parameters()] + [given["hidden_states"].grad]

    right = once(model)
    if how == "blocks":
        model.enable_gradient_checkpointing()
    dit_torch.enable(model, schedule="v-first")
    if how == "blocks":
        model.compile_repeated_blocks(fullgraph=True, backend="aot_eager")
    elif how == "whole":
        call = torch.compile(model, fullgraph=True, backend="aot_eager")
    else:
        call = torch.compile(lambda **x: model(**x), fullgraph=True, backend="aot_eager")
    found = [once(model if how == "blocks" else call) for _ in range(2)]
    dit_torch.disable(model)
    return [
        float((x - y).abs().max() / y.abs().max().clamp(min=1e-6))
        for every in found
        for x, y in zip(every, right, strict=True)
    ]


@pytest.mark.skipif(OLD, reason="not tried with older compilers")
@pytest.mark.parametrize("how", ["blocks", "whole", "in a graph of the program's"])
def test_training(how: str) -> None:
    for far in ranks.run(2, _gradients, how):
        assert max(far) < 1e-5, far


def _differs_compiled() -> str:
    """What a rank does when a compiled pass fails is not compiled: it would not wait for a GPU."""

    def finish_passes(self: Any) -> None:
        torch._dynamo.graph_break()

    dit_torch.group.Group._finish_passes = finish_passes  # type: ignore[method-assign]
    model = tiny.flux(3)
    dit_torch.enable(model)
    call = torch.compile(model, fullgraph=True, backend="aot_eager")
    given = tiny.flux_inputs()
    words = "nothing"
    with torch.no_grad():
        call(**given, return_dict=False)
        try:
            call(**given | {"guidance": given["guidance"] + dist.get_rank()}, return_dict=False)
        except ValueError as error:
            words = str(error)
    return words


def test_a_compiled_pass_that_fails() -> None:
    for words in ranks.run(2, _differs_compiled):
        assert words.startswith("guidance differs between ranks 0 and 1"), words
