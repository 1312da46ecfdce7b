"""policy="sage-int8": ranks quantise as one process does, and send three quarters of the bytes."""

from __future__ import annotations

import functools
import math
import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

import dit_torch
import needs
import ranks
import sage_cases
import tiny
from dit_torch import sage
from dit_torch.group import give, take
from sage_cases import Attention

POLICY = "sage-int8"
LARGE = {"attention_head_dim": 64}


def _quantised(x: Tensor, block: int) -> Tensor:
    """By SageAttention's rule, block by block, and decoded."""
    x = x.float().clone()
    for part in x.split(block, dim=1):
        for sample in part:
            for head in sample.unbind(1):
                scale = head.abs().max() / 127
                head.copy_((head / scale + 0.5 * head.sign()).trunc() * scale)
    return x


def _whole(case: sage_cases.Case) -> Tensor:
    """What one process has that follows the rule of one GPU."""
    q, k, v = case.tensors(torch.device("cpu"))
    k = k - k.float().mean(1, keepdim=True).to(k.dtype)
    q = _quantised(q.float() * (case.head_dim**-0.5 * math.log2(math.e)), 128)
    q, k, v = (x.transpose(1, 2) for x in (q, _quantised(k, 64), v.half().float()))
    scores = q.double() @ k.double().transpose(2, 3) * math.log(2)
    return (scores.softmax(-1) @ v.double()).transpose(1, 2).float()


def _attended(case: sage_cases.Case) -> tuple[list[int], np.ndarray]:
    group = take(None, 60)
    attention = Attention(group, case)
    with torch.no_grad():
        o = attention(*case.tensors(torch.device("cpu")))
    attention.close()
    give(group)
    return attention.rows, o.float().numpy()


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize(
    "case",
    [
        sage_cases.Case(1, 64, 192, 3, 64),  # blocks of one rank, and of two
        sage_cases.Case(2, 37, 300, 4, 128, True),
        sage_cases.Case(1, 0, 129, 3, 64),
        sage_cases.Case(1, 1, 2, 3, 64),  # no text on some ranks, and a block of three
    ],
)
def test_ranks_quantise_as_one_process(size: int, case: sage_cases.Case) -> None:
    expected = _whole(case)
    for rows, o in ranks.run(size, _attended, case):
        np.testing.assert_allclose(o, expected[:, rows].numpy(), rtol=0.005, atol=2e-5)  # bf16's rounding


def _flux(heads: int, **config: Any) -> nn.Module:
    return tiny.flux(heads, axes_dims_rope=(16, 24, 24), **LARGE, **config)


def _qwenimage(heads: int) -> nn.Module:
    return tiny.qwenimage(heads, axes_dims_rope=(16, 24, 24), **LARGE)


def _wan(heads: int) -> nn.Module:
    return tiny.wan(heads, rope_max_seq_len=64, **LARGE)


MODELS = {
    "flux": (_flux, functools.partial(tiny.flux_inputs, width=33)),
    "qwenimage": (_qwenimage, functools.partial(tiny.qwenimage_inputs, width=33)),
    "sd3": (lambda heads: tiny.sd3(heads, head_dim=64), functools.partial(tiny.sd3_inputs, width=8)),
    "wan": (_wan, functools.partial(tiny.wan_inputs, width=33)),
}


def _in_16_bits(x: Any) -> Any:
    return x.bfloat16() if isinstance(x, Tensor) and x.is_floating_point() else x


def _given(inputs: Any, **sizes: int) -> dict[str, Any]:
    given = inputs(**sizes)
    return given | {name: _in_16_bits(x) for name, x in given.items() if "ids" not in name}


def _picture(name: str, **options: Any) -> tuple[np.ndarray, float, float, str]:
    """And what was sent of which bytes, and the report."""
    make, inputs = MODELS[name]
    model = make(3).bfloat16()
    dit_torch.enable(model, **options)
    with torch.no_grad():
        picture = model(**_given(inputs, text=70), return_dict=False)[0]
    told = dit_torch.report(model)
    dit_torch.disable(model)
    sent = sum(level["sent_bytes"] for level in told.levels.values())
    return picture.float().numpy(), sent, told.full_bytes, str(told)


