"""The table of tiny models is whole, and each of them runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import tiny_models
from tiny_models import NOT_DIT, TINY, dit_classes

INSTALLED = [name for name, entry in TINY.items() if entry.cls in dit_classes()]


def test_all_of_diffusers_are_in_the_table() -> None:
    known = {entry.cls for entry in TINY.values()} | set(NOT_DIT)
    assert sorted(set(dit_classes()) - known) == []
    assert not {entry.cls for entry in TINY.values()} & set(NOT_DIT)


def _tensors(output: Any) -> Iterator[Tensor]:
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, (list, tuple)):
        for one in output:
            yield from _tensors(one)


@pytest.mark.parametrize("name", INSTALLED)
def test_a_tiny_model_runs(name: str) -> None:
    entry: tiny_models.Tiny = TINY[name]
    model = entry.make()
    for batch in entry.batches:
        with torch.no_grad():
            found = list(_tensors(model(**entry.inputs(batch), return_dict=False)))
        assert found
        for one in found:
            assert one.isfinite().all()
            assert one.std() > 0.01
