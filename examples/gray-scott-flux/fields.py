"""The Gray-Scott reaction-diffusion system on a periodic square, source of training data, all fields at once on a
GPU: u' = Du lap(u) - u v^2 + F (1 - u); v' = Dv lap(v) + u v^2 - (F + k) v; nine-point Laplacian, explicit Euler,
as in examples/gray-scott. Each field has its own F and k, near those of its class."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

# name, F, k: the twelve classes of examples/gray-scott
REGIMES: tuple[tuple[str, float, float], ...] = (
    ("spots", 0.034, 0.063),
    ("mitosis", 0.022, 0.059),
    ("solitons", 0.054, 0.067),
    ("chaos", 0.018, 0.051),
    ("waves", 0.014, 0.041),
    ("maze", 0.029, 0.057),
    ("worms", 0.058, 0.065),
    ("dashes", 0.046, 0.065),
    ("loops", 0.058, 0.063),
    ("holes", 0.039, 0.058),
    ("bubbles", 0.046, 0.0594),
    ("pores", 0.062, 0.061),
)
NEAR = 0.0005  # F and k are drawn so far around those of the class
DIFFUSION_U, DIFFUSION_V = 0.5, 0.25


class Fields(NamedTuple):
    fields: Tensor  # [count, 2, size, size]: u, v
    labels: Tensor  # [count]: numbers of classes
    feed: Tensor  # [count]: F
    kill: Tensor  # [count]: k


def parameters(per_class: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Labels, F and k of so many fields of each class, class by class."""
    device = generator.device
    labels = torch.arange(len(REGIMES), device=device).repeat_interleave(per_class)
    centre = torch.tensor([[feed, kill] for _, feed, kill in REGIMES], device=device)[labels]
    drawn = centre + NEAR * (2 * torch.rand(centre.shape, generator=generator, device=device) - 1)
    return labels, drawn[:, 0], drawn[:, 1]


def _start(count: int, size: int, generator: torch.Generator) -> Tensor:
    """u = 1, v = 0, with squares of (1/2, 1/4) strewn over about a sixth of the area, all a little noisy."""
    device = generator.device
    seeds = max(1, size * size // 400)
    at = torch.randint(size, (count, seeds, 2), generator=generator, device=device)
    side = torch.randint(4, 13, (count, seeds), generator=generator, device=device)
    pixel = torch.arange(size, device=device)
    covered = torch.zeros(count, size, size, dtype=torch.bool, device=device)
    for square in range(seeds):
        rows, columns = ((pixel - at[:, square, axis, None]) % size < side[:, square, None] for axis in range(2))
        covered |= rows[:, :, None] & columns[:, None, :]
    noise = 0.02 * torch.rand(count, 2, size, size, generator=generator, device=device)
    u = torch.where(covered, 0.5, 1.0) - noise[:, 0]
    v = torch.where(covered, 0.25, 0.0) + noise[:, 1]
    return torch.stack([u, v], dim=1)


def _around(x: Tensor) -> Tensor:
    """Nine-point Laplacian on a periodic square."""
    rows = x.roll(1, -1) + x.roll(-1, -1) + 4 * x
    return 0.05 * (rows.roll(1, -2) + rows.roll(-1, -2) + 4 * rows) - 1.8 * x


def _steps(state: Tensor, feed: Tensor, kill: Tensor) -> Tensor:
    u, v = state[:, 0], state[:, 1]
    reaction = u * v * v
    u_next = u + DIFFUSION_U * _around(u) - reaction + feed * (1 - u)
    v_next = v + DIFFUSION_V * _around(v) + reaction - (feed + kill) * v
    return torch.stack([u_next, v_next], dim=1)


def simulate(per_class: int, size: int, steps: int, seed: int, device: torch.device) -> Fields:
    """So many fields of each class after so many steps."""
    generator = torch.Generator(device).manual_seed(seed)
    labels, feed, kill = parameters(per_class, generator)
    state = _start(len(labels), size, generator)
    step = torch.compile(_steps, dynamic=False) if device.type == "cuda" else _steps
    columns = feed[:, None, None], kill[:, None, None]
    with torch.no_grad():
        for _ in range(steps):
            state = step(state, *columns)
    return Fields(state, labels, feed, kill)


def augment(fields: Tensor, generator: torch.Generator) -> Tensor:
    """Fields shifted, flipped and turned, the same for all of a batch: symmetries of the system."""
    size = fields.shape[-1]
    rows, columns, turns, flip = (int(n) for n in torch.randint(size, (4,), generator=generator, device=generator.device))
    fields = fields.roll((rows, columns), (-2, -1)).rot90(turns % 4, (-2, -1))
    return fields.flip(-1) if flip % 2 else fields
