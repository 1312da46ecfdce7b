"""Lossy policies: which step and branch a forward pass is, told to the exchanges before it begins."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from ._library import library
from .parallel import Parallel
from .patch import signature_of
from .steps import Steps, steps_of


def check_policy(policy: str, steps: Any, branches: int) -> None:
    """What can be said before ranks meet; the policy itself is read when an exchange is made."""
    if not isinstance(policy, str) or policy == "":
        raise ValueError(f"policy = {policy!r}: expected a text such as 'exact' or 'balanced'")
    if not isinstance(branches, int) or branches < 1:
        raise ValueError(f"branches = {branches!r}: expected a number, at least 1")
    if policy == "exact":
        return
    if library() is None:
        raise RuntimeError(
            f"policy = {policy!r} needs libdit_torch.so, which is not there: build it with pip install "
            "--no-build-isolation ./plugins/torch, or name it in DIT_TORCH_LIBRARY; expected 'exact' without "
            "it"
        )
    if steps is None or steps_of(steps) < 1:
        raise ValueError(
            f"steps = {steps!r}: expected the number of denoising steps, at least 1, or the pipeline's "
            f"scheduler, as policy {policy!r} depends on it"
        )


class Follower:
    """Forward pre-hook of a transformer, before its inputs are split. Under an exact policy there is none."""

    def __init__(
        self, transformer: nn.Module, parallel: Parallel, steps: Any, branches: int, most: int
    ) -> None:
        self.parallel = parallel
        self.steps = steps  # a number or a scheduler
        self.follow = Steps(branches, most)
        self._timesteps: Any = None  # the scheduler's; set_timesteps makes others
        self._positions = list(signature_of(transformer).parameters)

    def register(self, transformer: nn.Module) -> RemovableHandle:
        return transformer.register_forward_pre_hook(self._hook, with_kwargs=True)

    @torch.compiler.disable
    def _hook(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = dict(zip(self._positions, args, strict=False)) | kwargs
        exchanges = self.parallel.exchanges
        steps = steps_of(self.steps)
        if self._image_begins() or steps != exchanges.steps:
            self.follow.forget()
        # The timestep is read on the host: the device is waited for, once a forward pass.
        timestep = float(torch.as_tensor(given["timestep"]).max())
        place = self.follow.next(
            timestep, steps, given["hidden_states"].shape, given.get("encoder_hidden_states")
        )
        made_anew = exchanges.change_run(steps, self.follow.branches)
        if place.new_image and not made_anew:
            exchanges.reset()
        exchanges.begin_step(place.step, place.branch)

    def _image_begins(self) -> bool:
        """As far as a scheduler tells: then an image that was given up is not taken for this one."""
        before, self._timesteps = self._timesteps, getattr(self.steps, "timesteps", None)
        return self._timesteps is not None and self._timesteps is not before
