"""A first branch's result on its way from half to half: other calls, failures and threads meanwhile."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import pytest
import torch
from torch import nn

import dit_torch
import ranks
import tiny

BRANCHES = {"cond": tiny.qwenimage_inputs(text=7), "uncond": tiny.qwenimage_inputs(text=4, seed=2)}


def _branch(model: nn.Module, name: str) -> torch.Tensor:
    with torch.no_grad(), model.cache_context(name):
        return model(**BRANCHES[name], return_dict=False)[0]


def _read_by_threads() -> list[float]:
    """Of one rank, which read at once, as previews in the background do, while the other still computes."""
    model = tiny.qwenimage(3)
    ones = {name: _branch(model, name) for name in BRANCHES}
    dit_torch.enable(model, cfg_parallel=True, timeout_seconds=10)
    second = torch.distributed.get_rank() == 1
    if not second:
        model.transformer_blocks[0].register_forward_pre_hook(lambda *_: time.sleep(0.2))
    away = []
    for _ in range(3):
        v = _branch(model, "cond")
        readers = [threading.Thread(target=lambda x=v: x.norm()) for _ in range(4 * second)]
        for reader in readers:
            reader.start()
        other = _branch(model, "uncond")
        for reader in readers:
            reader.join()
        away += [float((v - ones["cond"]).abs().max()), float((other - ones["uncond"]).abs().max())]
    dit_torch.disable(model)
    return away


def test_threads_that_read_at_once() -> None:
    for away in ranks.run(2, _read_by_threads, timeout=60):
        assert max(away) < 1e-5


def _by_turns(options: dict[str, Any]) -> list[float]:
    """Calls of another transformer between the two of one, or after a first one that nobody reads."""
    models = [tiny.qwenimage(3), tiny.qwenimage(3)]
    with torch.no_grad():
        models[1].proj_out.weight.mul_(2)
    ones = [{name: _branch(model, name) for name in BRANCHES} for model in models]
    for model in models:
        dit_torch.enable(model, timeout_seconds=10, **options)
    away = []

    def ask(order: list[tuple[int, str]]) -> None:
        found = [(_branch(models[which], name), ones[which][name]) for which, name in order]
        away.extend(float((x - one).abs().max()) for x, one in found)

    both = list(BRANCHES)
    for _ in range(2):
        ask([(0, name) for name in both] + [(1, name) for name in both])
    ask([(which, name) for name in both for which in (0, 1)])
    ask([(0, "cond"), (1, "cond"), (1, "uncond"), (0, "uncond")])
    _branch(models[0], "cond")
    ask([(1, name) for name in both * 2])
    _branch(models[0], "cond")
    models.pop(0)
    gc.collect()
    ones.pop(0)
    dit_torch.disable(models[0])
    dit_torch.enable(models[0], timeout_seconds=10, **options)
    ask([(0, name) for name in both * 3])
    dit_torch.disable(models[0])
    return away


@pytest.mark.parametrize("options", [{"cfg_parallel": True}, {"parallel": "auto"}])
def test_calls_of_two_models_by_turns(options: dict[str, Any]) -> None:
    for away in ranks.run(2, _by_turns, options, timeout=60):
        assert max(away) < 1e-5


def _read_after_a_failure() -> tuple[str, list[float]]:
    """The second call of two fails, and ranks begin anew; then one looks at what the first one gave."""
    model = tiny.qwenimage(3)
    ones = {name: _branch(model, name) for name in BRANCHES}
    dit_torch.enable(model, cfg_parallel=True, timeout_seconds=10)

    def fail(*_: Any) -> None:
        raise MemoryError("none is left on this rank")

    def step() -> list[float]:
        return [float((_branch(model, name) - one).abs().max()) for name, one in ones.items()]

    step()
    old = _branch(model, "cond")
    second = torch.distributed.get_rank() == 1
    hook = model.transformer_blocks[0].register_forward_pre_hook(fail) if second else None
    with pytest.raises((MemoryError, RuntimeError)):
        _branch(model, "uncond")
    if hook is not None:
        hook.remove()
    away = step()
    first = _branch(model, "cond")
    told = ""
    try:
        old.norm()
    except RuntimeError as error:
        told = str(error)
    away += [float((_branch(model, "uncond") - ones["uncond"]).abs().max())]
    away += [float((first - ones["cond"]).abs().max()), *step()]
    dit_torch.disable(model)
    return told, away


def test_what_was_not_read_before_a_failure() -> None:
    told = ranks.run(2, _read_after_a_failure, timeout=60)
    assert told[0][0] == ""  # it has computed that itself
    assert "was not read before a forward pass failed" in told[1][0]
    assert max(x for _, away in told for x in away) < 1e-5
