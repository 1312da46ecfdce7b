"""Backward passes through enabled transformers: the gradients of one process, to rounding."""

from __future__ import annotations

import copy
import time
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import dit_torch
import ranks
import tiny
import tiny_models
from dit_torch._library import library

CLOSE = 1e-5  # of the largest gradient of a parameter, in fp32
_LOSSY = "v-major:warmup=1,refresh=3,ratio=linear"
_INPUTS = ("hidden_states", "encoder_hidden_states")
Gradients = dict[str, Tensor]


def _inputs(name: str, **given: Any) -> dict[str, Any]:
    inputs = tiny.MODELS[name][1](**given)
    for what in _INPUTS:
        inputs[what].requires_grad_(True)
    return inputs


def _backward(model: Any, inputs: dict[str, Any]) -> Gradients:
    """Of the inputs; those of parameters are where they belong."""
    output = model(**inputs, return_dict=False)[0]
    (output * tiny.noise(*output.shape, seed=11)).sum().backward()
    return {what: inputs[what].grad for what in _INPUTS}


def _gradients(model: nn.Module) -> Gradients:
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def _distance(found: Gradients, right: Gradients) -> float:
    """The largest, of one that is there, relative to the largest number in it."""
    assert found.keys() == right.keys(), found.keys() ^ right.keys()
    away = {
        name: (found[name] - one).abs().max() / one.abs().max().clamp(min=1e-6) for name, one in right.items()
    }
    return max(map(float, away.values()))


def _alone(model: nn.Module, name: str, **given: Any) -> tuple[Gradients, Gradients]:
    own = copy.deepcopy(model)
    of_inputs = _backward(own, _inputs(name, **given))
    return _gradients(own), of_inputs


def _compare(cases: list[tuple[str, int, str, bool]]) -> dict[str, tuple[float, float]]:
    """By case: how far gradients of parameters, and of inputs, are from one process's."""
    told = {}
    for name, heads, schedule, checkpoints in cases:
        model = tiny.MODELS[name][0](heads).train()
        right, right_inputs = _alone(model, name, batch=2)
        if checkpoints:
            model.enable_gradient_checkpointing()
        dit_torch.enable(model, schedule=schedule)
        of_inputs = _backward(model, _inputs(name, batch=2))
        dit_torch.sum_gradients(model)
        told[str((name, heads, schedule, checkpoints))] = (
            _distance(_gradients(model), right),
            _distance(of_inputs, right_inputs),
        )
        dit_torch.disable(model)
    return told


@pytest.mark.parametrize(
    ("size", "cases"),
    [
        (2, [(name, 3, "flat", False) for name in tiny.MODELS]),
        (3, [(name, 2, "v-first", True) for name in ("flux", "qwenimage", "wan", "ltx")]),
        (2, [(name, 4, "pipelined", True) for name in ("flux2", "sd35", "wan-5b")]),
    ],
)
def test_gradients_are_those_of_one_process(size: int, cases: list[tuple[str, int, str, bool]]) -> None:
    """Of uneven heads and tokens, and where more ranks than heads share heads."""
    for told in ranks.run(size, _compare, cases):
        assert all(max(far) < CLOSE for far in told.values()), told


def _with_audio() -> float:
    """Of LTX-2, whose audio all ranks compute."""
    entry = tiny_models.TINY["LTX2VideoTransformer3DModel-2.3"]
    model = entry.make().train()

    def gradients(model: Any) -> Gradients:
        outputs = model(**entry.inputs(2), return_dict=False)
        sum((x * tiny.noise(*x.shape, seed=11)).sum() for x in outputs).backward()
        return _gradients(model)

    right = gradients(copy.deepcopy(model))
    dit_torch.enable(model)
    gradients(model)
    dit_torch.sum_gradients(model)
    dit_torch.disable(model)
    return _distance(_gradients(model), right)


@pytest.mark.skipif("LTX2VideoTransformer3DModel" not in tiny_models.dit_classes(), reason="no LTX-2")
def test_what_all_ranks_compute_counts_once() -> None:
    assert max(ranks.run(3, _with_audio)) < CLOSE


def _by_forward() -> list[float]:
    """As peft's models of some versions call the one that is in them: past its hooks."""
    told = []
    for name in ("flux", "wan"):
        model = tiny.MODELS[name][0](3)
        right, right_inputs = _alone(model, name)
        dit_torch.enable(model)
        of_inputs = _backward(model.forward, _inputs(name))
        dit_torch.sum_gradients(model)
        told += [_distance(_gradients(model), right), _distance(of_inputs, right_inputs)]
        dit_torch.disable(model)
    return told


