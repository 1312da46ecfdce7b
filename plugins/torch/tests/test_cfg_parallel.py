"""Guidance branches on halves of the ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import all_models
import dit_torch
import ranks
import tiny
from tiny_models import TINY, installed

STEPS = 4


def _call(model: nn.Module, **given: Any) -> torch.Tensor:
    return model(**given, return_dict=False)[0]


def _image(model: nn.Module, guidance: bool = True, steps: int = STEPS, last: int = STEPS) -> np.ndarray:
    """Two calls a step, with texts of different length, as in diffusers' pipelines.

    :param last: guidance ends before this step
    """
    prompt, negative = tiny.qwenimage_inputs(text=7, seed=1), tiny.qwenimage_inputs(text=4, seed=2)
    x = prompt["hidden_states"]
    for step in range(steps):
        now = {"hidden_states": x, "timestep": torch.full((1,), 1 - step / steps)}
        with model.cache_context("cond"):
            v = _call(model, **(prompt | now))[:, : x.shape[1]]
        if guidance and step < last:
            with model.cache_context("uncond"):
                other = _call(model, **(negative | now))
            v = other + 4.0 * (v - other)
        x = x - v / steps
    return x.numpy()


def _guided() -> dict[str, Any]:
    model = tiny.qwenimage(3)
    calls: list[None] = []
    with torch.no_grad():
        one = _image(model)
        dit_torch.enable(model, cfg_parallel=True)
        model.proj_out.register_forward_hook(lambda *_: calls.append(None))
        first, count = _image(model), len(calls)
        second = _image(model)
        dit_torch.disable(model)
        after = _image(model)
    restored = not {"forward", "cache_context"} & vars(model).keys()
    return {
        "one": one,
        "all": [first, second],
        "calls": [count, len(calls)],
        "after": after,
        "restored": restored,
    }


@pytest.mark.parametrize("size", [2, 4, 6])
def test_each_half_computes_one_branch(size: int) -> None:
    told = ranks.run(size, _guided)
    for of_rank in told:
        for image in of_rank["all"]:
            np.testing.assert_allclose(image, of_rank["one"], rtol=0, atol=1e-4)
        np.testing.assert_array_equal(of_rank["after"], of_rank["one"])
        np.testing.assert_array_equal(of_rank["all"][0], told[0]["all"][0])
        assert of_rank["restored"]
        # The first step shows that there are two calls: all compute both. `after` is not counted yet.
        assert of_rank["calls"][0] == STEPS + 1


def _unguided() -> list[tuple[np.ndarray, np.ndarray]]:
    """Guidance that ends within an image, or before one: of one step, too, which nothing comes after."""
    asked: list[dict[str, Any]] = [
        {"guidance": False},
        {},
        {"guidance": False, "steps": 1},
        {"last": STEPS - 1},
        {"last": 2},
        {},
        {"guidance": False},
        {},
    ]
    model = tiny.qwenimage(3)
    with torch.no_grad():
        ones = [_image(model, **given) for given in asked]
        dit_torch.enable(model, cfg_parallel=True)
        return list(zip([_image(model, **given) for given in asked], ones, strict=True))


def test_guidance_that_ends() -> None:
    for pairs in ranks.run(4, _unguided):
        for every, one in pairs:
            np.testing.assert_allclose(every, one, rtol=0, atol=1e-4)


def _read_early() -> list[bool]:
    """A program that looks at the first branch before it asks for the second."""
    model = tiny.qwenimage(3)
    given = tiny.qwenimage_inputs()
    told = []
    with torch.no_grad():
        one = _call(model, **given)
        dit_torch.enable(model, cfg_parallel=True)
        for _ in range(3):
            with model.cache_context("cond"):
                x = _call(model, **given)
            assert x.shape == one.shape and x.dtype == one.dtype and x.device == one.device
            read = (x, x.clone(), x[0], x + 0, x.double(), x.data, x.mT.mT)
            told += [all(np.allclose(found.numpy(), one.numpy(), rtol=0, atol=1e-5) for found in read)]
            with model.cache_context("uncond"):
                told += [torch.allclose(_call(model, **given), one, rtol=0, atol=1e-5)]
        dit_torch.disable(model)
    return told


def test_a_branch_that_is_read_before_the_other() -> None:
    assert ranks.run(2, _read_early) == [[True] * 6] * 2


def _seen_by(who: int, what: str) -> list[Any]:
    """One rank alone looks at results: within a step, or at the last one, which no other call follows."""
    model = tiny.qwenimage(3)
    branches = {"cond": tiny.qwenimage_inputs(text=7), "uncond": tiny.qwenimage_inputs(text=4, seed=2)}

    def step(name: str) -> torch.Tensor:
        with model.cache_context(name):
            return _call(model, **branches[name])

    def look(x: torch.Tensor) -> None:
        if torch.distributed.get_rank() == who:
            if what == "changed":
                x.mul_(0)
            told.append(float((x[0] if what == "a part" else x).norm()))

    told: list[float] = []
    with torch.no_grad():
        ones = {name: step(name) for name in branches}
        dit_torch.enable(model, cfg_parallel=True, timeout_seconds=10)
        away = []
        for _ in range(5):
            v = step("cond")
            kept = v.clone() if what == "changed" else v
            if what != "the last":
                look(v)
            other = step("uncond")
            away += [float((other - ones["uncond"]).abs().max()), float((kept - ones["cond"]).abs().max())]
        look(step("cond"))  # guidance has ended: nobody else reads this one
        torch.distributed.barrier()
        dit_torch.disable(model)
    return [max(away), told]


@pytest.mark.parametrize("what", ["all", "a part", "the last", "changed"])
@pytest.mark.parametrize(("size", "who"), [(2, 0), (2, 1), (4, 1), (4, 3)])
def test_what_one_rank_looks_at_alone(size: int, who: int, what: str) -> None:
    told = ranks.run(size, _seen_by, who, what, timeout=60)
    assert max(away for away, _ in told) < 1e-4
    assert [len(seen) for _, seen in told] == [
        (1 if what == "the last" else 6) * (at == who) for at in range(size)
    ]


def _batches(batch: int) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray, list[int]]]:
    told = {}
    for name, (make, make_inputs) in tiny.MODELS.items():
        model, given = make(3), make_inputs(batch=batch)
        batches: list[int] = []
        with torch.no_grad():
            one = _call(model, **given).numpy()
            dit_torch.enable(model, cfg_parallel=True)
            model.proj_out.register_forward_hook(lambda m, a, o, seen=batches: seen.append(o.shape[0]))
            every, sample = _call(model, **given).numpy(), model(**given).sample.numpy()
            dit_torch.disable(model)
        told[name] = (one, every, sample, batches)
    return told


@pytest.mark.parametrize("batch", [1, 2, 4])
def test_each_half_computes_half_of_a_batch(batch: int) -> None:
    for told in ranks.run(4, _batches, batch):
        for name, (one, every, sample, batches) in told.items():
            np.testing.assert_allclose(every, one, rtol=0, atol=1e-5, err_msg=name)
            np.testing.assert_array_equal(sample, every, err_msg=name)
            assert batches == [max(1, batch // 2)] * 2, name


def _two_calls_of_two_samples() -> list[float]:
    """As pipelines that compute each branch in a call do of several pictures."""
    model, given = tiny.wan(3), tiny.wan_inputs(batch=2)
    away = []
    with torch.no_grad():
        one = _call(model, **given)
        for options in ({"cfg_parallel": True}, {"parallel": "auto"}):
            dit_torch.enable(model, **options)
            for branch in ("cond", "uncond", "cond", "uncond"):
                with model.cache_context(branch):
                    away.append(float((_call(model, **given) - one).abs().max()))
            dit_torch.disable(model)
    return away


def test_two_calls_of_two_samples() -> None:
    for away in ranks.run(2, _two_calls_of_two_samples):
        assert max(away) < 1e-5


def _with_coordinates() -> float:
    """LTX-Video takes the places of each sample's tokens, as pipelines with conditions give them."""
    model, given = tiny.ltx(3), tiny.ltx_inputs(batch=2)
    given |= {"video_coords": tiny.noise(2, 3, 30, seed=1).abs(), "num_frames": None}
    with torch.no_grad():
        one = _call(model, **given)
        dit_torch.enable(model, cfg_parallel=True)
        away = float((_call(model, **given) - one).abs().max())
        dit_torch.disable(model)
    return away


