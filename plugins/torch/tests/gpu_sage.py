"""policy="sage-int8" on GPUs, for check_gpu.py: SageAttention's own result on one of them, and the time of a
model whose ranks send what its kernel takes, or send 16 bits and quantise then."""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from torch import Tensor

import dit_torch
import tiny
from dit_torch.exchanges import SAGE
from dit_torch.processors import base
from gpu_ranks import Check
from sage_cases import Attention, Case

Given = dict[str, Any]
CASES = (Case(1, 512, 4096, 24, 128), Case(2, 77, 1000, 5, 64, True), Case(1, 0, 32760, 12, 128))


def check_sage(check: Check) -> None:
    """What ranks attend is what SageAttention attends on one GPU, and compiled models in graphs do so too."""
    if importlib.util.find_spec("sageattention") is None:
        check.say("   skipped: the package sageattention is not installed")
        return
    with torch.inference_mode():
        for case in CASES:
            require_one_gpu(check, case)
        time_of_models(check)


def _attend(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> Tensor:
    from sageattention import sageattn

    k = k - k.mean(1, keepdim=True)  # as smooth_k does, in place
    return sageattn(q, k, v, tensor_layout="NHD", smooth_k=False)


def require_one_gpu(check: Check, case: Case) -> None:
    q, k, v = case.tensors(check.device)
    attention = Attention(check.group, case)
    found = attention(q, k, v)
    right = _attend(q, k, v)[:, attention.rows]
    exact = base.attend(q, k, v)[:, attention.rows]
    away, lost = (float((x - right).float().norm() / right.float().norm()) for x in (found, exact))
    torch.cuda.synchronize()
    attention.close()
    check.facts[f"sage, {case}: from one GPU's, and that from exact attention"] = (away, lost)
    check.say(f"   {tuple(case)}: {away:.2g} from one GPU's, which is {lost:.2g} from exact attention")
    # Both round the same numbers by the same rule, but for a code in some that lies between two.
    assert away < 0.2 * lost, f"{case}: {away} from SageAttention on one GPU, {lost} from exact attention"


def _model(check: Check) -> torch.nn.Module:
    blocks, head = {"num_layers": 1, "num_single_layers": 3}, {"attention_head_dim": 128}
    model = tiny.flux(24, axes_dims_rope=(16, 56, 56), **blocks, **head)
    return model.to(check.device, torch.bfloat16)


def _given(check: Check) -> Given:
    given = tiny.flux_inputs(text=512, width=1024)
    ids = {name: x.to(check.device) for name, x in given.items() if "ids" in name}
    return {name: x.to(check.device, torch.bfloat16) for name, x in given.items()} | ids


_library = torch.library.Library("dit_check", "DEF")
_library.define("sage(Tensor q, Tensor k, Tensor v) -> Tensor")
_library.impl("sage", _attend, "CUDA")
torch.library.register_fake("dit_check::sage", lambda q, k, v: torch.empty_like(q), lib=_library)


def _on_arrival(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> Tensor:
    return torch.ops.dit_check.sage(q, k, v)


def _replayed(
    check: Check, policy: str, given: Given
) -> tuple[Callable[[], object], Tensor, torch.nn.Module]:
    """A pass of a compiled model as a graph, which reads what is given where it lies, and its result."""
    model = _model(check)
    dit_torch.enable(model, schedule="v-first", policy=policy)
    model.compile_repeated_blocks(fullgraph=True)
    for _ in range(3):
        model(**given, return_dict=False)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        output = model(**given, return_dict=False)[0]
    return graph.replay, output, model


def time_of_models(check: Check) -> None:
    """Of four blocks of FLUX.1 at 1024x1024."""
    ways, outputs, models, given = {}, {}, [], _given(check)
    for name, policy in (("exact exchange", "exact"), ("handed on", SAGE)):
        with mock.patch.object(base, "attend", _on_arrival):
            ways[name], outputs[name], model = _replayed(check, policy, given)
        models.append(model)
    times: dict[str, list[float]] = {name: [] for name in ways}
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(15):
        for name, replay in ways.items():
            begin.record()
            replay()
            end.record()
            torch.cuda.synchronize()
            times[name].append(begin.elapsed_time(end))
    one, other = (output.float() for output in outputs.values())
    away = float((one - other).norm() / one.norm())
    for name, values in times.items():
        check.facts[f"sage, {name}: ms"] = round(statistics.median(values), 3)
        check.say(f"   {statistics.median(values):8.3f} ms  {name}")
    check.say(f"   results differ by {away:.2g}")
    for model in models:
        dit_torch.disable(model)
    assert away < 0.05, f"results differ by {away}"
