"""local_version.py WHEEL LABEL FOLDER: writes into FOLDER the wheel with +LABEL behind its version, and prints its path.

The label is part of the file's name and of what pip lists, so that wheels for several torches can lie in one folder.
"""

from __future__ import annotations

import base64
import hashlib
import re
import sys
import zipfile
from pathlib import Path


def _record(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}"


def relabel(wheel: Path, label: str, folder: Path) -> Path:
    """:returns: the new wheel's path"""
    name, version, tags = wheel.name.split("-", 2)
    old, new = f"{name}-{version}.dist-info/", f"{name}-{version}+{label}.dist-info/"
    result = folder / f"{name}-{version}+{label}-{tags}"
    lines = []
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(result, "w", zipfile.ZIP_DEFLATED) as target:
        for entry in source.infolist():
            if entry.filename == old + "RECORD" or entry.is_dir():
                continue
            content = source.read(entry)
            if entry.filename == old + "METADATA":
                content = re.sub(rb"(?m)^Version: \S+", f"Version: {version}+{label}".encode(), content, count=1)
            if entry.filename.startswith(old):
                entry.filename = new + entry.filename[len(old) :]
            target.writestr(entry, content, zipfile.ZIP_DEFLATED)
            lines.append(_record(entry.filename, content))
        target.writestr(new + "RECORD", "\n".join([*lines, f"{new}RECORD,,"]) + "\n")
    return result


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    print(relabel(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])))
