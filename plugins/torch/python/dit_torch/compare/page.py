"""A page of pictures side by side, in one file."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..whole_file import draft_of
from .pictures import Frames
from .result import HEADER, Comparison, Picture, decibels

_TEMPLATE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>What policies cost</title><style>
body { font-family: sans-serif; margin: 1em } td, th { padding: 0.2em 0.8em; text-align: right }
.row { display: flex; gap: 0.5em; overflow-x: auto } figure { margin: 0 } img { image-rendering: pixelated }
figcaption { font-size: smaller }
</style></head><body>
<h1>What policies cost</h1>
<table><tr>{% for cell in header %}<th>{{ cell }}</th>{% endfor %}</tr>
{% for row in rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</table>
<p>PSNR in dB and SSIM of pictures of 8 bits beside the exact ones of the same prompt and seed; "same": all
bits are. Seconds are the median of a picture's; bytes are those of a picture, of all ranks together. What
another attention kernel changes is rounding alone, and the measure of what a policy may change unseen.</p>
{% for note in notes %}<p>{{ note }}</p>
{% endfor %}{% for sample in samples %}<h2>{{ sample.name }}</h2>
<div class="row">{% for one in sample.shown %}<figure>
<img src="data:image/png;base64,{{ one.png }}" alt="{{ one.caption }}">
<figcaption>{{ one.caption }}</figcaption></figure>
{% endfor %}</div>
{% endfor %}</body></html>
"""


class Shown(NamedTuple):
    """A picture of the page."""

    caption: str
    png: str  # base64


class Page:
    """Collects what is shown. Fails at once where it could not be written in the end."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            import jinja2
            from PIL import Image
        except ImportError as error:
            raise ImportError(
                f"a page needs Pillow and Jinja2 ({error}): pip install pillow jinja2"
            ) from error
        self.path = Path(path)
        self._image: Callable[[Any], Any] = Image.fromarray
        self._template = jinja2.Environment(autoescape=True).from_string(_TEMPLATE)
        self._samples: dict[int, list[Shown]] = {}  # by their number
        self._names: dict[int, str] = {}
        if self.path.is_dir():
            raise IsADirectoryError(f"page = {self.path}: a folder; expected the name of a file")
        self._write("")

    def add(self, at: int, way: str, picture: Picture, frames: Frames, exact: Frames) -> None:
        """A picture; of a clip the worst frame and the median one, each behind the exact one."""
        self._names[at] = f"{picture.prompt}, seed {picture.seed}"
        shown = self._samples.setdefault(at, [])
        if len(frames) == 1:
            shown.append(Shown(_words(way, picture, 0), self._png(frames[0])))
        elif frames is not exact:
            order = np.argsort(picture.quality.psnr, kind="stable")
            for what, frame in (("worst", int(order[0])), ("median", int(order[(len(order) - 1) // 2]))):
                shown.append(Shown(f"exact, frame {frame}", self._png(exact[frame])))
                words = f"{_words(way, picture, frame)}, {what} frame: {frame}"
                shown.append(Shown(words, self._png(frames[frame])))

    def write(self, found: Comparison) -> None:
        samples = [{"name": self._names[at], "shown": shown} for at, shown in self._samples.items()]
        text = self._template.render(header=HEADER, rows=found.rows(), notes=found.notes(), samples=samples)
        self._write(text)

    def _png(self, frame: Frames) -> str:
        held = io.BytesIO()
        self._image(frame).save(held, format="PNG")
        return base64.b64encode(held.getvalue()).decode("ascii")

    def _write(self, text: str) -> None:
        """Whole, or not at all; an empty text only tries whether it can be."""
        try:
            with draft_of(self.path, take_place=bool(text)) as file:
                file.write(text.encode())
        except OSError as error:
            raise OSError(f"page = {self.path}: cannot be written: {error}") from error


def _words(way: str, picture: Picture, frame: int) -> str:
    quality = f"{decibels(picture.quality.psnr[frame])} dB, SSIM {picture.quality.ssim[frame]:.4f}"
    return f"{way}: {picture.seconds:.2f} s" + ("" if way == "exact" else f", {quality}")
