"""Passes as CUDA graphs, as far as hosts can tell: when they are captured, replayed and given up. Their bits
on GPUs check_gpu.py compares."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import dit_torch
import dit_torch.asked
import dit_torch.graphs
import dit_torch.group
import dit_torch.replayable
import needs
import ranks
import tiny
from dit_torch.graphs import Graphs
from dit_torch.replayable import _caches_of, hooked, state_of
from operator_cases import Case, make, source


def _rules(*which: dict[str, Any], **more: Any) -> str:
    return json.dumps({"format": "dit-wire-policy", "version": 1, "rules": which, **more})


PHASES = _rules({"mode": "residual int8"}, {"mode": "residual int2", "steps": [2, 4]})


def _phases(policy: str) -> list[Any]:
    """Of an exchange: by steps, before and after something has travelled, and what recordings count."""
    ranks.be_a_node()
    group = dit_torch.group.take(None, timeout_seconds=60)
    library = group.library
    assert library is not None
    case = Case(1, 0, 8, 2, 2, 16)
    more = {"policy": policy.encode(), "layers": 1, "steps": 6, "branches": 2}
    name = make(group, "phases", case, torch.float32, torch.device("cpu"), **more)

    def phases() -> list[int]:
        found = []
        for branch in (0, 1):
            for step in range(6):
                library.begin_step(name, step, branch)
                found.append(library.phase(name))
        return found

    def scatter() -> None:
        library.begin_step(name, 0, 0)
        x = (source(name, case, what, 0, torch.float32, group.rank) for what in range(3))
        torch.ops.dit.scatter_qkv(*x, name, 0)

    told: list[Any] = [phases()]
    library.record(name)
    scatter()
    number = library.recorded(name, failed=False)
    told.append(phases())
    started = library.report(name)["started"]
    sent = library.report(name)["levels"][-1]["sent_bytes"]
    library.begin_step(name, 0, 0)
    library.replayed(name, number)
    assert library.report(name)["started"] == [2 * one for one in started]
    assert library.report(name)["levels"][-1]["sent_bytes"] == 2 * sent
    library.record(name)
    assert library.recorded(name, failed=False) == -1
    with pytest.raises(RuntimeError, match=r"recording = 5: expected one of 1 of exchange"):
        library.replayed(name, 5)
    library.reset(name)
    assert phases() == told[0]
    dit_torch.group.give(group)
    return told


@needs.LIBRARY
def test_passes_of_a_phase_code_alike() -> None:
    first, second = ranks.run(2, _phases, PHASES)[0]
    assert first == [0] * 6 + [1] * 6  # what comes for the first time goes as in step 0
    assert second == [0, 0, 4, 4, 4, 0] + [1] * 6  # two branches; nothing of the other one has travelled
    assert ranks.run(2, _phases, "exact")[0] == [[0] * 12] * 2
    for policy in ("paper", "displaced", _rules({"mode": "residual int4"}, guard=0.2)):
        assert ranks.run(2, _phases, policy)[0] == [[-1] * 12] * 2


class _Graph:
    """What is captured is done at once; a replay does it again."""

    capturing = False

    def __init__(self) -> None:
        self.again: Callable[[], None] = lambda: None

    def replay(self) -> None:
        self.again()


@contextlib.contextmanager
def _capture(graph: _Graph, **_: Any) -> Iterator[None]:
    _Graph.capturing = True
    try:
        yield
    finally:
        _Graph.capturing = False


@contextlib.contextmanager
def _graphs_on_hosts() -> Iterator[None]:
    original = Graphs._capture

    def capture(self: Graphs, forward: Any, this: Any) -> bool:
        captured = original(self, forward, this)
        if captured:
            graph = this.sizes.graphs[this.phases]
            held = iter([True])  # the first replay is what was done already

            def again() -> None:
                if next(held, False):
                    return
                for to, x in zip(graph.output, forward(*this.args, **this.kwargs), strict=True):
                    to.copy_(x)

            graph.executable.again = again
        return captured

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Graphs, "_capture", capture)
        patch.setattr(dit_torch.replayable, "_on_device", lambda x: True)
        patch.setattr(dit_torch.graphs, "_mend", lambda *_: None)
        patch.setattr(dit_torch.asked, "check_graphs", lambda *_: None)
        patch.setattr(torch.cuda, "CUDAGraph", _Graph)
        patch.setattr(torch.cuda, "graph", _capture)
        for name in ("graph_pool_handle", "synchronize", "empty_cache", "current_stream"):
            patch.setattr(torch.cuda, name, lambda: None)
        patch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
        yield


def _output(model: nn.Module, given: dict[str, Any]) -> Tensor:
    with torch.no_grad():
        return model(**given, return_dict=False)[0]


def _image(model: nn.Module, given: dict[str, Any], steps: int) -> Tensor:
    x = given["hidden_states"]
    for step in range(steps):
        at = {"hidden_states": x, "timestep": torch.full((1,), 1 - step / steps)}
        x = x - _output(model, given | at) / steps
    return x


def _images(graphs: bool, policy: str, fails: bool = False) -> tuple[list[Any], str]:
    """Images of two sizes and numbers of steps, and what is reported."""
    ranks.be_a_node()
    model = tiny.flux(4)

    def hook(*_: Any) -> None:
        if fails and _Graph.capturing:
            raise RuntimeError("no capture\nof this")

    model.transformer_blocks[1].register_forward_hook(hook)
    with _graphs_on_hosts():
        more = {} if policy == "exact" else {"steps": 5, "branches": 1}
        dit_torch.enable(model, schedule="flat", policy=policy, graphs=graphs, **more)
        images = [_image(model, tiny.flux_inputs(seed=seed), 5) for seed in range(4)]
        images += [_image(model, tiny.flux_inputs(text=5, seed=seed), 5) for seed in range(2)]
        if policy != "exact":
            dit_torch.set_steps(model, 3)
        images += [_image(model, tiny.flux_inputs(seed=seed), 3) for seed in range(3)]
        told = dit_torch.report(model).graphs
        dit_torch.disable(model)
    return [image.numpy() for image in images], told


@needs.LIBRARY
@pytest.mark.parametrize("policy", ["exact", PHASES])
def test_replays_are_passes(policy: str) -> None:
    right, _ = ranks.run(2, _images, False, policy)[0]
    found, told = ranks.run(2, _images, True, policy)[0]
    for number, (one, other) in enumerate(zip(found, right, strict=True)):
        assert (one == other).all(), f"image {number}"
    # Of 39 passes: 2 sizes by themselves, or 2 phases each, and those again for other numbers of steps.
    most = {"exact": "37 of 39 passes replayed, 2 captured", PHASES: "33 of 39 passes replayed, 6 captured"}
    assert told == most[policy]


@needs.LIBRARY
@pytest.mark.parametrize("policy", ["exact", PHASES])
def test_what_cannot_be_captured_goes_by_itself(policy: str) -> None:
    right, _ = ranks.run(2, _images, False, policy)[0]
    found, told = ranks.run(2, _images, True, policy, True)[0]
    assert told == "0 of 39 passes replayed, 0 captured; not the last one: RuntimeError: no capture"
    for number, (one, other) in enumerate(zip(found, right, strict=True)):
        # Where a capture fails what was sent is forgotten: the rest of that image differs.
        assert (policy != "exact" and number in (0, 4, 6)) or (one == other).all(), f"image {number}"


def _changes_alone() -> list[str]:
    """One rank's weights come to lie elsewhere: what all ranks are told, and that they go on."""
    model = tiny.flux(4)
    told = []
    with _graphs_on_hosts():
        dit_torch.enable(model, graphs=True)
        right = [_output(model, tiny.flux_inputs()) for _ in range(4)][-1]
        if dist.get_rank() == 1:
            model.proj_out.weight.data = model.proj_out.weight.data.clone()
        try:
            _output(model, tiny.flux_inputs())
        except ValueError as error:
            told.append(str(error))
        for _ in range(4):
            assert torch.equal(_output(model, tiny.flux_inputs()), right)
        told.append(dit_torch.report(model).graphs)
        dit_torch.disable(model)
    return told


