"""The examples in Python, as a user starts them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import needs

EXAMPLES = Path(__file__).parents[3] / "examples"
EXAMPLE = EXAMPLES / "flux.py"
GRAY_SCOTT = EXAMPLES / "gray-scott-flux"
ON_TWO_RANKS = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def _run(folder: Path, *arguments: str, nodes: bool = False) -> subprocess.CompletedProcess[str]:
    launch = [*ON_TWO_RANKS]
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
        f"import runpy, sys; sys.path.insert(0, {str(EXAMPLES)!r}); sys.argv = {options!r}; "
        f"runpy.run_path({str(EXAMPLE)!r})['pipe'].save_pretrained({str(tmp_path / 'saved')!r})"
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


@needs.LIBRARY
def test_gray_scott_is_trained_and_judged(tmp_path: Path) -> None:
    folder, judged = tmp_path / "model", tmp_path / "judged.json"
    data = ("--size", "16", "--per-class", "2", "--simulation-steps", "20", "--device", "cpu")
    train = [sys.executable, str(GRAY_SCOTT / "train.py"), "--out", str(folder), *data]
    train += ["--steps", "20", "--batch", "2", "--learning-rate", "0.05"]
    evaluate = [*ON_TWO_RANKS, str(GRAY_SCOTT / "evaluate.py"), "--model", str(folder), "--size", "16"]
    evaluate += ["--policies", "bf16,fast", "--steps", "2", "--images", "2", "--json", str(judged)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    for command in (train, evaluate):
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=240, env=environment, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert "| `bf16` | 100.0%, same bits (2) |" in done.stdout

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    of_bf16, of_fast = json.loads(judged.read_text(), parse_constant=refuse)["records"]
    assert of_bf16["psnr_db"] == [None, None]
    assert all(10 < db < 120 for db in of_fast["psnr_db"]) and of_fast["sent_share"] < 1
