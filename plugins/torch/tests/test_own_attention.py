"""Modules that attend in a way of their own: any size of a picture, keys kept between passes, few heads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import dit_torch
import ranks
import tiny_models
from dit_torch.exchange import Exchange
from tiny_models import TINY


def _installed(name: str) -> None:
    if name not in tiny_models.dit_classes():
        pytest.skip(f"this diffusers has no {name}")


def _pictures(name: str, shapes: list[tuple[int, ...]]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    model, given = TINY[name].make(), TINY[name].inputs(2)
    inputs = [given | {"hidden_states": torch.randn(2, 4, *shape)} for shape in shapes]
    with torch.no_grad():
        one = [model(**each, return_dict=False)[0].numpy() for each in inputs]
        dit_torch.enable(model)
        every = [model(**each, return_dict=False)[0].numpy() for each in inputs]
        dit_torch.disable(model)
    return one, every


# Of one token two ranks have none; parts of rows and of frames begin and end anywhere.
@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("SanaTransformer2DModel", [(1, 1), (1, 7), (7, 1), (5, 4), (2, 2)]),
        ("SanaVideoTransformer3DModel", [(1, 2, 2), (1, 6, 4), (5, 2, 2), (4, 4, 10)]),
    ],
)
def test_sana_takes_any_picture(name: str, shapes: list[tuple[int, ...]]) -> None:
    _installed(name)
    torch.manual_seed(5)
    for one, every in ranks.run(3, _pictures, name, shapes):
        for expected, found in zip(one, every, strict=True):
            np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5 * np.abs(expected).max())


def _two_steps() -> list[tuple[np.ndarray, np.ndarray]]:
    """The first fills a cache of keys and values, the second goes on with it: on one rank, and on all."""
    from diffusers.models.transformers.transformer_qwenimage21 import QwenImage21KVCache

    entry = TINY["QwenImage21Transformer2DModel"]
    model, outputs = entry.make(), []
    for parallel in (False, True):
        cache = QwenImage21KVCache(2)
        if parallel:
            dit_torch.enable(model)
        with torch.no_grad():
            for mode in ("extract", "cached"):
                given = entry.inputs(1) | {"kv_cache": cache, "kv_cache_mode": mode}
                outputs.append(model(**given, return_dict=False)[0].numpy())
    dit_torch.disable(model)
    return list(zip(outputs[:2], outputs[2:], strict=True))


def test_qwenimage21_keeps_keys_between_passes() -> None:
    _installed("QwenImage21Transformer2DModel")
    for steps in ranks.run(2, _two_steps):
        for one, every in steps:
            np.testing.assert_allclose(every, one, rtol=0, atol=2e-5)


def _reference_and_generation() -> list[tuple[np.ndarray, np.ndarray]]:
    """WanAnimate2: a pass over the reference keeps its keys, the next one attends to them by blocks."""
    from diffusers.models.transformers import transformer_wan_animate_2 as wan_animate_2

    made = wan_animate_2.create_block_mask
    wan_animate_2.create_block_mask = lambda *args, **named: made(*args, **named | {"_compile": False})
    entry = TINY["WanAnimate2Transformer3DModel"]
    model, outputs = entry.make(), []
    for parallel in (False, True):
        given = entry.inputs(1)
        if parallel:
            dit_torch.enable(model)
        with torch.no_grad():
            for mode in ("extract", "cached"):
                found = model(**given | {"kv_cache_mode": mode}, return_dict=False)[0]
                outputs.append(found[0].numpy())
    dit_torch.disable(model)
    return list(zip(outputs[:2], outputs[2:], strict=True))


def test_wan_animate_2_keeps_keys_of_the_reference() -> None:
    _installed("WanAnimate2Transformer3DModel")
    for passes in ranks.run(2, _reference_and_generation):
        for one, every in passes:
            np.testing.assert_allclose(every, one, rtol=0, atol=2e-5)


def _operators() -> list[str]:
    """Of the exchanges in a pass of two layers."""
    model, called = TINY["SanaTransformer2DModel"].make(), []
    own = Exchange.call

    def call(self: Exchange, operator: str, *arguments: Any, **named: Any) -> Any:
        called.append(operator)
        return own(self, operator, *arguments, **named)

    dit_torch.enable(model)
    Exchange.call = call
    with torch.no_grad():
        model(**TINY["SanaTransformer2DModel"].inputs(1))
    dit_torch.disable(model)
    return called


def test_queries_keys_and_values_travel_in_one_exchange() -> None:
    _installed("SanaTransformer2DModel")
    assert ranks.run(2, _operators) == [2 * ["scatter_qkv", "gather"]] * 2


def _adapted(name: str) -> tuple[np.ndarray, np.ndarray]:
    """With an adapter that comes after enable()."""
    from peft import LoraConfig

    model, given = TINY[name].make(), TINY[name].inputs(2)
    dit_torch.enable(model)
    torch.manual_seed(5)
    targets = ["to_q", "to_k", "to_v", "to_out.0"]
    model.add_adapter(LoraConfig(r=2, init_lora_weights=False, target_modules=targets))
    with torch.no_grad():
        every = model(**given, return_dict=False)[0].numpy()
        dit_torch.disable(model)
        return model(**given, return_dict=False)[0].numpy(), every


@pytest.mark.parametrize("name", ["SanaTransformer2DModel", "SanaVideoTransformer3DModel"])
def test_adapters_of_layers_that_are_exchanged(name: str) -> None:
    pytest.importorskip("peft")
    _installed(name)
    for one, every in ranks.run(2, _adapted, name):
        np.testing.assert_allclose(every, one, rtol=0, atol=2e-5 * np.abs(one).max())


def _refusal(name: str) -> str:
    with pytest.raises(ValueError) as told:
        dit_torch.enable(TINY[name].make())
    return str(told.value)


def test_more_ranks_than_heads_are_refused() -> None:
    _installed("SanaTransformer2DModel")
    for told in ranks.run(4, _refusal, "SanaTransformer2DModel"):
        assert "attn1 has 3 heads, and there are 4 ranks" in told
