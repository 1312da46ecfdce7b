"""policy="sage-int8": attention by SageAttention's kernel, and Q and K travel in the 8 bits that it takes.

It takes Q and K in int8 with a scale for each block of tokens of a head. On one GPU all tokens are quantised
before; here each rank quantises its own before they leave, with the same scales. For that ranks agree on the
mean of K, which the rule takes from all keys, and on the largest number of each block, in two small
all-gathers: so blocks may lie on several ranks, whatever the number of tokens is. What travels are bits, by
exact exchanges.

On hosts a plain formula stands for the kernel.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .exchange import KEY, OUTPUT, QUERY, VALUE, Prepare
from .layout import Layout
from .parallel import Parallel
from .plan import gather
from .reference import prepared
from .sized import layout_of

if TYPE_CHECKING:
    from .processors.base import Projections

QUERY_BLOCK, KEY_BLOCK = 128, 64  # tokens
_HEAD_DIMS = (64, 128)


def check(device: torch.device, model: str, has_processors: bool) -> None:
    """Fails where it is known before a pass that there cannot be one."""
    if not has_processors:
        raise ValueError(
            f"policy = 'sage-int8': expected a model that dit_torch computes attention for; {model}'s is "
            "computed by diffusers' processors"
        )
    if device.type == "cuda":
        _kernel()


def attention(
    parallel: Parallel,
    projections: Projections,
    of_q: Prepare,
    of_k: Prepare,
    layer: int,
    has_behind: bool,
    where: str,
    streams: dict[str, Any],
) -> Tensor:
    """As Processor.attention, V first. Returns [batch, rows, heads, head_dim].

    :param streams: of Parallel.joint
    """
    v = projections.value()
    exchange = parallel.joint(v, **streams)
    layout, rank = layout_of(list(exchange.kind), list(exchange.sizes))
    _require(layout, where)
    codes = parallel.joint(v[..., : layout.head_dim // v.itemsize], has_value=False, **streams)
    value = exchange.start(VALUE, v, layer)
    own = _Own(parallel, layout, rank, v)
    q = prepared(projections.query(), layout, rank, *of_q.arguments())
    q = q.float() * (layout.head_dim**-0.5 * math.log2(math.e))  # the kernel's exponents are of 2
    k = prepared(projections.key(), layout, rank, *of_k.arguments())
    largest, sums = own.of_all_ranks(own.largest(q, QUERY_BLOCK), k.sum(1, dtype=torch.float32))
    q, q_scales = own.quantised(q, largest, QUERY_BLOCK)
    query = codes.start(QUERY, q, layer, after=value.token)
    k = (k - (sums.sum(0) / layout.tokens).to(k.dtype)[:, None]).float()
    (largest,) = own.of_all_ranks(own.largest(k, KEY_BLOCK))
    k, k_scales = own.quantised(k, largest, KEY_BLOCK)
    key = codes.start(KEY, k, layer, after=query.token)
    projections.beside()
    v = exchange.finish(value, layer, key.token)
    q = codes.finish(query, layer, key.token).view(torch.int8)
    k = codes.finish(key, layer, key.token).view(torch.int8)
    o = torch.ops.dit_sage.attend(q, k, v, q_scales, k_scales)
    if not has_behind:
        return exchange.gather(o, layer)
    output = exchange.start(OUTPUT, o, layer)
    projections.behind()
    return exchange.finish(output, layer)


def _require(layout: Layout, where: str) -> None:
    if layout.head_dim not in _HEAD_DIMS:
        raise ValueError(
            f"policy = 'sage-int8': {where} has heads of {layout.head_dim}; expected 64 or 128, which its "
            "kernel takes"
        )
    if layout.ranks > layout.heads or layout.heads != layout.kv_heads:
        raise ValueError(
            f"policy = 'sage-int8': {where} has {layout.heads} heads, {layout.kv_heads} of K and V, on "
            f"{layout.ranks} ranks; expected as many, and one for each rank at least"
        )


class _Own:
    """This rank's tokens of the joint sequence, and its heads.

    :param like: a tensor of these tokens, of the type that travels
    """

    def __init__(self, parallel: Parallel, layout: Layout, rank: int, like: Tensor) -> None:
        self.parallel, self.layout, self.dtype = parallel, layout, like.dtype
        self.heads = layout.heads_of(rank)
        (start, count), (other, _) = layout.sequence_places(rank)
        row = torch.arange(like.shape[1], device=like.device)
        self.places = row + start + (row >= count) * (other - start - count)

    def largest(self, x: Tensor, block: int) -> Tensor:
        """[batch, blocks, heads]: of all blocks of the sequence what this rank has."""
        blocks = (self.layout.tokens + block - 1) // block
        of_tokens = x.new_zeros(x.shape[0], blocks * block, x.shape[2])
        return of_tokens.index_copy(1, self.places, x.abs().amax(-1)).unflatten(1, (blocks, block)).amax(2)

    def of_all_ranks(self, *mine: Tensor) -> list[Tensor]:
        """Each by rank, [ranks, ...]: all ranks find the same."""
        together = torch.cat([x.flatten() for x in mine]).unsqueeze(0)
        every = gather(together, 0, self.parallel.size, self.parallel).split([x.numel() for x in mine], 1)
        return [one.unflatten(1, x.shape) for one, x in zip(every, mine, strict=True)]

    def quantised(self, x: Tensor, largest: Tensor, block: int) -> tuple[Tensor, Tensor]:
        """By the kernel's rule: int8 of x, several in each number of the type that travels; and the scales of
        this rank's heads, [batch, heads, blocks].

        :param largest: by rank
        """
        scales = largest.amax(0) / 127
        x = x / scales.clamp_min(torch.finfo(torch.float32).tiny)[:, self.places // block, :, None]
        x = (x + torch.where(x >= 0, 0.5, -0.5)).clamp(-127.0, 127.0)  # compilers round x less than its scale
        own = scales[:, :, self.heads.start : self.heads.stop].transpose(1, 2).contiguous()
        return x.to(torch.int8).contiguous().view(self.dtype), own


@functools.cache
def _kernel() -> Callable[..., Tensor]:
    try:
        from sageattention.attn_qk_int8_per_block import forward
    except ImportError as error:
        raise RuntimeError(
            "policy = 'sage-int8' on GPUs needs the package sageattention, of version 1: pip install "
            f"sageattention==1.0.6 ({error})"
        ) from error
    return forward


def _attend(q: Tensor, k: Tensor, v: Tensor, q_scales: Tensor, k_scales: Tensor) -> Tensor:
    """Of codes [batch, tokens, heads, head_dim] and scales [batch, heads, blocks]; v is rounded to fp16."""
    values = v.to(torch.float16)
    return _kernel()(q, k, values, q_scales, k_scales, tensor_layout="NHD", output_dtype=v.dtype)


def _attend_on_host(q: Tensor, k: Tensor, v: Tensor, q_scales: Tensor, k_scales: Tensor) -> Tensor:
    """The same by a formula, in fp32."""

    def decoded(x: Tensor, scales: Tensor, block: int) -> Tensor:
        return x.transpose(1, 2) * scales.repeat_interleave(block, 2)[:, :, : x.shape[1], None]

    values = v.to(torch.float16).transpose(1, 2).float()
    q, k = decoded(q, q_scales, QUERY_BLOCK), decoded(k, k_scales, KEY_BLOCK)
    o = F.scaled_dot_product_attention(q, k, values, scale=math.log(2))
    return o.transpose(1, 2).to(v.dtype).contiguous()


_operators = torch.library.Library("dit_sage", "DEF")
_operators.define("attend(Tensor q, Tensor k, Tensor v, Tensor q_scales, Tensor k_scales) -> Tensor")
_operators.impl("attend", _attend, "CUDA")
_operators.impl("attend", _attend_on_host, "CPU")
torch.library.register_fake("dit_sage::attend", lambda q, k, v, *scales: v.new_empty(q.shape), lib=_operators)
