"""Caches of diffusers and of cache-dit: pictures as on one rank, or a refusal in words."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dit_torch
import ranks
import tiny

diffusers = pytest.importorskip("diffusers", minversion="0.38")  # caches that are newer than 0.36
hooks = diffusers.hooks

STEPS = 6
GUIDED = ("cond", "uncond")
_now = [1000.0]  # timestep of the step that is computed


def _image(model: Any, name: str) -> torch.Tensor:
    """A sampling loop with guidance, as pipelines have; a sum of all outputs as well, so that all count."""
    make_inputs = tiny.MODELS[name][1]
    inputs = [make_inputs(seed=seed) for seed in (0, 5)]
    x = inputs[0]["hidden_states"]
    outputs = []
    with torch.no_grad():
        for step in range(STEPS):
            _now[0] = 1000.0 * (1 - step / STEPS)
            given = {"hidden_states": x, "timestep": inputs[0]["timestep"] * (1 - step / STEPS)}
            for branch, prompt in zip(GUIDED, inputs, strict=True):
                with model.cache_context(branch):
                    outputs.append(model(**(prompt | given), return_dict=False)[0])
            x = 0.9 * x + 0.02 * (outputs[-1] + 3 * (outputs[-2] - outputs[-1])).mean()
    model._reset_stateful_cache()
    return torch.stack(outputs)


def _pab() -> Any:
    return diffusers.PyramidAttentionBroadcastConfig(
        spatial_attention_block_skip_range=2,
        spatial_attention_timestep_skip_range=(-1, 1001),
        current_timestep_callback=lambda: _now[0],
        spatial_attention_block_identifiers=["transformer_blocks", "blocks"],
    )


def _faster() -> Any:
    return diffusers.FasterCacheConfig(
        spatial_attention_block_skip_range=2,
        spatial_attention_timestep_skip_range=(-1, 900),
        unconditional_batch_timestep_skip_range=(-1, 1001),
        current_timestep_callback=lambda: _now[0],
        attention_weight_callback=lambda _: 0.3,
        is_guidance_distilled=True,
        spatial_attention_block_identifiers=["transformer_blocks", "blocks"],
    )


def _taylor(lite: bool = False) -> Any:
    return diffusers.TaylorSeerCacheConfig(
        cache_interval=2,
        disable_cache_before_step=2,
        max_order=1,
        taylor_factors_dtype=torch.float32,
        use_lite_mode=lite,
    )


def _mag() -> Any:
    return hooks.MagCacheConfig(
        threshold=1.0, max_skip_steps=2, num_inference_steps=STEPS, mag_ratios=torch.full((STEPS,), 0.99)
    )


CACHES: dict[str, Callable[[], Any]] = {
    "pyramid": _pab,
    "faster": _faster,
    "taylor": _taylor,
    "taylor lite": lambda: _taylor(lite=True),
    "mag": _mag,
}


def _cached(options: dict[str, Any]) -> dict[str, bool]:
    """Enabled before the cache and after it; with a cache that has an effect."""
    told = {}
    for name, caches in (
        ("flux", CACHES),
        ("flux2", ("pyramid", "mag")),
        ("wan", ("pyramid", "taylor lite")),
    ):
        plain = _image(tiny.MODELS[name][0](3), name)
        for cache in caches:
            if "cfg_parallel" in options and cache in ("pyramid", "faster"):
                continue
            model = tiny.MODELS[name][0](3)
            model.enable_cache(CACHES[cache]())
            one = _image(model, name)
            told[f"{name} {cache}: has an effect"] = not torch.allclose(one, plain, atol=0.01)
            dit_torch.enable(model, **options)
            told[f"{name} {cache}: there before"] = torch.allclose(
                _image(model, name), one, rtol=0, atol=1e-4
            )
            model.disable_cache()
            told[f"{name} {cache}: gone"] = torch.allclose(_image(model, name), plain, rtol=0, atol=1e-4)
            model.enable_cache(CACHES[cache]())
            told[f"{name} {cache}: after"] = torch.allclose(_image(model, name), one, rtol=0, atol=1e-4)
            dit_torch.disable(model)
            told[f"{name} {cache}: disabled"] = torch.equal(_image(model, name), one)
    return told


@pytest.mark.parametrize("options", [{}, {"cfg_parallel": True}, {"parallel": "auto"}])
def test_caches_that_go_by_the_step(options: dict[str, Any]) -> None:
    for told in ranks.run(2, _cached, options):
        assert all(told.values()), [what for what, good in told.items() if not good]


REFUSED: dict[str, tuple[Callable[[Any], None], bool, str]] = {
    "first block": (
        lambda model: model.enable_cache(diffusers.FirstBlockCacheConfig(threshold=0.2)),
        False,
        "FirstBlockCacheConfig, by which each rank leaves out other blocks",
    ),
    "first block, as a function": (
        lambda model: hooks.apply_first_block_cache(model, diffusers.FirstBlockCacheConfig(threshold=0.2)),
        False,
        "FirstBlockCacheConfig, by which each rank leaves out other blocks",
    ),
    "mag, measured": (
        lambda model: model.enable_cache(hooks.MagCacheConfig(num_inference_steps=STEPS, calibrate=True)),
        False,
        "calibrate = True, by which each rank would measure its own tokens",
    ),
    "pyramid": (lambda model: model.enable_cache(_pab()), True, "counts the calls of both guidance"),
    "faster": (lambda model: model.enable_cache(_faster()), True, "counts the calls of both guidance"),
}


def _refused() -> dict[str, str]:
    """Before enable(), and after it."""
    told = {}
    for name, (put, cfg_parallel, _) in REFUSED.items():
        early, late = tiny.flux(3), tiny.flux(3)
        put(early)
        with pytest.raises(ValueError) as error:
            dit_torch.enable(early, cfg_parallel=cfg_parallel)
        told[name] = str(error.value)
        dit_torch.enable(late, cfg_parallel=cfg_parallel)
        put(late)
        with pytest.raises(ValueError) as error, torch.no_grad():
            late(**tiny.flux_inputs())
        assert str(error.value) == told[name]
        dit_torch.disable(late)
    return told


def test_caches_that_go_by_the_tokens_are_refused() -> None:
    for told in ranks.run(2, _refused):
        for name, words in told.items():
            assert REFUSED[name][2] in words


def _flux_pipeline() -> Any:
    nothing = dict.fromkeys(("vae", "text_encoder", "tokenizer", "text_encoder_2", "tokenizer_2"))
    pipeline = diffusers.FluxPipeline(
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(), transformer=tiny.flux(3), **nothing
    )
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def _latents(pipeline: Any) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return pipeline(
        prompt_embeds=torch.randn(1, 7, 24, generator=generator),
        pooled_prompt_embeds=torch.randn(1, 12, generator=generator),
        latents=torch.randn(1, 20, 8, generator=generator),
        height=64,
        width=80,
        num_inference_steps=8,
        output_type="latent",
    ).images


def _cache_dit(after: bool) -> dict[str, Any]:
    """It averages what its decisions go by over all ranks, so these leave out the same."""
    import cache_dit

    def put(pipeline: Any) -> None:
        config = cache_dit.DBCacheConfig(Fn_compute_blocks=1, max_warmup_steps=2, residual_diff_threshold=0.9)
        cache_dit.enable_cache(pipeline, cache_config=config)

    pipeline = _flux_pipeline()
    plain = _latents(pipeline)
    if not after:
        put(pipeline)
    dit_torch.enable(pipeline.transformer)
    if after:
        put(pipeline)
    every = _latents(pipeline)
    again = _latents(pipeline)
    skipped = len(cache_dit.summary(pipeline, logging=False)[0].cached_steps)
    told = {"every": every.numpy(), "again": torch.equal(every, again), "skipped": skipped}
    told["effect"] = float((every - plain).abs().max())
    cache_dit.disable_cache(pipeline)
    told["off"] = torch.allclose(_latents(pipeline), plain, rtol=0, atol=1e-4)
    dit_torch.disable(pipeline.transformer)
    told["disabled"] = torch.allclose(_latents(pipeline), plain, rtol=0, atol=1e-4)
    put(pipeline)
    try:
        dit_torch.enable(pipeline.transformer, cfg_parallel=True)
    except ValueError as error:
        told["words"] = str(error)
    cache_dit.disable_cache(pipeline)
    return told


@pytest.mark.parametrize("after", [False, True])
def test_cache_dit(after: bool) -> None:
    pytest.importorskip("cache_dit")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = ranks.run(2, _cache_dit, after)
    for of_rank in told:
        assert (of_rank["every"] == told[0]["every"]).all()
        assert of_rank["again"] and of_rank["off"] and of_rank["disabled"]
        assert of_rank["skipped"] > 0 and of_rank["effect"] > 0.001
        assert "expected group = None and cfg_parallel = False" in of_rank["words"]