def test_tables_of_each_sample_are_halved_too() -> None:
    assert max(ranks.run(2, _with_coordinates)) < 1e-5


def _again() -> list[np.ndarray]:
    """On the first two of three ranks; the third is none of its business."""
    if torch.distributed.get_rank() == 2:
        return []
    group = torch.distributed.new_group([0, 1], use_local_synchronization=True)
    model, given = tiny.sd3(3), tiny.sd3_inputs(batch=2)
    outputs = []
    with torch.no_grad():
        for cfg_parallel in (False, True, True, False):
            dit_torch.enable(model, group, cfg_parallel=cfg_parallel)
            outputs.append(_call(model, **given).numpy())
            dit_torch.disable(model)
    return outputs


def test_groups_of_some_ranks_are_taken_again() -> None:
    for outputs in ranks.run(3, _again)[:2]:
        for output in outputs:
            np.testing.assert_allclose(output, outputs[0], rtol=0, atol=1e-5)


def _beside_groups_of_the_program() -> list[float]:
    """Groups of some of the ranks, as parallel engines have them: torch counts groups to name them."""
    pair = torch.distributed.new_group([0, 1])
    models, given = [tiny.sd3(3), tiny.sd3(3)], tiny.sd3_inputs(batch=2)
    away = []
    with torch.no_grad():
        one = _call(models[0], **given)
        for first in (False, True):  # one half has a group already, and the other has not
            if first and torch.distributed.get_rank() < 2:
                dit_torch.enable(models[1], pair)
            dit_torch.enable(models[0], cfg_parallel=True)
            away.append(float((_call(models[0], **given) - one).abs().max()))
            dit_torch.disable(models[0])
        if torch.distributed.get_rank() < 2:
            away.append(float((_call(models[1], **given) - one).abs().max()))
            dit_torch.disable(models[1])
    torch.distributed.barrier(torch.distributed.new_group([0, 1, 2, 3]))  # the program's next one
    return away


