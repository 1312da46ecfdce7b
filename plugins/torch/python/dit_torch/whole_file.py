"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def draft_of(file: Path, take_place: bool = True) -> Iterator[BinaryIO]:
    """A new file beside `file` that takes its place when all was written; a link there, which may be another
    user's, is replaced.

    :param take_place: False: it is only tried whether it could
    """
    draft = file.with_name(f"{file.name}.{secrets.token_hex(3)}.part")
    try:
        with draft.open("xb") as written:
            yield written
            written.flush()
            os.fsync(written.fileno())
        if take_place:
            draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
