"""Lossy policies: between nodes only, alike on all ranks, and no picture depends on the one before."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

import dit_torch
import ranks
import tiny
from dit_torch._library import library

needs_library = pytest.mark.skipif(library() is None, reason="libdit_torch.so is not there")
STEPS = (1.0, 0.75, 0.5, 0.25)


def _images(policy: str, seeds: list[int], steps: int = len(STEPS), nodes: bool = True) -> list[np.ndarray]:
    """Pictures of a few steps, one after the other, each rank on a node of its own."""
    if nodes:
        os.environ["TAPA_DEVICE_NODE"] = f"node {dist.get_rank()}"
    model = tiny.flux(3)
    dit_torch.enable(model, policy=policy, steps=steps)
    pictures = []
    with torch.no_grad():
        for seed in seeds:
            given = tiny.flux_inputs(seed=seed)
            x = given["hidden_states"]
            for timestep in STEPS:
                given |= {"timestep": torch.full((1,), timestep), "hidden_states": x}
                x = x - 0.25 * model(**given, return_dict=False)[0]
            pictures.append(x.numpy())
    dit_torch.disable(model)
    return pictures


@needs_library
@pytest.mark.parametrize("policy", ["fp8", "fast"])
def test_no_picture_depends_on_the_one_before(policy: str) -> None:
    exact = ranks.run(2, _images, "exact", [0])[0]
    one = ranks.run(2, _images, policy, [0, 1])
    other = ranks.run(2, _images, policy, [1, 0])
    assert 1e-5 < np.abs(one[0][0] - exact[0]).max() < 0.2
    for rank in range(2):
        np.testing.assert_array_equal(one[rank][0], one[0][0])
        np.testing.assert_array_equal(one[rank][0], other[rank][1])
        np.testing.assert_array_equal(one[rank][1], other[rank][0])


def _guarded(guard: float) -> str:
    rules = [{"mode": "residual int2"}]
    return json.dumps({"format": "dit-wire-policy", "version": 1, "guard": guard, "rules": rules})


def _one_of_each(policies: list[str]) -> list[np.ndarray]:
    return [_images(policy, [0])[0] for policy in policies]


@needs_library
def test_a_guard_sends_more_where_too_much_is_left_behind() -> None:
    policies = ["exact", _guarded(0), _guarded(1e6), _guarded(1e-6)]
    exact, unguarded, silent, always = ranks.run(2, _one_of_each, policies)[0]
    np.testing.assert_array_equal(silent, unguarded)
    assert 0 < np.abs(always - exact).max() < 0.2 * np.abs(unguarded - exact).max()


@needs_library
def test_inside_a_node_everything_travels_in_full() -> None:
    exact, coded = (ranks.run(2, _images, policy, [0], 4, False)[0] for policy in ("exact", "fp8"))
    np.testing.assert_array_equal(exact[0], coded[0])


def _refused(*arguments: Any, **named: Any) -> str:
    with pytest.raises((ValueError, RuntimeError, TypeError)) as told:
        dit_torch.enable(tiny.flux(3), *arguments, **named)
    return str(told.value)


@needs_library
def test_what_is_wrong_with_a_policy_is_said() -> None:
    assert "steps = None" in ranks.run(1, _refused, policy="fp8")[0]
    assert "steps = 'many'" in ranks.run(1, _refused, policy="fp8", steps="many")[0]
    assert "branches = 0" in ranks.run(1, _refused, policy="fp8", steps=4, branches=0)[0]
    assert "no such policy" in ranks.run(1, _refused, policy="no such policy", steps=4)[0]
