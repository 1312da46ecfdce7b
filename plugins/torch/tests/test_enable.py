"""enable() and disable(): what they refuse, and that nothing of ours is left."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import dit_torch
import ranks
import tiny
from dit_torch.launch import launch
from dit_torch.processors import processors_of


def _told(model: Any, **named: Any) -> str:
    with pytest.raises((ValueError, RuntimeError)) as told:
        dit_torch.enable(model, **named)
    return str(told.value)


def test_torch_distributed_must_be_initialised() -> None:
    assert "dit_torch.init()" in _told(tiny.flux(3))


def _errors() -> list[str]:
    class Own:
        def __call__(self) -> None: ...

    model = tiny.flux(3)
    told = [_told(model, schedule="fastest"), _told(nn.Linear(2, 2))]
    for name in ("cfg_parallel", "adapt", "compare", "verify"):
        assert f"{name} = 'no': expected True or False" in _told(model, **{name: "no"})
    assert "timeout_seconds = True" in _told(model, timeout_seconds=True)
    assert "policy = 'Exact'" in _told(model, policy="Exact")
    dit_torch.enable(model)
    told.append(_told(model))
    dit_torch.disable(model)
    with pytest.raises(ValueError, match="not enabled"):
        dit_torch.report(model)
    model.transformer_blocks[1].attn.set_processor(Own())
    told.append(_told(model))
    return told


def test_errors_name_what_is_wrong_and_what_is_expected() -> None:
    schedule, linear, twice, processor = ranks.run(1, _errors)[0]
    assert "schedule = 'fastest'" in schedule and "v-first" in schedule
    assert "Linear" in linear and "FluxTransformer2DModel" in linear
    assert "enabled already" in twice
    assert (
        "Own" in processor and "transformer_blocks.1.attn" in processor and "FluxAttnProcessor" in processor
    )


def _state(model: nn.Module) -> list[Any]:
    hooks = [
        (len(m._forward_hooks), len(m._forward_pre_hooks), "forward" in vars(m)) for m in model.modules()
    ]
    return [hooks, {name: id(one) for name, one in processors_of(model).items()}]


def _left(name: str) -> bool:
    model = tiny.MODELS[name][0](3)
    before = _state(model)
    dit_torch.enable(model)
    changed = _state(model) != before
    dit_torch.disable(model)
    return changed and _state(model) == before


@pytest.mark.parametrize("name", ["flux", "flux2", "ltx"])
def test_disable_leaves_nothing(name: str) -> None:
    assert ranks.run(1, _left, name) == [True]


def _replaced_later() -> str:
    model = tiny.flux(3)
    dit_torch.enable(model)
    model.set_attn_processor(model.transformer_blocks[0].attn._default_processor_cls())
    with torch.no_grad(), pytest.raises(RuntimeError) as told:
        model(**tiny.flux_inputs())
    return str(told.value)


def test_processors_that_were_replaced_later_are_noticed() -> None:
    words = ranks.run(1, _replaced_later)[0]
    assert "FluxAttnProcessor" in words and "dit_torch.disable(transformer) before that" in words


def _adapted_later() -> list[str]:
    class OfAnAdapter(nn.Module):
        def __call__(self) -> None: ...

    model = tiny.flux(3)
    dit_torch.enable(model)
    model.set_attn_processor(OfAnAdapter())
    with torch.no_grad(), pytest.raises(RuntimeError) as told:
        model(**tiny.flux_inputs())
    dit_torch.disable(model)
    return [str(told.value), type(model.transformer_blocks[0].attn.processor).__name__]


def test_advice_that_enable_would_refuse_is_not_given() -> None:
    words, left = ranks.run(1, _adapted_later)[0]
    assert "unload_ip_adapter()" in words and "and enable()" not in words and left == "OfAnAdapter"


def _subclass(change: str) -> list[str]:
    from diffusers import FluxTransformer2DModel

    class Mine(FluxTransformer2DModel):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return super().forward(*args, **kwargs)

    class Renamed(FluxTransformer2DModel):
        def forward(self, latents: torch.Tensor, text: torch.Tensor) -> Any: ...

    model = tiny.flux(3)
    one = model(**tiny.flux_inputs(), return_dict=False)[0]
    model.__class__ = {"handed on": Mine, "renamed": Renamed}.get(change, Mine)
    if change == "module":
        model.last, model.proj_out = model.proj_out, None
        del model.proj_out
    try:
        dit_torch.enable(model)
    except ValueError as error:
        return [str(error)]
    with torch.no_grad():
        every = model(**tiny.flux_inputs(), return_dict=False)[0]
    return [str(torch.allclose(every, one, rtol=0, atol=1e-5))]


def test_a_subclass_is_told_about_its_base() -> None:
    assert ranks.run(2, _subclass, "handed on") == [["True"]] * 2
    for change, what in (("renamed", "Renamed.forward has no argument"), ("module", "Mine has no module")):
        (words,) = ranks.run(1, _subclass, change)[0]
        assert what in words and "those of FluxTransformer2DModel, which it derives from" in words


def _skipped(when: str) -> bool:
    from diffusers.hooks import LayerSkipConfig, apply_layer_skip

    def skip(model: nn.Module) -> None:
        what = {"skip_attention": False, "skip_attention_scores": True, "skip_ff": False}
        apply_layer_skip(model, LayerSkipConfig(indices=[1], fqn="transformer_blocks", **what))

    alone, model = tiny.qwenimage(3), tiny.qwenimage(3)
    skip(alone)
    if when == "before":
        skip(model)
    dit_torch.enable(model)
    if when == "after":
        skip(model)
    with torch.no_grad():
        one, every = (x(**tiny.qwenimage_inputs(), return_dict=False)[0] for x in (alone, model))
    return torch.allclose(every, one, rtol=0, atol=1e-5)


@pytest.mark.parametrize("when", ["before", "after"])
def test_attention_may_be_left_out_by_a_hook(when: str) -> None:
    pytest.importorskip("diffusers.hooks.layer_skip")
    assert all(ranks.run(2, _skipped, when))


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}, ("torchrun", 3, 8, 1)),
        (
            {
                "OMPI_COMM_WORLD_RANK": "2",
                "OMPI_COMM_WORLD_SIZE": "4",
                "OMPI_COMM_WORLD_LOCAL_RANK": "0",
            },
            ("mpirun", 2, 4, 0),
        ),
        (
            {
                "SLURM_PROCID": "5",
                "SLURM_NTASKS": "6",
                "SLURM_LOCALID": "2",
                "SLURM_NTASKS_PER_NODE": "3(x2)",
            },
            ("Slurm", 5, 6, 2),
        ),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1"}, ("mpiexec", 1, 2, 1)),
        ({}, ("none", 0, 1, 0)),
    ],
)
def test_launchers_are_understood(environment: dict[str, str], expected: tuple[str, int, int, int]) -> None:
    this = launch(environment)
    assert (this.launcher, this.rank, this.size, this.local_rank) == expected
