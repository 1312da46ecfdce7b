"""Ranks that call enable() or install() differently: all get an error that says so, and none waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist

import dit_torch
import ranks
import tiny
from dit_torch import _library

Call = Callable[[], Any]


def _told(call: Call) -> str:
    with pytest.raises((ValueError, RuntimeError, TypeError)) as told:
        call()
    return str(told.value)


def _differently(calls: dict[str, tuple[Call, Call]]) -> dict[str, str]:
    """What each call says, the first on rank 0, the second on the others; then all agree again."""
    told = {name: _told(pair[min(dist.get_rank(), 1)]) for name, pair in calls.items()}
    model = dit_torch.enable(tiny.flux(3))
    with torch.no_grad():
        model(**tiny.flux_inputs())
    dit_torch.disable(model)
    return told


def _enabled_differently() -> dict[str, str]:
    model = tiny.flux(3)
    own = tiny.flux(3)
    own.transformer_blocks[0].attn.set_processor(lambda *_: None)

    def enable(model: Any = model, **named: Any) -> Call:
        return lambda: dit_torch.enable(model, **named)

    return _differently(
        {
            "schedule": (enable(schedule="flat"), enable(schedule="v-first")),
            "bad schedule": (enable(schedule="fastest"), enable()),
            "bad branches": (enable(), enable(branches="two")),
            "bad timeout": (enable(timeout_seconds=0), enable()),
            "policy": (enable(policy=""), enable()),
            "steps": (enable(policy="balanced"), enable()),
            "true steps": (enable(policy="balanced", steps=True), enable()),
            "unknown policy": (enable(policy="unheard", steps=4), enable(policy="unheard", steps=4)),
            "bytes": (enable(reference_bytes=-1), enable()),
            "class": (enable(), enable(tiny.sd3(3))),
            "no model": (enable(), enable(torch.nn.Linear(2, 2))),
            "pipeline": (enable("transformer"), enable()),
            "heads": (enable(), enable(tiny.flux(5))),
            "dtype": (enable(), enable(tiny.flux(3).to(torch.bfloat16))),
            "processor": (enable(own), enable()),
            "group": (enable(group=[0, 1]), enable(group=[0, 1])),
        }
    )


@pytest.mark.parametrize("size", [2, 3])
def test_enable(size: int) -> None:
    expected = {
        "schedule": "schedule differs between ranks: rank 0: flat, rank 1: v-first",
        "bad schedule": "schedule = 'fastest'",
        "bad branches": "branches = 'two'",
        "bad timeout": "timeout_seconds = 0",
        "policy": "policy = ''",
        "steps": "policy",
        "true steps": "steps = True",
        "bytes": "reference_bytes = -1",
        "class": "transformer differs between ranks: rank 0: FluxTransformer2DModel, rank 1: SD3",
        "no model": "Linear is not supported",
        "pipeline": "transformer is of class str: expected the transformer of a pipeline",
        "heads": "num_attention_heads differs between ranks: rank 0: 3, rank 1: 5",
        "dtype": "dtype differs between ranks: rank 0: torch.float32, rank 1: torch.bfloat16",
        "processor": "transformer_blocks.0.attn",
        "group": "group = [0, 1]: expected a process group",
    }
    if _library.library() is not None:
        expected["unknown policy"] = "paper, v-major:..., @PATH of a policy file"
    for told in ranks.run(size, _enabled_differently):
        for name, words in expected.items():
            assert words in told[name], name


def _twice_on_one_rank() -> str:
    model = tiny.flux(3)
    dit_torch.enable(model)
    again = _told(lambda: dit_torch.enable(model if dist.get_rank() == 0 else tiny.flux(3)))
    dit_torch.disable(model)
    return again


def test_enabled_already_on_one_rank() -> None:
    for told in ranks.run(2, _twice_on_one_rank):
        assert "enabled already" in told


def _library_of_one_rank() -> list[str]:
    def broken() -> None:
        raise ValueError("DIT_TORCH_LIBRARY = /nowhere: no such file; expected libdit_torch.so")

    import dit_torch.group

    if dist.get_rank() == 1:
        dit_torch.group.library = broken
    model = tiny.flux(3)
    told = [_told(lambda: dit_torch.enable(model))]
    dit_torch.group.library = (lambda: None) if dist.get_rank() == 1 else _library.library
    if _library.path() is not None:
        told.append(_told(lambda: dit_torch.enable(model)))
        told.append(_told(lambda: dit_torch.install(devices=("cpu",))))
    return told


def test_a_library_that_one_rank_cannot_load() -> None:
    for told in ranks.run(2, _library_of_one_rank):
        assert "DIT_TORCH_LIBRARY = /nowhere" in told[0]
        for differs in told[1:]:
            assert "rank 0: found, rank 1: not found" in differs


def _not_a_member() -> str:
    group = dist.new_group([0])
    if dist.get_rank() == 0:
        model, given = tiny.flux(3), tiny.flux_inputs()
        with torch.no_grad():
            before = model(**given, return_dict=False)[0]
            dit_torch.enable(model, group)
            torch.testing.assert_close(model(**given, return_dict=False)[0], before, rtol=0, atol=1e-5)
        dit_torch.disable(model)
        return ""
    return _told(lambda: dit_torch.enable(tiny.flux(3), group))


def test_ranks_that_are_not_in_the_group() -> None:
    assert "not a member" in ranks.run(2, _not_a_member)[1]


def _last_two_of_four() -> dict[str, str]:
    """What ranks of a group are told, in which they are numbers 0 and 1."""
    if dist.get_rank() < 2:
        return {}
    group, second = dist.new_group([2, 3], use_local_synchronization=True), dist.get_rank() == 3
    model, given = tiny.flux(3), tiny.flux_inputs()
    other = given | {"hidden_states": given["hidden_states"] + 1}

    def enable(**named: Any) -> Any:
        return dit_torch.enable(model, group, **named)

    told = {
        "differs": _told(lambda: enable(schedule="v-first" if second else "flat")),
        "failed": _told(lambda: enable(branches="two" if second else 1)),
    }
    enable(timeout_seconds=2)
    with torch.no_grad():
        told["compared"] = _told(lambda: model(**(other if second else given)))
        model(**given)
        told["late"] = "" if second else _told(lambda: model(**given))
    dit_torch.disable(model)
    return told


@pytest.mark.skipif(_library.library() is None, reason="the time limit is then torch.distributed's")
def test_groups_of_some_ranks_are_told_the_numbers_of_all() -> None:
    first, second = ranks.run(4, _last_two_of_four)[2:]
    for told in (first, second):
        assert "differs between ranks: rank 2: flat, rank 3: v-first" in told["differs"]
        assert "hidden_states differs between ranks 2 and 3" in told["compared"]
    assert "rank 3 failed: ValueError: branches = 'two'" in first["failed"]
    assert "rank 1; ranks are numbered within the group [2, 3]" in first["late"]
