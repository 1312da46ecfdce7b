"""The table of tiny models is whole; each of them runs, and whatever it is given matters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from tiny_models import NOT_DIT, TINY, dit_classes, installed

# Of an entry, what changes nothing: in a pass over a reference there is no time.
IDLE = {"WanAnimate2Transformer3DModel": {"timestep"}}
FIXED = "img_mask"  # which of QwenImage21's tokens are an image's goes by the image


def test_all_of_diffusers_are_in_the_table() -> None:
    known = {entry.cls for entry in TINY.values()} | set(NOT_DIT)
    assert sorted(set(dit_classes()) - known) == []
    assert not {entry.cls for entry in TINY.values()} & set(NOT_DIT)


def _tensors(output: Any) -> Iterator[Tensor]:
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, dict):
        yield from _tensors(list(output.values()))
    elif isinstance(output, (list, tuple)):
        for one in output:
            yield from _tensors(one)


def _outputs(name: str, model: Any, given: dict[str, Any]) -> list[Tensor]:
    with torch.no_grad():
        return list(_tensors(model(**given, return_dict=False)))


@pytest.mark.parametrize("name", installed())
def test_a_tiny_model_runs(name: str) -> None:
    model = TINY[name].make()
    for batch in TINY[name].batches:
        found = _outputs(name, model, TINY[name].inputs(batch))
        assert found
        for one in found:
            assert one.isfinite().all()
            assert one.std() > 0.01


def _other(x: Tensor) -> Tensor:
    """Of the same kind: masks turned around, positions in another order, other numbers."""
    if x.dtype == torch.bool:
        return ~x
    if x.is_complex():
        return x * torch.polar(torch.tensor(1.0), torch.tensor(0.7))
    if x.is_floating_point():
        is_mask = x.dim() > 1 and set(x.unique().tolist()) == {0.0, 1.0}
        return 1 - x if is_mask else 0.5 * x + 0.25
    return x.flip(-1)


@pytest.mark.parametrize("name", installed())
def test_every_input_matters(name: str) -> None:
    entry, model = TINY[name], TINY[name].make()
    batch = entry.batches[-1]
    before = _outputs(name, model, entry.inputs(batch))
    idle = set()
    for argument, value in entry.inputs(batch).items():
        others = [_other(x) for x in _tensors(value)]
        same = all(torch.equal(a, b) for a, b in zip(others, _tensors(value), strict=True))
        if same or argument == FIXED:
            continue
        given = entry.inputs(batch)
        for x, other in zip(_tensors(given[argument]), others, strict=True):
            x.set_(other.contiguous())  # in its place, wherever it is
        if all(torch.equal(a, b) for a, b in zip(before, _outputs(name, model, given), strict=True)):
            idle.add(argument)
    assert idle == IDLE.get(name, set())
