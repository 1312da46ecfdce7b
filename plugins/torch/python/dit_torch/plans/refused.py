"""Models of diffusers that are not split, and why."""

from __future__ import annotations

from ..entries import Plan

PLANS: dict[str, Plan] = {}

REFUSED = {
    "DreamLiteTransformer2DModel": "it is a layer of a UNet",
    "MiniMaxMusic3RVQDepthDecoder": "it writes the codes of audio one after the other",
    "PriorTransformer": "it has the few tokens of a text, and one of an image",
    "T5FilmDecoder": "its attention is T5's own",
    "TransformerTemporalModel": "it is a layer of a UNet, with attention over the frames of each pixel",
}
