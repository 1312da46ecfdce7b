"""Two hundred images leak nothing; a rank that is killed is named by the others."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch

import endurance
import needs
import ranks


def _images_in_a_row(schedule: str, policy: str) -> dict[str, list[int]]:
    ranks.be_a_node()
    return endurance.images_in_a_row(torch.device("cpu"), 200, schedule, policy)


@pytest.mark.parametrize(
    ("schedule", "policy"), [("v-first", "exact"), pytest.param("flat", "balanced", marks=needs.LIBRARY)]
)
def test_images_in_a_row_leak_nothing(schedule: str, policy: str) -> None:
    for held in ranks.run(2, _images_in_a_row, schedule, policy):
        assert not endurance.grown(held), held


@pytest.mark.parametrize("halves", [[], ["halves"]])
def test_a_rank_that_is_killed_is_named(halves: list[str]) -> None:
    size = 4 if halves else 3
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(endurance.free_port()), "WORLD_SIZE": str(size)}
    started = [
        subprocess.Popen(
            [sys.executable, endurance.__file__, "cpu", "killed", *halves],
            env=os.environ | address | {"RANK": str(rank), "LOCAL_RANK": str(rank), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    said = [process.communicate(timeout=120)[0] for process in started]
    assert started[-1].returncode != 0
    for text in said[:-1]:
        seconds, words = json.loads(text)
        assert f"rank {size - 1} " in words and "has ended" in words, text
        assert seconds < 4 * endurance.TIMEOUT, text
