"""bench/codes: what it reads from the drop-in's report, its ratios, its inputs, and what it says where nothing is installed."""

import pathlib
import subprocess
import sys
import tempfile

root = pathlib.Path(sys.argv[1])
preload = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(root / "bench"))
from real_codes import cases, runs, table  # noqa: E402

# As tests/report/report_text_test.cpp has it.
REPORT = """noise
tapa report: 100 all-to-alls, as rank 0 of 8 saw them
  taken       96 (96.0 %)
  forwarded   4 (4.0 %): 3 (slow), 1 (one rank)
  time        0.508 s in blocking calls, 5.1 % of the 10.000 s since MPI_Init
              0.250 s from start to completion of the others
"""
assert runs.figures_of(REPORT) == {"calls": 100, "taken": 96.0, "all_to_all_seconds": 0.508, "all_to_all": 5.1}
assert runs.figures_of("tapa report: no all-to-all on rank 0 of 8\n") == {}


def run(seconds: float, own: float | None = None) -> runs.Run:
    return runs.Run(seconds, own, 2 * seconds, 100, 10, ["energy 1"], "")


pairs = [(run(2.0, 1.0), run(1.0, 1.0)), (run(3.0, 1.0), run(4.0, 2.0)), (run(2.0, 4.0), run(2.0, 1.0))]
code = table.Measured("some", {"taken": pairs}, runs.figures_of(REPORT), True)
assert code.speed("taken") == table.Ratios(1.0, 0.75, 2.0), code.speed("taken")
assert code.own_speed("taken") == table.Ratios(1.0, 0.5, 4.0), code.own_speed("taken")
assert code.cost("taken", "page_faults") == table.Ratios(1, 1, 1)
row = table.table([code]).splitlines()[-1]
assert row == "| some | 2.00 | 2.00 | **1.00 (0.75 to 2.00)** | 1.00 (0.50 to 4.00) | 1.00 | 1.00 | 1.00 | 5.1 % | 96.0 % | yes |", row
assert runs.matches(r"E=\d+", "E=1 E=2\nF=3\n") == ["E=1", "E=2"]

for code in cases.CODES:
    for ranks in (4, 16):
        assert cases.fits(code, ranks) is None, code.name
        with tempfile.TemporaryDirectory() as folder:
            cases.prepare(code, pathlib.Path(folder), pathlib.Path("/there"), ranks)
            for name in code.inputs:
                text = (pathlib.Path(folder) / name).read_text()
                assert "{data}" not in text and "{npband}" not in text and "{npfft}" not in text, name
assert cases.bands_and_ffts(4) == (2, 2) and cases.bands_and_ffts(16) == (8, 2)
assert "multiple of 4" in cases.fits(next(code for code in cases.CODES if code.name == "hpcc"), 6)

with tempfile.TemporaryDirectory() as folder:
    done = subprocess.run(
        [root / "bench/codes", "--prefix", folder, "--build", preload.parent.parent, "--codes", "lammps,hpcc"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done
    assert "lammps skipped: " in done.stderr and "--install installs hpcc" in done.stderr, done.stderr
    done = subprocess.run([root / "bench/codes", "--build", folder], check=False, capture_output=True, text=True)
    assert done.returncode == 2 and "expected a folder in which the drop-in is built" in done.stderr, done
