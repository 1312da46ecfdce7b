"""Every transformer of diffusers: on several ranks it gives what it gives on one, or is refused in words."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import dit_torch
import ranks
import tiny_models
from dit_torch._library import library

TOLERANCE = 2e-5  # of the largest number of an output


def _tensors(output: Any) -> list[Tensor]:
    if isinstance(output, Tensor):
        return [output.detach().clone()]
    if isinstance(output, dict):
        output = list(output.values())
    return [x for one in output for x in _tensors(one)] if isinstance(output, (list, tuple)) else []


def _away(found: list[Tensor], expected: list[Tensor]) -> float:
    """How far, of the largest number."""
    assert [x.shape for x in found] == [x.shape for x in expected]
    pairs = list(zip(found, expected, strict=True))
    return max(float((a - b).abs().max() / b.abs().max().clamp(min=1e-3)) for a, b in pairs)


def _one(name: str, batch: int, **options: Any) -> str | float:
    """How far all ranks are from one; or why the model is refused."""
    entry = tiny_models.TINY[name]
    model = entry.make()
    with torch.no_grad():
        expected = _tensors(model(**entry.inputs(batch), return_dict=False))
        assert all(x.isfinite().all() for x in expected)
        try:
            dit_torch.enable(model, timeout_seconds=30, **options)
        except ValueError as error:
            return f"refused: {error}"
        try:
            found = _tensors(model(**entry.inputs(batch), return_dict=False))
            assert model._dit_torch.parallel.tokens, "nothing was split"
        except Exception as error:
            return f"failed: {type(error).__name__}: {error}"
        finally:
            dit_torch.disable(model)
        after = _tensors(model(**entry.inputs(batch), return_dict=False))
        assert _away(after, expected) == 0
    return _away(found, expected)


def compare(names: list[str], **options: Any) -> dict[str, str | float]:
    """On each rank."""
    cases = [(name, batch) for name in names for batch in tiny_models.TINY[name].batches]
    return {f"{name} of {batch}": _one(name, batch, **options) for name, batch in cases}


# Why: in the words of enable().
REFUSED = {"SanaWMTransformer3DModel": "it goes through the frames in their order"}
# Where a module attends in a way of its own.
MORE_RANKS = "expected a head for each rank at least"

LISTS = [sorted(tiny_models.TINY)[part::4] for part in range(4)]  # so that one failure leaves the others


def _is_right(case: str, found: str | float, size: int) -> bool:
    why = REFUSED.get(case.split(" ")[0].split("-")[0])
    if isinstance(found, float):
        return why is None and found < TOLERANCE
    if why is None:
        return size > 3 and MORE_RANKS in found
    return found.startswith("refused:") and why in found


@pytest.mark.parametrize("size", [2, 3, 4, 5] if os.environ.get("DIT_TORCH_TEST_LONG") else [2, 3])
@pytest.mark.parametrize("names", LISTS, ids=lambda names: names[0])
def test_result_is_that_of_one_rank_or_refused(names: list[str], size: int) -> None:
    installed = tiny_models.dit_classes()
    names = [name for name in names if tiny_models.TINY[name].cls in installed]
    wrong: dict[str, str | float] = {}
    for told in ranks.run(size, compare, names, timeout=600):
        wrong |= {case: found for case, found in told.items() if not _is_right(case, found, size)}
    assert wrong == {}


def _lossy(name: str) -> tuple[float, list[np.ndarray]]:
    """How far from exact, and what comes out of two steps; each rank is on a node of its own."""
    os.environ["TAPA_DEVICE_NODE"] = f"node {dist.get_rank()}"
    entry = tiny_models.TINY[name]
    model, given = entry.make(), entry.inputs(1)
    with torch.no_grad():
        exact = _tensors(model(**given, return_dict=False))
        dit_torch.enable(model, policy="fast", steps=2, branches=1, adapt=False)
        found = []
        for step in range(2):
            given["timestep"] = given["timestep"] * (1 - 0.01 * step)
            found += _tensors(model(**given, return_dict=False))
        dit_torch.disable(model)
    return _away(found[: len(exact)], exact), [x.numpy() for x in found]


@pytest.mark.skipif(library() is None, reason="libdit_torch.so is not there")
@pytest.mark.parametrize("name", ["ChromaTransformer2DModel", "LTX2VideoTransformer3DModel"])
def test_each_layer_of_a_plan_has_references_of_its_own(name: str) -> None:
    told = ranks.run(3, _lossy, name)
    for away, found in told:
        assert 1e-6 < away < 0.3
        for mine, first in zip(found, told[0][1], strict=True):
            np.testing.assert_array_equal(mine, first)


def test_every_transformer_of_diffusers_is_tested_or_no_dit() -> None:
    tested = {one.cls for one in tiny_models.TINY.values()}
    assert tiny_models.dit_classes().keys() - tested - tiny_models.NOT_DIT.keys() == set()


class _NoDit(nn.Module):
    pass


@pytest.mark.parametrize("name", sorted(tiny_models.NOT_DIT))
def test_what_is_no_dit_is_refused_in_words(name: str) -> None:
    model = type(name, (_NoDit,), {})()
    with pytest.raises(RuntimeError, match=f"{name} is not supported: it"):
        ranks.run(1, dit_torch.enable, model)