@needs.LIBRARY
def test_a_rank_that_captures_alone_is_named() -> None:
    for words, counts in ranks.run(2, _changes_alone):
        assert "how often weights, modules or caches have changed (graphs = True)" in words, words
        assert counts == "6 of 8 passes replayed, 2 captured"


def _given_otherwise() -> str:
    """One rank's prompt has other strides, whose numbers are the same; one size more than are kept; a capture
    that is interrupted."""
    model = tiny.flux(4)

    def interrupt(*_: Any) -> None:
        if _Graph.capturing and stop:
            raise KeyboardInterrupt

    stop: list[int] = []
    model.transformer_blocks[1].register_forward_hook(interrupt)
    with _graphs_on_hosts():
        dit_torch.enable(model, schedule="flat", graphs=True)
        for _ in range(4):
            given = tiny.flux_inputs()
            prompt = given["encoder_hidden_states"]
            if dist.get_rank() == 1:
                given["encoder_hidden_states"] = prompt.transpose(1, 2).contiguous().transpose(1, 2)
            _output(model, given)
        told = dit_torch.report(model).graphs
        exchanges = model._dit_torch.parallel.exchanges
        for text in range(8, 8 + dit_torch.graphs.MOST):
            for _ in range(2):
                _output(model, tiny.flux_inputs(text=text))
        assert len(exchanges._recorded_for) == 0  # captures of hosts pin nothing
        stop.append(1)
        _output(model, tiny.flux_inputs(text=20))
        with pytest.raises(KeyboardInterrupt):
            _output(model, tiny.flux_inputs(text=20))
        assert not exchanges._recorded
        stop.clear()
        right = _output(model, tiny.flux_inputs(text=20))
        for _ in range(3):
            assert torch.equal(_output(model, tiny.flux_inputs(text=20)), right)
        dit_torch.disable(model)
    return told


