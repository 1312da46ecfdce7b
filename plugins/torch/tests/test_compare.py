"""What compare() says of pictures is what these pictures are."""

from __future__ import annotations

import base64
import contextlib
import importlib
import io
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn

import dit_torch
import needs
import ranks
import tiny

diffusers = pytest.importorskip("diffusers")
pytest.importorskip("skimage")
pillow = pytest.importorskip("PIL.Image")
pytestmark = needs.LIBRARY

POLICIES = ["fast", "bf16"]
STEPS = 3
PROMPTS = ["a harbour <at> dawn", "a harbour & a moon"]


class _Images(HTMLParser):
    """All pictures of a page, in their order."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: list[np.ndarray] = []
        self.words: list[str] = []
        self.headlines: list[str] = []
        self._tag = ""
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self._tag = tag
        if tag == "img":
            named = dict(attributes)
            head, data = named["src"].split(",")
            assert head == "data:image/png;base64"
            self.words.append(named["alt"])
            self.found.append(np.asarray(pillow.open(io.BytesIO(base64.b64decode(data)))))

    def handle_data(self, data: str) -> None:
        if self._tag == "h2" and data.strip():
            self.headlines.append(data)


def _psnr(a: np.ndarray, b: np.ndarray) -> float:
    error = np.mean((a.astype(float) - b.astype(float)) ** 2)
    return float("inf") if error == 0 else 10 * np.log10(255**2 / error)


def _ssim(a: np.ndarray, b: np.ndarray) -> float:
    """As Wang et al. define it, of all windows of 7x7, equally weighted; the mean of colours."""
    told = []
    for colour in range(3):
        x, y = (
            np.lib.stride_tricks.sliding_window_view(one[..., colour].astype(float), (7, 7)).reshape(-1, 49)
            for one in (a, b)
        )
        mx, my = x.mean(1), y.mean(1)
        covariance = ((x - mx[:, None]) * (y - my[:, None])).sum(1) / 48
        c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
        top = (2 * mx * my + c1) * (2 * covariance + c2)
        told.append((top / ((mx**2 + my**2 + c1) * (x.var(1, ddof=1) + y.var(1, ddof=1) + c2))).mean())
    return float(np.mean(told))


def _transformer() -> nn.Module:
    return tiny.flux(3).to(torch.bfloat16)


def _picture(transformer: nn.Module, prompt: str, seed: int) -> np.ndarray:
    """A field of 16x20 of three of the eight channels."""
    given = {
        name: x.to(torch.bfloat16) if x.is_floating_point() and "ids" not in name else x
        for name, x in tiny.flux_inputs(seed=seed, width=20, text=5 + len(prompt) % 3).items()
    }
    x = given["hidden_states"]
    for step in range(STEPS):
        at = {"hidden_states": x, "timestep": torch.full((1,), 1 - step / STEPS)}
        x = x - transformer(**given | at, return_dict=False)[0] / STEPS
    field = x[0].view(4, 20, 2, 4)[..., :3].float().permute(0, 2, 1, 3).reshape(8, 20, 3)
    return (field / 4 + 0.5).numpy()


def _alone() -> dict[str, tuple[list[np.ndarray], int, int]]:
    """The same pictures by enable() alone, in 8 bits; bytes of the first one: sent, and exact."""
    ranks.be_a_node()
    transformer, told = _transformer(), {}
    for policy in ("exact", *POLICIES):
        made, traffic = [], []
        for prompt in PROMPTS:
            for seed in (0, 1):
                dit_torch.enable(transformer, policy=policy, steps=STEPS, adapt=False)
                with torch.no_grad():
                    picture = _picture(transformer, prompt, seed)
                report = dit_torch.report(transformer)
                dit_torch.disable(transformer)
                made.append(np.round(255 * np.clip(picture, 0, 1)).astype(np.uint8))
                traffic.append((sum(one["sent_bytes"] for one in report.levels.values()), report.full_bytes))
        told[policy] = made, *map(int, traffic[0])
    return told


def _compared(page: Path) -> Any:
    ranks.be_a_node()
    transformer = _transformer()
    return dit_torch.compare(
        lambda prompt, seed: _picture(transformer, prompt, seed),
        PROMPTS,
        POLICIES,
        steps=STEPS,
        seeds=(0, 1),
        transformers=[transformer],
        page=page,
    )


def test_figures_and_pictures_are_those_of_enable(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    found, other = ranks.run(2, _compared, page)
    assert found == other, "the same on all ranks"
    exact, kernel, *coded = found.ways
    assert [way.name for way in found.ways] == ["exact", "another attention kernel", *POLICIES]
    assert set(exact.psnr) == {float("inf")} and set(exact.ssim) == {1.0}
    assert exact.note == "" and exact.share == kernel.share == 1
    assert min(kernel.psnr) > 30, "rounding alone"

    mine, theirs = ranks.run(2, _alone)
    pictures = {policy: made for policy, (made, _, _) in mine.items()}
    for way, policy in zip(coded, POLICIES, strict=True):
        pairs = list(zip(pictures[policy], pictures["exact"], strict=True))
        np.testing.assert_allclose(way.psnr, [_psnr(*pair) for pair in pairs], rtol=1e-9)
        np.testing.assert_allclose(way.ssim, [_ssim(*pair) for pair in pairs], rtol=1e-6)
        first = way.pictures[0]
        assert first.sent_bytes == mine[policy][1] + theirs[policy][1]
        assert first.full_bytes == mine[policy][2] + theirs[policy][2]
        assert all(picture.seconds > 0 for picture in way.pictures)
    assert 15 < min(coded[0].psnr) < 60 and coded[0].share < 0.8

    shown = _Images(page)
    assert shown.headlines == [f"{prompt}, seed {seed}" for prompt in PROMPTS for seed in (0, 1)]
    assert len(shown.found) == 4 * 4
    for at in range(4):
        row = dict(zip(("exact", "kernel", *POLICIES), shown.found[4 * at : 4 * at + 4], strict=True))
        for policy, expected in pictures.items():
            np.testing.assert_array_equal(row[policy], expected[at])
    assert f"{min(coded[0].psnr):.1f}" in str(found)
    assert os.listdir(tmp_path) == ["page.html"]


def _on_one_node() -> Any:
    transformer = _transformer()
    call = lambda prompt, seed: _picture(transformer, prompt, seed)  # noqa: E731
    return dit_torch.compare(call, PROMPTS[:1], ["fast"], steps=STEPS, transformers=transformer).ways[-1]


def test_where_nothing_is_coded_it_says_so() -> None:
    way = ranks.run(2, _on_one_node)[0]
    assert way.note == "nothing is coded, as all ranks are on one node" and min(way.psnr) == float("inf")


def _refused(page: Path, fails: str) -> str:
    ranks.be_a_node()
    transformer, made = _transformer(), []

    def call(prompt: str, seed: int) -> np.ndarray:
        made.append(prompt)
        picture = _picture(transformer, prompt, seed)
        if fails == "call" and dist.get_rank() == 1 and len(made) == 2:
            raise RuntimeError("out of memory behind the transformer")
        return picture * (np.nan if fails == "nan" and dist.get_rank() == 1 else 1)

    policies = ["no such policy" if fails == "policy" else "fast"]
    with pytest.raises(Exception) as told:
        dit_torch.compare(call, PROMPTS, policies, steps=STEPS, transformers=[transformer], page=page)
    before = len(made)
    dit_torch.enable(transformer)  # nothing of it is left
    with torch.no_grad():
        _picture(transformer, PROMPTS[0], 0)
    dit_torch.disable(transformer)
    return f"{before} made: {told.value}"


def test_what_fails_fails_on_all_ranks(tmp_path: Path) -> None:
    for words in ranks.run(2, _refused, tmp_path / "page.html", "call"):
        assert words.startswith("2 made: ") and "out of memory behind the transformer" in words
    for words in ranks.run(2, _refused, tmp_path / "page.html", "nan"):
        assert "a picture is not finite" in words
    for words in ranks.run(2, _refused, tmp_path / "page.html", "policy"):
        assert words.startswith("0 made: ") and "no such policy" in words
    for words in ranks.run(2, _refused, tmp_path / "no folder" / "page.html", ""):
        assert words.startswith("0 made: ") and "no folder/page.html: cannot be written" in words
    assert not list(tmp_path.iterdir())


def test_without_scikit_image_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "skimage.metrics", None)
    for words in ranks.run(2, _refused, tmp_path / "page.html", ""):
        assert words.startswith("0 made: ") and "pip install scikit-image" in words


def _run(*arguments: str) -> str:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [*launch, "-m", "dit_torch.compare", "--steps", str(STEPS), *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


PROGRAM = f"""
import sys
sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
import test_compare

