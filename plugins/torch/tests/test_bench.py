"""The bench's ways to make a guided step give one result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import needs

RACE = Path(__file__).parents[3] / "bench" / "torch" / "race.py"
WAYS = ("one", "diffusers", "branches", "ours", "ours:flat:exact:branches", "ours:flat:exact:auto")


@needs.LIBRARY
@pytest.mark.parametrize("size", [2, 4])
def test_guided_steps_of_all_ways_are_alike(tmp_path: Path, size: int) -> None:
    """In the bench's bf16."""
    told = tmp_path / "told.json"
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(size)]
    options = ["--tiny", "--case", "qwen-1024-guided", "--ways", ",".join(WAYS), "--modes", "eager"]
    few = ["--rounds", "1", "--passes", "1", "--seconds", "0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [*launch, str(RACE), *options, *few, "--json", str(told)],
        capture_output=True,
        text=True,
        timeout=400,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    timed = [one for one in map(json.loads, told.read_text().splitlines()) if "median" in one]
    assert [one["way"] for one in timed] == list(WAYS), done.stdout
    assert all(one["cosine"] > 0.999 for one in timed[1:])
    assert "one of two branches" in timed[-1]["report"]["parallel"]
