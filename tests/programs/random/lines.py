"""Programs as text for program_random: a line for each step."""

from dataclasses import dataclass, field


@dataclass
class Line:
    number: int
    thread: int  # -1: all
    verb: str
    words: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return " ".join([str(self.number), str(self.thread), self.verb, *(f"{k}={v}" for k, v in self.words.items())])

    def listed(self, name: str) -> list[str]:
        return [item for item in self.words.get(name, "").split(",") if item]


def read_line(text: str) -> Line:
    number, thread, verb, *words = text.split()
    return Line(int(number), int(thread), verb, dict(word.split("=", 1) for word in words))


@dataclass(frozen=True)
class Shape:
    """What a program is for."""

    ranks: int
    threads: int = 1
    layouts: bool = False
    one_sided: bool = True
    steps: int = 120
    patient: bool = False  # some calls are made many times over


def text_of(lines: list[Line], shape: Shape, seed: int) -> str:
    head = f"program ranks={shape.ranks} threads={shape.threads} seed={seed}" + (" layouts=1" if shape.layouts else "")
    return "\n".join([head, *map(str, lines)]) + "\n"
