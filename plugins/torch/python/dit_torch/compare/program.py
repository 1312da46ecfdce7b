"""What makes the pictures: a pipeline of diffusers, or a program's own call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from . import Prompt

_PARTS = ("transformer", "transformer_2")


class Program:
    """:ivar steps: as enable() wants them"""

    def __init__(
        self, call: Callable[[Any, int], Any], transformers: Sequence[nn.Module], steps: Any
    ) -> None:
        self._call, self.transformers, self.steps = call, list(transformers), steps

    def make(self, prompt: Prompt, seed: int) -> Any:
        """A picture or a clip, as the program gives it."""
        with torch.no_grad():
            return self._call(prompt, seed)

    @property
    def parameter(self) -> torch.Tensor:
        return next(self.transformers[0].parameters())


def program_of(what: Any, transformers: Any, steps: Any, given: dict[str, Any]) -> Program:
    """:param what: a pipeline, or with `transformers` a call of a prompt and a seed"""
    if transformers is not None:
        parts = [transformers] if isinstance(transformers, nn.Module) else list(transformers)
        if not callable(what) or not parts or given:
            raise ValueError(
                f"program = {what!r}, {len(parts)} transformers, {', '.join(given) or 'nothing more'}: "
                "expected a call of a prompt and a seed, its transformers, and no arguments of a pipeline"
            )
        return Program(what, parts, steps)
    parts = [part for part in (getattr(what, name, None) for name in _PARTS) if isinstance(part, nn.Module)]
    if not parts or not callable(what):
        raise TypeError(
            f"program is of class {type(what).__name__}: expected a pipeline of diffusers that has a "
            "transformer, or a call of a prompt and a seed with transformers=[...]"
        )

    def call(prompt: Prompt, seed: int) -> Any:
        wanted = {"prompt": prompt} if isinstance(prompt, str) else dict(prompt)
        generator = torch.Generator().manual_seed(seed)  # of the host: the same noise on any device
        output = what(**given | wanted, num_inference_steps=steps, generator=generator, output_type="np")
        made = getattr(output, "images", getattr(output, "frames", None))
        if made is None or len(made) != 1:
            count = "no" if made is None else len(made)
            raise ValueError(
                f"{type(what).__name__} returned {count} pictures: expected one picture or clip a call"
            )
        return made[0]

    return Program(call, parts, getattr(what, "scheduler", steps))