def test_groups_of_the_program_beside_halves() -> None:
    for away in ranks.run(4, _beside_groups_of_the_program, timeout=100):
        assert max(away) < 1e-5


def _two_models() -> tuple[np.ndarray, np.ndarray]:
    """As the two experts of Wan 2.2-A14B."""
    models, given = [tiny.wan(3), tiny.wan(3)], tiny.wan_inputs(batch=2)
    with torch.no_grad():
        one = _call(models[1], **given).numpy()
        for model in models:
            dit_torch.enable(model, cfg_parallel=True)
        dit_torch.disable(models[0])
        every = _call(models[1], **given).numpy()
        dit_torch.disable(models[1])
    return one, every


def test_models_share_halves() -> None:
    for one, every in ranks.run(2, _two_models):
        np.testing.assert_allclose(every, one, rtol=0, atol=1e-5)


def _video_and_audio() -> tuple[list[float], list[str]]:
    """Of LTX-2, which returns two all_models.tensors: both branches in a call, a call by itself, in turn."""
    far, told = [], []
    for name in ("LTX2VideoTransformer3DModel", "LTX2VideoTransformer3DModel-perturbed"):
        model = TINY[name].make()
        calls = [TINY[name].inputs(batch) for batch in (2, 1, 2, 4)]
        with torch.no_grad():
            one = [all_models.tensors(model(**given)) for given in calls]
            for options in ({"cfg_parallel": True}, {"parallel": "auto"}):
                dit_torch.enable(model, **options)
                for given, right in zip(calls, one, strict=True):
                    with model.cache_context("cond_uncond"):
                        found = model(**given)
                    far += [all_models.away([found.sample, found.audio_sample], right)]
                    far += [all_models.away(all_models.tensors(model(**given, return_dict=False)), right)]
                for branch in ("cond", "uncond", "cond", "uncond"):  # in a call each they stay together
                    with model.cache_context(branch):
                        far += [all_models.away(all_models.tensors(model(**calls[1])), one[1])]
                told += [dit_torch.report(model).parallel]
                dit_torch.disable(model)
    return far, told


