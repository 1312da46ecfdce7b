"""FLUX.1: FluxTransformer2DModel.

Text and image tokens are split; positions are not, as rotary tables of all tokens are taken where Q and K are
prepared on their way. In single-stream blocks the MLP beside attention is computed while Q, K and the output
travel.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..entries import Gather, Plan, Split
from ..parallel import Parallel
from ..patch import Patch, signature_of
from .base import Processor, half_table, is_bare
from .beside_mlp import BesideMlp
from .family import Family, Removable
from .joint import JointProjections, norms_of


class SingleProjections(BesideMlp, JointProjections):
    """Of a single-stream block, with its MLP."""

    def __init__(self, block: Any, x: Tensor) -> None:
        super().__init__(block.attn, x, None, fused=block.attn.fused_projections)
        self.block = block
        self.linear = block.proj_out

    def beside(self) -> None:
        self.mlp = self.block.act_mlp(self.block.proj_mlp(self.image))


class FluxProcessor(Processor):
    """In place of FluxAttnProcessor. `image_rotary_emb` is what our hook of pos_embed made: half tables."""

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        image_rotary_emb: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        refuse_mask(attention_mask)
        text = encoder_hidden_states if attn.added_kv_proj_dim is not None else None
        projections = JointProjections(attn, hidden_states, text, fused=attn.fused_projections)
        o = self.attention(projections, norms_of(attn, text is not None), image_rotary_emb)
        if encoder_hidden_states is None:
            return o
        rows = encoder_hidden_states.shape[1]
        image = attn.to_out[1](attn.to_out[0](o[:, rows:].contiguous()))
        return image, attn.to_add_out(o[:, :rows].contiguous())

    def beside_mlp(self, block: Any, x: Tensor, rope: tuple[Tensor, Tensor] | None) -> Tensor:
        """Attention and MLP of a single-stream block, and the projection of both."""
        projections = SingleProjections(block, x)
        return projections.output(self.attention(projections, norms_of(block.attn, False), rope))


def single_forward(
    block: Any,
    hidden_states: Tensor,
    encoder_hidden_states: Tensor,
    temb: Tensor,
    image_rotary_emb: tuple[Tensor, Tensor] | None = None,
    joint_attention_kwargs: dict[str, Any] | None = None,
) -> tuple[Tensor, Tensor]:
    """FluxSingleTransformerBlock.forward, but that the MLP comes where the schedule says."""
    if not is_bare(block.attn):  # what is around attention, as a cache, has to see it
        return type(block).forward(
            block, hidden_states, encoder_hidden_states, temb, image_rotary_emb, joint_attention_kwargs
        )
    rows = encoder_hidden_states.shape[1]
    residual = torch.cat([encoder_hidden_states, hidden_states], dim=1)
    x, gate = block.norm(residual, emb=temb)
    x = gate.unsqueeze(1) * block.attn.processor.beside_mlp(block, x, image_rotary_emb)
    x = residual + x
    if x.dtype == torch.float16:
        x = x.clip(-65504, 65504)
    text, image = x[:, :rows], x[:, rows:]
    if torch.compiler.is_compiling():  # dense, as the first block's inputs: it shares the graph
        text, image = (part.clone(memory_format=torch.contiguous_format) for part in (text, image))
    return text, image


def refuse_mask(mask: Tensor | None) -> None:
    if mask is not None:
        raise ValueError("attention_mask is given: expected None, as in diffusers' pipelines of this model")


def half_tables(module: nn.Module, args: Any, output: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Forward hook of pos_embed: the tables that the exchange takes."""
    return half_table(output[0]), half_table(output[1])


def hooks_on(where: str) -> Callable[[Any, Parallel], list[Removable]]:
    """Of a family whose module `where` makes the tables."""
    return lambda transformer, parallel: [transformer.get_submodule(where).register_forward_hook(half_tables)]


def _hooks(transformer: Any, parallel: Parallel) -> list[Removable]:
    removable = hooks_on("pos_embed")(transformer, parallel)
    expected = list(inspect.signature(single_forward).parameters)[1:]
    for block in transformer.single_transformer_blocks:
        # Of another version of diffusers a block stays as it is, and its MLP comes first.
        if "forward" not in vars(block) and list(signature_of(block).parameters) == expected:
            removable.append(Patch(block, "forward", functools.partial(single_forward, block)))
    return removable


def _plan(transformer: nn.Module) -> Plan:
    return (
        Split("", "hidden_states", 1, 3, "image"),
        Split("", "encoder_hidden_states", 1, 3, "text"),
        Split("", "controlnet_block_samples", 1, 3),
        Split("", "controlnet_single_block_samples", 1, 3),
        Gather("proj_out", 1),
    )


FAMILY = Family(
    model="FluxTransformer2DModel",
    processors={"FluxAttnProcessor": FluxProcessor},
    plan=_plan,
    hooks=_hooks,
)
