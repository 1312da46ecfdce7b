"""compare(): what a policy costs on one's own pictures, beside exact ones of the same seeds."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .result import Comparison

Prompt = str | Mapping[str, Any]


def compare(
    program: Any,
    prompts: Sequence[Prompt],
    policies: Sequence[str] = ("good", "balanced", "fast"),
    *,
    steps: Any,
    seeds: Sequence[int] = (0,),
    transformers: Any = None,
    page: str | os.PathLike[str] | None = None,
    timeout_seconds: float = 300.0,
    **given: Any,
) -> Comparison:
    """Makes the same pictures exactly, with another attention kernel and with each policy, and says what each
    took, sent and changed. Collective over all ranks; transformers are not enabled before and after it.

    :param program: a pipeline of diffusers, or with `transformers` a call of a prompt and a seed that returns
        a picture, or the frames of a clip
    :param prompts: texts; for a pipeline also what it is called with instead, such as embeddings
    :param policies: as enable() takes them; presets are not left off where they take longer than they save
    :param steps: of an image; of a program's own call also its scheduler
    :param transformers: of a program's own call: those that policies are for
    :param page: where rank 0 writes a page (HTML) with all pictures
    :param given: what else the pipeline is called with, such as height
    """
    from .runs import run_all  # NumPy, which torch can do without

    return run_all(program, prompts, policies, steps, seeds, transformers, page, timeout_seconds, given)
