"""Lossy policies on halves of the ranks: each half remembers what it has sent of its branch."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn

import dit_torch
import needs
import ranks
import tiny

pytestmark = needs.LIBRARY
STEPS = 4
RESIDUAL = json.dumps({"format": "dit-wire-policy", "version": 1, "rules": [{"mode": "residual int4"}]})
V_MAJOR = "v-major:warmup=1,refresh=3,ratio=linear"


def _picture(model: nn.Module, seed: int = 0, last: int = STEPS) -> np.ndarray:
    """Two calls a step, until guidance ends before the step `last`."""
    branches = {
        "cond": tiny.qwenimage_inputs(text=7, seed=seed),
        "uncond": tiny.qwenimage_inputs(text=4, seed=seed + 10),
    }
    x = branches["cond"]["hidden_states"]
    for step in range(STEPS):
        now = {"hidden_states": x, "timestep": torch.full((1,), 1 - step / STEPS)}
        v = {}
        for name, given in branches.items():
            if name == "cond" or step < last:
                with model.cache_context(name):
                    v[name] = model(**(given | now), return_dict=False)[0][:, : x.shape[1]]
        other = v.get("uncond", v["cond"])
        x = x - (other + 2.0 * (v["cond"] - other)) / STEPS
    return x.numpy()


def _pictures(compiled: bool, **options: Any) -> list[np.ndarray]:
    model = tiny.qwenimage(4)
    dit_torch.enable(model, steps=STEPS, adapt=False, timeout_seconds=100, **options)
    if compiled:
        torch.compiler.reset()  # all ways of this process count towards one limit
        model.compile_repeated_blocks(fullgraph=True, backend="eager")
    pictures = [_picture(model), _picture(model, seed=1, last=2), _picture(model)]
    dit_torch.disable(model)
    return pictures


def _compared(policy: str, compiled: bool) -> dict[str, list[np.ndarray]]:
    """Pictures exact, by Ulysses on half of the ranks, and by halves of them."""
    ranks.be_a_node()
    size = dist.get_world_size() // 2
    halves = [dist.new_group(list(range(first, first + size))) for first in (0, size)]
    ways: dict[str, dict[str, Any]] = {
        "exact": {"policy": "exact", "group": halves[dist.get_rank() // size]},
        "ulysses": {"policy": policy, "group": halves[dist.get_rank() // size]},
        "halves": {"policy": policy, "cfg_parallel": True},
        "auto": {"policy": policy, "parallel": "auto"},
    }
    with torch.no_grad():
        return {name: _pictures(compiled, **options) for name, options in ways.items()}


@pytest.mark.parametrize(
    ("policy", "compiled"), [("fast", False), (RESIDUAL, False), (V_MAJOR, False), ("balanced", True)]
)
def test_as_the_policy_on_as_many_ranks(policy: str, compiled: bool) -> None:
    """The bits of Ulysses alone on as many ranks as a half has; "auto" is at most twice as far from exact."""
    told = ranks.run(4, _compared, policy, compiled)
    for ways in told:
        for at, picture in enumerate(ways["halves"]):
            np.testing.assert_array_equal(picture, ways["ulysses"][at], err_msg=f"picture {at}")
            np.testing.assert_array_equal(ways["auto"][at], told[0]["auto"][at], err_msg=f"picture {at}")
            away, auto = (np.abs(ways[n][at] - ways["exact"][at]).max() for n in ("halves", "auto"))
            assert 1e-6 < away < 0.5
            assert auto < 2 * away + 1e-5, (at, away, auto)
        np.testing.assert_array_equal(ways["halves"][0], ways["halves"][2])


def _within_budget() -> tuple[int, int, dict[str, str]]:
    """What is remembered at most with "auto", of a budget that one of its ways needs."""
    ranks.be_a_node()
    model, held = tiny.qwenimage(4), []
    budget: int | None = None
    with torch.no_grad():
        for _ in range(2):
            options: dict[str, Any] = {"policy": "fast", "steps": STEPS, "adapt": False}
            dit_torch.enable(model, parallel="auto", reference_bytes=budget, **options)
            _picture(model)
            report = dit_torch.report(model)
            held.append(sum(one["wire_bytes"] for one in report.exchanges))
            budget = int(dit_torch.share(torch.tensor(held[0])))  # the first half has the longer text
            dit_torch.disable(model)
    return held[0], held[1], report.off


def test_ways_share_the_memory_that_a_policy_may_use() -> None:
    for first, second, off in ranks.run(4, _within_budget):
        assert first == second > 0
        assert off == {} or all("to remember, of" in words for words in off.values())