@needs.LIBRARY
def test_strides_and_interrupts() -> None:
    assert ranks.run(2, _given_otherwise) == ["3 of 4 passes replayed, 1 captured"] * 2


def _keeps_what_it_makes() -> str:
    """A first pass makes a table that its module keeps, as rotary embeddings do."""
    model = tiny.flux(4)

    def keep(module: nn.Module, *_: Any) -> None:
        if not hasattr(module, "table"):
            module.table = [torch.zeros(2)]

    model.transformer_blocks[1].register_forward_hook(keep)
    with _graphs_on_hosts():
        dit_torch.enable(model, graphs=True)
        for _ in range(4):
            _output(model, tiny.flux_inputs())
        told = dit_torch.report(model).graphs
        dit_torch.disable(model)
    return told


def test_what_a_first_pass_keeps_delays_no_capture() -> None:
    assert ranks.run(1, _keeps_what_it_makes) == ["3 of 4 passes replayed, 1 captured"]


def _others() -> list[str]:
    """Why passes are not captured."""
    model = tiny.flux(4)
    told = []
    with pytest.raises(ValueError) as refused:
        dit_torch.enable(model, graphs=True)
    told.append(str(refused.value))
    with _graphs_on_hosts():
        dit_torch.enable(model, graphs=True)
        model(**tiny.flux_inputs())  # with gradients
        told.append(dit_torch.report(model).graphs)
        _output(model, tiny.flux_inputs() | {"joint_attention_kwargs": {"what": object()}})
        told.append(dit_torch.report(model).graphs)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "is_autocast_enabled", lambda *_: True)
            _output(model, tiny.flux_inputs())
        told.append(dit_torch.report(model).graphs)
        dit_torch.disable(model)
    return told


def test_reasons_are_told() -> None:
    on_host, gradients, argument, autocast = ranks.run(1, _others)[0]
    assert "torch.autocast keeps weights in another type" in autocast
    assert "graphs = True" in on_host and "Parameter on cpu: expected parameters that stay on" in on_host
    assert "gradients may be wanted" in gradients and argument.endswith("an argument is a object")


def test_a_graph_notices_what_it_was_captured_of() -> None:
    model = tiny.flux(4)
    known = state_of(model)
    assert state_of(model) == known
    layer = model.transformer_blocks[0].attn.to_q

    class Own(nn.Parameter):
        pass

    changes: list[Callable[[], Any]] = [
        lambda: setattr(model, "proj_out", nn.Linear(4, 4)),
        lambda: setattr(model.proj_out, "weight", Own(torch.zeros(4, 4))),
        lambda: setattr(model.proj_out.weight, "data", torch.zeros(4, 4)),
        lambda: setattr(model.proj_out, "forward", model.proj_out.forward),
        lambda: setattr(layer.weight, "data", layer.weight.data.clone()),
        lambda: setattr(layer, "bias", None),
        lambda: setattr(model.transformer_blocks[0].attn, "to_q", nn.Linear(64, 64)),
        lambda: setattr(model.transformer_blocks[0].attn.processor, "_attention_backend", "native"),
        lambda: model.train(),
        lambda: setattr(model.transformer_blocks[0], "kept", [torch.zeros(2)]),
        lambda: model.transformer_blocks[0].kept.append(torch.zeros(2)),
    ]
    for number, change in enumerate(changes):
        change()
        before, known = known, state_of(model)
        assert known != before, f"change {number}"
    model.train(False)
    model.enable_layerwise_casting(storage_dtype=torch.bfloat16, compute_dtype=torch.float32)
    assert "layerwise casting" in hooked(model)
    known = state_of(model)
    layer.weight.data.mul_(2)  # other numbers are read in each replay
    assert state_of(model) == known


def test_a_graph_notices_what_a_full_cache_lets_go() -> None:
    class Table(nn.Module):
        @functools.lru_cache(maxsize=2)  # noqa: B019  as diffusers has it
        def of(self, size: int) -> Tensor:
            return torch.zeros(size)

    table = Table()
    assert len(_caches_of(Table)) == 1
    table.of(1)
    known = state_of(table)
    table.of(1)
    assert state_of(table) == known
    table.of(2)
    known = state_of(table)
    table.of(1)
    assert state_of(table) == known
    table.of(3)  # that of 2 is gone
    assert state_of(table) != known