def load():
    transformer = test_compare._transformer()
    return (lambda prompt, seed: test_compare._picture(transformer, prompt, seed)), [transformer]
"""


def test_a_program_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PROGRAM)
    (tmp_path / "prompts.txt").write_text("# two\n" + "\n\n".join(PROMPTS))
    page = tmp_path / "page.html"
    given = ["--program", str(tmp_path / "mine.py"), "--prompts", str(tmp_path / "prompts.txt")]
    told = _run(*given, "--policies", "fast", "--apart", "--out", str(page))
    assert "fast" in told and "another attention kernel" in told and "nothing is coded" not in told
    assert len(_Images(page).found) == 2 * 3


def _save_wan(folder: Path) -> None:
    """A pipeline of clips, with a text encoder and a tokenizer."""
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    words = {"<pad>": 0, "</s>": 1, "<unk>": 2, "a": 3, "harbour": 4}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    config = {"vocab_size": 8, "d_model": 24, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    torch.manual_seed(5)
    vae = diffusers.AutoencoderKLWan(
        base_dim=8,
        z_dim=4,
        dim_mult=[1, 1, 1, 1],
        num_res_blocks=1,
        latents_mean=[0.0] * 4,
        latents_std=[1.0] * 4,
    )
    pipeline = diffusers.WanPipeline(
        tokenizer=transformers.PreTrainedTokenizerFast(tokenizer_object=model, **special),
        text_encoder=transformers.UMT5EncoderModel(transformers.UMT5Config(**config)).eval(),
        vae=vae.eval(),
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0),
        transformer=tiny.wan(3),
    )
    pipeline.save_pretrained(folder)


def _main(arguments: list[str]) -> str:
    """What the program prints."""
    with contextlib.redirect_stdout(io.StringIO()) as told:
        importlib.import_module("dit_torch.compare.__main__").main(arguments)
    return told.getvalue()


def test_clips_of_a_saved_pipeline(tmp_path: Path) -> None:
    _save_wan(tmp_path / "saved")
    (tmp_path / "prompts.txt").write_text("a harbour\n")
    page = tmp_path / "page.html"
    given = ["--pipeline", str(tmp_path / "saved"), "--prompts", str(tmp_path / "prompts.txt")]
    size = ["--set", "height=32", "--set", "width=48", "--set", "num_frames=5", "--dtype", "float32"]
    more = ["--seeds", "2", "--steps", "2", "--policies", "fp8", "--apart", "--out", str(page)]
    told = ranks.run(2, _main, [*given, *size, *more])
    assert "fp8" in told[0] and told[1] == ""
    shown = _Images(page)
    assert len(shown.found) == 2 * 2 * 4 and all(one.shape == (32, 48, 3) for one in shown.found)
    for at in range(0, len(shown.found), 4):
        exact, worst, of_median, median = shown.found[at : at + 4]
        assert "worst frame" in shown.words[at + 1] and "median frame" in shown.words[at + 3]
        assert f"{_psnr(worst, exact):.1f} dB".replace("inf dB", "same dB") in shown.words[at + 1]
        assert _psnr(worst, exact) <= _psnr(median, of_median)
