"""Models of the table on several ranks against one, for test_all_models.py and check_gpu.py.

all_models.py CLASS...: these alone, on 2 and 3 ranks, how far away or why not."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor

import dit_torch
import ranks
import tiny_models

TOLERANCE = 2e-5  # of the largest number of an output


def tensors(output: Any) -> list[Tensor]:
    if isinstance(output, Tensor):
        return [output.detach().clone()]
    if isinstance(output, dict):
        output = list(output.values())
    return [x for one in output for x in tensors(one)] if isinstance(output, (list, tuple)) else []


def away(found: list[Tensor], expected: list[Tensor]) -> float:
    """How far, of the largest number."""
    assert [x.shape for x in found] == [x.shape for x in expected]
    pairs = list(zip(found, expected, strict=True))
    return max(float((a - b).abs().max() / b.abs().max().clamp(min=1e-3)) for a, b in pairs)


def _moved(x: Any, device: torch.device) -> Any:
    if isinstance(x, (list, tuple)):
        return type(x)(_moved(one, device) for one in x)
    if isinstance(x, dict):
        return {key: _moved(one, device) for key, one in x.items()}
    return x.to(device) if isinstance(x, Tensor) else x


def _one(name: str, batch: int, device: torch.device, **options: Any) -> str | float:
    """How far all ranks are from one; or why the model is refused."""
    entry = tiny_models.TINY[name]
    model = entry.make().to(device)

    def output() -> list[Tensor]:
        return tensors(model(**_moved(entry.inputs(batch), device), return_dict=False))

    with torch.no_grad():
        expected = output()
        assert all(x.isfinite().all() for x in expected)
        try:
            dit_torch.enable(model, timeout_seconds=30, **options)
        except ValueError as error:
            return f"refused: {error}"
        try:
            found = output()
            assert model._dit_torch.parallel.tokens, "nothing was split"
        except Exception as error:
            return f"failed: {type(error).__name__}: {error}"
        finally:
            dit_torch.disable(model)
        after = output()
        assert away(after, expected) == 0
    return away(found, expected)


def compare(names: list[str], device: torch.device | None = None, **options: Any) -> dict[str, str | float]:
    """On each rank."""
    device = device or torch.device("cpu")
    cases = [(name, batch) for name in names for batch in tiny_models.TINY[name].batches]
    return {f"{name} of {batch}": _one(name, batch, device, **options) for name, batch in cases}


if __name__ == "__main__":
    for size in (2, 3):
        print(size, "ranks:", ranks.run(size, compare, sys.argv[1:])[0])
