"""Ranks that are given different things: all get an error that names it, in the same pass, and go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import dit_torch
import ranks
import tiny
from dit_torch import verdict

Arguments = dict[str, Any]


def _output(model: nn.Module, given: Arguments) -> Tensor:
    with torch.no_grad():
        return model(**given, return_dict=False)[0]


def _told(model: nn.Module, given: Arguments) -> str:
    """What the pass says; "" where it says nothing."""
    try:
        _output(model, given)
    except ValueError as error:
        return str(error)
    return ""


def _changed(x: Tensor, at: Any, number: float) -> Tensor:
    x = x.clone()
    x[at] = number
    return x


def _nan(payload: int) -> Tensor:
    return torch.tensor([0x7FC00000 + payload], dtype=torch.int32).view(torch.float32)


class _Unknown:
    """Its words name its address."""


_FLUX = tiny.flux_inputs()
_QWEN = tiny.qwenimage_inputs(batch=2)
_MASK = _QWEN["encoder_hidden_states_mask"]
# Name, the argument that is named, and what rank 0 and the others are given.
DIFFERENT: dict[str, tuple[str, str, Any, Any]] = {
    "guidance": ("flux", "guidance", torch.tensor([3.5]), torch.tensor([3.8])),
    "timestep": ("flux", "timestep", torch.tensor([0.60]), torch.tensor([0.65])),
    "type": ("flux", "timestep", torch.tensor([0.5]), torch.tensor([0.5], dtype=torch.float64)),
    "shape": ("flux", "txt_ids", torch.zeros(7, 3), torch.zeros(1, 7, 3)),
    "a token": (
        "flux",
        "hidden_states",
        _FLUX["hidden_states"],
        _changed(_FLUX["hidden_states"], (0, 19), 0.0),
    ),
    "a bit": (
        "flux",
        "encoder_hidden_states",
        _changed(_FLUX["encoder_hidden_states"], (0, 3, 5), 1.0),
        _changed(_FLUX["encoder_hidden_states"], (0, 3, 5), 1.0 + 2**-23),
    ),
    "zeros": ("flux", "txt_ids", torch.zeros(7, 3), _changed(torch.zeros(7, 3), (slice(None), 1), -0.0)),
    "NaN": ("flux", "guidance", _nan(1), _nan(2)),
    "scale": ("flux", "joint_attention_kwargs", {"scale": 1.0}, {"scale": 0.5}),
    "only one": ("flux", "joint_attention_kwargs", {"scale": 1.0}, None),
    "numpy": ("flux", "joint_attention_kwargs", {"own": np.arange(3)[::-1]}, {"own": np.arange(3)}),
    "numpy's words": (
        "flux",
        "joint_attention_kwargs",
        {"own": np.array(["a", "b"])},
        {"own": np.array(["a", "c"])},
    ),
    "mask": ("qwenimage", "encoder_hidden_states_mask", _MASK, _changed(_MASK, (1, 2), False)),
    "no mask": ("qwenimage", "encoder_hidden_states_mask", torch.ones_like(_MASK), None),
    "transposed": ("qwenimage", "img_shapes", [[(1, 4, 5)]] * 2, [[(1, 5, 4)]] * 2),
}


# A program's own graph is traced before what it is given is compared, and for these another one is.
TRACED = ("type", "shape", "scale", "only one", "numpy", "numpy's words", "no mask", "transposed")


def _differently(first: bool, compiled: Callable[[nn.Module], Any] = lambda m: m) -> dict[str, Any]:
    """Each case in the first pass of its size, or behind one that is alike; and then one that is."""
    told = {}
    given = {"flux": _FLUX, "qwenimage": _QWEN}
    for family in given:
        model = dit_torch.enable(tiny.MODELS[family][0](3))
        call = compiled(model)
        right = None if first else _output(call, given[family])
        for name, (of, argument, *values) in DIFFERENT.items():
            if of == family and not (compiled is _within and name in TRACED):
                value = values[min(dist.get_rank(), 1)]
                told[name] = _told(call, given[family] | {argument: value})
        after = _output(call, given[family])
        told[f"{family} after"] = after.isfinite().all() and (right is None or torch.equal(after, right))
        dit_torch.disable(model)
    return told


def _expect_named(told: dict[str, Any]) -> None:
    for name, (_, argument, *_) in ((name, DIFFERENT[name]) for name in told if name in DIFFERENT):
        assert told[name].startswith(argument), (name, told[name])
        assert "differs between ranks 0 and 1" in told[name], name
        assert "expected the same on all of them" in told[name] and "dit_torch.share" in told[name]
    assert told["flux after"] and told["qwenimage after"]


@pytest.mark.parametrize(("size", "first"), [(2, True), (2, False), (3, False)])
def test_what_differs_is_named(size: int, first: bool) -> None:
    for told in ranks.run(size, _differently, first):
        _expect_named(told)


def _in_autocast(compiled: Callable[[nn.Module], Any] = lambda m: m) -> tuple[str, bool]:
    """Where one rank alone computes in it, and then none does."""
    call = compiled(dit_torch.enable(tiny.MODELS["flux"][0](3)))
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dist.get_rank() == 1):
        told = _told(call, _FLUX)
    return told, bool(_output(call, _FLUX).isfinite().all())


def _by_blocks(model: Any) -> nn.Module:
    model.compile_repeated_blocks(fullgraph=True, backend="aot_eager")
    return model


def _whole(model: nn.Module) -> nn.Module:
    torch._dynamo.config.recompile_limit = 32  # each kind of argument is compiled for itself
    return torch.compile(model, fullgraph=True, backend="aot_eager")


def _within(model: nn.Module) -> Callable[..., tuple[Tensor]]:
    """In a graph of the program's, where nothing of ours runs but operators."""
    torch._dynamo.config.recompile_limit = 32

    @torch.compile(fullgraph=True, backend="aot_eager")
    def call(**given: Any) -> Tensor:
        return model(**given)[0]

    return lambda **given: (call(**given),)


