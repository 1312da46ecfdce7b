"""Few queries that all ranks have, and keys of which each has a part: attention to all of them."""

from __future__ import annotations

import torch
from torch import Tensor

import dit_torch
import ranks
import tiny
from dit_torch.attention import attend
from dit_torch.split_keys import attend_to_parts


def _parallel() -> object:
    """Of a transformer that is enabled."""
    model = tiny.wan(3)
    dit_torch.enable(model)
    return model._dit_torch.parallel


def _compare(tokens: int, dtype: torch.dtype, wanted: bool) -> tuple[float, float]:
    """How far what comes out is from attention to all keys, and gradients of keys are from one process's."""
    parallel = _parallel()
    q, k, v = (tiny.noise(2, rows, 3, 8, seed=rows).to(dtype) * 3 for rows in (5, tokens, tokens + 1))
    v = v[:, :tokens]
    place = parallel.place(tokens)
    own = [x.narrow(1, *place).clone().requires_grad_(wanted) for x in (k, v)]
    with torch.set_grad_enabled(wanted):
        found = attend_to_parts(q, *own, tokens, parallel)
        whole = [x.clone().requires_grad_(wanted) for x in (k, v)]
        right = attend(q, *whole)
        away = _away(found, right)
        if not wanted:
            return away, 0.0
        weights = tiny.noise(*right.shape, seed=9)
        (right * weights).sum().backward()
        (found * weights * (parallel.group.rank == 0)).sum().backward()
    parts = zip(own, whole, strict=True)
    return away, max(_away(x.grad, one.grad.narrow(1, *place)) for x, one in parts)


def _away(a: Tensor, b: Tensor) -> float:
    return float((a.float() - b.float()).abs().max() / b.float().abs().max())


def test_it_is_attention_to_all_keys() -> None:
    for size in (1, 2, 3):
        for tokens in (size, 17):  # one key for each rank; uneven parts
            for far, _ in ranks.run(size, _compare, tokens, torch.float32, False):
                assert far < 1e-6
    for far, _ in ranks.run(3, _compare, 17, torch.bfloat16, False):
        assert far < 1e-2


def test_gradients_come_back_to_the_keys() -> None:
    for far, of_keys in ranks.run(3, _compare, 17, torch.float32, True):
        assert far < 1e-6 and of_keys < 1e-5
