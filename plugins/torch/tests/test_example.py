"""examples/flux.py, as a user starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

EXAMPLE = Path(__file__).parents[3] / "examples" / "flux.py"


def _run(folder: Path, *arguments: str, nodes: bool = False) -> subprocess.CompletedProcess[str]:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    program = [str(EXAMPLE), "--size", "64", "--steps", "2", "--out", str(folder / "flux.png"), *arguments]
    if nodes:
        own = 'TAPA_DEVICE_NODE=n$RANK exec "$@"'
        launch += ["--no-python", "bash", "-c", own, "bash", sys.executable]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(
        launch + program, capture_output=True, text=True, timeout=240, env=environment, check=False
    )


def _require_picture(folder: Path, done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "flux.png").read_bytes().startswith(b"\x89PNG")


def test_random_weights(tmp_path: Path) -> None:
    done = _run(tmp_path, "--tiny")
    _require_picture(tmp_path, done)
    assert "random weights" in done.stdout and "random embeddings" in done.stdout
    assert "FluxTransformer2DModel" in done.stdout  # the report


def test_a_policy(tmp_path: Path) -> None:
    done = _run(tmp_path, "--tiny", "--policy", "balanced", nodes=True)
    _require_picture(tmp_path, done)
    assert "policy balanced" in done.stdout


def test_a_checkpoint_without_text_encoders(tmp_path: Path) -> None:
    options = ["", "--tiny", "--size", "64", "--steps", "1", "--out", str(tmp_path / "one.png")]
    made = (
        f"import runpy, sys; sys.argv = {options!r}; known = runpy.run_path({str(EXAMPLE)!r}); "
        f"known['pipe'].save_pretrained({str(tmp_path / 'saved')!r})"
    )
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run([sys.executable, "-c", made], check=True, timeout=240, env=environment)
    embeddings = {"prompt_embeds": torch.ones(1, 7, 24), "pooled_prompt_embeds": torch.ones(1, 12)}
    save_file(embeddings, tmp_path / "text.safetensors")
    checkpoint = ("--checkpoint", str(tmp_path / "saved"))
    done = _run(tmp_path, *checkpoint, "--embeddings", str(tmp_path / "text.safetensors"))
    _require_picture(tmp_path, done)
    assert "random" not in done.stdout


@pytest.mark.parametrize("more", [(), ("--checkpoint", "there", "--embeddings", "x")])
def test_a_prompt_needs_text_encoders(tmp_path: Path, more: tuple[str, ...]) -> None:
    done = _run(tmp_path, "--tiny", "--prompt", "a harbour", *more)
    assert done.returncode != 0 and "--prompt = 'a harbour': expected --checkpoint" in done.stderr