@pytest.mark.skipif("LTX2VideoTransformer3DModel" not in installed(), reason="no LTX-2")
@pytest.mark.parametrize("size", [2, 4])
def test_samples_of_a_model_that_returns_two_tensors(size: int) -> None:
    for far, told in ranks.run(size, _video_and_audio):
        assert max(far) < all_models.TOLERANCE
        for words in told:
            assert "6 calls had an even number of samples" in words, words
            assert "LTX2VideoTransformer3DModel returns 2 tensors" in words, words


def _enable_twice() -> None:
    model = tiny.sd3(3)
    with pytest.raises(ValueError, match="cfg_parallel = True with 3 ranks: expected an even number"):
        dit_torch.enable(model, cfg_parallel=True)
    dit_torch.disable(dit_torch.enable(model))


def _given_none() -> tuple[list[str], bool]:
    model, told = tiny.qwenimage(3), []
    dit_torch.enable(model, cfg_parallel=True, compare=False)
    for given in ({}, {"hidden_states": None}):
        try:
            model(**given)
        except TypeError as error:
            told.append(str(error))
    with torch.no_grad():
        after = _call(model, **tiny.qwenimage_inputs())
    dit_torch.disable(model)
    return told, bool(after.isfinite().all())


def test_a_pass_without_latents_is_refused_in_words() -> None:
    for told, after in ranks.run(2, _given_none):
        assert told == ["hidden_states = None: expected a tensor"] * 2 and after


def test_an_odd_number_of_ranks_is_refused() -> None:
    ranks.run(3, _enable_twice)


def _compiled(fullgraph: bool) -> list[bool]:
    """Guidance that ends while the model is compiled: what one half has no use for, the other waits for."""
    model, given = tiny.qwenimage(3), tiny.qwenimage_inputs()
    told = []
    with torch.no_grad():
        one = _call(model, **given)
        dit_torch.enable(model, cfg_parallel=True, timeout_seconds=20)
        compiled = torch.compile(model, fullgraph=fullgraph, backend="aot_eager")
        for branch in ("cond", "uncond", "cond", "uncond", "cond", "cond", "cond"):
            with model.cache_context(branch):
                last = _call(compiled, **given)
        told.append(torch.allclose(last, one, rtol=0, atol=1e-5))
        for branch in ("cond", "uncond", "cond"):
            with model.cache_context(branch):
                late = _call(model, **given)
        dit_torch.disable(model)
        told.append(torch.allclose(late, one, rtol=0, atol=1e-5))  # a result that was awaited then
    return told


@pytest.mark.parametrize("fullgraph", [False, True])
def test_compiled_models_and_results_that_are_read_late(fullgraph: bool) -> None:
    assert ranks.run(2, _compiled, fullgraph, timeout=200) == [[True] * 2] * 2


def _compiled_batches() -> dict[str, float]:
    away = {}
    for name in ("flux", "sd3", "wan"):
        make, make_inputs = tiny.MODELS[name]
        model, given = make(3), make_inputs(batch=2)
        torch._dynamo.reset()
        with torch.no_grad():
            one = _call(model, **given)
            dit_torch.enable(model, cfg_parallel=True)
            compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
            away[name] = float((_call(compiled, **given) - one).abs().max())
            dit_torch.disable(model)
    return away


