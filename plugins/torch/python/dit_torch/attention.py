"""The attention kernel: whichever diffusers would take, without its own context parallelism."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

try:
    from diffusers.models.attention_dispatch import dispatch_attention_fn
except ImportError:  # diffusers before 0.35
    dispatch_attention_fn = None


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, backend: Any = None) -> Tensor:
    """Tensors are [batch, tokens, heads, head_dim]; dense ones give dense ones."""
    if dispatch_attention_fn is not None:
        return dispatch_attention_fn(query, key, value, attn_mask=mask, backend=backend)
    heads_first = (x.transpose(1, 2) for x in (query, key, value))
    return F.scaled_dot_product_attention(*heads_first, attn_mask=mask).transpose(1, 2)
