"""Leaves out of standard error what Open MPI 4.1 says there when it loses a race with its own child, which costs nothing."""

import os
import re
import threading

LINE = re.compile(rb"\[head:\d+\] plm:rsh: Warning: setpgid\(\d+,\d+\) failed in parent with errno=[^\n]*")
START = b"[head:"  # only lines that begin so wait for their end


class Filter:
    def __init__(self) -> None:
        self.held = b""
        self.at_start = True

    def take(self, data: bytes) -> bytes:
        """What of all that came can be passed on now."""
        *whole, part = (self.held + data).split(b"\n")
        kept = b""
        for line in whole:
            if not (self.at_start and LINE.fullmatch(line)):
                kept += line + b"\n"
            self.at_start = True
        waits = self.at_start and part != b"" and (part.startswith(START) or START.startswith(part))
        self.held = part if waits else b""
        self.at_start = waits or (part == b"" and self.at_start)
        return kept if waits else kept + part

    def rest(self) -> bytes:
        return self.held


def _copy(source: int, target: int) -> None:
    lines = Filter()
    while data := os.read(source, 65536):
        _write(target, lines.take(data))
    _write(target, lines.rest())
    os.close(source)


def _write(target: int, data: bytes) -> None:
    """A reader that is gone does not stop the job."""
    try:
        while data:
            data = data[os.write(target, data) :]
    except OSError:
        return


class Errors:
    """A pipe for a process's standard error, copied to ours as it comes."""

    def __enter__(self) -> int:
        source, self.end = os.pipe()
        self.thread = threading.Thread(target=_copy, args=(source, 2), daemon=True)
        self.thread.start()
        return self.end

    def __exit__(self, *_: object) -> None:
        os.close(self.end)
        self.thread.join(5)  # what the job left behind may hold the pipe open