def test_forward_without_its_hooks_is_a_call() -> None:
    for told in ranks.run(2, _by_forward):
        assert max(told) < CLOSE, told


def _bf16() -> tuple[float, float]:
    """How far a rank's gradients are, and one process's, from those of fp32."""
    exact, _ = _alone(tiny.flux(3), "flux")
    model = tiny.flux(3).to(torch.bfloat16)

    def inputs() -> dict[str, Any]:
        given = tiny.flux_inputs()
        given |= {n: x.to(torch.bfloat16) for n, x in given.items() if not n.endswith("_ids")}
        return given | {n: given[n].requires_grad_(True) for n in _INPUTS}

    own = copy.deepcopy(model)
    _backward(own, inputs())
    dit_torch.enable(model)
    _backward(model, inputs())
    dit_torch.sum_gradients(model)
    dit_torch.disable(model)
    return _error(model, exact), _error(own, exact)


def _error(model: nn.Module, exact: Gradients) -> float:
    """Of all gradients together, relative to their size."""
    found = _gradients(model)
    away = sum(float((found[name].float() - one).pow(2).sum()) for name, one in exact.items())
    return (away / sum(float(one.pow(2).sum()) for one in exact.values())) ** 0.5


def test_in_bf16_they_are_as_good() -> None:
    for shared, alone in ranks.run(2, _bf16):
        assert shared < 1.3 * alone + 1e-3, (shared, alone)


def _lora(model: Any, targets: list[str]) -> Any:
    from peft import LoraConfig

    model.requires_grad_(False)
    torch.manual_seed(3)
    model.add_adapter(LoraConfig(r=2, lora_alpha=2, init_lora_weights="gaussian", target_modules=targets))
    for name, p in sorted(model.named_parameters()):
        if "lora_B" in name:
            p.data.copy_(0.1 * tiny.noise(*p.shape, seed=len(name)))
    return model


def _steps(model: Any, name: str, count: int) -> list[float]:
    """Losses of a fine-tuning, two backward passes a step."""
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-2)
    losses = []
    for _ in range(count):
        for seed in (0, 1):
            inputs = tiny.MODELS[name][1](seed=seed)
            output = model(**inputs, return_dict=False)[0]
            loss = (output - tiny.noise(*output.shape, seed=5)).pow(2).mean() / 2
            loss.backward()
            losses.append(loss.item())
        if hasattr(model, "_dit_torch"):
            dit_torch.sum_gradients(model)
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return losses


def _fine_tuned(names: list[str]) -> dict[str, tuple[list[float], list[float], float]]:
    told = {}
    targets = ["to_q", "to_k", "to_out.0", "proj_out", "norm_out.linear"]  # a first layer's V has no gradient
    for name in names:
        own = _lora(tiny.MODELS[name][0](3).train(), targets)
        model = _lora(tiny.MODELS[name][0](3).train(), targets)
        model.enable_gradient_checkpointing()
        dit_torch.enable(model)
        losses = _steps(model, name, 4), _steps(own, name, 4)
        dit_torch.disable(model)
        far = max(
            float((x - y).abs().max()) for x, y in zip(model.parameters(), own.parameters(), strict=True)
        )
        told[name] = *losses, far
    return told


def test_fine_tuning_of_adapters_goes_as_in_one_process() -> None:
    pytest.importorskip("peft")
    for told in ranks.run(2, _fine_tuned, ["flux", "wan"]):
        for losses, right, far in told.values():
            assert losses == pytest.approx(right, rel=1e-4)
            assert losses[-1] < losses[1]
            assert far < 2e-3  # Adam's steps are as large where gradients are all rounding


def _around() -> list[float]:
    """Gradients of what is in front of a transformer, beside it, and of a loss that takes two passes."""
    torch.manual_seed(0)
    model, before = tiny.flux(3), nn.Linear(8, 8)

    def once() -> Gradients:
        model.zero_grad()
        before.zero_grad()
        inputs = tiny.flux_inputs()
        x = before(inputs["hidden_states"])
        first = model(**inputs | {"hidden_states": x}, return_dict=False)[0]
        second = model(**inputs | {"hidden_states": first}, return_dict=True).sample
        ((first + second).pow(2).mean() + x.pow(2).mean()).backward()
        if hasattr(model, "_dit_torch"):
            dit_torch.sum_gradients(model)
        grads = _gradients(model) | {f"before.{n}": g for n, g in _gradients(before).items()}
        return {name: g.clone() for name, g in grads.items()}

    right = once()
    dit_torch.enable(model)
    far = [_distance(once(), right) for _ in range(2)]
    dit_torch.disable(model)
    return far


