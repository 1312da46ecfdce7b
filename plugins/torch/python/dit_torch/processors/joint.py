"""Q, K and V of attention over two streams of tokens, image and text, that have projections of their own."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from .base import Norms, Projections, heads, joined


class JointProjections(Projections):
    """Of a module with to_q, to_k, to_v for the image and, where there is text, add_q_proj, add_k_proj and
    add_v_proj for it. Fused ones, where diffusers fused them, are computed when the first is asked for."""

    def __init__(
        self,
        attn: Any,
        image: Tensor,
        text: Tensor | None,
        image_first: bool = False,
        fused: bool = False,
    ) -> None:
        self.attn, self.image, self.text, self.image_first = attn, image, text, image_first
        self.text_rows = 0 if text is None else text.shape[1]
        of_a_head = getattr(attn, "head_dim", None)  # not all classes have it, nor all the others
        self.head_dim: int = attn.inner_dim // attn.heads if of_a_head is None else of_a_head
        self.fused: tuple[Tensor, ...] | None = None
        if fused:
            of_text = None if text is None else attn.to_added_qkv(text)
            self.fused = self._joined(of_text, attn.to_qkv(image)).chunk(3, dim=-1)

    def _joined(self, text: Tensor | None, image: Tensor) -> Tensor:
        if text is None:
            return image
        return joined(image, text) if self.image_first else joined(text, image)

    def _project(self, of_image: str, of_text: str, number: int) -> Tensor:
        if self.fused is not None:
            return heads(self.fused[number], self.head_dim)
        text = None if self.text is None else getattr(self.attn, of_text)(self.text)
        return heads(self._joined(text, getattr(self.attn, of_image)(self.image)), self.head_dim)

    def query(self) -> Tensor:
        return self._project("to_q", "add_q_proj", 0)

    def key(self) -> Tensor:
        return self._project("to_k", "add_k_proj", 1)

    def value(self) -> Tensor:
        return self._project("to_v", "add_v_proj", 2)


_NO_NORM = nn.Identity()


def norms_of(attn: Any, with_text: bool) -> Norms:
    """Of a module with norm_q, norm_k and, where there is text, norm_added_q and norm_added_k."""
    image = (attn.norm_q, attn.norm_k)
    if not with_text:
        return Norms(*image)
    text = (attn.norm_added_q, attn.norm_added_k)
    if text == (None, None) != image:
        text = (_NO_NORM, _NO_NORM)  # else the text would get the image's
    return Norms(*image, *text)
