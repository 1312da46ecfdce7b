"""The attention kernel: whichever diffusers would take, without its own context parallelism."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

try:
    from diffusers.models import attention_dispatch
except ImportError:  # diffusers before 0.35
    attention_dispatch = None  # type: ignore[assignment]


def attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, backend: Any = None
) -> Tensor:
    """Tensors are [batch, tokens, heads, head_dim]."""
    if attention_dispatch is not None:
        return attention_dispatch.dispatch_attention_fn(query, key, value, attn_mask=mask, backend=backend)
    q, k, v = (x.transpose(1, 2) for x in (query, key, value))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2)
