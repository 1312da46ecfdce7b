"""Qwen-Image 2.1: QwenImage21Transformer2DModel.

Text and images are one sequence, in which each token attends to those before it and to its own image. What
attends to what is diffusers' code, which gets Q, K and V of all tokens in this rank's heads, and keeps these
in its cache.
"""

from __future__ import annotations

from typing import Any

import torch
from diffusers.models.transformers import transformer_qwenimage21
from torch import Tensor, nn

from ..entries import Gather, Plan, Split
from ..own_attention import check_heads
from ..parallel import Parallel
from .base import Processor
from .family import Family, Removable, processors_of
from .joint import JointProjections, norms_of
from .planned import check


def _as_it_is(x: Tensor) -> Tensor:
    return x


class _Arrived:
    """An attention module to diffusers' processor: of Q, K and V that are projected, normed and turned."""

    def __init__(self, q: Tensor, k: Tensor, v: Tensor) -> None:
        self.heads, self.inner_dim = q.shape[2], q.shape[2] * q.shape[3]
        self.to_q, self.to_k, self.to_v = (lambda _, x=x: x.flatten(2) for x in (q, k, v))
        self.norm_q = self.norm_k = _as_it_is
        self.to_out = (_as_it_is, _as_it_is)


class QwenImage21Processor(Processor):
    """In place of QwenImage21AttnProcessor. `rotary_emb` is of all tokens."""

    by_blocks = False  # whether the mask is one of flex_attention

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        attention_mask: Any = None,
        rotary_emb: Tensor | None = None,
        layer_cache: Any = None,
        kv_cache_mode: str | None = None,
        cache_write_slice: slice | None = None,
        segments: list[tuple[int, int, bool]] | None = None,
        key_valid: Tensor | None = None,
    ) -> Tensor:
        if rotary_emb is None:
            raise ValueError("rotary_emb is None: expected the positions of all tokens")
        in_parts = segments is not None and not self.by_blocks

        def kernel(q: Tensor, k: Tensor, v: Tensor, mask: Any) -> Tensor:
            cached = (layer_cache, kv_cache_mode, cache_write_slice)
            masks = (None, None, *cached, segments, mask) if in_parts else (mask, None, *cached)
            o = self.original(_Arrived(q, k, v), v, *masks)
            return o.unflatten(2, (q.shape[2], q.shape[3]))

        plain = layer_cache is None and (attention_mask is None or isinstance(attention_mask, Tensor))
        turns = torch.view_as_real(rotary_emb).float()
        o = self.attention(
            JointProjections(attn, hidden_states, None),
            norms_of(attn, False),
            (turns[..., 0].contiguous(), turns[..., 1].contiguous()),
            key_valid if in_parts else attention_mask,
            kernel,
            sample_by_sample=plain,
            text=None,
        )
        return attn.to_out[1](attn.to_out[0](o))


class QwenImage21FlexProcessor(  # the model asks for that class
    QwenImage21Processor, transformer_qwenimage21.QwenImage21FlexAttnProcessor
):
    """In place of QwenImage21FlexAttnProcessor."""

    by_blocks = True


def _hooks(transformer: Any, parallel: Parallel) -> list[Removable]:
    for where in processors_of(transformer):
        check_heads(transformer.get_submodule(where).heads, parallel.group.size, where)
    return []


def _plan(transformer: nn.Module) -> Plan:
    return (
        Split("transformer_blocks.0", "hidden_states", 1, 3, "image"),
        Split("transformer_blocks.*", "target_token_mask", 0, 1, of="image"),
        Gather("transformer_blocks.-1", 1),
    )


FAMILY = Family(
    model="QwenImage21Transformer2DModel",
    processors={
        "QwenImage21AttnProcessor": QwenImage21Processor,
        "QwenImage21FlexAttnProcessor": QwenImage21FlexProcessor,
    },
    plan=_plan,
    hooks=_hooks,
    check=check,
    splits_samples=False,
)
