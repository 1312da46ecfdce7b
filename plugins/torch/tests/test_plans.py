"""Models under diffusers' own plan: what the plan leaves out, or was written for the published model only."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

import dit_torch
import ranks
import tiny
import tiny_models


def _one_and_all(make: Callable[[], nn.Module], given: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    model = make()
    with torch.no_grad():
        one = model(**given, return_dict=False)[0].numpy()
        dit_torch.enable(model, timeout_seconds=20)
        every = model(**given, return_dict=False)[0].numpy()
        dit_torch.disable(model)
    return one, every


def _expect_equal(size: int, make: Callable[[], nn.Module], given: dict[str, Any]) -> None:
    for one, every in ranks.run(size, _one_and_all, make, given):
        np.testing.assert_allclose(every, one, rtol=0, atol=2e-5)


def _ltx_inputs(frames: int, height: int, width: int, text: int = 7) -> dict[str, Any]:
    tokens = frames * height * width
    return {
        "hidden_states": tiny.noise(2, tokens, 8, seed=1),
        "encoder_hidden_states": tiny.noise(2, text, 24, seed=2),
        "encoder_attention_mask": torch.ones(2, text),
        "timestep": torch.full((2,), 600.0),
        "num_frames": frames,
        "height": height,
        "width": width,
    }


def _by_token(given: dict[str, Any], free: int) -> dict[str, Any]:
    """A timestep for each token, 0 for those that are given, as image-to-video has them."""
    tokens = given["hidden_states"].shape[1]
    return given | {"timestep": torch.where(torch.arange(tokens) < free, 0.0, 600.0).expand(2, -1)}


@pytest.mark.parametrize("size", [2, 3])
def test_ltx_takes_a_timestep_for_each_token(size: int) -> None:
    _expect_equal(size, lambda: tiny.ltx(4), _by_token(_ltx_inputs(2, 3, 4), free=12))


def test_one_timestep_of_two_dimensions_is_for_all_tokens() -> None:
    one = {"timestep": torch.full((2, 1), 600.0)}
    _expect_equal(2, lambda: tiny.ltx(4), _ltx_inputs(2, 3, 4) | one)
    _expect_equal(2, lambda: tiny.wan(4), tiny.wan_inputs(batch=2) | one)


# Parts of 45 image tokens and 44 or 46 text tokens have the same size on some rank; of one token most ranks
# have none.
@pytest.mark.parametrize(
    ("size", "shape", "text"),
    [(2, (1, 5, 9), 44), (2, (1, 5, 9), 46), (2, (1, 1, 1), 7), (3, (1, 1, 1), 1), (2, (1, 1, 3), 2)],
)
def test_ltx_takes_any_number_of_tokens(size: int, shape: tuple[int, int, int], text: int) -> None:
    _expect_equal(size, lambda: tiny.ltx(4), _ltx_inputs(*shape, text=text))


def _chronoedit() -> nn.Module:
    diffusers = pytest.importorskip("diffusers")
    if not hasattr(diffusers, "ChronoEditTransformer3DModel"):
        pytest.skip("this diffusers has no ChronoEdit")
    return tiny.randomise(
        diffusers.ChronoEditTransformer3DModel(
            num_attention_heads=3,
            attention_head_dim=16,
            in_channels=4,
            out_channels=4,
            text_dim=24,
            freq_dim=16,
            ffn_dim=32,
            num_layers=2,
            rope_max_seq_len=16,
        )
    )


def test_chronoedit_takes_a_timestep_for_each_token() -> None:
    _chronoedit()
    _expect_equal(2, _chronoedit, tiny.wan_5b_inputs(batch=2))


def _helios(layers: int, **config: Any) -> nn.Module:
    diffusers = pytest.importorskip("diffusers")
    if not hasattr(diffusers, "HeliosTransformer3DModel"):
        pytest.skip("this diffusers has no Helios")
    return tiny.randomise(
        diffusers.HeliosTransformer3DModel(
            num_attention_heads=3,
            attention_head_dim=16,
            in_channels=4,
            out_channels=4,
            text_dim=24,
            freq_dim=16,
            ffn_dim=32,
            num_layers=layers,
            rope_dim=(4, 6, 6),
            **config,
        )
    )


def _helios_inputs() -> dict[str, Any]:
    """Two frames, and a history of two more."""
    return {
        "hidden_states": tiny.noise(1, 4, 2, 6, 10, seed=1),
        "timestep": torch.full((1,), 600),
        "encoder_hidden_states": tiny.noise(1, 7, 24, seed=2),
        "indices_hidden_states": torch.arange(2, 4)[None],
        "indices_latents_history_short": torch.arange(2)[None],
        "latents_history_short": tiny.noise(1, 4, 2, 6, 10, seed=3),
    }


@pytest.mark.parametrize("layers", [2, 41])
def test_helios_may_have_fewer_or_more_layers_than_its_plan_names(layers: int) -> None:
    _helios(1)
    _expect_equal(2, lambda: _helios(layers), _helios_inputs())


@pytest.mark.parametrize("mode", ["per_head", "scalar"])
def test_helios_amplifies_the_history_of_each_rank(mode: str) -> None:
    _helios(1)
    _expect_equal(3, lambda: _helios(2, is_amplify_history=True, history_scale_mode=mode), _helios_inputs())


def _lines() -> int:
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("dit_torch").addHandler(handler)
    dit_torch.disable(dit_torch.enable(tiny.ltx(2)))
    return sum("no processors of ours" in line for line in lines)


def test_one_rank_says_that_a_model_has_no_processors_of_ours() -> None:
    assert sorted(ranks.run(3, _lines)) == [0, 0, 1]


def _mochi_by_blocks(fullgraph: bool) -> tuple[list[float], list[int]]:
    """Of texts whose lengths come from data; graphs without us, and with us."""
    entry = tiny_models.TINY["MochiTransformer3DModel"]
    given = entry.inputs(1)
    texts = [(torch.arange(given["encoder_attention_mask"].shape[1]) < valid)[None] for valid in (5, 3, 4)]
    outputs: list[torch.Tensor] = []
    graphs = []
    for together in (False, True):
        model: Any = entry.make()
        model._repeated_blocks = ["MochiTransformerBlock"]
        with torch.no_grad():
            if together:
                dit_torch.enable(model, timeout_seconds=60)
            model.compile_repeated_blocks(fullgraph=fullgraph, backend="eager")
            counters.clear()
            for mask in texts:
                now = given | {"encoder_attention_mask": mask}
                outputs.append(model(**now, return_dict=False)[0].clone())
            graphs.append(counters["stats"]["unique_graphs"])
        torch._dynamo.reset()
    dit_torch.disable(model)
    pairs = zip(outputs[: len(texts)], outputs[len(texts) :], strict=True)
    return [float((a - b).abs().max()) for a, b in pairs], graphs


@pytest.mark.parametrize("fullgraph", [True, False])
def test_a_text_whose_length_comes_from_data(fullgraph: bool) -> None:
    for away, (plain, ours) in ranks.run(2, _mochi_by_blocks, fullgraph):
        assert max(away) < 2e-5
        assert 0 < ours <= plain + 1
