"""A plan of somebody's own, for a transformer that nobody knows."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._dynamo.utils import counters

import dit_torch
import ranks
import tiny
from dit_torch.entries import Alone, Attention, Entry, Gather, Split


class OwnAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(48, 48 * 3), nn.Linear(48, 48)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v)

    def forward(self, x: Tensor, text: Tensor | None = None) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, 3, 16)).permute(2, 0, 3, 1, 4)
        if text is not None:
            _, k, v = self.qkv(text).unflatten(-1, (3, 3, 16)).permute(2, 0, 3, 1, 4)
        return self.out(self.attend(q, k, v).transpose(1, 2).flatten(2))


class AnothersAttention(OwnAttention):
    """By a function of which a plan knows nothing."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k.transpose(-1, -2) / 4).softmax(-1) @ v


class MaskedAttention(OwnAttention):
    """With a mask of the queries and keys that it sees."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, torch.ones(q.shape[-2], k.shape[-2]).bool())


class OwnBlock(nn.Module):
    def __init__(self, kind: type[OwnAttention]) -> None:
        super().__init__()
        self.mine, self.cross, self.mlp = kind(), OwnAttention(), nn.Linear(48, 48)

    def forward(self, x: Tensor, positions: Tensor, text: Tensor) -> Tensor:
        x = x + self.mine(x + positions)
        return x + self.mlp(x + self.cross(x, text))


class OwnTransformer(nn.Module):
    def __init__(self, kind: type[OwnAttention]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(OwnBlock(kind) for _ in range(2))
        self.head = nn.Linear(48, 8)

    def forward(self, x: Tensor, positions: Tensor, text: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x, positions, text)
        return self.head(x)


PLAN: tuple[Entry, ...] = (
    Split("blocks.0", "x", dim=1, stream="image"),
    Split("blocks.*", "positions", dim=1, of="image"),
    Attention("blocks.*.mine", "image"),
    Alone("blocks.*.cross", needs="text"),
    Gather("head", dim=1),
)


def _given() -> dict[str, Tensor]:
    shapes = {"x": (2, 23, 48), "positions": (1, 23, 48), "text": (2, 5, 48)}
    return {name: tiny.noise(*shape, seed=len(name)) for name, shape in shapes.items()}


def _run(plan: Any, kind: type[OwnAttention] = OwnAttention, passes: int = 1, **options: Any) -> Any:
    model, given = tiny.randomise(OwnTransformer(kind)), _given()
    with torch.no_grad():
        one = model(**given).numpy()
        dit_torch.enable(model, plan=plan, timeout_seconds=20, **options)
        try:
            every = [model(**given).numpy() for _ in range(passes)]
        finally:
            dit_torch.disable(model)
        after = model(**given).numpy()
    np.testing.assert_array_equal(after, one)
    assert F is sys.modules["torch.nn.functional"]
    hooks = [
        len(m._forward_hooks) + len(m._forward_pre_hooks) + ("forward" in vars(m)) for m in model.modules()
    ]
    assert not any(hooks)
    return one, every


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_plan_of_ones_own(size: int) -> None:
    for one, every in ranks.run(size, _run, PLAN, passes=3, verify=True):
        for found in every:
            np.testing.assert_allclose(found, one, rtol=0, atol=2e-5)


WRONG: list[tuple[Any, type[OwnAttention], str]] = [
    (
        PLAN[:2] + PLAN[3:],
        OwnAttention,
        "has attention in blocks.0.mine .OwnAttention., which no entry names",
    ),
    (PLAN, AnothersAttention, "blocks.0.mine has attended without"),
    ((*PLAN[:2], Alone("blocks.*.mine"), *PLAN[3:]), OwnAttention, "output 0 of all ranks together is"),
    (
        (*PLAN[:2], Attention("blocks.*.mine", "image", part_mask=True), *PLAN[3:]),
        MaskedAttention,
        "a mask .1., 1.. of each query; expected one for all queries",
    ),
    (PLAN[:4], OwnAttention, "all ranks together give outputs of"),
    ((*PLAN, Split("blocks.*", "z", 1)), OwnAttention, "OwnBlock.forward has no argument z"),
    (
        (*PLAN[:3], Alone("blocks.*.cross", "txt"), *PLAN[4:]),
        OwnAttention,
        "txt is no argument of OwnAttention.forward",
    ),
    ((*PLAN, Gather("tail", 1)), OwnAttention, "OwnTransformer has no module tail"),
    ((*PLAN[:2], Attention("blocks.*.mine", "text+image"), *PLAN[3:]), OwnAttention, "no tokens of text"),
    (
        (Split("blocks.*", "positions", 1, of="image"), *PLAN),
        OwnAttention,
        "no tokens of image are split yet",
    ),
    (["blocks"], OwnAttention, "'blocks' is a str; expected a list of Split"),
]


@pytest.mark.parametrize(("plan", "kind", "words"), WRONG, ids=[words for _, _, words in WRONG])
def test_a_plan_that_is_wrong_is_told_so(plan: Any, kind: type[OwnAttention], words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        ranks.run(2, _run, plan, kind, verify=True)


def _again() -> list[str]:
    """What a pass was wrong in is looked at again in the next one."""
    model = tiny.randomise(OwnTransformer(OwnAttention))
    dit_torch.enable(model, plan=(*PLAN[:2], Alone("blocks.*.mine"), *PLAN[3:]), verify=True)
    told = []
    for _ in range(2):
        with pytest.raises((ValueError, RuntimeError)) as error, torch.no_grad():
            model(**_given())
        told.append(str(error.value))
    return told


def test_every_pass_is_compared_until_one_was_right() -> None:
    for told in ranks.run(2, _again):
        assert all("verify: output 0" in words for words in told)


def _graphs(whole: bool) -> list[int]:
    """Without verify, and with it."""
    counted = []
    for verify in (False, True):
        model = tiny.flux(4)
        with torch.no_grad():
            one = model(**tiny.flux_inputs())[0]
            dit_torch.enable(model, verify=verify, timeout_seconds=60)
            if whole:
                model.compile(fullgraph=True, backend="eager")
            else:
                model.compile_repeated_blocks(fullgraph=True, backend="eager")
            counters.clear()
            for _ in range(2):
                assert torch.allclose(model(**tiny.flux_inputs())[0], one, rtol=0, atol=1e-5)
        counted.append(counters["stats"]["unique_graphs"])
        dit_torch.disable(model)
        torch._dynamo.reset()
    return counted


@pytest.mark.parametrize("whole", [False, True])
def test_verify_compiles_nothing(whole: bool) -> None:
    for without, with_verify in ranks.run(2, _graphs, whole):
        assert 0 < without == with_verify


def test_verify_needs_exact_results() -> None:
    with pytest.raises(RuntimeError, match="expected policy 'exact'"):
        ranks.run(2, _run, PLAN, verify=True, policy="fast", steps=4)
