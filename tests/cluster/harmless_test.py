"""The one line of Open MPI's that tools/cluster leaves out, and nothing else."""

import os
import sys
import unittest

import harness

sys.path.insert(0, os.path.join(harness.SOURCE, "tools", "cluster.d"))
import harmless

LINE = b"[head:00024] plm:rsh: Warning: setpgid(31,31) failed in parent with errno=Permission denied(13)\n"
OTHER = b"[head:00024] plm:rsh: Error: setpgid(0,0) failed in child with errno=Permission denied(13)\n"


def passed(*parts: bytes) -> list[bytes]:
    lines = harmless.Filter()
    return [*(lines.take(part) for part in parts), lines.rest()]


class Lines(unittest.TestCase):
    def test_the_line_is_left_out_wherever_it_is_broken(self) -> None:
        text = b"before\n" + LINE + b"after\n" + LINE
        for cut in range(len(text)):
            self.assertEqual(b"".join(passed(text[:cut], text[cut:])), b"before\nafter\n")

    def test_other_lines_stay(self) -> None:
        for text in (OTHER, b"x" + LINE, LINE[:-1], b"[head:1] any\n", b"\n\n", b"no end"):
            for cut in range(len(text)):
                kept = b"".join(passed(text[:cut], text[cut:]))
                self.assertEqual(kept, text)

    def test_what_has_no_end_is_not_waited_for(self) -> None:
        self.assertEqual(passed(b"50 %\r", b"password: "), [b"50 %\r", b"password: ", b""])
        self.assertEqual(passed(b"[hea", b"d over"), [b"", b"[head over", b""])


class Run(unittest.TestCase):
    def test_a_job_keeps_its_status_and_its_other_errors(self) -> None:
        said = f"echo kept >&2; echo '{LINE.decode().strip()}' >&2; echo out; exit 3"
        done = harness.tool("run", "--name", harness.NAME, "--nodes", "1", "--ranks", "1", "--", "/bin/sh", "-c", said)
        self.assertEqual((done.returncode, done.stdout), (3, "out\n"), done.stderr)
        self.assertIn("kept\n", done.stderr)
        self.assertIn("cluster: bytes sent/received", done.stderr)
        self.assertNotIn("setpgid", done.stderr)

    def test_errors_come_while_the_job_runs(self) -> None:
        process = harness.start("run", "--nodes", "1", "--ranks", "1", "--", "/bin/sh", "-c", "echo begun >&2; sleep 30")
        try:
            first = process.stderr.readline()
        finally:
            process.terminate()
            process.communicate(timeout=60)
        self.assertEqual(first, "begun\n")
        self.assertEqual(process.returncode, 143)


if __name__ == "__main__":
    harness.main()
