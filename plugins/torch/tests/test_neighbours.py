"""Other things that programs do to a transformer, before enable() or after it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn

import dit_torch
import ranks
import tiny


def _output(model: nn.Module, given: dict[str, Any] | None = None) -> torch.Tensor:
    with torch.no_grad():
        return model(**(given or tiny.flux_inputs()), return_dict=False)[0]


def _close(found: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-5) -> bool:
    return found.dtype == expected.dtype and torch.allclose(found, expected, rtol=0, atol=tolerance)


def _counted(module: nn.Module) -> list[None]:
    """Wraps a module's forward, as accelerate's and diffusers' hooks do; an entry for each call."""
    calls: list[None] = []
    before = module.forward

    @functools.wraps(before)
    def forward(*args: Any, **kwargs: Any) -> Any:
        calls.append(None)
        return before(*args, **kwargs)

    module.forward = forward
    return calls


def _wrapped(cfg_parallel: bool) -> dict[str, int]:
    model = tiny.flux(3)
    given = tiny.flux_inputs(batch=2)
    one = _output(model, given)
    early = _counted(model)
    dit_torch.enable(model, cfg_parallel=cfg_parallel)
    late = _counted(model.single_transformer_blocks[0])
    assert _close(_output(model, given), one)
    dit_torch.disable(model)
    assert torch.equal(_output(model, given), one)
    return {"early": len(early), "late": len(late)}


@pytest.mark.parametrize("cfg_parallel", [False, True])
def test_functions_that_others_have_wrapped_stay_wrapped(cfg_parallel: bool) -> None:
    assert ranks.run(2, _wrapped, cfg_parallel) == [{"early": 2, "late": 2}] * 2


def _fused_later() -> list[bool]:
    told = []
    for name in ("flux", "flux2", "wan"):
        make, make_inputs = tiny.MODELS[name]
        model, given = make(3), make_inputs()
        one = _output(model, given)
        dit_torch.enable(model)
        model.fuse_qkv_projections()
        told.append(_close(_output(model, given), one))
        dit_torch.disable(model)
        told.append(_close(_output(model, given), one))
    return told


def test_projections_that_are_fused_after_enable() -> None:
    assert all(all(told) for told in ranks.run(2, _fused_later))


def _other_types() -> dict[str, bool]:
    told = {}
    model = tiny.flux(3)
    dit_torch.enable(model)
    for dtype, tolerance in ((torch.float16, 0.01), (torch.bfloat16, 0.06)):
        model.to(dtype)
        given = {
            name: x.to(dtype) if torch.is_tensor(x) and x.is_floating_point() and "ids" not in name else x
            for name, x in tiny.flux_inputs().items()
        }
        told[str(dtype)] = _close(_output(model, given), _output(tiny.flux(3).to(dtype), given), tolerance)
    model.to(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = _output(model)
    dit_torch.disable(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        told["autocast"] = _close(inside, _output(model), 0.06)
    return told


def test_types_that_change_after_enable() -> None:
    for told in ranks.run(2, _other_types):
        assert all(told.values()), told


def _sizes() -> list[bool]:
    """Image and text sizes change from call to call; some ranks have no token at all."""
    model = tiny.flux(3)
    calls = [(4, 5, 7), (1, 2, 1), (6, 3, 2), (1, 1, 3), (4, 5, 7)]

    def inputs(height: int, width: int, text: int) -> dict[str, Any]:
        tokens = torch.randn(1, height * width, 8, generator=torch.Generator().manual_seed(text))
        ids = tiny._ids(height, width, 3)
        return tiny.flux_inputs(text=text) | {"hidden_states": tokens, "img_ids": ids}

    ones = [_output(model, inputs(*call)) for call in calls]
    dit_torch.enable(model)
    told = [_close(_output(model, inputs(*call)), one) for call, one in zip(calls, ones, strict=True)]
    dit_torch.disable(model)
    return told


@pytest.mark.parametrize("size", [2, 5])
def test_sizes_that_change_and_ranks_without_tokens(size: int) -> None:
    for told in ranks.run(size, _sizes):
        assert told == [True] * 5


def _two_transformers() -> list[bool]:
    """As Wan 2.2's, called in turn, and a third of another class and schedule between."""
    models = [tiny.wan(3), tiny.wan(3), tiny.flux(3)]
    inputs = [tiny.wan_inputs(), tiny.wan_inputs(seed=4), tiny.flux_inputs()]
    ones = [_output(*pair) for pair in zip(models, inputs, strict=True)]
    for model, schedule in zip(models, ("flat", "v-first", "flat"), strict=True):
        dit_torch.enable(model, schedule=schedule)
    told = []
    for number in (0, 1, 2, 1, 0):
        told.append(_close(_output(models[number], inputs[number]), ones[number]))
    for number in (1, 0, 2):
        dit_torch.disable(models[number])
        told.append(torch.equal(_output(models[number], inputs[number]), ones[number]))
    return told


def test_several_transformers_in_a_process() -> None:
    assert ranks.run(2, _two_transformers) == [[True] * 8] * 2


def _refused(change: Callable[[], nn.Module]) -> str:
    model = change()
    with pytest.raises(ValueError) as told:
        dit_torch.enable(model)
    return str(told.value)


def _parallelism() -> nn.Module:
    model = tiny.flux(3)
    model._parallel_config = object()  # as enable_parallelism() leaves it
    return model


def _with_ip_adapter(model: Any = None) -> nn.Module:
    """Its processors, which load_ip_adapter() sets."""
    from diffusers.models.transformers import transformer_flux

    model = model or tiny.flux(3)
    processors = dict(model.attn_processors)
    for name in processors:
        if name.startswith("transformer_blocks"):
            processors[name] = transformer_flux.FluxIPAdapterAttnProcessor(48, 20)
    model.set_attn_processor(processors)
    return model


def _ip_adapter_later() -> list[Any]:
    model = dit_torch.enable(tiny.flux(3))
    _with_ip_adapter(model)
    with pytest.raises(RuntimeError) as told:
        _output(model)
    dit_torch.disable(model)
    names = {type(one).__name__ for one in model.attn_processors.values()}
    return [str(told.value), names]


def test_processors_that_are_set_later_are_told_and_stay() -> None:
    words, names = ranks.run(1, _ip_adapter_later)[0]
    assert "was replaced by FluxIPAdapterAttnProcessor after dit_torch.enable()" in words
    assert names == {"FluxIPAdapterAttnProcessor", "FluxAttnProcessor"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_parallelism, "enable_parallelism() was called"),
        (
            _with_ip_adapter,
            "FluxIPAdapterAttnProcessor at transformer_blocks.0.attn; expected",
        ),
    ],
)
def test_what_would_compute_something_else_is_refused(change: Callable[[], nn.Module], words: str) -> None:
    assert words in ranks.run(1, _refused, change)[0]


