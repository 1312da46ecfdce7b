"""A forward pass that fails on one rank, on GPUs: none looks complete that was not, all ranks know at once,
and the next one is right."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

import dit_torch
import tiny
from gpu_ranks import Check

SOON = 2.0  # seconds; the time limit of the ranks is 120


def _given(check: Check) -> dict[str, Any]:
    return {key: x.to(check.device) for key, x in tiny.flux_inputs(batch=2).items()}


def _output(model: nn.Module, given: dict[str, Any]) -> Tensor:
    with torch.no_grad():
        return model(**given, return_dict=False)[0]


def _fail_once(check: Check, module: nn.Module, model: nn.Module, call: Callable[[], Tensor]) -> None:
    """The last rank raises in a pass when it comes to `module`. The others' ends with an error, or with no
    numbers and an error of report(); in time, though they wait for the device."""
    last = check.rank == check.size - 1

    def fail(*_: Any) -> None:
        raise torch.OutOfMemoryError("none is left on this rank")

    hook = module.register_forward_pre_hook(fail) if last else None
    begin = time.monotonic()
    words = ""
    try:
        output = call()
        torch.cuda.synchronize()
        assert bool(output.isnan().any()), "a pass that was not completed looks complete"
        dit_torch.report(model)
    except (RuntimeError, MemoryError) as error:
        words = str(error)
    if hook is not None:
        hook.remove()
    seconds = time.monotonic() - begin
    expected = "none is left" if last else "rank"
    assert expected in words and seconds < SOON, (check.rank, words, seconds)
    check.facts.setdefault("seconds until a failure is known", []).append(round(seconds, 3))  # type: ignore[attr-defined]


def _middle(model: nn.Module) -> nn.Module:
    """With exchanges before and behind it."""
    return model.transformer_blocks[1].ff


def _require_right(what: str, found: Tensor, one: Tensor) -> None:
    away = float((found - one).abs().max() / one.abs().max().clamp(min=1))
    assert away < 1e-4, f"{what}: {away:.3g} from one GPU's result"


def check_failure(check: Check) -> None:
    given = _given(check)
    for how in ("halves", "eager", "blocks compiled"):  # by halves nothing else is exchanged
        if how == "halves" and check.size % 2 != 0:
            continue
        model = tiny.flux(4).to(check.device)
        one = _output(model, given)
        dit_torch.enable(model, cfg_parallel=how == "halves", timeout_seconds=120)
        if how == "blocks compiled":
            model.compile_repeated_blocks(fullgraph=True)
        _require_right(how, _output(model, given), one)
        # Compiled blocks do not look for hooks that came later.
        module = model.norm_out if how == "blocks compiled" else _middle(model)
        for round_ in range(5):
            dist.all_reduce(torch.ones(1, device=check.device))  # of the program, by NCCL
            _fail_once(check, module, model, lambda model=model: _output(model, given))
            dist.all_reduce(torch.ones(1, device=check.device))
            _require_right(f"{how}, after failure {round_}", _output(model, given), one)
        dit_torch.disable(model)
        check.say(f"   {how}: {check.facts['seconds until a failure is known']} s")
    _check_ahead(check, given)
    _check_graph(check, tiny.flux(4), given)
    _check_long(check)
    _check_memory(check, given)


def _check_ahead(check: Check, given: dict[str, Any]) -> None:
    """A rank whose host is ahead fails in the next pass, while this one is under way on the GPUs."""
    model = tiny.flux(4).to(check.device)
    one = _output(model, given)
    dit_torch.enable(model, timeout_seconds=120)
    _output(model, given)
    late = check.rank == 0
    for module in (model.transformer_blocks[0], model.norm_out):  # within the pass, and as good as behind it
        hook = module.register_forward_pre_hook(lambda *_: time.sleep(0.3)) if late else None
        output = _output(model, given)
        if hook is not None:
            hook.remove()
        _fail_once(check, _middle(model), model, lambda: _output(model, given))
        _require_right("the pass before the one that failed", output, one)
        _require_right("a pass after a failure", _output(model, given), one)
    dit_torch.disable(model)


def _check_long(check: Check) -> None:
    """With exchanges of 2 MiB for each of two ranks, which copy engines move where GPUs do not reach each
    other."""
    given = {key: x.to(check.device) for key, x in tiny.flux_inputs(width=1100).items()}
    model = tiny.flux(4, attention_head_dim=128, axes_dims_rope=(16, 56, 56)).to(check.device)
    one = _output(model, given)
    for schedule in ("flat", "v-first"):
        dit_torch.enable(model, schedule=schedule, timeout_seconds=120)
        _require_right(f"long messages, {schedule}", _output(model, given), one)
        for module in (_middle(model), model.transformer_blocks[0].attn.to_k):
            _fail_once(check, module, model, lambda: _output(model, given))
            _require_right("long messages, after a failure", _output(model, given), one)
        dit_torch.disable(model)
    _check_graph(check, model, given)


def _check_graph(check: Check, model: nn.Module, given: dict[str, Any]) -> None:
    """A graph that was captured before the failure is replayed behind it."""
    model = model.to(check.device)
    one = _output(model, given)
    dit_torch.enable(model, timeout_seconds=120)
    for _ in range(3):
        _output(model, given)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = _output(model, given)
    graph.replay()
    _require_right("a replay", output, one)
    _fail_once(check, _middle(model), model, lambda: _output(model, given))
    _require_right("a pass after a failure", _output(model, given), one)
    for _ in range(20):
        output.zero_()
        graph.replay()
        _require_right("a replay after a failure", output, one)
    del graph, output
    dit_torch.disable(model)


def _check_memory(check: Check, given: dict[str, Any]) -> None:
    """Failures leave no memory behind."""
    model = tiny.flux(4).to(check.device)
    dit_torch.enable(model, timeout_seconds=120)
    free = []
    for _ in range(20):
        _output(model, given)
        _fail_once(check, _middle(model), model, lambda: _output(model, given))
        _output(model, given)
        torch.cuda.synchronize()
        free.append(torch.cuda.mem_get_info()[0])
    dit_torch.disable(model)
    assert free[4] - free[-1] < 2**20, free
