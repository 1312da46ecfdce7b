"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_MOST_LINKS = 40  # as the kernel follows
_FORGOTTEN = 3600  # seconds


@dataclass
class _Place:
    """A file by its name in a folder that is open, so that nobody can lead its writer elsewhere."""

    folder: int
    name: str
    older: os.stat_result | None = None  # what is there

    def sweep(self) -> None:
        """Takes away this user's drafts of killed processes."""
        draft = re.compile(re.escape(self.name) + r"\.[a-z0-9]{6}\.part")
        entries: list[str] = []
        with contextlib.suppress(OSError):  # of a folder that may not be read
            entries = os.listdir(f"/proc/self/fd/{self.folder}")
        for other in filter(draft.fullmatch, entries):
            with contextlib.suppress(OSError):
                facts = os.stat(other, dir_fd=self.folder, follow_symlinks=False)
                if facts.st_uid == os.geteuid() and facts.st_mtime + _FORGOTTEN < time.time():
                    os.unlink(other, dir_fd=self.folder)

    def keep_rights(self, draft: int) -> None:
        """What another user's file lets all others do is not handed on, nor what its group may do where the
        group cannot be kept."""
        if self.older is None:
            return
        rights = self.older.st_mode & (0o777 if self.older.st_uid == os.geteuid() else 0o774)
        try:
            os.fchown(draft, -1, self.older.st_gid)
        except OSError:
            rights &= ~0o070
        os.fchmod(draft, rights)


def _open_folder(path: Path, below: int | None = None) -> int:
    return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=below)


def _find(place: _Place, file: Path) -> None:
    """Follows links."""
    for _ in range(_MOST_LINKS):
        try:
            facts = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
        except FileNotFoundError:
            return
        if not stat.S_ISLNK(facts.st_mode):
            if not stat.S_ISREG(facts.st_mode):
                raise OSError(errno.EINVAL, "is no file", str(file))
            place.older = facts
            return
        if facts.st_uid not in (0, os.geteuid()):
            raise PermissionError(errno.EPERM, "is a link of another user", str(file))
        target = Path(os.readlink(place.name, dir_fd=place.folder))
        before, place.folder = place.folder, _open_folder(target.parent, place.folder)
        os.close(before)
        place.name = target.name
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(file))


@contextmanager
def draft_of(file: Path, take_place: bool = True) -> Iterator[BinaryIO]:
    """A new file beside `file` that takes its place and its rights when all was written. A link stays, and
    what it leads to is written; another user's is refused.

    :param take_place: False: it is only tried whether it could
    """
    place = _Place(_open_folder(file.parent), file.name)
    draft = None
    try:
        _find(place, file)
        place.sweep()
        name = f"{place.name}.{secrets.token_hex(3)}.part"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        created = os.open(name, flags, 0o600 if place.older else 0o666, dir_fd=place.folder)
        draft = name
        with os.fdopen(created, "wb") as written:
            place.keep_rights(created)
            yield written
            written.flush()
            os.fsync(created)
        if take_place:
            os.rename(draft, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    finally:
        if draft is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=place.folder)
        os.close(place.folder)
