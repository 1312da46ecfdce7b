"""The same pictures in several ways, on all ranks."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..enable import disable, enable, enabled, new_image
from ..group import Group, give, take
from ..report import report
from . import Prompt
from .page import Page
from .pictures import Frames, Quality, find_judge, frames_of
from .program import Program, program_of
from .result import Comparison, Picture, Way, decibels

logger = logging.getLogger("dit_torch")
EXACT, OTHER_KERNEL = "exact", "another attention kernel"
Sample = tuple[Prompt, str, int]  # a prompt, its name and a seed


def run_all(
    program: Any,
    prompts: Sequence[Prompt],
    policies: Sequence[str],
    steps: Any,
    seeds: Sequence[int],
    transformers: Any,
    page: str | os.PathLike[str] | None,
    timeout_seconds: float,
    given: dict[str, Any],
) -> Comparison:
    """compare(). Collective."""
    whole = take(None, timeout_seconds)
    try:
        samples = whole.together(lambda: _samples(prompts, seeds))
        judge, shown = whole.together(lambda: _prepared(whole, page))
        this = whole.together(lambda: program_of(program, transformers, steps, given))
        for policy in policies:  # what is wrong with one is said before a picture is made
            with _enabled(this, policy, timeout_seconds, compare=False):
                pass
        runs = Runs(whole, this, samples, judge, shown, timeout_seconds)
        ways = [runs.run(EXACT, EXACT)]
        with sdpa_kernel(_other_kernel(this.parameter)):
            ways.append(runs.run(OTHER_KERNEL, EXACT))
        ways += [runs.run(policy, policy) for policy in policies]
        found = Comparison(tuple(ways))
        whole.together(lambda: None if shown is None else shown.write(found))
        return found
    finally:
        give(whole)


def _samples(prompts: Sequence[Prompt], seeds: Sequence[int]) -> list[Sample]:
    if isinstance(prompts, str) or not prompts or not seeds:
        raise ValueError(f"prompts = {prompts!r}, seeds = {seeds!r}: expected lists of one or more")
    named = [(one, one if isinstance(one, str) else f"prompt {at}") for at, one in enumerate(prompts, 1)]
    return [(prompt, name, seed) for prompt, name in named for seed in seeds]


def _prepared(whole: Group, page: str | os.PathLike[str] | None) -> tuple[Any, Page | None]:
    """The judge, and where pictures are shown: on rank 0 alone."""
    judge = find_judge()
    return judge, Page(page) if page is not None and whole.rank == 0 else None


def _other_kernel(parameter: torch.Tensor) -> SDPBackend:
    """One that torch does not take of its own accord. MATH keeps all products of Q and K in memory."""
    fused = parameter.is_cuda and parameter.dtype in (torch.float16, torch.bfloat16)
    return SDPBackend.EFFICIENT_ATTENTION if fused else SDPBackend.MATH


@contextlib.contextmanager
def _enabled(program: Program, policy: str, seconds: float, **more: Any) -> Iterator[None]:
    done = []
    try:
        for one in program.transformers:
            enable(one, policy=policy, steps=program.steps, adapt=False, timeout_seconds=seconds, **more)
            done.append(one)
        yield
    finally:
        for one in done:
            disable(one)


class Runs:
    """The same pictures in several ways. Rank 0 keeps the exact ones."""

    def __init__(
        self,
        whole: Group,
        program: Program,
        samples: list[Sample],
        judge: Any,
        page: Page | None,
        seconds: float,
    ) -> None:
        self._whole, self._program, self._samples, self._judge = whole, program, samples, judge
        self._page, self._seconds = page, seconds
        self._exact: list[Frames] = []

    def run(self, name: str, policy: str) -> Way:
        """Collective. The first picture is made once more before: a new way sets things up."""
        with _enabled(self._program, policy, self._seconds):
            first, _, _ = self._make(self._samples[0])
            pictures, again = [], Quality((), ())
            for at, sample in enumerate(self._samples):
                frames, seconds, traffic = self._make(sample)
                quality = self._judged(at, frames)
                if at == 0:
                    again = self._judge(first, frames)
                sent, full = (sum(one) for one in zip(*self._whole.gather(traffic), strict=True))
                slowest = max(self._whole.gather(seconds))
                pictures.append(Picture(sample[1], sample[2], slowest, sent, full, quality))
                if self._page is not None:
                    self._page.add(at, name, pictures[-1], frames, self._exact[at])
                if self._whole.rank == 0:
                    logger.info("%s: %s, seed %d: %.2f s", name, sample[1], sample[2], slowest)
            note = _note(self._program, policy, again)
        return Way(name, tuple(pictures), note)

    def _make(self, sample: Sample) -> tuple[Frames, float, tuple[int, int]]:
        """What this rank made, in how many seconds, and the bytes that it sent and would have sent."""
        prompt, _, seed = sample
        before = self._traffic()
        _wait(self._program)
        begin = time.perf_counter()
        try:
            for one in self._program.transformers:
                new_image(one)
            made = self._program.make(prompt, seed)
            _wait(self._program)
            seconds = time.perf_counter() - begin
            after = self._traffic()  # raises where a rank failed on its device: there is no picture then
            frames = frames_of(made)
        except BaseException as error:
            self._whole.fail(error)  # outside a pass, too: the others are not to wait
            raise
        return frames, seconds, (after[0] - before[0], after[1] - before[1])

    def _judged(self, at: int, frames: Frames) -> Quality:
        """Rank 0's, for all."""

        def judge() -> Quality | None:
            if self._whole.rank != 0:
                return None
            if at == len(self._exact):  # of the first way
                self._exact.append(frames)
            return self._judge(frames, self._exact[at])

        return self._whole.gather(self._whole.together(judge))[0]

    def _traffic(self) -> tuple[int, int]:
        sent = full = 0
        for one in self._program.transformers:
            sums = report(one)
            sent += int(sum(level["sent_bytes"] for level in sums.levels.values()))
            full += sums.full_bytes
        return sent, full


def _wait(program: Program) -> None:
    if program.parameter.is_cuda:
        torch.cuda.synchronize(program.parameter.device)


def _note(program: Program, policy: str, again: Quality) -> str:
    words = []
    if policy != EXACT and all(enabled(one).parallel.exchanges.never_lossy for one in program.transformers):
        words.append("nothing is coded, as all ranks are on one node")
    if np.isfinite(min(again.psnr)):
        words.append(f"made twice, the first picture is {decibels(min(again.psnr))} dB from itself")
    return "; ".join(words)
