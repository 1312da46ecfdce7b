"""parallel="auto": halves of the ranks compute branches where calls are such, and all ranks all else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

import dit_torch
import needs
import ranks
import tiny

STEPS = 3
TEXTS = {"cond": (7, 1), "uncond": (4, 2)}  # lengths, seeds


def _inputs(name: str, **given: int) -> dict[str, Any]:
    return tiny.MODELS[name][1](**given)


def _call(model: nn.Module, given: dict[str, Any], context: str | None = None) -> torch.Tensor:
    if context is None or not hasattr(model, "cache_context"):
        return model(**given, return_dict=False)[0]
    with model.cache_context(context):
        return model(**given, return_dict=False)[0]


def _picture(model: nn.Module, name: str, how: str, steps: int = STEPS, last: int = STEPS) -> np.ndarray:
    """As pipelines make one.

    :param how: "two calls" a step, until guidance ends before the step `last`; "a batch" of both branches;
        "one call" without guidance
    """
    branches = [_inputs(name, text=text, seed=seed) for text, seed in TEXTS.values()]
    both = _inputs(name, text=7, seed=3, batch=2)
    x, scale = branches[0]["hidden_states"], branches[0]["timestep"]
    for step in range(steps):
        now = {"hidden_states": x, "timestep": (scale * (1 - step / steps)).to(scale.dtype)}
        if how == "a batch":
            twice = {key: torch.cat([value, value]) for key, value in now.items()}
            v, other = _call(model, both | twice).chunk(2)
        else:
            v = other = _call(model, branches[0] | now, "cond")
            if how == "two calls" and step < last:
                other = _call(model, branches[1] | now, "uncond")
        v = (other + 4.0 * (v - other))[:, : x.shape[1], ..., : x.shape[-1]]
        x = x - 0.1 * v.mean() - 0.1 * (v if v.shape == x.shape else 0)
    return x.numpy()


CASES = (
    ("qwenimage", "two calls"),
    ("wan", "two calls"),
    ("sd3", "a batch"),
    ("flux", "one call"),
    ("qwenimage", "one call"),
    ("flux", "two calls"),
)


def _swept() -> list[tuple[float, int, int, str]]:
    """Of each case: how far two pictures are from one rank's, calls that this rank computed of them, those
    of one picture, and what is reported."""
    told = []
    for name, how in CASES:
        model = tiny.MODELS[name][0](3)
        own: list[None] = []
        with torch.no_grad():
            hook = model.proj_out.register_forward_hook(lambda *_, own=own: own.append(None))
            one, alone = _picture(model, name, how), len(own)
            hook.remove()
            dit_torch.enable(model, parallel="auto", timeout_seconds=60)
            model.proj_out.register_forward_hook(lambda *_, own=own: own.append(None))
            pictures = [_picture(model, name, how) for _ in range(2)]
            report = dit_torch.report(model)
            assert report.ranks in (report.all_ranks, report.all_ranks // 2)
            dit_torch.disable(model)
        away = max(float(np.abs(picture - one).max()) for picture in pictures)
        told.append((away, len(own) - alone, alone, report.parallel))
    return told


@pytest.mark.parametrize("size", [2, 3, 4])
def test_as_one_rank_whatever_pipelines_do(size: int) -> None:
    half = "1 rank" if size == 2 else f"{size // 2} ranks"
    for of_rank in ranks.run(size, _swept):
        for (name, how), (away, own, alone, words) in zip(CASES, of_rank, strict=True):
            assert away < 1e-4, (name, how, away)
            if size % 2 != 0:
                assert own == 2 * alone and f"{size} ranks cannot be halved" in words
            elif how == "two calls":  # the first step shows that there are two
                assert own == 2 + (2 * alone - 2) // 2, (name, own)
                assert words == (
                    f"{2 * alone - 2} calls were one of two branches, each computed by {half}; "
                    f"2 calls were computed by all {size} ranks"
                )
            else:
                assert own == 2 * alone
                assert ("even number of samples" if how == "a batch" else f"by all {size} ranks") in words


def _changing() -> list[float]:
    """Guidance that ends within pictures, pictures without it, training in between."""
    model = tiny.qwenimage(3)
    asked = [
        {"how": "two calls"},
        {"how": "two calls", "last": 1},
        {"how": "one call"},
        {"how": "two calls", "last": 2},
    ]
    with torch.no_grad():
        ones = [_picture(model, "qwenimage", **given) for given in asked]
    dit_torch.enable(model, parallel="auto", timeout_seconds=60)
    with torch.no_grad():
        found = [_picture(model, "qwenimage", **given) for given in asked]
    output = _call(model, _inputs("qwenimage"), "cond")
    output.pow(2).mean().backward()
    dit_torch.sum_gradients(model)
    with torch.no_grad():
        found.append(_picture(model, "qwenimage", "two calls"))
    dit_torch.disable(model)
    return [float(np.abs(a - b).max()) for a, b in zip(found, [*ones, ones[0]], strict=True)]


def test_guidance_that_begins_and_ends() -> None:
    for away in ranks.run(4, _changing):
        assert max(away) < 1e-4


def _compiled(how: str) -> tuple[int, int, float]:
    """Graphs for all ranks and for halves, of texts of many lengths."""
    model, away = tiny.qwenimage(4), []
    lengths = [(9, 6), (10, 7), (12, 5), (14, 9)]
    calls = [
        {name: _inputs("qwenimage", text=text) for name, text in zip(TEXTS, pair, strict=True)}
        for pair in lengths
    ]
    with torch.no_grad():
        ones = [{name: _call(model, given, name) for name, given in pair.items()} for pair in calls]
        dit_torch.enable(model, parallel="auto", timeout_seconds=100)
        if how == "regional":
            model.compile_repeated_blocks(fullgraph=True, backend="eager")
        else:
            model.compile(fullgraph=True, backend="eager")
        counters.clear()
        graphs = []
        for pair, expected in zip(calls, ones, strict=True):
            for _ in range(3):
                both = {name: _call(model, given, name) for name, given in pair.items()}
                away += [float((both[name] - expected[name]).abs().max()) for name in both]
            graphs.append(counters["stats"]["unique_graphs"])
        dit_torch.disable(model)
    return graphs[0], graphs[-1], max(away)


@pytest.mark.parametrize("how", ["regional", "whole"])
def test_a_graph_for_all_ranks_and_one_for_halves(how: str) -> None:
    for first, last, away in ranks.run(4, _compiled, how):
        assert away < 1e-4
        assert first <= last <= 4, (first, last)


def _fails(role: str) -> tuple[str, bool]:
    """The last rank fails, in the call of a pair that it computes, or in one of all ranks."""
    model = tiny.qwenimage(4)
    given = _inputs("qwenimage")
    fails = False

    def fail(*_: Any) -> None:
        if fails:
            raise MemoryError("none is left on this rank")

    model.transformer_blocks[1].register_forward_pre_hook(fail)
    with torch.no_grad():
        one = _call(model, given)
        dit_torch.enable(model, parallel="auto", timeout_seconds=60)
        for name in ("cond", "uncond", "cond", "uncond"):
            _call(model, given, name)
        fails = torch.distributed.get_rank() == torch.distributed.get_world_size() - 1
        with pytest.raises((MemoryError, RuntimeError)) as told:
            for name in ("cond", "uncond") if role == "branch" else ("cond", "cond"):
                _call(model, given, name)
        fails = False
        again = [_call(model, given, name) for name in ("cond", "uncond", "cond", "uncond")]
        dit_torch.disable(model)
    return str(told.value), all(torch.allclose(x, one, rtol=0, atol=1e-5) for x in again)


@needs.LIBRARY
@pytest.mark.parametrize("role", ["branch", "all ranks"])
def test_a_rank_that_fails_is_not_waited_for(role: str) -> None:
    told = ranks.run(4, _fails, role, timeout=100)
    assert [again for _, again in told] == [True] * 4
    for words, _ in told[:3]:
        assert "rank 3 failed in its forward pass (MemoryError" in words


def _cached() -> tuple[float, str]:
    """A cache that keeps what is computed of tokens, which is there for some pictures only."""
    from diffusers import TaylorSeerCacheConfig

    model = tiny.wan(3)
    config = TaylorSeerCacheConfig(
        cache_interval=2, disable_cache_before_step=1, max_order=1, use_lite_mode=True
    )

    def pictures() -> list[np.ndarray]:
        made = [_picture(model, "wan", "two calls", last=2)]
        model.enable_cache(config)
        made += [_picture(model, "wan", "two calls", steps=5, last=4)]
        words = dit_torch.report(model).parallel if hasattr(model, "_dit_torch") else ""
        model.disable_cache()
        told.append(words)
        return [*made, _picture(model, "wan", "two calls")]

    told: list[str] = []
    with torch.no_grad():
        ones = pictures()
        dit_torch.enable(model, parallel="auto", timeout_seconds=60)
        found = pictures()
        dit_torch.disable(model)
    return max(float(np.abs(a - b).max()) for a, b in zip(found, ones, strict=True)), told[-1]


def test_what_a_cache_keeps_stays_with_its_ranks() -> None:
    for away, words in ranks.run(4, _cached):
        assert away < 1e-4
        assert words.endswith("by all 4 ranks (a cache keeps what ranks have computed of their tokens)")


def _refused(**named: Any) -> str:
    with pytest.raises(ValueError) as told:
        dit_torch.enable(tiny.flux(3), **named)
    return str(told.value)


def test_what_is_wrong_is_said() -> None:
    words = "expected one of ulysses, auto"
    assert words in ranks.run(1, _refused, parallel="branches")[0]
    assert words in ranks.run(1, _refused, parallel="auto", cfg_parallel=True)[0]