@pytest.mark.parametrize("compiled", [(), (_whole,)])
def test_autocast_on_one_rank_is_named(compiled: tuple[Any, ...]) -> None:
    for told, after in ranks.run(2, _in_autocast, *compiled, timeout=300):
        assert told.startswith("torch.autocast differs between ranks 0 and 1: off and torch.bfloat16"), told
        assert after


@pytest.mark.parametrize("compiled", [_by_blocks, _whole, _within])
def test_compiled_models_name_it_too(compiled: Callable[[nn.Module], Any]) -> None:
    for told in ranks.run(2, _differently, False, compiled, timeout=500):
        _expect_named(told)


def _alike() -> list[str]:
    """What may differ between ranks: where numbers lie, and in which order arguments come."""
    model = dit_torch.enable(tiny.flux(3))
    odd = dist.get_rank() == 1
    x = _FLUX["hidden_states"]
    strided = x.transpose(1, 2).contiguous().transpose(1, 2)
    cases: list[Arguments] = [
        {"hidden_states": strided if odd else x},
        {"hidden_states": torch.cat((x, x), 1)[:, :20] if odd else x},
        {"guidance": _nan(1)},
        {"joint_attention_kwargs": {"a": 1, "b": 2.0} if odd else {"b": 2.0, "a": 1}},
        {"joint_attention_kwargs": {"a": [1, 2], "b": None} if odd else {"a": (1, 2)}},
        {"joint_attention_kwargs": {"a": _Unknown(), "b": {"x", "y", "z"}}},
    ]
    told = []
    for case in cases:
        given = _FLUX | case
        told.append(_told(model, dict(reversed(given.items())) if odd else given))
    dit_torch.disable(model)
    return told


def test_what_may_differ_is_no_error() -> None:
    for told in ranks.run(2, _alike):
        assert not any(told), told


def _in_other_order() -> list[str]:
    """A server whose ranks take two requests in another order, of a size that they know."""
    model = dit_torch.enable(tiny.flux(3))
    requests = [tiny.flux_inputs(seed=seed) for seed in (1, 2)]
    told = [_told(model, request) for request in requests]
    told += [_told(model, request) for request in (requests if dist.get_rank() == 0 else requests[::-1])]
    told.append(_told(model, requests[0]))
    dit_torch.disable(model)
    return told


def test_a_server_goes_on() -> None:
    for told in ranks.run(2, _in_other_order):
        assert [bool(words) for words in told] == [False, False, True, True, False]


def _given_none() -> list[str]:
    model = tiny.flux(3)
    dit_torch.enable(model)
    try:
        model()
    except TypeError as error:
        return [str(error), _told(model, _FLUX)]
    finally:
        dit_torch.disable(model)
    return []


def test_a_pass_without_tensors_is_refused_in_words() -> None:
    for words, after in ranks.run(2, _given_none):
        assert words.startswith("no argument of forward() is a tensor: expected some of hidden_states, ")
        assert after == ""


