"""A line on standard error for each step of long work: which of how many, and the seconds since it began. tools/lib/progress.sh
says the same."""

import sys
import time


class Progress:
    def __init__(self, name: str, steps: int) -> None:
        self.name, self.steps, self.done, self.began = name, steps, 0, time.monotonic()

    def step(self, what: str) -> None:
        """Before the step is done."""
        self.done += 1
        seconds = time.monotonic() - self.began
        print(f"{self.name}: {self.done} of {self.steps}, {seconds:.0f} s: {what}", file=sys.stderr, flush=True)
