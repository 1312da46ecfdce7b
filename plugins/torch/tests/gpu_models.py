"""Whole models on GPUs, tiny ones, for check_gpu.py: families, pictures with a policy."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

import all_models
import dit_torch
import tiny
import tiny_models
from dit_torch.attention import attend
from dit_torch.split_keys import attend_to_parts

SCHEDULES = ("flat", "v-first", "pipelined")


def _moved(given: dict[str, Any], device: torch.device) -> dict[str, Any]:
    return {name: x.to(device) if isinstance(x, Tensor) else x for name, x in given.items()}


def _output(model: nn.Module, given: dict[str, Any], timestep: float | None = None) -> Tensor:
    now = given if timestep is None else given | {"timestep": torch.full_like(given["timestep"], timestep)}
    return model(**now, return_dict=False)[0]


def require_family(name: str, heads: int, device: torch.device) -> float:
    """A model of a family gives what it gives on one GPU, the same bits under all schedules, and its own bits
    behind disable(). Returns the largest distance."""
    make, inputs = tiny.MODELS[name]
    model, given = make(heads).to(device), _moved(inputs(batch=2), device)
    one = _output(model, given)
    found = {}
    for schedule in SCHEDULES:
        dit_torch.enable(model, schedule=schedule)
        found[schedule] = [_output(model, given) for _ in range(2)]
        dit_torch.disable(model)
    away = max(float((x - one).abs().max()) for both in found.values() for x in both)
    assert away < 2e-5, f"{name}, {heads} heads: differs by {away:.3g}"
    for schedule, both in found.items():
        for x in both:
            assert torch.equal(x, found["flat"][0]), f"{name}, {schedule}: other bits"
    assert torch.equal(_output(model, given), one), f"{name}, {heads} heads: other bits behind disable()"
    return away


# Masks; keys that share heads; text that is whole; keys of another stream; three streams; a way of its own.
PLANS = ("Chroma", "AceStep", "HiDreamImage", "LTX2Video", "Flux3", "Sana")


def require_plans(device: torch.device) -> dict[str, float]:
    """Models that there is a plan for give what they give on one GPU. Returns how far they are from it."""
    names = [name for name in tiny_models.TINY if name.split("Transformer")[0] in PLANS]
    told = all_models.compare(names, device)
    for name, away in told.items():
        assert isinstance(away, float) and away < all_models.TOLERANCE, f"{name}: {away}"
    return told  # type: ignore[return-value]


def require_split_keys(device: torch.device) -> float:
    """Keys stay where they are: near attention to all of them, in bf16. Returns the largest distance."""
    model = tiny.wan(3).to(device)
    dit_torch.enable(model)
    parallel = model._dit_torch.parallel
    q, k, v = (2 * tiny.noise(2, rows, 4, 64, seed=rows).to(device) for rows in (126, 2001, 2002))
    v = v[:, :2001]
    right = attend(q, k, v)
    q, k, v = (x.bfloat16() for x in (q, k, v))
    own = (x.narrow(1, *parallel.place(2001)) for x in (k, v))
    found = attend_to_parts(q, *own, 2001, parallel).float()
    away, whole = (float((x - right).abs().max()) for x in (found, attend(q, k, v).float()))
    dit_torch.disable(model)
    assert away < 2 * whole, f"differs by {away:.3g}; attention to all keys in bf16 by {whole:.3g}"
    return away


def require_guided_graphs(device: torch.device) -> None:
    """A guided step on halves of the ranks as one CUDA graph: its replays have the step's bits, in turn with
    steps that are none. Of branches in a call each, and of both in one."""
    for branches in (("cond", "uncond"), ("",)):
        model = tiny.flux(4).to(device)
        given = {
            branch: _moved(tiny.flux_inputs(batch=3 - len(branches), seed=seed), device)
            for seed, branch in enumerate(branches)
        }

        def step(model: Any = model, given: dict[str, Any] = given) -> Tensor:
            outputs = []
            for branch, arguments in given.items():
                with model.cache_context(branch) if branch else contextlib.nullcontext():
                    outputs.append(_output(model, arguments))
            return outputs[0] + 3 * outputs[-1]

        one = step()
        dit_torch.enable(model, cfg_parallel=True)
        right = [step() for _ in range(3)][-1].clone()
        assert (right - one).abs().max() < 1e-4
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = step()
        for replay in range(50):
            result.zero_()
            graph.replay()
            assert torch.equal(result, right), f"{branches}, replay {replay}: other bits"
            if replay % 10 == 0:
                assert torch.equal(step(), right), f"{branches}, behind replay {replay}: other bits"
        del graph, result
        dit_torch.disable(model)


def rules(level: str, *which: dict[str, Any]) -> str:
    """A policy file's text."""
    listed = [{"level": level, **one} for one in which]
    return json.dumps({"format": "dit-wire-policy", "version": 1, "rules": listed})


