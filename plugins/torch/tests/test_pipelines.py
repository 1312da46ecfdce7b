"""Pipelines of diffusers, from embeddings to latents, with a transformer on several ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import diffusers
import numpy as np
import pytest
import torch

import dit_torch
import ranks
import tiny

STEPS = 3


def _wan() -> tuple[Any, dict[str, Any]]:
    """Guidance in two calls."""
    pipeline = diffusers.WanPipeline(
        tokenizer=None,
        text_encoder=None,
        vae=None,
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0),
        transformer=tiny.wan(3),
    )
    return pipeline, {
        "prompt_embeds": tiny.noise(1, 7, 24, seed=1),
        "negative_prompt_embeds": tiny.noise(1, 7, 24, seed=2),
        "height": 32,
        "width": 48,
        "num_frames": 9,
        "latents": tiny.noise(1, 4, 3, 4, 6, seed=3),
        "guidance_scale": 4.0,
    }


def _qwenimage() -> tuple[Any, dict[str, Any]]:
    """Guidance in two calls, with texts of different length."""
    pipeline = diffusers.QwenImagePipeline(
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True),
        vae=None,
        text_encoder=None,
        tokenizer=None,
        transformer=tiny.qwenimage(3),
    )
    return pipeline, {
        "prompt_embeds": tiny.noise(1, 7, 24, seed=1),
        "prompt_embeds_mask": torch.ones(1, 7, dtype=torch.int64),
        "negative_prompt_embeds": tiny.noise(1, 3, 24, seed=2),
        "negative_prompt_embeds_mask": torch.ones(1, 3, dtype=torch.int64),
        "height": 64,
        "width": 80,
        "latents": tiny.noise(1, 20, 8, seed=3),
        "true_cfg_scale": 4.0,
    }


def _sd3() -> tuple[Any, dict[str, Any]]:
    """Guidance in one call, with a batch of twice the size."""
    nothing = dict.fromkeys(
        (
            "vae",
            "text_encoder",
            "tokenizer",
            "text_encoder_2",
            "tokenizer_2",
            "text_encoder_3",
            "tokenizer_3",
        )
    )
    pipeline = diffusers.StableDiffusion3Pipeline(
        transformer=tiny.sd35(3), scheduler=diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0), **nothing
    )
    return pipeline, {
        "prompt_embeds": tiny.noise(1, 7, 24, seed=1),
        "negative_prompt_embeds": tiny.noise(1, 7, 24, seed=2),
        "pooled_prompt_embeds": tiny.noise(1, 12, seed=4),
        "negative_pooled_prompt_embeds": tiny.noise(1, 12, seed=5),
        "height": 64,
        "width": 80,
        "latents": tiny.noise(1, 4, 8, 10, seed=3),
        "guidance_scale": 4.0,
    }


PIPELINES: dict[str, Callable[[], tuple[Any, dict[str, Any]]]] = {
    "qwenimage": _qwenimage,
    "sd3": _sd3,
    "wan": _wan,
}


def _latents(pipeline: Any, given: dict[str, Any]) -> np.ndarray:
    given = given | {"latents": given["latents"].clone()}
    output = pipeline(**given, num_inference_steps=STEPS, output_type="latent", return_dict=False)[0]
    return output.numpy()


def _run(name: str) -> tuple[np.ndarray, list[np.ndarray]]:
    pipeline, given = PIPELINES[name]()
    pipeline.set_progress_bar_config(disable=True)
    one = _latents(pipeline, given)
    every = []
    for options in ({}, {"cfg_parallel": True}, {"parallel": "auto"}):
        dit_torch.enable(pipeline.transformer, **options)
        every += [_latents(pipeline, given), _latents(pipeline, given)]
        dit_torch.disable(pipeline.transformer)
    return one, every


@pytest.fixture(autouse=True)
def _importable() -> None:
    """Diffusers imports what its pipelines need when they are first asked for."""
    try:
        diffusers.WanPipeline  # noqa: B018
    except RuntimeError as error:
        if isinstance(error.__cause__, ModuleNotFoundError):
            pytest.skip(f"pipelines of diffusers {diffusers.__version__}: {error.__cause__}")
        raise


@pytest.mark.parametrize("name", sorted(PIPELINES))
def test_latents_are_those_of_one_rank(name: str) -> None:
    told = ranks.run(4, _run, name)
    for one, every in told:
        for number, found in enumerate(every):
            np.testing.assert_allclose(found, one, rtol=0, atol=1e-4)
            np.testing.assert_array_equal(found, told[0][1][number])  # on all ranks alike
