"""A transformer on several ranks gives what it gives on one."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import torch

import dit_torch
import needs
import ranks
import tiny


def _once(name: str, heads: int, schedules: tuple[str, ...], inputs: dict[str, Any]) -> dict[str, Any]:
    """Outputs of this rank: before, with each schedule, and after disable()."""
    make, make_inputs = tiny.MODELS[name]
    model, given = make(heads), make_inputs(**inputs)
    outputs = {}
    with torch.no_grad():
        outputs["one"] = model(**given, return_dict=False)[0].numpy()
        for schedule in schedules:
            dit_torch.enable(model, schedule=schedule)
            outputs[schedule] = model(**given, return_dict=False)[0].numpy()
            dit_torch.disable(model)
        outputs["after"] = model(**given, return_dict=False)[0].numpy()
    return outputs


# More ranks than heads share heads; 20 tokens and 7 divide by hardly any of them.
CASES = [(1, 3), (2, 3), (3, 5), (5, 3)]
if os.environ.get("DIT_TORCH_TEST_LONG"):
    CASES += [(2, 5), (3, 3), (5, 5), (7, 3), (7, 5)]


SCHEDULES = ("flat", "v-first", "pipelined")


def _require_one_rank(told: list[dict[str, Any]]) -> None:
    """Of _once(): one rank's outputs, the same bits with all schedules, and one rank's after disable()."""
    for outputs in told:
        for schedule in SCHEDULES:
            np.testing.assert_allclose(outputs[schedule], outputs["one"], rtol=0, atol=1e-5)
            np.testing.assert_array_equal(outputs[schedule], outputs["flat"])
        np.testing.assert_array_equal(outputs["after"], outputs["one"])


@pytest.mark.parametrize(("size", "heads"), CASES)
@pytest.mark.parametrize("name", sorted(tiny.MODELS))
def test_result_is_that_of_one_rank(name: str, size: int, heads: int) -> None:
    _require_one_rank(ranks.run(size, _once, name, heads, SCHEDULES, {"batch": 2}))


def _between_nodes(*arguments: Any) -> dict[str, Any]:
    ranks.be_a_node()
    return _once(*arguments)


@needs.LIBRARY
@pytest.mark.parametrize("name", ["flux", "flux2"])
def test_result_between_nodes(name: str) -> None:
    """There attention's output travels while the MLP's part of a projection is computed."""
    _require_one_rank(ranks.run(3, _between_nodes, name, 5, SCHEDULES, {"batch": 2}))


def _with_backend(name: str, compiled: bool) -> list[str]:
    """What is said of an attention backend: at enable(), in a pass, and of one that is right."""
    from diffusers.models.attention_dispatch import attention_backend

    make, make_inputs = tiny.MODELS["ltx"]
    model, given = make(4), make_inputs()
    told = []

    def call() -> None:
        if compiled:
            torch._dynamo.reset()
            model.compile(backend="eager")
        try:
            model(**given, return_dict=False)
        except Exception as error:
            told.append(str(error))
        else:
            told.append("")

    with torch.no_grad():
        with attention_backend(name), pytest.raises(ValueError) as refused:
            dit_torch.enable(model)
        told.append(str(refused.value))
        dit_torch.enable(model)
        with attention_backend(name):
            call()
        call()
        dit_torch.disable(model)
        with attention_backend(name):
            model(**given)  # on one rank all are right
    return told


@pytest.mark.parametrize("compiled", [False, True])
def test_an_attention_backend_that_sees_one_rank_alone_is_refused(compiled: bool) -> None:
    for told in ranks.run(2, _with_backend, "_native_math", compiled):
        assert all(
            "attention backend '_native_math': diffusers cannot run it in parallel" in x for x in told[:2]
        )
        assert told[2:] == [""], told
