"""Attention to keys of which each rank has a part, by few queries, which all ranks have: each rank attends
to its own, and what comes out is put together by the sums of its exponentials. Keys and values stay where
they are.
"""

from __future__ import annotations

import torch
from torch import Tensor

from . import gradients
from .attention import attend
from .parallel import Parallel
from .plan import gather


def attend_to_parts(q: Tensor, k: Tensor, v: Tensor, tokens: int, parallel: Parallel) -> Tensor:
    """Tensors are [batch, rows, heads, head_dim]; all ranks get the same. Collective.

    :param tokens: keys of all ranks, of which each has at least one
    """
    if parallel.size == 1:
        return attend(q, k, v)
    if any([gradients.are_wanted(x) for x in (q, k, v)]):  # sums of exponentials have none
        k, v = gather(torch.stack((k, v)), 2, tokens, parallel).unbind()
        return attend(q, k, v)
    o, exponentials = _attend(q, k, v)
    own = torch.cat((o.float(), exponentials.unsqueeze(-1)), -1).unsqueeze(0)
    every = gather(own, 0, parallel.size, parallel)
    return (every[..., :-1] * every[..., -1:].softmax(0)).sum(0).to(q.dtype)


def _attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """And the logarithms of the sums of exponentials, [batch, rows, heads], fp32."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    head_dim = q.shape[3]
    if q.is_cuda and q.dtype != torch.float32 and head_dim % 8 == 0 and head_dim <= 256:
        o, sums = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v)[:2]
    else:
        scores = q.float() @ k.float().transpose(2, 3) * head_dim**-0.5
        sums = scores.logsumexp(3)
        o = (scores - sums.unsqueeze(3)).exp() @ v.float()
    return o.transpose(1, 2), sums.transpose(1, 2)