def _compiled_before() -> list[np.ndarray]:
    """Whole, and in place; a model that has run compiled before enable() does not go on as it was."""
    outputs = []
    for whole in (True, False):
        model = tiny.flux(3)
        given = tiny.flux_inputs()
        if whole:
            compiled = torch.compile(model, backend="aot_eager")
        else:
            model.compile_repeated_blocks(backend="aot_eager")
            compiled = model
        outputs += [_output(compiled, given)]
        dit_torch.enable(compiled)
        outputs += [_output(compiled, given), _output(compiled, tiny.flux_inputs(text=3))]
        dit_torch.disable(compiled)
        outputs += [_output(compiled, given), _output(compiled, tiny.flux_inputs(text=3))]
    return [x.numpy() for x in outputs]


def test_models_that_were_compiled_before() -> None:
    for outputs in ranks.run(2, _compiled_before):
        for one, every, short, after, short_after in (outputs[:5], outputs[5:]):
            np.testing.assert_allclose(every, one, rtol=0, atol=1e-5)
            np.testing.assert_allclose(after, one, rtol=0, atol=1e-5)
            np.testing.assert_allclose(short, short_after, rtol=0, atol=1e-5)


def _compiled_forward() -> list[bool]:
    """As some programs do it: a compiled function in place of forward, which stays after disable()."""
    model, given = tiny.flux(3), tiny.flux_inputs()
    one = _output(model, given)
    dit_torch.enable(model)
    model.forward = torch.compile(model.forward, backend="eager")
    told = [_close(_output(model, given), one)]
    dit_torch.disable(model)
    told.append(_close(_output(model, given), one))
    dit_torch.enable(model)
    told.append(_close(_output(model, given), one))
    dit_torch.disable(model)
    return told


def test_a_compiled_function_in_place_of_forward() -> None:
    assert ranks.run(2, _compiled_forward, timeout=100) == [[True] * 3] * 2


def _sharded() -> tuple[np.ndarray, np.ndarray]:
    """FSDP2: each rank holds a part of the weights."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    given, model = tiny.flux_inputs(), tiny.flux(4)
    with torch.no_grad():
        one = model(**given, return_dict=False)[0]
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for block in (*model.transformer_blocks, *model.single_transformer_blocks, model):
            fully_shard(block, mesh=mesh)
        dit_torch.enable(model)
        every = model(**given, return_dict=False)[0]
        dit_torch.disable(model)
    return one.numpy(), every.numpy()


def test_weights_that_are_sharded() -> None:
    pytest.importorskip("torch.distributed.fsdp", exc_type=ImportError)
    if not hasattr(torch.distributed.fsdp, "fully_shard"):
        pytest.skip("this torch has no fully_shard")
    for one, every in ranks.run(2, _sharded):
        np.testing.assert_allclose(every, one, rtol=0, atol=1e-5)
