"""Passes as CUDA graphs, enable(graphs=True), for check_gpu.py: the bits of passes that go by themselves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

import dit_torch
import gpu_models
import tiny
from gpu_ranks import Check

PASSES = 5  # the first goes by itself, the second is captured


def check_graphs(check: Check) -> None:
    near = check.nearest_level()
    with torch.inference_mode():
        for name in sorted(tiny.MODELS):
            require_bits(check, name)
        for policy in policies(near):
            require_pictures(check, policy)
        require_branches(check, gpu_models.rules(near, {"mode": "residual int4"}))
        require_compiled(check)
        for policy in ("exact", gpu_models.rules(near, {"mode": "residual int8"})):
            require_fallback(check, policy)
    with torch.no_grad():
        require_other_weights(check)
    require_gradients(check)


def policies(near: str) -> list[str]:
    """With phases: more and fewer bits, nothing at all in some steps, text apart."""
    return [
        gpu_models.rules(near, {"mode": "residual int8"}, {"mode": "residual int2", "steps": [2, -1]}),
        gpu_models.rules(
            near, {"mode": "fp8"}, {"mode": "skip", "tensors": ["k"], "steps": [3, -1], "every": 2}
        ),
        json.dumps(
            json.loads(
                gpu_models.rules(
                    near,
                    {"mode": "residual int4"},
                    {"mode": "residual int8", "tokens": "text", "steps": [1, 2]},
                )
            )
            | {"momentum": 0.5}
        ),
    ]


def moved(given: dict[str, Any], device: torch.device) -> dict[str, Any]:
    return {name: x.to(device) if isinstance(x, Tensor) else x for name, x in given.items()}


def output(model: nn.Module, given: dict[str, Any]) -> Tensor:
    return model(**given, return_dict=False)[0]


@contextmanager
def enabled(model: nn.Module, **how: Any) -> Iterator[Any]:
    dit_torch.enable(model, **how)
    try:
        yield model._dit_torch
    finally:
        dit_torch.disable(model)


def others(given: dict[str, Any], number: int) -> dict[str, Any]:
    """Inputs of the same sizes with other numbers."""
    x = given["hidden_states"]
    generator = torch.Generator(x.device).manual_seed(number)
    return given | {
        "hidden_states": torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)
    }


def require_bits(check: Check, name: str) -> None:
    """Of a family: also of passes of another size in between, and bytes that are counted."""
    make, inputs = tiny.MODELS[name]
    model = make(4).to(check.device)
    sizes = [moved(inputs(batch=batch), check.device) for batch in (1, 2)]
    passes = [others(sizes[number % 5 == 4], number) for number in range(3 * PASSES)]
    with enabled(model, schedule="v-first"):
        right = [output(model, given) for given in passes]
        sent = dit_torch.report(model).full_bytes
    with enabled(model, schedule="v-first", graphs=True) as this:
        for number, given in enumerate(passes):
            assert torch.equal(output(model, given), right[number]), f"{name}, pass {number}: other bits"
        counts = this.graphs.counts
        assert dit_torch.report(model).full_bytes == sent, f"{name}: bytes"
        assert "replayed" in str(dit_torch.report(model))
    check.say(f"   {name}: {counts}")
    assert (counts.captured, counts.replayed) == (2, 3 * PASSES - 2), f"{name}: {counts}"


def denoised(model: nn.Module, steps: int, branches: list[dict[str, Any]]) -> Tensor:
    x = branches[0]["hidden_states"]
    for step in range(steps):
        at = {"hidden_states": x, "timestep": torch.full_like(branches[0]["timestep"], 1 - step / steps)}
        velocities = []
        for name, branch in zip(("cond", "uncond"), branches, strict=False):
            with model.cache_context(name):  # type: ignore[operator]
                velocities.append(output(model, branch | at))
        x = x - sum(velocities) / steps
    return x


def require_pictures(check: Check, policy: str) -> None:
    """Pictures in a row have the bits of those without graphs, also when numbers of steps change."""
    given = moved(tiny.flux_inputs(), check.device)
    pictures: dict[bool, list[Tensor]] = {}
    for graphs in (False, True):
        model = tiny.flux(4).to(check.device)
        with enabled(model, policy=policy, steps=6, branches=1, graphs=graphs) as this:
            pictures[graphs] = [denoised(model, 6, [others(given, seed)]) for seed in range(5)]
            dit_torch.set_steps(model, 4)
            pictures[graphs] += [denoised(model, 4, [others(given, seed)]) for seed in range(3)]
            dit_torch.set_steps(model, 6)
            pictures[graphs] += [denoised(model, 6, [others(given, seed)]) for seed in range(2)]
            counts = this.graphs.counts if graphs else None
            told = dit_torch.report(model)
    for number, (found, right) in enumerate(zip(pictures[True], pictures[False], strict=True)):
        assert torch.equal(found, right), f"{policy}: picture {number} has other bits"
    check.say(f"   a policy: {counts}")
    assert counts is not None and counts.replayed > counts.passes / 3, str(counts)
    assert sum(level["sent_bytes"] for level in told.levels.values()) > 0


def require_branches(check: Check, policy: str) -> None:
    """Both branches of guidance remember what is theirs; halves of the ranks compute one each."""
    given = moved(tiny.flux_inputs(), check.device)
    prompt = given["encoder_hidden_states"]
    branches = [given, given | {"encoder_hidden_states": prompt.flip(1).contiguous()}]
    for how in ({"policy": policy, "steps": 5}, {"cfg_parallel": True}):
        if "cfg_parallel" in how and check.size % 2 != 0:
            continue
        pictures = {}
        for graphs in (False, True):
            model = tiny.flux(4).to(check.device)
            with enabled(model, graphs=graphs, **how) as this:
                pictures[graphs] = [denoised(model, 5, branches) for _ in range(4)]
                counts = this.graphs.counts if graphs else None
        for number in range(4):
            assert torch.equal(pictures[True][number], pictures[False][number]), f"{how}: picture {number}"
        check.say(f"   branches: {counts}")
        assert counts is not None and counts.replayed > counts.passes / 3, str(counts)


def require_other_weights(check: Check) -> None:
    """Weights that lie elsewhere, or have other numbers, are those of the next pass."""
    model = tiny.flux(4).to(check.device)
    given = moved(tiny.flux_inputs(), check.device)

    def elsewhere(p: nn.Parameter) -> None:
        p.data = 2 * p.data

    changes: tuple[Callable[[nn.Parameter], object], ...] = (bool, lambda p: p.mul_(0.5), elsewhere)
    results: dict[bool, list[Tensor]] = {}
    for graphs in (False, True):
        with enabled(model, graphs=graphs, compare=False) as this:
            for change in changes:  # all of them together change nothing
                if change is not bool:
                    change(next(model.parameters()))
                results.setdefault(graphs, []).extend(output(model, given) for _ in range(4))
            counts = this.graphs.counts if graphs else None
    assert counts is not None and (counts.captured, counts.replayed) == (2, 10), str(counts)
    assert all(torch.equal(a, b) for a, b in zip(results[True], results[False], strict=True)), "weights"


def require_compiled(check: Check) -> None:
    """Blocks that are compiled, and the whole transformer."""
    given = moved(tiny.flux_inputs(), check.device)
    for whole in (False, True):
        results: dict[bool, list[Tensor]] = {}
        for graphs in (False, True):
            torch._dynamo.reset()
            model = tiny.flux(4).to(check.device)
            with enabled(model, graphs=graphs) as this:
                if whole:
                    model.compile()
                else:
                    model.compile_repeated_blocks(fullgraph=True)  # type: ignore[operator]
                results[graphs] = [output(model, others(given, number)) for number in range(PASSES)]
                counts = this.graphs.counts if graphs else None
        check.say(f"   compiled{' as a whole' * whole}: {counts}")
        assert counts is not None and (whole or counts.replayed == PASSES - 1), str(counts)
        for number in range(PASSES):
            away = float((results[True][number] - results[False][number]).abs().max())
            assert away < 1e-5, f"compiled, whole {whole}, pass {number}: differs by {away:.3g}"


def require_fallback(check: Check, policy: str) -> None:
    """What cannot be captured goes by itself, and report() says why."""
    given = moved(tiny.flux_inputs(), check.device)
    more = {} if policy == "exact" else {"steps": 4, "branches": 1}
    pictures = {}
    for graphs in (False, True):
        model = tiny.flux(4).to(check.device)
        block = model.transformer_blocks[1]
        block.register_forward_hook(lambda module, args, result: (float(result[0].sum()), None)[1])
        with enabled(model, policy=policy, graphs=graphs, **more):
            pictures[graphs] = [denoised(model, 4, [others(given, seed)]) for seed in range(3)]
            told = dit_torch.report(model).graphs
    check.say(f"   falls back: {told[:160]}")
    # Random numbers, memory and captures of others go on.
    assert torch.randn(3, device=check.device).isfinite().all()
    beside = torch.cuda.Stream()
    used_beside = torch.zeros(1 << 20, device=check.device)
    used_beside.record_stream(beside)
    del used_beside
    torch.cuda.empty_cache()
    require_bits(check, "flux")
    assert "not the last one" in told and " 0 captured" in told, told
    if policy == "exact":  # what had been sent is forgotten where a capture fails
        assert all(torch.equal(pictures[True][n], pictures[False][n]) for n in range(3))
    else:
        assert torch.equal(pictures[True][2], pictures[False][2])


def require_gradients(check: Check) -> None:
    """Training goes on without graphs."""
    model = tiny.flux(4).to(check.device)
    given = moved(tiny.flux_inputs(), check.device)
    with enabled(model, graphs=True) as this:
        for _ in range(4):
            output(model, given).square().mean().backward()
        assert this.graphs.counts.captured == 0 and "gradients" in this.graphs.counts.why_not
        assert next(model.parameters()).grad is not None