@pytest.mark.parametrize(
    ("name", "size", "schedule"),
    [("flux", 2, "flat"), ("qwenimage", 3, "v-first"), ("sd3", 2, "pipelined"), ("wan", 3, "auto")],
)
def test_pictures_of_several_ranks(name: str, size: int, schedule: str) -> None:
    exact, one = (ranks.run(1, _picture, name, policy=policy)[0][0] for policy in ("exact", POLICY))
    lost = np.std(one - exact)
    assert 1e-3 < lost / np.std(exact) < 0.05
    told = ranks.run(size, _picture, name, policy=POLICY, schedule=schedule)
    for picture, *_ in told:
        # Where a projection is rounded otherwise another code may come of it.
        assert np.std(picture - one) < 0.5 * lost
        np.testing.assert_array_equal(picture, told[0][0])


@needs.LIBRARY
def test_three_quarters_of_the_bytes() -> None:
    told = ranks.run(2, _picture, "flux", policy=POLICY)
    exact = ranks.run(2, _picture, "flux")
    full = sum(one[2] for one in exact)
    assert sum(one[1] for one in exact) == full == sum(one[2] for one in told)
    assert sum(one[1] for one in told) == 0.75 * full
    assert f"policy {POLICY}" in told[0][3] and "share 0.750" in told[0][3]


def _compiled(whole: bool) -> tuple[list[float], int]:
    """How far compiled passes of several sizes are from eager ones, and how many graphs there are."""
    model = _flux(4).bfloat16()
    dit_torch.enable(model, policy=POLICY)
    given = [_given(tiny.flux_inputs, text=t, width=w) for t, w in ((133, 40), (70, 41), (90, 33))]
    with torch.no_grad():
        eager = [model(**each, return_dict=False)[0] for each in given]
        if whole:
            compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        else:
            model.compile_repeated_blocks(fullgraph=True, backend="aot_eager")
            compiled = model
        found = [compiled(**each, return_dict=False)[0] for each in given]
    dit_torch.disable(model)
    away = [float((a - b).abs().max()) for a, b in zip(found, eager, strict=True)]
    return away, counters["stats"]["unique_graphs"]


@pytest.mark.parametrize("whole", [True, False])
def test_compiled_models(whole: bool) -> None:
    for away, graphs in ranks.run(2, _compiled, whole):
        assert max(away) == 0 and graphs <= 3


def _refused(make: Any, given: dict[str, Any] | None, **options: Any) -> str:
    model = make()
    with pytest.raises((ValueError, RuntimeError)) as told:
        dit_torch.enable(model, policy=POLICY, **options)
        with torch.no_grad():
            model(**given)  # type: ignore[arg-type]
    return str(told.value)


def _all_refusals() -> list[str]:
    def flux() -> nn.Module:
        return _flux(3).bfloat16()

    return [
        _refused(lambda: tiny.ltx(3), None),
        _refused(flux, None, verify=True),
        _refused(lambda: tiny.flux(3).bfloat16(), _given(tiny.flux_inputs)),
        _refused(lambda: _flux(1).bfloat16(), _given(tiny.flux_inputs)),
        _refused(lambda: MODELS["qwenimage"][0](3).bfloat16(), _given(tiny.qwenimage_inputs, batch=2)),
    ]


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = (
        "diffusers' processors",
        "verify",
        "heads of 16",
        "1 heads",
        "has a mask",
    )
    for told in ranks.run(2, _all_refusals):
        for words, found in zip(expected, told, strict=True):
            assert words in found
    monkeypatch.setitem(sys.modules, "sageattention", None)  # also where it is installed
    sage._kernel.cache_clear()
    with pytest.raises(RuntimeError, match="pip install sageattention"):
        sage.check(torch.device("cuda"), "FluxTransformer2DModel", True)


def _backward() -> str:
    model = _flux(3).bfloat16()
    dit_torch.enable(model, policy=POLICY)
    with pytest.raises(NotImplementedError) as told:
        model(**_given(tiny.flux_inputs), return_dict=False)[0].float().sum().backward()
    return str(told.value)


def test_there_is_no_training() -> None:
    for told in ranks.run(2, _backward):
        assert f"policy = {POLICY!r}" in told