def test_models_that_are_compiled_whole_compute_half_of_a_batch() -> None:
    for away in ranks.run(2, _compiled_batches, timeout=200):
        assert max(away.values()) < 1e-5, away


def _anew() -> tuple[str, bool]:
    """The last rank fails; its half waits for it, and the other half for both."""
    model, given = tiny.sd3(4), tiny.sd3_inputs(batch=2)
    fails = False

    def fail(*_: Any) -> None:
        if fails:
            raise MemoryError("none is left on this rank")

    model.transformer_blocks[1].register_forward_pre_hook(fail)
    with torch.no_grad():
        one = _call(model, **given)
        dit_torch.enable(model, cfg_parallel=True, timeout_seconds=3)
        _call(model, **given)
        fails = torch.distributed.get_rank() == 3
        with pytest.raises((MemoryError, RuntimeError)) as told:
            _call(model, **given)
        fails = False
        dit_torch.disable(model)
        dit_torch.enable(model, cfg_parallel=True, timeout_seconds=3)
        every = _call(model, **given)
        dit_torch.disable(model)
    return str(told.value), torch.allclose(every, one, rtol=0, atol=1e-5)


def test_halves_begin_anew_after_a_rank_failed() -> None:
    told = ranks.run(4, _anew, timeout=60)
    assert [again for _, again in told] == [True] * 4
    for words, _ in told[:3]:
        assert "rank 3 failed in its forward pass (MemoryError" in words


def _guided_by_plan(names: list[str]) -> dict[str, tuple[float, int, int]]:
    """Of each model: how far from one rank's a guided image is, and calls of this rank, and of one alone."""
    told = {}
    for name in names:
        model, inputs = TINY[name].make(), TINY[name].inputs
        calls: list[None] = []
        model.register_forward_pre_hook(lambda *_, calls=calls: calls.append(None))
        own: list[None] = []
        with torch.no_grad():
            one, x, alone = _of_plan(model, inputs(1)), inputs(2), len(calls)
            batch = _call(model, **x)
            dit_torch.enable(model, cfg_parallel=True)
            _deepest(model).register_forward_pre_hook(lambda *_, own=own: own.append(None))
            away = float((_of_plan(model, inputs(1)) - one).abs().max() / one.abs().max())
            computed = len(own)
            at_once = float((_call(model, **x) - batch).abs().max() / batch.abs().max())
            dit_torch.disable(model)
        told[name] = (max(away, at_once), computed, alone)
    return told


def _deepest(model: nn.Module) -> nn.Module:
    """A module that runs once in each pass that is computed."""
    return next(module for name, module in model.named_modules() if name.endswith("norm_out"))


def _of_plan(model: nn.Module, given: dict[str, Any]) -> torch.Tensor:
    """Two calls a step; of the second branch another text."""
    x = given["hidden_states"]
    text = given["encoder_hidden_states"]
    for _ in range(STEPS):
        with model.cache_context("cond"):
            v = _call(model, **(given | {"hidden_states": x}))
        with model.cache_context("uncond"):
            other = _call(model, **(given | {"hidden_states": x, "encoder_hidden_states": text * 0.5}))
        x = x + 0.1 * (other + 2.0 * (v - other))
    return x


@pytest.mark.parametrize("size", [2, 4])
def test_models_under_a_plan_compute_branches_apart(size: int) -> None:
    names = ["CogVideoXTransformer3DModel", "CogView4Transformer2DModel", "ChromaTransformer2DModel"]
    for told in ranks.run(size, _guided_by_plan, [name for name in names if name in installed()]):
        for name, (away, computed, alone) in told.items():
            assert away < 1e-5, (name, away)
            # The first step shows that there are two calls: all compute both.
            assert computed == STEPS + 1 < alone, (name, computed, alone)
