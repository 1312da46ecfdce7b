"""Attention over several ranks in diffusers' place: Q, K and V in one exchange of NCCL, or no exchange."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.nn.functional as F
from torch import Tensor


def all_to_all(x: Tensor, group: Any, received: list[int] | None = None, sent: list[int] | None = None) -> Tensor:
    """NCCL's all-to-all of the first dimension, in a form that torch.compile traces."""
    y = funcol.all_to_all_single(x, received, sent, group)
    return y.wait() if isinstance(y, funcol.AsyncCollectiveTensor) else y


def _kernel(forward_op: Callable[..., Any], q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, config: Any) -> Tensor:
    """diffusers' kernel, which keeps nothing for a backward pass."""
    out = forward_op(None, q, k, v, mask, 0.0, False, None, False, False, _save_ctx=False, _parallel_config=config)
    return out[0] if isinstance(out, tuple) else out


def packed_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    *_: Any,
    forward_op: Callable[..., Any],
    _parallel_config: Any = None,
    **__: Any,
) -> Tensor:
    """One exchange carries Q, K and V [B, S, H, D], one the output."""
    config = _parallel_config.context_parallel_config
    ranks = config.ulysses_degree
    group = config._ulysses_mesh.get_group()
    batch, tokens, heads, width = query.shape
    own = heads // ranks
    # [ranks, S, B, 3, H / ranks, D]: a rank's part lies together.
    packed = torch.stack([x.reshape(batch, tokens, ranks, own, width) for x in (query, key, value)], dim=3)
    packed = packed.permute(2, 1, 0, 3, 4, 5).contiguous()
    packed = all_to_all(packed.flatten(), group).reshape(ranks * tokens, batch, 3, own, width)
    q, k, v = (packed[:, :, i].transpose(0, 1) for i in range(3))
    out = _kernel(forward_op, q, k, v, attn_mask, _parallel_config)
    out = out.reshape(batch, ranks, tokens, own, width).permute(1, 2, 0, 3, 4).contiguous()
    out = all_to_all(out.flatten(), group).reshape(ranks, tokens, batch, own, width)
    return out.permute(2, 1, 0, 3, 4).reshape(batch, tokens, heads, width)


def attention_without_exchange(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    *_: Any,
    **__: Any,
) -> Tensor:
    """The attention kernel on as many tokens and heads as behind an exchange, in the layout that it likes best. As
    many elements in another shape: nothing is copied, and the result is wrong."""
    ranks = dist.get_world_size()
    batch, tokens, heads, width = query.shape
    shape = (batch, heads // ranks, ranks * tokens, width)
    q, k, v = (x.reshape(shape) for x in (query, key, value))
    return F.scaled_dot_product_attention(q, k, v, attn_mask).reshape(batch, tokens, heads, width)
