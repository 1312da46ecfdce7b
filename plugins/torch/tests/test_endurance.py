"""Two hundred images leak nothing; a rank that is killed is named by the others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
import torch
import torch.distributed as dist

import dit_torch.group
import endurance
import ranks
import tiny
from dit_torch._library import library


@pytest.mark.parametrize(("schedule", "policy"), [("v-first", "exact"), ("flat", "balanced")])
def test_images_in_a_row_leak_nothing(schedule: str, policy: str) -> None:
    for held in ranks.run(2, endurance.images_in_a_row, torch.device("cpu"), 200, schedule, policy):
        assert not endurance.grown(held), held


def _collectives_of_the_program(cfg_parallel: bool) -> list[str]:
    """Which of torch.distributed's a forward pass calls, but for those of the library's own groups:
    NCCL's wait on GPUs for a rank that is gone as long as they like."""
    told: list[str] = []
    model = tiny.qwenimage(4)
    dit_torch.enable(model, cfg_parallel=cfg_parallel)
    kept = [
        group for known, _ in dit_torch.group._open.values() for group in (known.control, known._bootstrap)
    ]

    def watched(name: str, original: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if not any(kwargs.get("group") is group for group in kept):
                told.append(name)
            return original(*args, **kwargs)

        return call

    names = ("all_gather_into_tensor", "all_gather_object", "all_to_all_single", "all_reduce", "broadcast")
    with pytest.MonkeyPatch.context() as patches:
        for name in names:
            patches.setattr(dist, name, watched(name, getattr(dist, name)))
        with torch.no_grad():
            for branch in ("cond", "uncond") * 3:
                with model.cache_context(branch):
                    model(**tiny.qwenimage_inputs(), return_dict=False)[0].sum().item()
    dit_torch.disable(model)
    return told


@pytest.mark.skipif(library() is None, reason="torch.distributed carries the exchange then")
@pytest.mark.parametrize("cfg_parallel", [False, True])
def test_forward_passes_keep_to_exchanges_that_name_a_rank_that_is_gone(cfg_parallel: bool) -> None:
    assert ranks.run(2, _collectives_of_the_program, cfg_parallel) == [[], []]


@pytest.mark.skipif(library() is None, reason="torch.distributed's own exchange waits for its own time-out")
def test_a_rank_that_is_killed_is_named() -> None:
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(endurance.free_port()), "WORLD_SIZE": "3"}
    started = [
        subprocess.Popen(
            [sys.executable, endurance.__file__, "cpu", "killed"],
            env=os.environ | address | {"RANK": str(rank), "LOCAL_RANK": str(rank), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(3)
    ]
    said = [process.communicate(timeout=120)[0] for process in started]
    assert started[2].returncode != 0
    for text in said[:2]:
        seconds, words = json.loads(text)
        assert "rank 2" in words and seconds < 4 * endurance.TIMEOUT, text