def test_what_is_around_a_transformer_has_its_whole_gradient() -> None:
    for far in ranks.run(2, _around):
        assert max(far) < CLOSE, far


def _averaged() -> float:
    """DDP adds the gradients up itself, and divides by the ranks."""
    model = tiny.flux(3)
    right, _ = _alone(model, "flux")
    dit_torch.enable(model)
    wrapped = nn.parallel.DistributedDataParallel(model)
    output = wrapped(**tiny.flux_inputs(), return_dict=False)[0]
    (dist.get_world_size() * output * tiny.noise(*output.shape, seed=11)).sum().backward()
    far = _distance(_gradients(model), right)
    dit_torch.disable(model)
    return far


def test_with_ddp_the_loss_is_multiplied_by_the_ranks() -> None:
    for far in ranks.run(2, _averaged):
        assert far < CLOSE


def _sharded() -> float:
    """FSDP2 leaves each rank a part of the averages."""
    from torch.distributed.fsdp import fully_shard

    model = tiny.flux(3)
    right, _ = _alone(model, "flux")
    for block in (*model.transformer_blocks, *model.single_transformer_blocks):
        fully_shard(block)
    fully_shard(model)
    dit_torch.enable(model)
    output = model(**tiny.flux_inputs(), return_dict=False)[0]
    (dist.get_world_size() * output * tiny.noise(*output.shape, seed=11)).sum().backward()
    with pytest.raises(ValueError, match="whose gradients were put together already"):
        dit_torch.sum_gradients(model)
    whole = {name: gradient.full_tensor() for name, gradient in _gradients(model).items()}
    dit_torch.disable(model)
    return _distance(whole, right)


def test_with_fsdp_the_loss_is_multiplied_by_the_ranks() -> None:
    for far in ranks.run(2, _sharded):
        assert far < CLOSE


def _refused() -> dict[str, str]:
    told = {}
    model = tiny.flux(4)

    def tell(name: str, call: Any) -> None:
        with pytest.raises((RuntimeError, NotImplementedError, ValueError)) as error:
            call()
        told[name] = str(error.value)

    tell("not enabled", lambda: dit_torch.sum_gradients(model))
    dit_torch.enable(model)
    output = model(**_inputs("flux"), return_dict=False)[0]
    dit_torch.disable(model)
    tell("disabled", output.sum().backward)
    dit_torch.enable(model, cfg_parallel=True)
    tell("cfg_parallel", lambda: _backward(model, _inputs("flux", batch=2)))
    dit_torch.disable(model)
    if library() is not None:
        dit_torch.enable(model, policy=_LOSSY, steps=4)
        tell("policy", lambda: _backward(model, _inputs("flux")))
        dit_torch.disable(model)
    return told


def _fails_on_its_way_back() -> tuple[str, float, float]:
    """The last rank, in the first block; it goes on with the next pass, as do others when they are told."""
    model = tiny.flux(4)
    right, _ = _alone(model, "flux")
    fails = False

    def fail(gradient: torch.Tensor) -> None:
        if fails:
            raise MemoryError("none is left on this rank")

    def mark(module: nn.Module, args: Any, output: Any) -> None:
        for x in output:
            x.register_hook(fail)

    dit_torch.enable(model, timeout_seconds=100)
    model.transformer_blocks[0].register_forward_hook(mark)
    fails = torch.distributed.get_rank() == torch.distributed.get_world_size() - 1
    begin = time.monotonic()
    with pytest.raises((MemoryError, RuntimeError)) as told:
        _backward(model, _inputs("flux"))
    fails = False
    model.zero_grad()
    _backward(model, _inputs("flux"))
    seconds = time.monotonic() - begin
    dit_torch.sum_gradients(model)
    away = _distance(_gradients(model), right)
    dit_torch.disable(model)
    return str(told.value), seconds, away


def test_a_rank_that_fails_on_its_way_back_is_not_waited_for() -> None:
    told = ranks.run(3, _fails_on_its_way_back)
    for words, seconds, away in told[:2]:
        assert "rank 2 failed" in words and seconds < 60 and away < 1e-5
    assert "none is left" in told[2][0] and told[2][2] < 1e-5


def test_what_has_no_backward_pass_says_so() -> None:
    for told in ranks.run(2, _refused):
        assert "is not enabled" in told["not enabled"]
        assert "expected backward() before dit_torch.disable()" in told["disabled"]
        assert "does not require grad" in told["cfg_parallel"], told  # the branches come from elsewhere
        assert library() is None or f"enabled with policy = {_LOSSY!r}" in told["policy"], told
