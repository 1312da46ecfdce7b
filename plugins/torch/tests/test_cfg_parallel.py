"""Guidance branches on halves of the ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import dit_torch
import ranks
import tiny

STEPS = 4


def _call(model: nn.Module, **given: Any) -> torch.Tensor:
    return model(**given, return_dict=False)[0]


def _image(model: nn.Module, guidance: bool = True, steps: int = STEPS) -> np.ndarray:
    """Two calls a step, with texts of different length, as in diffusers' pipelines."""
    prompt, negative = tiny.qwenimage_inputs(text=7, seed=1), tiny.qwenimage_inputs(text=4, seed=2)
    x = prompt["hidden_states"]
    for step in range(steps):
        now = {"hidden_states": x, "timestep": torch.full((1,), 1 - step / steps)}
        with model.cache_context("cond"):
            v = _call(model, **(prompt | now))
        if guidance:
            with model.cache_context("uncond"):
                other = _call(model, **(negative | now))
            v = other + 4.0 * (v - other)
        x = x - v / steps
    return x.numpy()


def _guided() -> dict[str, Any]:
    model = tiny.qwenimage(3)
    calls: list[None] = []
    with torch.no_grad():
        one = _image(model)
        dit_torch.enable(model, cfg_parallel=True)
        model.proj_out.register_forward_hook(lambda *_: calls.append(None))
        first, count = _image(model), len(calls)
        second = _image(model)
        dit_torch.disable(model)
        after = _image(model)
    restored = not {"forward", "cache_context"} & vars(model).keys()
    return {
        "one": one,
        "all": [first, second],
        "calls": [count, len(calls)],
        "after": after,
        "restored": restored,
    }


@pytest.mark.parametrize("size", [2, 4, 6])
def test_each_half_computes_one_branch(size: int) -> None:
    told = ranks.run(size, _guided)
    for of_rank in told:
        for image in of_rank["all"]:
            np.testing.assert_allclose(image, of_rank["one"], rtol=0, atol=1e-4)
        np.testing.assert_array_equal(of_rank["after"], of_rank["one"])
        np.testing.assert_array_equal(of_rank["all"][0], told[0]["all"][0])
        assert of_rank["restored"]
        # The first step shows that there are two calls: all compute both. `after` is not counted yet.
        assert of_rank["calls"][0] == STEPS + 1


def _unguided() -> tuple[np.ndarray, np.ndarray, str, np.ndarray]:
    model = tiny.qwenimage(3)
    with torch.no_grad():
        one = _image(model, guidance=False)
        dit_torch.enable(model, cfg_parallel=True)
        before = _image(model, guidance=False)
        _image(model)
        try:
            _image(model, guidance=False)
            error = ""
        except RuntimeError as raised:
            error = str(raised)
        return one, before, error, _image(model, guidance=False)


def test_images_without_guidance() -> None:
    for one, before, error, after in ranks.run(4, _unguided):
        np.testing.assert_allclose(before, one, rtol=0, atol=1e-4)
        assert 'was not followed by "uncond"' in error
        np.testing.assert_allclose(after, one, rtol=0, atol=1e-4)


def _batches(batch: int) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray, list[int]]]:
    told = {}
    for name, (make, make_inputs) in tiny.MODELS.items():
        model, given = make(3), make_inputs(batch=batch)
        batches: list[int] = []
        with torch.no_grad():
            one = _call(model, **given).numpy()
            dit_torch.enable(model, cfg_parallel=True)
            model.proj_out.register_forward_hook(lambda m, a, o, seen=batches: seen.append(o.shape[0]))
            every, sample = _call(model, **given).numpy(), model(**given).sample.numpy()
            dit_torch.disable(model)
        told[name] = (one, every, sample, batches)
    return told


@pytest.mark.parametrize("batch", [1, 2, 4])
def test_each_half_computes_half_of_a_batch(batch: int) -> None:
    for told in ranks.run(4, _batches, batch):
        for name, (one, every, sample, batches) in told.items():
            np.testing.assert_allclose(every, one, rtol=0, atol=1e-5, err_msg=name)
            np.testing.assert_array_equal(sample, every, err_msg=name)
            assert batches == [max(1, batch // 2)] * 2, name


def _two_models() -> tuple[np.ndarray, np.ndarray]:
    """As the two experts of Wan 2.2-A14B."""
    models, given = [tiny.wan(3), tiny.wan(3)], tiny.wan_inputs(batch=2)
    with torch.no_grad():
        one = _call(models[1], **given).numpy()
        for model in models:
            dit_torch.enable(model, cfg_parallel=True)
        dit_torch.disable(models[0])
        every = _call(models[1], **given).numpy()
        dit_torch.disable(models[1])
    return one, every


def test_models_share_halves() -> None:
    for one, every in ranks.run(2, _two_models):
        np.testing.assert_allclose(every, one, rtol=0, atol=1e-5)


def _enable_twice() -> None:
    model = tiny.sd3(3)
    with pytest.raises(ValueError, match="cfg_parallel = True with 3 ranks: expected an even number"):
        dit_torch.enable(model, cfg_parallel=True)
    dit_torch.disable(dit_torch.enable(model))


def test_an_odd_number_of_ranks_is_refused() -> None:
    ranks.run(3, _enable_twice)