def _given_no_plain_bits() -> list[str]:
    model, told = dit_torch.enable(tiny.flux(3)), []
    nested = torch.nested.nested_tensor([torch.zeros(2), torch.ones(3)], layout=torch.jagged)
    for x in (torch.eye(7, 3).to_sparse(), torch.eye(7, 3).to_sparse_csr(), nested):
        try:
            _output(model, _FLUX | {"txt_ids": x})
        except TypeError as error:
            told.append(str(error))
    told.append(_told(model, _FLUX))
    dit_torch.disable(model)
    return told


def test_tensors_that_are_not_plain_are_refused_in_words() -> None:
    for *told, after in ranks.run(2, _given_no_plain_bits):
        kinds = ("torch.sparse_coo", "torch.sparse_csr", "nested")
        for words, kind in zip(told, kinds, strict=True):
            assert words.startswith(f"txt_ids is a tensor that is {kind}: expected a dense one")
        assert after == ""


def _not_compared() -> str:
    model = dit_torch.enable(tiny.flux(3), compare=False)
    told = _told(model, _FLUX | {"guidance": torch.tensor([3.5 + dist.get_rank()])})
    dit_torch.disable(model)
    return told


def test_comparing_can_be_left_out() -> None:
    assert ranks.run(2, _not_compared) == ["", ""]


def _later(compiled: Callable[[nn.Module], Any]) -> list[Any]:
    """As on a device: the pass gives NaN, and the next one says why."""
    verdict.Verdict.later = property(lambda self: True, lambda self, value: None)  # type: ignore[assignment]
    model = dit_torch.enable(tiny.flux(3))
    call = compiled(model)
    other = _FLUX | {"guidance": torch.tensor([3.5 + dist.get_rank()])}
    told: list[Any] = [bool(_output(call, given).isnan().all()) for given in (_FLUX, other)]
    told += [_told(call, _FLUX), bool(_output(call, _FLUX).isfinite().all())]
    dit_torch.disable(model)
    return told


@pytest.mark.parametrize("compiled", [lambda model: model, _within])
def test_a_device_says_it_later(compiled: Callable[[nn.Module], Any]) -> None:
    for alike, other, words, after in ranks.run(2, _later, compiled):
        assert not alike and other and after
        assert words.startswith("guidance differs between ranks 0 and 1")


def _guided(where: str, who: int, later: bool) -> list[Any]:
    """Guidance whose branches are on halves; one rank is given something else in one of them."""
    if later:
        verdict.Verdict.later = property(lambda self: True, lambda self, value: None)  # type: ignore[assignment]
    model = tiny.qwenimage(3)
    branches = {"cond": tiny.qwenimage_inputs(text=7), "uncond": tiny.qwenimage_inputs(text=4, seed=2)}
    branches["uncond"]["hidden_states"] = branches["cond"]["hidden_states"]
    dit_torch.enable(model, cfg_parallel=True, timeout_seconds=20)

    def step(other: bool) -> list[str]:
        told = []
        for name, given in branches.items():
            now = given
            if other and name == where and dist.get_rank() == who:
                now = given | {"timestep": torch.full((1,), 0.61)}
            with model.cache_context(name):
                told.append(_told(model, now))
        return told

    told = [*step(False), *step(False), *step(True), *step(False), *step(False), *step(False)]
    dit_torch.disable(model)
    return told


@pytest.mark.parametrize("where", ["cond", "uncond"])
@pytest.mark.parametrize(("size", "who"), [(2, 1), (4, 0), (4, 3)])
def test_each_branch_is_compared_on_all_ranks(where: str, size: int, who: int) -> None:
    first = 4 if where == "cond" else 5
    for told in ranks.run(size, _guided, where, who, later=False, timeout=100):
        assert [bool(words) for words in told] == [number == first for number in range(12)], told
        assert told[first].startswith("timestep differs between ranks 0 and ")
        assert f"{who or 1}:" in told[first]


@pytest.mark.parametrize("where", ["cond", "uncond"])
def test_a_device_says_it_two_passes_later(where: str) -> None:
    first = 6 if where == "cond" else 7
    for told in ranks.run(2, _guided, where, 1, later=True, timeout=100):
        assert [bool(words) for words in told] == [number == first for number in range(12)], told
        assert told[first].startswith("timestep differs between ranks 0 and 1")
