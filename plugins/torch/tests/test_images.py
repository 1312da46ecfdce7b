"""Whole calls of diffusers' pipelines, from embeddings to pixels, with what they are used with: pictures to
start from, masks, controls, ControlNets, guidance, batches, callbacks, two experts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import diffusers
import numpy as np
import pytest
import torch
from torch import Tensor

import dit_torch
import ranks
import tiny

Case = tuple[Any, dict[str, Any]]  # a pipeline, and what it is called with

_FLUX = dict.fromkeys(("text_encoder", "tokenizer", "text_encoder_2", "tokenizer_2"))
_SD3 = dict.fromkeys((*_FLUX, "text_encoder_3", "tokenizer_3"))
_SIZE = {"height": 8, "width": 10}


def _picture(seed: int = 5, height: int = 8, width: int = 10) -> Tensor:
    return torch.rand(1, 3, height, width, generator=torch.Generator().manual_seed(seed))


def _mask() -> Tensor:
    return (_picture(6)[:, :1] > 0.5).float()


def _vae(channels: int) -> Any:
    torch.manual_seed(3)
    return diffusers.AutoencoderKL(
        block_out_channels=(8,),
        norm_num_groups=4,
        latent_channels=channels,
        use_quant_conv=False,
        use_post_quant_conv=False,
        shift_factor=0.1,
        scaling_factor=0.5,
    ).eval()


def _video_vae() -> Any:
    torch.manual_seed(5)
    return diffusers.AutoencoderKLWan(
        base_dim=8,
        z_dim=4,
        dim_mult=[1, 1, 1, 1],
        num_res_blocks=1,
        latents_mean=[0.0] * 4,
        latents_std=[1.0] * 4,
    ).eval()


def _prompts(batch: int = 1) -> dict[str, Any]:
    return {
        "prompt_embeds": tiny.noise(batch, 7, 24, seed=1),
        "pooled_prompt_embeds": tiny.noise(batch, 12, seed=2),
        "negative_prompt_embeds": tiny.noise(batch, 7, 24, seed=11),
        "negative_pooled_prompt_embeds": tiny.noise(batch, 12, seed=12),
    }


def _flux(pipeline: Any, transformer: Any = None, **more: Any) -> Any:
    return pipeline(
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(),
        vae=_vae(2),
        transformer=transformer or tiny.flux(3),
        **_FLUX,
        **more,
    )


def _flux_guided() -> Case:
    """Two prompts, two pictures of each are a batch of two; guidance in two calls."""
    return _flux(diffusers.FluxPipeline), _prompts(2) | {"true_cfg_scale": 3.0} | _SIZE


def _flux_inpaint() -> Case:
    given = {"image": _picture(), "mask_image": _mask(), "strength": 0.9}
    return _flux(diffusers.FluxInpaintPipeline), _prompts() | given | _SIZE


def _flux_control() -> Case:
    """The control's channels beside the latents'."""
    transformer = tiny.flux(3, in_channels=16, out_channels=8)
    given = _prompts() | {"image": _picture(), "control_image": _picture(8), "strength": 0.9}
    pipeline = _flux(diffusers.FluxControlImg2ImgPipeline, transformer)
    return pipeline, {name: x for name, x in given.items() if "negative" not in name} | _SIZE


def _flux_controlnets() -> Case:
    """Residuals of two ControlNets for both kinds of blocks."""
    nets = [tiny.flux_controlnet(3, num_layers=1, num_single_layers=1, num_mode=4) for _ in range(2)]
    given = {
        "control_image": [_picture(), _picture(8)],
        "control_mode": [0, 1],
        "controlnet_conditioning_scale": [0.8, 0.4],
    }
    given |= {name: x for name, x in _prompts().items() if "negative" not in name}
    return _flux(diffusers.FluxControlNetPipeline, controlnet=nets), given | _SIZE


def _flux2_edit() -> Case:
    """With the tokens of a picture, which are cut off the result."""
    image = pytest.importorskip("PIL.Image")
    torch.manual_seed(6)
    vae = diffusers.AutoencoderKLFlux2(
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        block_out_channels=(8, 8),
        layers_per_block=1,
        norm_num_groups=4,
        latent_channels=2,
    ).eval()
    pipeline = diffusers.Flux2Pipeline(
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True),
        vae=vae,
        text_encoder=None,
        tokenizer=None,
        transformer=tiny.flux2(3),
    )
    pixels = (_picture(5, 64, 64)[0].permute(1, 2, 0) * 255).byte().numpy()
    given = {"prompt_embeds": tiny.noise(1, 7, 24, seed=1), "image": [image.fromarray(pixels)]}
    return pipeline, given | {"height": 32, "width": 40}


def _sd3_controlnet() -> Case:
    net = diffusers.SD3ControlNetModel(
        sample_size=10,
        in_channels=4,
        out_channels=4,
        num_layers=1,
        attention_head_dim=16,
        num_attention_heads=3,
        joint_attention_dim=24,
        caption_projection_dim=48,
        pooled_projection_dim=12,
        pos_embed_max_size=8,
    )
    pipeline = diffusers.StableDiffusion3ControlNetPipeline(
        transformer=tiny.sd35(3),
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=_vae(4),
        controlnet=tiny.randomise(net),
        **_SD3,
    )
    given = {"control_image": _picture(5, 8, 16), "guidance_scale": 4.0, "height": 8, "width": 16}
    return pipeline, _prompts() | given


def _sd3_skipping_layers() -> Case:
    """A third call in each step, without one of the blocks."""
    pipeline = diffusers.StableDiffusion3Img2ImgPipeline(
        transformer=tiny.sd35(3),
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=_vae(4),
        **_SD3,
    )
    pipeline = diffusers.StableDiffusion3Pipeline(**pipeline.components)
    skipped = {"skip_guidance_layers": [1], "skip_layer_guidance_start": 0.0, "skip_layer_guidance_stop": 0.9}
    return pipeline, _prompts() | skipped | {"guidance_scale": 4.0} | _SIZE


def _wan_experts() -> Case:
    """Two transformers, one for the noisy steps and one for the others; guidance in two calls."""
    pipeline = diffusers.WanPipeline(
        tokenizer=None,
        text_encoder=None,
        vae=_video_vae(),
        scheduler=diffusers.UniPCMultistepScheduler(
            prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0
        ),
        transformer=tiny.wan(3),
        transformer_2=tiny.wan(5),
        boundary_ratio=0.8,
    )
    given = {
        "prompt_embeds": tiny.noise(1, 7, 24, seed=1),
        "negative_prompt_embeds": tiny.noise(1, 7, 24, seed=2),
    }
    size = {"height": 32, "width": 48, "num_frames": 5}
    return pipeline, given | size | {"guidance_scale": 4.0, "guidance_scale_2": 3.0}


CASES: dict[str, Callable[[], Case]] = {
    "flux, guided": _flux_guided,
    "flux, inpaint": _flux_inpaint,
    "flux, control": _flux_control,
    "flux, ControlNets": _flux_controlnets,
    "flux2, edit": _flux2_edit,
    "sd3, ControlNet": _sd3_controlnet,
    "sd3, skipping layers": _sd3_skipping_layers,
    "wan, experts": _wan_experts,
}


def _pixels(pipeline: Any, given: dict[str, Any], steps: int) -> np.ndarray:
    torch.manual_seed(0)  # pipelines sample the latents of controls without their generator
    told: list[float] = []

    def note(pipeline: Any, step: int, timestep: Any, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        told.append(float(tensors["latents"].sum()))  # read in each step
        return {"latents": 0.99 * tensors["latents"]}

    output = pipeline(
        **{name: x.clone() if isinstance(x, Tensor) else x for name, x in given.items()},
        num_inference_steps=steps,
        generator=torch.Generator().manual_seed(1),
        callback_on_step_end=note,
        output_type="pt",
        return_dict=False,
    )[0]
    assert told
    return output.numpy()


def _run(names: list[str]) -> dict[str, list[np.ndarray]]:
    told = {}
    for name in names:
        pipeline, given = CASES[name]()
        pipeline.set_progress_bar_config(disable=True)
        models = [pipeline.transformer, *filter(None, [getattr(pipeline, "transformer_2", None)])]
        images = [_pixels(pipeline, given, steps) for steps in (3, 2)]
        for cfg_parallel in (False, True):
            for model in models:
                dit_torch.enable(model, cfg_parallel=cfg_parallel)
            images += [_pixels(pipeline, given, steps) for steps in (3, 2)]
            for model in models:
                dit_torch.disable(model)
        told[name] = images
    return told


@pytest.mark.parametrize("part", [0, 1])
def test_pictures_are_those_of_one_rank(part: int) -> None:
    if not hasattr(diffusers, "AutoencoderKLFlux2"):
        pytest.skip(f"diffusers {diffusers.__version__} has no FLUX.2")
    for told in ranks.run(2, _run, list(CASES)[part::2]):
        for name, (three, two, *every) in told.items():
            assert np.isfinite(three).all() and three.std() > 0.01, name
            for found, one in zip(every, (three, two) * 2, strict=True):
                np.testing.assert_allclose(found, one, rtol=0, atol=1e-4, err_msg=name)


def _own_noise() -> list[str]:
    """A program that gives its pipeline no seed: each rank would compute a part of another picture."""
    pipeline, given = CASES["flux, guided"]()
    pipeline.set_progress_bar_config(disable=True)
    dit_torch.enable(pipeline.transformer)
    told = []
    torch.manual_seed(torch.distributed.get_rank())
    for _ in range(2):
        with pytest.raises(ValueError) as error:
            pipeline(**given, num_inference_steps=2, output_type="latent")
        told.append(str(error.value))
    pipeline(**given, num_inference_steps=2, generator=torch.Generator().manual_seed(1), output_type="latent")
    dit_torch.disable(pipeline.transformer)
    return told


def test_ranks_with_noise_of_their_own_are_told() -> None:
    for told in ranks.run(2, _own_noise):
        for words in told:
            assert words.startswith("hidden_states differs between ranks 0 and 1")
