"""The codes of bench/codes: what starts them, their inputs, and which of their output is a result."""

from __future__ import annotations

import dataclasses
import pathlib
import shutil
import subprocess

INPUTS = pathlib.Path(__file__).resolve().parent / "inputs"


@dataclasses.dataclass(frozen=True)
class Code:
    name: str
    packages: tuple[str, ...]  # of Debian
    program: str  # in bin of the prefix, python3, or tests/NAME of the build folder
    arguments: tuple[str, ...]
    results: str  # regular expression: the parts of lines that must be equal with and without the drop-in
    inputs: tuple[str, ...] = ()  # copied into the folder of a run; {data}, {npband}, {npfft} are filled in
    data: tuple[str, ...] = ()  # in share of the prefix
    output: str | None = None  # the file with the results, where it is not the standard output
    seconds: str | None = None  # regular expression whose group 1 is the code's own time of its work; they add up
    divides: int = 1  # the number of ranks must be a multiple of it
    most: int = 1024  # ranks
    modules: tuple[str, ...] = ()  # of Python


SILICON = ("abinit/psp/14-Si.nlcc.UPF",)
ENERGIES = r"^!?.*(total energy +=.*Ry|Fermi energy is.*|highest occupied level.*)|convergence has been achieved in.*"
WALL = r"PWSCF +:.*CPU +(?:(?:\d+)m *)?([\d.]+)s WALL"
CHECKED_BY_HPCC = (
    r"^(?:Success|PTRANS_(?:n|nb)|MPIRandomAccess(?:_LCG)?_N|MPIFFT_(?:N|maxErr|Procs))=.*"
    r"|locations .(?:passed|failed)|[0-9]+ tests completed and failed"
)


def espresso(name: str, *arguments: str, divides: int = 1) -> Code:
    return Code(
        name,
        ("quantum-espresso", "abinit-data"),
        "pw.x",
        ("-in", "silicon.pw", *arguments),
        ENERGIES,
        ("silicon.pw",),
        SILICON,
        seconds=WALL,
        divides=divides,
        most=32,
    )


CODES = (
    espresso("pw.x"),
    espresso("pw.x-ntg", "-ntg", "2", divides=2),
    espresso("pw.x-nk", "-nk", "2", divides=2),
    Code(
        "abinit",
        ("abinit", "abinit-data"),
        "abinit",
        ("silicon.abi",),
        r"ETOT +\d+ .*",
        ("silicon.abi",),
        ("abinit/psp/14si.pspnc",),
        output="silicon.abo",
        seconds=r"individual time .*wall= *([\d.]+)",
        divides=2,
        most=32,
    ),
    Code(
        "lammps",
        ("lammps",),
        "lmp",
        ("-in", "charges.in", "-log", "none"),
        r"^ +[0-9]+(?: +-?[0-9]+[.][0-9]+)+",
        ("charges.in",),
        seconds=r"Loop time of ([\d.]+)",
    ),
    Code("hpcc", ("hpcc",), "hpcc", (), CHECKED_BY_HPCC, ("hpccinf.txt",), output="hpccoutf.txt", divides=4),
    Code("fftw", ("libfftw3-mpi-dev",), "tests/fft", ("96", "40"), r"^fft-.*(?:spectrum|round trip).*"),
    Code(
        "mpi4py-fft",
        ("python3-mpi4py-fft",),
        "python3",
        ("fft.py",),
        r"^result .*",
        ("fft.py",),
        seconds=r"^seconds ([\d.]+)",
        modules=("mpi4py_fft", "numpy"),
    ),
)


def fits(code: Code, ranks: int) -> str | None:
    """Why it does not run on so many ranks."""
    if ranks % code.divides != 0:
        return f"wants a multiple of {code.divides} ranks"
    return f"its input is for at most {code.most} ranks" if ranks > code.most else None


def path_of(code: Code, prefix: pathlib.Path, build: pathlib.Path) -> pathlib.Path | None:
    path = build / "bin" / code.program if "/" in code.program else prefix / "bin" / code.program
    return path if path.is_file() else None


def what_is_missing(code: Code, prefix: pathlib.Path, build: pathlib.Path) -> str | None:
    """In words, or None."""
    path = path_of(code, prefix, build)
    if path is None and "/" in code.program:
        return f"{build}/bin/{code.program} is not built (target tests/all; install {' '.join(code.packages)} first)"
    if path is None:
        return f"{prefix}/bin/{code.program} is not there: --install installs {' '.join(code.packages)}"
    for file in code.data:
        if not (prefix / "share" / file).is_file():
            return f"{prefix}/share/{file} is not there: --install installs {' '.join(code.packages)}"
    for module in code.modules:
        done = subprocess.run([str(path), "-c", f"import {module}"], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if done.returncode != 0:
            return f"{path} has no {module}: --install installs {' '.join(code.packages)}"
    return None


def install(codes: list[Code]) -> None:
    packages = sorted({package for code in codes for package in code.packages})
    subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", *packages], check=True)


def bands_and_ffts(ranks: int) -> tuple[int, int]:
    """How ABINIT spreads its ranks: over FFTs and 16 bands."""
    bands = max(n for n in (1, 2, 4, 8, 16) if ranks % (2 * n) == 0)
    return bands, ranks // bands


def prepare(code: Code, folder: pathlib.Path, prefix: pathlib.Path, ranks: int) -> None:
    """Puts the inputs there."""
    npband, npfft = bands_and_ffts(ranks) if code.divides % 2 == 0 else (1, ranks)
    for name in code.inputs:
        if name.endswith((".pw", ".abi")):
            text = (INPUTS / name).read_text()
            for key, value in (("data", prefix / "share"), ("npband", npband), ("npfft", npfft)):
                text = text.replace("{" + key + "}", str(value))
            (folder / name).write_text(text)
        else:
            shutil.copy(INPUTS / name, folder / name)
