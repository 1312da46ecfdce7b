"""Lossy policies: which step and branch a forward pass is, told to the exchanges before it begins."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from ._library import library
from .exchanges import SAGE
from .given import tensors_of
from .parallel import Parallel
from .patch import signature_of
from .steps import Place, Steps, steps_of
from .verdict import is_captured

STATELESS = ("exact", SAGE)  # nothing depends on the step


def check_policy(policy: str, steps: Any, branches: int) -> None:
    """What can be said before ranks meet; the policy itself is read when an exchange is made."""
    if not isinstance(policy, str) or policy == "":
        raise ValueError(f"policy = {policy!r}: expected a text such as 'exact' or 'balanced'")
    if not isinstance(branches, int) or branches < 1:
        raise ValueError(f"branches = {branches!r}: expected a number, at least 1")
    if policy in STATELESS:
        return
    if library() is None:
        raise RuntimeError(
            f"policy = {policy!r} needs libdit_torch.so, which is not there: build it with pip install "
            "--no-build-isolation ./plugins/torch, or name it in DIT_TORCH_LIBRARY; expected 'exact' without "
            "it"
        )
    if steps is None or steps_of(steps) < 1:
        raise ValueError(
            f"steps = {steps!r}, policy = {policy!r}: expected the number of denoising steps, at least 1, or "
            "the pipeline's scheduler, with each policy but 'exact'"
        )


class Moment(NamedTuple):
    """A forward pass whose place nothing depends on yet."""

    timestep: Tensor
    prompt: Tensor | None
    size: torch.Size
    steps: int
    begins: bool  # a new image does, as a scheduler tells
    there: torch.cuda.Event | None  # behind which the tensors are


class Follower:
    """Forward pre-hook of a transformer, before its inputs are split. Under an exact policy there is none.

    The timestep is read on the host: the device is waited for, once a forward pass. Not where the policy is
    off for all shapes that such a pass needs: then the pass is followed when the next one begins, beside what
    the device does.
    """

    def __init__(
        self, transformer: nn.Module, parallel: Parallel, steps: Any, branches: int, most: int
    ) -> None:
        self.parallel = parallel
        self.steps = steps  # a number or a scheduler
        self.follow = Steps(branches, most)
        self._timesteps: Any = None  # the scheduler's; set_timesteps makes others
        self._count = parallel.exchanges.steps  # of the image before
        self._positions = list(signature_of(transformer).parameters)
        self._last: Hashable = None  # sizes of what the last pass was given, and who computed it
        self._exact: set[Hashable] = set()  # those for which the policy was off
        self._pending: Moment | None = None
        self.begun = 0  # images, by passes in a row that each began one
        self._beside: torch.cuda.Stream | None = None

    def register(self, transformer: nn.Module) -> RemovableHandle:
        return transformer.register_forward_pre_hook(self._hook, with_kwargs=True)

    def forget(self) -> None:
        """The next forward pass begins an image."""
        self._pending = None
        self.follow.forget()

    @torch.compiler.disable
    def _hook(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = dict(zip(self._positions, args, strict=False)) | kwargs
        exchanges = self.parallel.exchanges
        steps = steps_of(self.steps)
        sizes = self.parallel.group.name, *((n, x.shape, x.dtype) for n, x in tensors_of(given).items())
        off = exchanges.nothing_coded
        if off:
            self._exact.add(self._last)
        self._last = sizes
        begins = self._image_begins() or steps != self._count
        self._count = steps
        if off and sizes in self._exact:
            if not is_captured():
                self._settle()
                self._pending = _moment(given, steps, begins)
            return
        self._settle()
        place = self._next(_moment(given, steps, begins, later=False))
        made_anew = exchanges.change_run(steps, self.follow.branches)
        if place.new_image and not made_anew:
            exchanges.reset()
        exchanges.begin_step(place.step, place.branch)

    def _next(self, moment: Moment) -> Place:
        if moment.begins:
            self.follow.forget()
        place = self.follow.next(float(moment.timestep), moment.steps, moment.size, moment.prompt)
        self.begun = self.begun + 1 if place.new_image else 0
        return place

    def _settle(self) -> None:
        """Follows the pass before. Its tensors have been there since it began: this waits for no more."""
        moment, self._pending = self._pending, None
        if moment is None:
            return
        if moment.there is None:
            self._next(moment)
            return
        self._beside = self._beside or torch.cuda.Stream(moment.timestep.device)
        with torch.cuda.stream(self._beside):
            self._beside.wait_event(moment.there)
            self._next(moment)
            self._beside.synchronize()

    def _image_begins(self) -> bool:
        """As far as a scheduler tells: then an image that was given up is not taken for this one."""
        before, self._timesteps = self._timesteps, getattr(self.steps, "timesteps", None)
        return self._timesteps is not None and self._timesteps is not before


def _moment(given: dict[str, Any], steps: int, begins: bool, later: bool = True) -> Moment:
    """:param later: what was given may be something else until it is looked at"""
    timestep, prompt = torch.as_tensor(given["timestep"]).max(), given.get("encoder_hidden_states")
    there = None
    if later:
        prompt = prompt if prompt is None else prompt.detach().clone()
        if timestep.is_cuda:
            there = torch.cuda.current_stream(timestep.device).record_event()
    return Moment(timestep, prompt, given["hidden_states"].shape, steps, begins, there)