def require_rules_of_tokens(level: str, device: torch.device) -> dict[str, float]:
    """Rules for text and for image tokens send what they should, and change the picture. Returns shares."""
    text, image = ({"mode": "bf16", "tokens": tokens} for tokens in ("text", "image"))
    shares, outputs = {}, {}
    given = _moved(tiny.flux_inputs(text=8), device)
    for name, policy in {
        "exact": "exact",
        "text": rules(level, text),
        "image": rules(level, image),
        "both": rules(level, text, image),
        "all": rules(level, {"mode": "bf16"}),
    }.items():
        model = tiny.flux(4).to(device)
        more = {} if policy == "exact" else {"steps": 1, "adapt": False}
        dit_torch.enable(model, policy=policy, **more)
        outputs[name] = _output(model, given)
        report = dit_torch.report(model)
        shares[name] = report.levels[level]["sent_bytes"] / report.full_bytes
        dit_torch.disable(model)
    # 8 text and 20 image tokens on two ranks, fp32: bf16 is half.
    expected = {"exact": 1, "text": 1 - 4 / 28, "image": 1 - 10 / 28, "both": 0.5, "all": 0.5}
    for name, share in expected.items():
        assert abs(shares[name] - share) < 1e-6, f"{name}: {shares[name]} of the bytes, expected {share}"
        assert (name == "exact") == torch.equal(outputs[name], outputs["exact"]), name
    assert torch.equal(outputs["both"], outputs["all"]), "rules for both parts and one for all: other bits"
    return shares


def _with_budget(
    policy: str, budget: int | None, device: torch.device
) -> tuple[list[Tensor], dict[str, str], int]:
    """A step of a short and of a long text, why the policy is off, and the bytes that are remembered."""
    model = tiny.flux(4).to(device)
    more = {} if policy == "exact" else {"steps": 2, "branches": 1, "reference_bytes": budget}
    dit_torch.enable(model, policy=policy, **more)
    outputs = [_output(model, _moved(tiny.flux_inputs(text=text), device)) for text in (5, 12)]
    report = dit_torch.report(model)
    dit_torch.disable(model)
    return outputs, report.off, sum(one["wire_bytes"] for one in report.exchanges)


def require_budget(level: str, device: torch.device) -> list[int]:
    """What would need more memory than there may be is exact. Returns bytes that are remembered without a
    budget, with one byte less, and with none."""
    policy = rules(level, {"mode": "residual int2"})
    exact = _with_budget("exact", None, device)[0]
    outputs, off, whole = _with_budget(policy, None, device)
    assert not off and not any(torch.equal(a, b) for a, b in zip(outputs, exact, strict=True)), off
    outputs, off, part = _with_budget(policy, whole - 1, device)
    assert 0 < part < whole and len(off) == 1, off
    assert not torch.equal(outputs[0], exact[0]) and torch.equal(outputs[1], exact[1])
    outputs, off, nothing = _with_budget(policy, 0, device)
    assert nothing == 0 and len(off) == 2, off
    assert all(torch.equal(a, b) for a, b in zip(outputs, exact, strict=True))
    return [whole, part, nothing]


def require_other_steps(level: str, device: torch.device) -> list[int]:
    """Pictures of 2 and of 3 steps in turn, then with a second branch: like ones have the same bits, compiled
    ones are close, and no graph is compiled for them. Returns the numbers of graphs."""
    given, other = (_moved(tiny.flux_inputs(seed=seed), device) for seed in (0, 1))
    pictures: dict[bool, list[Tensor]] = {}
    graphs = []
    for compiled in (False, True):
        model = tiny.flux(4).to(device)
        dit_torch.enable(model, schedule="v-first", policy=rules(level, {"mode": "residual int4"}), steps=2)
        if compiled:
            torch._dynamo.reset()
            counters.clear()
            model.compile_repeated_blocks(fullgraph=True)  # type: ignore[operator]
        made = pictures.setdefault(compiled, [])
        for number in range(8):
            steps = 2 + number % 2
            dit_torch.set_steps(model, steps)
            for step in range(steps):
                for branch in (given, other)[: 1 + number // 4]:
                    picture = _output(model, branch, 1 - step / steps).clone()
            made.append(picture)
            graphs.append(counters["stats"]["unique_graphs"])
        dit_torch.disable(model)
        for number in (2, 3, 6, 7):
            what = f"compiled {compiled}: picture {number} and the one of as many steps before"
            assert torch.equal(made[number], made[number - 2]), what
    for number, (eager, compiled_one) in enumerate(zip(pictures[False], pictures[True], strict=True)):
        away = float((eager - compiled_one).abs().max())
        assert away < 1e-3, f"picture {number}: compiled differs by {away:.3g}"
    assert graphs[-1] == graphs[8], f"graphs: {graphs[8:]}"
    return graphs[8:]
