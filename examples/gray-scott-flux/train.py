#!/usr/bin/env python3
"""Trains a FLUX transformer of diffusers on simulated Gray-Scott fields, on one GPU: flow matching, prompts of class
and parameters as text tokens. `train.py --out gray-scott-flux` takes ten minutes; --minutes 3 is good enough for
patterns of all classes."""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import fields
import model
import prompts
import torch
from diffusers import FluxTransformer2DModel
from torch import Tensor, nn

WARMUP = 200  # steps


def draw_times(count: int, generator: torch.Generator) -> Tensor:
    """In 0 ... 1: most where the direction is hard to tell (logit-normal), some everywhere."""
    device = generator.device
    middle = torch.randn(count, generator=generator, device=device).sigmoid()
    anywhere = torch.rand(count, generator=generator, device=device)
    return torch.where(torch.rand(count, generator=generator, device=device) < 0.2, anywhere, middle)


def start_at_identity(transformer: nn.Module) -> None:
    """Blocks begin by passing on what they get, and the answer at zero, which trains faster."""
    for name, module in transformer.named_modules():
        modulation = name.endswith((".linear",)) and "norm" in name
        if isinstance(module, nn.Linear) and (modulation or name == "proj_out"):
            nn.init.zeros_(module.weight)
            nn.init.zeros_(module.bias)


class Training:
    """Weights in fp32, products in bf16, an average of the weights that is kept in the end."""

    def __init__(self, data: fields.Fields, options: argparse.Namespace) -> None:
        self.options = options
        device = data.fields.device
        self.generator = torch.Generator(device).manual_seed(options.seed)
        self.labels, self.feed, self.kill = data.labels, data.feed, data.kill
        deviation, mean = torch.std_mean(data.fields, dim=(0, 2, 3))
        self.scales = model.Scales(mean.tolist(), deviation.tolist())
        self.fields = self.scales.to_model(data.fields)
        torch.manual_seed(options.seed)
        self.model: nn.Module = FluxTransformer2DModel(**model.CONFIG).to(device)
        start_at_identity(self.model)
        if options.start:
            self.model.load_state_dict({name: x.float() for name, x in model.read(options.start).items()})
        if device.type == "cuda" and not options.eager:
            self.model.compile_repeated_blocks(fullgraph=True, dynamic=False)
        self.parameters = list(self.model.parameters())
        self.average = [parameter.detach().clone() for parameter in self.parameters]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=options.learning_rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True)

    def batch_loss(self) -> Tensor:
        count = self.options.batch
        device = self.fields.device
        chosen = torch.randint(len(self.fields), (count,), generator=self.generator, device=device)
        data = model.pack(fields.augment(self.fields[chosen], self.generator))
        prompt = prompts.embed(self.labels[chosen], self.feed[chosen], self.kill[chosen])
        noise = torch.randn(data.shape, generator=self.generator, device=device)
        times = draw_times(count, self.generator)
        mixed = data + times[:, None, None] * (noise - data)
        with torch.autocast(device.type, torch.bfloat16):
            answer = model.call(self.model, mixed, times, prompt)
        return (answer.float() - (noise - data)).square().mean()

    def step(self, number: int, progress: float) -> Tensor:
        rate = self.options.learning_rate * min(1.0, (number + 1) / WARMUP)
        rate *= 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        loss = self.batch_loss()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0, foreach=True)
        self.optimizer.step()
        decay = min(0.999, (1 + number) / (10 + number))
        torch._foreach_lerp_(self.average, [p.detach() for p in self.parameters], 1 - decay)
        return loss.detach()

    def run(self, seconds: float) -> dict[str, float]:
        """Trains for so long, the compilation included; says where it is every few seconds."""
        begin, said, number = time.perf_counter(), 0.0, 0
        summed, count = torch.zeros((), device=self.fields.device), 0
        loss = math.nan
        most = self.options.steps or math.inf
        while (spent := time.perf_counter() - begin) < seconds and number < most:
            progress = max(spent / seconds, number / most)
            summed += self.step(number, progress)
            number, count = number + 1, count + 1
            if number % 20 == 0 and spent - said > 10:
                loss = float(summed) / count
                print(f"step {number}  {100 * progress:5.1f} %  {spent:.0f} s  loss {loss:.4f}", flush=True)
                summed.zero_()
                said, count = spent, 0
        if count:
            loss = float(summed) / count
        return {
            "steps": number,
            "batch": self.options.batch,
            "seconds": round(spent, 1),
            "loss": round(loss, 5),
        }

    @torch.no_grad()
    def show(self, count: int = 4, steps: int = 25) -> Tensor:
        """Prints for each class mean and deviation of v, in model units, of simulated fields and of as many generated
        ones with the same prompts. Returns the generated ones."""
        for parameter, average in zip(self.parameters, self.average, strict=True):
            parameter.copy_(average)
        count = min(count, self.options.per_class)
        chosen = torch.cat([(self.labels == label).nonzero()[:count, 0] for label in range(len(fields.REGIMES))])
        prompt = prompts.embed(self.labels[chosen], self.feed[chosen], self.kill[chosen])
        noise = torch.randn(self.fields[chosen].shape, generator=self.generator, device=self.fields.device)
        with torch.autocast(self.fields.device.type, torch.bfloat16):
            made = model.sample(self.model, noise, prompt, steps)
        print("class      simulated v      generated v")
        for (name, _, _), real, other in zip(fields.REGIMES, self.fields[chosen].split(count), made.split(count), strict=True):
            print(f"{name:9} {real[:, 1].mean():6.2f} +- {real[:, 1].std():.2f}  {other[:, 1].mean():6.2f} +- {other[:, 1].std():.2f}")
        return made

    def weights(self) -> dict[str, Tensor]:
        names = [name for name, _ in self.model.named_parameters()]
        return dict(zip(names, self.average, strict=True))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for config.json and model.safetensors")
    parser.add_argument("--from", dest="start", type=Path, help="go on from the weights of this folder")
    parser.add_argument("--minutes", type=float, default=9.0, help="of training; simulation takes about one more")
    parser.add_argument("--steps", type=int, default=0, help="at most so many; 0: as many as there is time for")
    parser.add_argument("--size", type=int, default=128, help="pixels a side")
    parser.add_argument("--per-class", type=int, default=320, help="fields of each class")
    parser.add_argument("--simulation-steps", type=int, default=8000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args()


def main() -> None:
    options = parse()
    torch.set_float32_matmul_precision("high")
    torch.backends.cuda.enable_cudnn_sdp(False)  # its backward pass and compiled blocks disagree in torch 2.11
    begin = time.perf_counter()
    data = fields.simulate(options.per_class, options.size, options.simulation_steps, options.seed, torch.device(options.device))
    if not torch.isfinite(data.fields).all():
        raise SystemExit("a simulated field is not finite")
    training = Training(data, options)
    count = sum(parameter.numel() for parameter in training.parameters)
    print(f"{len(data.fields)} fields in {time.perf_counter() - begin:.0f} s; {count} parameters", flush=True)
    facts = {
        **training.run(options.minutes * 60),
        "parameters": count,
        "size": options.size,
        "seed": options.seed,
    }
    model.save(options.out, training.weights(), training.scales, facts)
    print(f"{facts}, written to {options.out}", flush=True)
    training.show()


if __name__ == "__main__":
    main()
