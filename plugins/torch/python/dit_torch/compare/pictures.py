"""Pictures and clips as they are saved, in 8 bits, and how far one is from another."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Frames = NDArray[np.uint8]  # [frames, height, width, 3]; a picture has one
SMALLEST = 7  # pixels of a side: SSIM's window


class Quality(NamedTuple):
    """Of a picture, or of each frame of a clip, beside the exact one."""

    psnr: tuple[float, ...]  # dB; infinity where all bits are equal
    ssim: tuple[float, ...]


def frames_of(made: Any) -> Frames:
    """Of what a program returns: a picture of Pillow, an array [height, width, 3] of bytes or of numbers in
    0 ... 1, a tensor [3, height, width] of such, or several: a list, or one more dimension in front."""
    if isinstance(made, (list, tuple)) and made:
        return np.concatenate([frames_of(one) for one in made])
    if hasattr(made, "convert"):  # Pillow's
        made = np.asarray(made.convert("RGB"))
    if isinstance(made, Tensor):
        made = made.detach().movedim(-3, -1).to("cpu", torch.float32 if made.is_floating_point() else None)
        made = made.numpy()
    if not isinstance(made, np.ndarray) or made.ndim not in (3, 4) or made.shape[-1] != 3:
        what = (
            f"an array of shape {made.shape}" if isinstance(made, np.ndarray) else f"a {type(made).__name__}"
        )
        raise TypeError(
            f"a picture is {what}: expected one of Pillow, an array [height, width, 3], a tensor [3, height, "
            "width], or several of them as the frames of a clip"
        )
    if made.dtype != np.uint8:
        if not np.isfinite(made).all():
            raise ValueError("a picture is not finite: it has NaN or infinity")
        made = (255 * made.clip(0, 1)).round().astype(np.uint8)
    return np.ascontiguousarray(made.reshape(-1, *made.shape[-3:]))


def find_judge() -> Callable[[Frames, Frames], Quality]:
    """What tells the quality of frames beside the exact ones. Raises where scikit-image is not there."""
    try:
        from skimage.metrics import peak_signal_noise_ratio, structural_similarity
    except ImportError as error:
        raise ImportError(
            f"dit_torch.compare needs scikit-image for PSNR and SSIM, and it is not there ({error}): pip "
            "install scikit-image"
        ) from error

    def judge(frames: Frames, exact: Frames) -> Quality:
        if frames.shape != exact.shape:
            raise ValueError(f"a picture has shape {frames.shape}, and the exact one {exact.shape}")
        if min(exact.shape[1:3]) < SMALLEST:
            raise ValueError(f"a picture has {exact.shape[1:3]} pixels: expected {SMALLEST} or more a side")
        psnr, ssim = [], []
        for one, other in zip(frames, exact, strict=True):
            equal = np.array_equal(one, other)
            psnr.append(math.inf if equal else float(peak_signal_noise_ratio(other, one, data_range=255)))
            ssim.append(float(structural_similarity(other, one, channel_axis=-1, data_range=255)))
        return Quality(tuple(psnr), tuple(ssim))

    return judge
