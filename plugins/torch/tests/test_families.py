"""What single families have of their own: texts of different length, modulation by token, head counts."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import dit_torch
import ranks
import tiny

Inputs = list[dict[str, Any]]


def _outputs(model: nn.Module, inputs: Inputs) -> list[np.ndarray]:
    with torch.no_grad():
        return [model(**given, return_dict=False)[0].numpy() for given in inputs]


def _one_and_all(make: Callable[[], nn.Module], inputs: Inputs) -> tuple[list[np.ndarray], list[np.ndarray]]:
    model = make()
    one = _outputs(model, inputs)
    dit_torch.enable(model)
    every = _outputs(model, inputs)
    dit_torch.disable(model)
    return one, every


def _expect_equal(size: int, make: Callable[[], nn.Module], inputs: Inputs) -> None:
    for one, every in ranks.run(size, _one_and_all, make, inputs):
        for expected, found in zip(one, every, strict=True):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_guidance_branches_may_differ_in_text_length() -> None:
    branches = [tiny.qwenimage_inputs(text, seed=text) for text in (7, 2)]
    _expect_equal(3, lambda: tiny.qwenimage(3), branches + branches)


@pytest.mark.parametrize("field", ["zero_cond_t", "use_additional_t_cond"])
def test_qwen_image_edit_and_layered(field: str) -> None:
    """The first modulates tokens of different images differently, the second has positions by layer."""
    from diffusers import QwenImageTransformer2DModel

    if field not in inspect.signature(QwenImageTransformer2DModel).parameters:
        pytest.skip(f"this diffusers has no {field}")
    layered = field == "use_additional_t_cond"
    given = tiny.qwenimage_inputs(batch=2) | {
        "img_shapes": [[(1, 2, 5), (1, 2, 2), (1, 2, 3)]] * 2,
        "additional_t_cond": torch.tensor([0, 1]) if layered else None,
    }
    config = {field: True, "use_layer3d_rope": layered}
    _expect_equal(3, lambda: tiny.qwenimage(5, **config), [given])


@pytest.mark.parametrize("size", [3, 5])
def test_heads_of_sd3_need_not_divide(size: int) -> None:
    _expect_equal(size, lambda: tiny.sd3(19, head_dim=8, qk_norm="rms_norm"), [tiny.sd3_inputs()])


@pytest.mark.parametrize("name", sorted(tiny.MODELS))
def test_ranks_may_outnumber_heads_and_text_tokens(name: str) -> None:
    make, make_inputs = tiny.MODELS[name]
    _expect_equal(7, lambda: make(3), [make_inputs(text=2)])


def test_fused_projections_of_wan() -> None:
    def make() -> nn.Module:
        model = tiny.wan(3)
        model.fuse_qkv_projections()
        return model

    _expect_equal(2, make, [tiny.wan_inputs()])


def _backend_of_cross_attention() -> tuple[Any, ...]:
    model = tiny.wan(3)
    cross = model.blocks[1].attn2
    dit_torch.enable(model)
    model.set_attention_backend("_native_math")
    during = cross.processor.original._attention_backend
    dit_torch.disable(model)
    return during, cross.processor._attention_backend


def test_attention_backend_reaches_cross_attention_of_wan() -> None:
    during, after = ranks.run(1, _backend_of_cross_attention)[0]
    assert during == after == "_native_math"


def test_external_masks_of_sd3_are_refused() -> None:
    given = tiny.sd3_inputs() | {"joint_attention_kwargs": {"attention_mask": torch.ones(1, 1, 1, 87)}}
    with pytest.raises(RuntimeError, match="attention_mask is given"):
        ranks.run(1, _one_and_all, lambda: tiny.sd3(3), [given])
