"""Every transformer of diffusers: on several ranks it gives what it gives on one, or is refused in words."""

from __future__ import annotations

import os

import diffusers
import numpy as np
import pytest
import torch
from torch import nn

import dit_torch
import needs
import ranks
import tiny_models
from all_models import TOLERANCE, away, compare, tensors

# Why: in the words of enable().
REFUSED = {"SanaWMTransformer3DModel": "it goes through the frames in their order"}
# With diffusers 0.36.
IN_FIRST_PASS = {"PRXTransformer2DModel": "of each query; expected one for all queries"}
# Where a module attends in a way of its own.
MORE_RANKS = "expected a head for each rank at least"

LISTS = [sorted(tiny_models.TINY)[part::4] for part in range(4)]  # so that one failure leaves the others


def _is_right(case: str, found: str | float, size: int) -> bool:
    name = case.split(" ")[0].split("-")[0]
    why = REFUSED.get(name)
    if isinstance(found, float):
        return why is None and found < TOLERANCE
    if name in IN_FIRST_PASS and diffusers.__version__.startswith("0.36."):
        return found.startswith("failed: ValueError") and IN_FIRST_PASS[name] in found
    if why is None:
        return size > 3 and MORE_RANKS in found
    return found.startswith("refused:") and why in found


@pytest.mark.parametrize("size", [2, 3, 4, 5] if os.environ.get("DIT_TORCH_TEST_LONG") else [2, 3])
@pytest.mark.parametrize("names", LISTS, ids=lambda names: names[0])
def test_result_is_that_of_one_rank_or_refused(names: list[str], size: int) -> None:
    names = [name for name in names if name in tiny_models.installed()]
    wrong: dict[str, str | float] = {}
    for told in ranks.run(size, compare, names, timeout=600):
        wrong |= {case: found for case, found in told.items() if not _is_right(case, found, size)}
    assert wrong == {}


# Classes with processors of ours that tiny.MODELS has not. All but the last let several ranks share a head.
OURS = [
    (5, "HunyuanVideo15Transformer3DModel"),
    (5, "ZImageTransformer2DModel"),
    (5, "ZImageTransformer2DModel-omni"),
    (5, "Flux3Transformer2DModel"),
    (5, "Krea2Transformer2DModel"),
    (5, "MiniMaxH3Transformer3DModel"),
    (5, "LTX2VideoTransformer3DModel"),
    (5, "LTX2VideoTransformer3DModel-2.3"),
    (5, "LTX2VideoTransformer3DModel-perturbed"),
    (5, "LTX2VideoTransformer3DModel-places"),
    (5, "LTX2VideoTransformer3DModel-short"),
    (3, "QwenImage21Transformer2DModel"),
]


@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.parametrize("schedule", ["flat", "v-first", "pipelined"])
def test_processors_of_ours_with_each_schedule(schedule: str, size: int) -> None:
    installed = tiny_models.installed()
    names = [name for most, name in OURS if most == size and name in installed]
    for told in ranks.run(size, compare, names, schedule=schedule):
        assert all(isinstance(far, float) and far < TOLERANCE for far in told.values()), told


def _lossy(name: str) -> tuple[float, list[np.ndarray]]:
    """How far from exact, and what comes out of two steps; each rank is on a node of its own."""
    ranks.be_a_node()
    entry = tiny_models.TINY[name]
    model, given = entry.make(), entry.inputs(1)
    with torch.no_grad():
        exact = tensors(model(**given, return_dict=False))
        dit_torch.enable(model, policy="fast", steps=2, branches=1, adapt=False)
        found = []
        for step in range(2):
            given["timestep"] = given["timestep"] * (1 - 0.01 * step)
            found += tensors(model(**given, return_dict=False))
        dit_torch.disable(model)
    return away(found[: len(exact)], exact), [x.numpy() for x in found]


@needs.LIBRARY
@pytest.mark.parametrize("name", ["ChromaTransformer2DModel", "LTX2VideoTransformer3DModel"])
def test_each_layer_of_a_plan_has_references_of_its_own(name: str) -> None:
    if name not in tiny_models.installed():
        pytest.skip(f"diffusers {diffusers.__version__} has no {name}")
    told = ranks.run(3, _lossy, name)
    for far, found in told:
        assert 1e-6 < far < 0.3
        for mine, first in zip(found, told[0][1], strict=True):
            np.testing.assert_array_equal(mine, first)


def _with_and_without_condition() -> list[float]:
    """Of FLUX.3: passes with three streams of tokens, and with two, in turn."""
    entry = tiny_models.TINY["Flux3Transformer2DModel"]
    model, given = entry.make(), entry.inputs(1)
    text_to_image = {key: x for key, x in given.items() if not key.startswith("image_cond")}
    both = (given, text_to_image, given)
    with torch.no_grad():
        one = [tensors(model(**now, return_dict=False)) for now in both]
        dit_torch.enable(model)
        every = [tensors(model(**now, return_dict=False)) for now in both]
        dit_torch.disable(model)
    return [away(x, right) for x, right in zip(every, one, strict=True)]


@pytest.mark.skipif("Flux3Transformer2DModel" not in tiny_models.dit_classes(), reason="no FLUX.3")
def test_a_stream_of_tokens_that_some_passes_have() -> None:
    for told in ranks.run(3, _with_and_without_condition):
        assert max(told) < TOLERANCE


def _with_bits_of_its_own() -> np.ndarray:
    """Audio of LTX-2, which all ranks compute, where their kernels add in another order."""
    entry = tiny_models.TINY["LTX2VideoTransformer3DModel"]
    model, more = entry.make(), 1 + 1e-6 * torch.distributed.get_rank()
    with torch.no_grad():
        dit_torch.enable(model)
        model.audio_norm_out.register_forward_hook(lambda module, args, x: x * more)
        found = tensors(model(**entry.inputs(1), return_dict=False))[1].numpy()
        dit_torch.disable(model)
    return found


@pytest.mark.skipif("LTX2VideoTransformer3DModel" not in tiny_models.dit_classes(), reason="no LTX-2")
def test_what_all_ranks_compute_is_one_result() -> None:
    first, *others = ranks.run(3, _with_bits_of_its_own)
    for found in others:
        np.testing.assert_array_equal(found, first)


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
