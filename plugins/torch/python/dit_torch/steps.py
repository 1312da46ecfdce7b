"""Which denoising step of which image a forward pass is, for policies that depend on it.

It is told from what the transformer is given, so that pipelines need not know of us:

* a timestep that goes down is the next step; one that stays is the next guidance branch;
* a timestep that goes up, another size, another prompt, or more steps than there should be begin a new image.

With a new image everything is forgotten that was sent before: no picture depends on the one before.
"""

from __future__ import annotations

import reprlib
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Place(NamedTuple):
    step: int
    branch: int
    new_image: bool


class Steps:
    """Follows the forward passes. What it is told is the same on all ranks."""

    def __init__(self, branches: int, most: int | None = None) -> None:
        """
        :param branches: forward passes of a step
        :param most: there are as many once the first step of an image shows them; None: `branches` is known
        """
        self.branches = branches
        self.most = branches if most is None else most
        self.forget()

    def forget(self) -> None:
        """The next forward pass begins an image."""
        self._timestep: float | None = None
        self._place = Place(0, 0, True)
        self._size: torch.Size | None = None
        self._prompts: dict[int, Tensor] = {}  # copies, by branch

    def next(self, timestep: float, steps: int, size: torch.Size, prompt: Tensor | None) -> Place:
        """The place of the forward pass that begins now.

        :param steps: of an image
        :param size: of the latents
        :param prompt: embeddings; a copy is kept
        """
        place = self._after(timestep, steps, size, prompt)
        if not place.new_image and self._other_prompt(place.branch, prompt):
            place = Place(0, 0, True)
        if place.new_image:
            self._prompts.clear()
        if prompt is not None and place.branch not in self._prompts:
            self._prompts[place.branch] = prompt.detach().clone()
        self._timestep, self._size, self._place = timestep, size, place
        return place

    def _after(self, timestep: float, steps: int, size: torch.Size, prompt: Tensor | None) -> Place:
        step, branch, _ = self._place
        if self._timestep is None or timestep > self._timestep or size != self._size:
            return Place(0, 0, True)
        if timestep == self._timestep and branch + 1 < self.branches:
            return Place(step, branch + 1, False)
        # A timestep comes twice with schedulers of second order, but not in the first step.
        again = timestep == self._timestep and step == 0
        if again and steps > 1 and self.branches < self.most and self._other_prompt(branch, prompt):
            self.branches += 1
            return Place(0, branch + 1, False)
        if again or step + 1 >= steps:
            return Place(0, 0, True)
        return Place(step + 1, 0, False)

    def _other_prompt(self, branch: int, prompt: Tensor | None) -> bool:
        known = self._prompts.get(branch)
        if known is None or prompt is None:
            return False
        return known.shape != prompt.shape or not torch.equal(known, prompt)


def steps_of(steps: Any) -> int:
    """Denoising steps: a number, or a scheduler of diffusers, whose timesteps are counted."""
    if isinstance(steps, int) and not isinstance(steps, bool):
        return steps
    timesteps = getattr(steps, "timesteps", None)
    if timesteps is None:
        raise TypeError(f"steps = {reprlib.repr(steps)}: expected a number, or a scheduler with timesteps")
    return max(1, len(timesteps))
