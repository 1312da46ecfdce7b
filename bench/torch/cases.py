"""The models that are raced, at full size: diffusers' classes, random weights made on the GPU."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from guidance import BRANCHES
from torch import Tensor, nn

Inputs = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Case:
    """A model and the shape of one forward pass, or of two: a guided step."""

    name: str
    transformer: str  # class in diffusers
    config: dict[str, Any]
    inputs: Callable[[torch.device], Inputs]
    repeated: tuple[str, ...]  # classes of blocks that are compiled
    note: str
    negative: Callable[[torch.device], Inputs] | None = None  # of the second pass


def _random(device: torch.device, *shape: int) -> Tensor:
    return torch.randn(shape, device=device, dtype=torch.bfloat16)


def _grid(rows: int, columns: int, coordinates: int, device: torch.device) -> Tensor:
    """Positions [rows * columns, coordinates] of image tokens: row and column in coordinates 1 and 2."""
    ids = torch.zeros(rows, columns, coordinates, device=device)
    ids[..., 1] = torch.arange(rows, device=device)[:, None]
    ids[..., 2] = torch.arange(columns, device=device)[None, :]
    return ids.flatten(0, 1)


def _flux(side: int, text: int = 512) -> Callable[[torch.device], Inputs]:
    def make(device: torch.device) -> Inputs:
        return {
            "hidden_states": _random(device, 1, side * side, 64),
            "encoder_hidden_states": _random(device, 1, text, 4096),
            "pooled_projections": _random(device, 1, 768),
            "timestep": torch.tensor([0.6], device=device, dtype=torch.bfloat16),
            "guidance": torch.tensor([3.5], device=device),
            "img_ids": _grid(side, side, 3, device),
            "txt_ids": torch.zeros(text, 3, device=device),
        }

    return make


def _flux2(side: int, text: int = 512, width: int = 15360) -> Callable[[torch.device], Inputs]:
    def make(device: torch.device) -> Inputs:
        text_ids = torch.zeros(text, 4, device=device)
        text_ids[:, 3] = torch.arange(text, device=device)
        return {
            "hidden_states": _random(device, 1, side * side, 128),
            "encoder_hidden_states": _random(device, 1, text, width),
            "timestep": torch.tensor([0.6], device=device, dtype=torch.bfloat16),
            "guidance": torch.tensor([4.0], device=device),
            "img_ids": _grid(side, side, 4, device).unsqueeze(0),
            "txt_ids": text_ids.unsqueeze(0),
        }

    return make


def _qwen(side: int, text: int = 128) -> Callable[[torch.device], Inputs]:
    def make(device: torch.device) -> Inputs:
        return {
            "hidden_states": _random(device, 1, side * side, 64),
            "encoder_hidden_states": _random(device, 1, text, 3584),
            "timestep": torch.tensor([0.6], device=device, dtype=torch.bfloat16),
            "img_shapes": [[(1, side, side)]],
        }

    return make


def _sd3(latent: int, text: int = 333) -> Callable[[torch.device], Inputs]:
    def make(device: torch.device) -> Inputs:
        return {
            "hidden_states": _random(device, 1, 16, latent, latent),
            "encoder_hidden_states": _random(device, 1, text, 4096),
            "pooled_projections": _random(device, 1, 2048),
            "timestep": torch.tensor([600.0], device=device, dtype=torch.bfloat16),
        }

    return make


def _wan(frames: int, rows: int, columns: int) -> Callable[[torch.device], Inputs]:
    def make(device: torch.device) -> Inputs:
        return {
            "hidden_states": _random(device, 1, 16, frames, rows, columns),
            "encoder_hidden_states": _random(device, 1, 512, 4096),
            "timestep": torch.tensor([600], device=device),
        }

    return make


def _hunyuan15(
    frames: int,
    rows: int,
    columns: int,
    channels: int = 65,
    texts: tuple[tuple[int, int], tuple[int, int]] = ((256, 3584), (64, 1472)),
    image: tuple[int, int] = (729, 1152),
) -> Callable[[torch.device], Inputs]:
    """A clip of two texts, tokens and width of each, and of no image."""

    def make(device: torch.device) -> Inputs:
        first, second = texts
        return {
            "hidden_states": _random(device, 1, channels, frames, rows, columns),
            "timestep": torch.tensor([600.0], device=device, dtype=torch.bfloat16),
            "encoder_hidden_states": _random(device, 1, *first),
            "encoder_attention_mask": torch.ones(1, first[0], dtype=torch.long, device=device),
            "encoder_hidden_states_2": _random(device, 1, *second),
            "encoder_attention_mask_2": torch.ones(1, second[0], dtype=torch.long, device=device),
            "image_embeds": torch.zeros(1, *image, device=device, dtype=torch.bfloat16),
        }

    return make


def _ltx2(
    frames: int, rows: int, columns: int, audio: int, text: int = 1024, width: int = 3840, samples: int = 1
) -> Callable[[torch.device], Inputs]:
    def make(device: torch.device) -> Inputs:
        return {
            "hidden_states": _random(device, samples, frames * rows * columns, 128),
            "audio_hidden_states": _random(device, samples, audio, 128),
            "encoder_hidden_states": _random(device, samples, text, width),
            "audio_encoder_hidden_states": _random(device, samples, text, width),
            "timestep": torch.full((samples,), 600.0, device=device),
            "num_frames": frames,
            "height": rows,
            "width": columns,
            "audio_num_frames": audio,
        }

    return make


_LTX2 = {"rope_type": "split"}  # as in the published weights
_FLUX = {"in_channels": 64, "guidance_embeds": True, "num_layers": 19, "num_single_layers": 38}
_FLUX_BLOCKS = ("FluxTransformerBlock", "FluxSingleTransformerBlock")
_FLUX2 = {"num_layers": 8, "num_single_layers": 48, "num_attention_heads": 48, "joint_attention_dim": 15360}
_SD3 = {
    "num_layers": 38, "num_attention_heads": 38, "attention_head_dim": 64, "joint_attention_dim": 4096,
    "caption_projection_dim": 2432, "pooled_projection_dim": 2048, "pos_embed_max_size": 192,
    "qk_norm": "rms_norm",
}  # fmt: skip
_WAN = {"num_attention_heads": 12, "ffn_dim": 8960, "num_layers": 30}
_WAN_14B = {"num_attention_heads": 40, "ffn_dim": 13824, "num_layers": 40}

CASES: dict[str, Case] = {
    case.name: case
    for case in (
        Case("flux-1024", "FluxTransformer2DModel", _FLUX, _flux(64), _FLUX_BLOCKS,
             "FLUX.1-dev, 1024x1024: 512 + 4096 tokens"),
        Case("flux-2048", "FluxTransformer2DModel", _FLUX, _flux(128), _FLUX_BLOCKS,
             "FLUX.1-dev, 2048x2048: 512 + 16384 tokens"),
        Case("flux2-1024", "Flux2Transformer2DModel", _FLUX2, _flux2(64),
             ("Flux2TransformerBlock", "Flux2SingleTransformerBlock"),
             "FLUX.2-dev, 1024x1024: 512 + 4096 tokens"),
        Case("qwen-1024", "QwenImageTransformer2DModel", {}, _qwen(64), ("QwenImageTransformerBlock",),
             "Qwen-Image, 1024x1024: 128 + 4096 tokens"),
        Case("qwen-1024-guided", "QwenImageTransformer2DModel", {}, _qwen(64), ("QwenImageTransformerBlock",),
             "Qwen-Image, 1024x1024, two passes a step: 128 and 32 + 4096 tokens", _qwen(64, 32)),
        Case("sd35-1024", "SD3Transformer2DModel", _SD3, _sd3(128), ("JointTransformerBlock",),
             "SD3.5-large, 1024x1024: 4096 + 333 tokens, 38 heads"),
        Case("wan-480p", "WanTransformer3DModel", _WAN, _wan(21, 60, 104), ("WanTransformerBlock",),
             "Wan 2.1 1.3B, 832x480, 81 frames: 32760 tokens, 12 heads"),
        Case("wan-14b-480p-guided", "WanTransformer3DModel", _WAN_14B, _wan(21, 60, 104), ("WanTransformerBlock",),
             "Wan 2.1 14B, 832x480, 81 frames, two passes a step: 32760 tokens, 40 heads", _wan(21, 60, 104)),
        Case("wan22-a14b-720p", "WanTransformer3DModel", _WAN_14B, _wan(21, 90, 160), ("WanTransformerBlock",),
             "Wan 2.2 A14B, one of its two experts, 1280x720, 81 frames: 75600 tokens, 40 heads"),
        Case("hunyuan15-480p", "HunyuanVideo15Transformer3DModel", {}, _hunyuan15(31, 30, 53),
             ("HunyuanVideo15TransformerBlock",), "HunyuanVideo 1.5, 848x480, 121 frames: 49290 + 320 tokens, 16 heads"),
        Case("ltx2-720p", "LTX2VideoTransformer3DModel", _LTX2, _ltx2(16, 22, 40, 126), ("LTX2VideoTransformerBlock",),
             "LTX-2, 1280x704, 121 frames: 14080 tokens of video and 126 of audio, 32 heads"),
        Case("ltx2-720p-guided", "LTX2VideoTransformer3DModel", _LTX2, _ltx2(16, 22, 40, 126, samples=2), ("LTX2VideoTransformerBlock",),
             "the same, both branches in a pass"),
    )
}  # fmt: skip

_TINY: dict[str, tuple[dict[str, Any], Callable[[torch.device], Inputs]]] = {
    "FluxTransformer2DModel": (
        {"num_layers": 1, "num_single_layers": 1, "num_attention_heads": 4},
        _flux(4, 8),
    ),
    "Flux2Transformer2DModel": (
        {"num_layers": 1, "num_single_layers": 1, "num_attention_heads": 4, "joint_attention_dim": 64},
        _flux2(4, 8, 64),
    ),
    "QwenImageTransformer2DModel": ({"num_layers": 2, "num_attention_heads": 4}, _qwen(4, 8)),
    "SD3Transformer2DModel": (
        {"num_layers": 2, "num_attention_heads": 4, "caption_projection_dim": 256},
        _sd3(8, 9),
    ),
    "WanTransformer3DModel": ({"num_layers": 2, "num_attention_heads": 4, "ffn_dim": 64}, _wan(2, 8, 8)),
    "HunyuanVideo15Transformer3DModel": (
        {"in_channels": 9, "num_layers": 2, "num_attention_heads": 4, "text_embed_dim": 64, "text_embed_2_dim": 32, "image_embed_dim": 32},
        _hunyuan15(2, 4, 6, 9, ((12, 64), (5, 32)), (4, 32)),
    ),
    "LTX2VideoTransformer3DModel": (
        {
            "num_layers": 2,
            "num_attention_heads": 4,
            "cross_attention_dim": 512,
            "audio_num_attention_heads": 4,
            "audio_cross_attention_dim": 256,
            "caption_channels": 64,
        },
        _ltx2(2, 4, 6, 9, 12, 64),
    ),
}


def shortened(case: Case, layers: int) -> Case:
    """With so many blocks of each kind: what is compiled for it serves the whole model, too."""
    import diffusers

    names = inspect.signature(getattr(diffusers, case.transformer).__init__).parameters
    fewer = {name: layers for name in ("num_layers", "num_single_layers") if name in names}
    return dataclasses.replace(case, config={**case.config, **fewer})


def tiny(case: Case) -> Case:
    """The same case with few layers and tokens, so that the program can be tried without a GPU."""
    config, inputs = _TINY[case.transformer]
    negative = None if case.negative is None else inputs
    return dataclasses.replace(case, config={**case.config, **config}, inputs=inputs, negative=negative)


@contextlib.contextmanager
def _without_parameters() -> Iterator[None]:
    """Modules made inside have parameters without memory; their buffers are real."""
    register = nn.Module.register_parameter

    def on_meta(self: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        if parameter is not None:
            parameter = nn.Parameter(parameter.to("meta"), requires_grad=False)
        register(self, name, parameter)

    nn.Module.register_parameter = on_meta  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        nn.Module.register_parameter = register  # type: ignore[method-assign]


def _fill(name: str, shape: torch.Size, device: torch.device) -> Tensor:
    """Values that keep activations near one: matrices by fan-in, weights of norms around one."""
    value = torch.randn(shape, device=device, dtype=torch.bfloat16)
    if len(shape) >= 2:
        return value.mul_(shape[1:].numel() ** -0.5)
    return value.mul_(0.02).add_(1.0 if name.endswith("weight") else 0.0)


def build(case: Case, device: torch.device, seed: int = 0) -> nn.Module:
    """The model with the same random bf16 weights on every rank."""
    import diffusers

    with _without_parameters():
        model: nn.Module = getattr(diffusers, case.transformer)(**case.config)
    torch.manual_seed(seed)
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            value = _fill(name, parameter.shape, device)
            module.register_parameter(name, nn.Parameter(value, requires_grad=False))
        for name, buffer in list(module.named_buffers(recurse=False)):
            persistent = name not in module._non_persistent_buffers_set
            module.register_buffer(name, buffer.to(device), persistent=persistent)
    return model.eval()


def make_inputs(case: Case, device: torch.device, seed: int = 1) -> Inputs:
    """Of one pass; of the two passes of a guided step by their names."""
    torch.manual_seed(seed)
    first = {**case.inputs(device), "return_dict": False}
    if case.negative is None:
        return first
    # Both of the same latents.
    return dict(zip(BRANCHES, (first, {**first, **_without_latents(case.negative(device))}), strict=True))


def _without_latents(inputs: Inputs) -> Inputs:
    return {name: value for name, value in inputs.items() if name != "hidden_states"}
