"""Qwen-Image: QwenImageTransformer2DModel, of the pictures, the edit and the layered pipelines.

Text and image tokens are split. The text's mask is not: every head sees all keys; nor are positions, of
which there are tables of all tokens. Guidance branches whose texts differ in length are two shapes, and each
has its own exchange.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from diffusers.models.transformers import transformer_qwenimage
from torch import Tensor, nn

from ..entries import Gather, Plan, Split
from ..parallel import Parallel
from ..symbol import may_vary
from .base import Processor
from .family import Family, Removable
from .joint import JointProjections, norms_of

# diffusers 0.36 takes a text mask and attends to masked tokens all the same.
_HEEDS_TEXT_MASK = hasattr(transformer_qwenimage, "compute_text_seq_len_from_mask")


class QwenImageProcessor(Processor):
    """In place of QwenDoubleStreamAttnProcessor2_0. `image_rotary_emb` is what our hook of pos_embed made."""

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        encoder_hidden_states_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        image_rotary_emb: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        if encoder_hidden_states is None:
            raise ValueError("encoder_hidden_states = None: expected the text's hidden states")
        if attention_mask is not None and _HEEDS_TEXT_MASK:
            raise ValueError("attention_mask is given: expected encoder_hidden_states_mask instead")
        if encoder_hidden_states_mask is not None and _HEEDS_TEXT_MASK:
            attention_mask = self.joint_mask(encoder_hidden_states_mask)
        o = self.attention(
            JointProjections(attn, hidden_states, encoder_hidden_states),
            norms_of(attn, True),
            image_rotary_emb,
            attention_mask,
        )
        rows = encoder_hidden_states.shape[1]
        image = attn.to_out[0](o[:, rows:].contiguous())
        if len(attn.to_out) > 1:
            image = attn.to_out[1](image)
        return image, attn.to_add_out(o[:, :rows].contiguous())

    def joint_mask(self, text: Tensor) -> Tensor:
        """Of all tokens, [batch, 1, 1, tokens], from the text's, [batch, text]: image tokens are all seen."""
        image = text.new_ones((text.shape[0], self.parallel.tokens["image"]), dtype=torch.bool)
        return torch.cat([text.bool(), image], dim=1)[:, None, None, :]


def joint_tables(module: nn.Module, args: Any, output: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Forward hook of pos_embed: complex numbers of image and text -> cosine and sine of text and image."""
    image, text = output
    turns = torch.view_as_real(torch.cat([text, image])).float()
    cosine, sine = (turns[..., part].contiguous() for part in (0, 1))
    return may_vary(cosine, 0), may_vary(sine, 0)


def _of_all_text(parallel: Parallel) -> Callable[..., Any]:
    """Forward pre-hook of pos_embed: the model tells it the text's length, by what this rank has of it."""

    def hook(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        if kwargs.get("max_txt_seq_len") is not None:
            kwargs = kwargs | {"max_txt_seq_len": parallel.tokens["text"]}
        return args, kwargs

    return hook


class _TextLength:
    """In place of diffusers' compute_text_seq_len_from_mask, while any transformer needs it: the mask is of
    all tokens, and the text of this rank's."""

    users = 0
    name = "compute_text_seq_len_from_mask"
    original: Callable[..., Any]

    def __init__(self) -> None:
        if _TextLength.users == 0:
            _TextLength.original = getattr(transformer_qwenimage, self.name)
            setattr(transformer_qwenimage, self.name, _text_length)
        _TextLength.users += 1

    def remove(self) -> None:
        _TextLength.users -= 1
        if _TextLength.users == 0:
            setattr(transformer_qwenimage, self.name, _TextLength.original)


def _text_length(text: Tensor, mask: Tensor | None) -> tuple[int, Tensor | None, Tensor | None]:
    if mask is None or mask.shape[1] <= text.shape[1]:
        return _TextLength.original(text, mask)
    return text.shape[1], None, mask.bool()


def _hooks(transformer: Any, parallel: Parallel) -> list[Removable]:
    pos_embed = transformer.pos_embed
    removable: list[Removable] = [
        pos_embed.register_forward_pre_hook(_of_all_text(parallel), with_kwargs=True),
        pos_embed.register_forward_hook(joint_tables),
    ]
    return [*removable, _TextLength()] if _HEEDS_TEXT_MASK else removable


def _plan(transformer: Any) -> Plan:
    entries: list[Split | Gather] = [
        Split("", "hidden_states", 1, 3, "image"),
        Split("", "encoder_hidden_states", 1, 3, "text"),
        Split("", "controlnet_block_samples", 1, 3),
    ]
    if getattr(transformer.config, "zero_cond_t", False):  # which of two modulations a token takes
        entries.append(Split("transformer_blocks.*", "modulate_index", 1, 2))
    return (*entries, Gather("proj_out", 1))


FAMILY = Family(
    model="QwenImageTransformer2DModel",
    processors={"QwenDoubleStreamAttnProcessor2_0": QwenImageProcessor},
    plan=_plan,
    hooks=_hooks,
    branches=2,
)
