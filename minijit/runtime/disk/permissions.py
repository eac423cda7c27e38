"""Who may write where: whoever can write a binary that we load runs code as us."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

__all__ = ["is_ours_alone", "is_owner", "make_folder", "why_untrusted"]

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_MAX_LINKS = 40  # as Linux


def is_owner(status: os.stat_result) -> bool:
    """Whether a file is this user's; always where the system has no owners."""
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()


def is_ours_alone(status: os.stat_result) -> bool:
    """Whether only this user or root can have written a file."""
    if not hasattr(os, "geteuid"):
        return True
    return status.st_uid in (os.geteuid(), 0) and not status.st_mode & _OTHERS_WRITE


def why_untrusted(folder: str) -> str | None:
    """Return why others could put files into ``folder``, and what to do; None if they cannot.

    Every folder and link that leads to it counts, up to those that lead to the home folder: who can
    replace the home folder needs no cache. Folders that do not exist yet are created private.
    """
    if not hasattr(os, "geteuid"):
        return None
    home = os.path.join(os.path.realpath(os.path.expanduser("~")), "")
    ours = (os.geteuid(), 0)
    try:
        for path, status in _steps(folder):
            if home.startswith(os.path.join(path, "")) and len(path) + 1 < len(home):
                continue
            if status.st_uid not in ours:
                return f"{path} belongs to user {status.st_uid}: use a folder of your own"
            if stat.S_ISLNK(status.st_mode):
                if path == folder:
                    return f"{path} is a link: name the folder {os.path.realpath(path)} itself"
                continue
            # In a folder with the sticky bit (/tmp) others cannot touch what is ours; but we would
            # take what is theirs, so the last folder may not be one.
            shared = status.st_mode & stat.S_ISVTX and path != folder
            if status.st_mode & _OTHERS_WRITE and not shared:
                mode = stat.S_IMODE(status.st_mode)
                return f"others may write {path} (mode {mode:04o}): chmod go-w '{path}'"
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{folder} cannot be looked at ({error.strerror}): use another folder"
    return None


def make_folder(path: str) -> None:
    """Create a folder and those that lead to it, for this user alone, whatever the umask is.

    Raises:
        OSError: it cannot be created.
    """
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
    except FileNotFoundError:
        parent = os.path.dirname(path)
        if parent == path:
            raise
        make_folder(parent)
        make_folder(path)


def _steps(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield each folder and link that is gone through on the way to ``path``, links followed."""
    links = 0
    at = os.path.abspath(os.sep)
    names = path.split(os.sep)[::-1]
    while names:
        name = names.pop()
        if name in ("", os.curdir):
            continue
        if name == os.pardir:
            at = os.path.dirname(at)
            continue
        step = os.path.join(at, name)
        status = os.lstat(step)
        yield step, status
        if not stat.S_ISLNK(status.st_mode):
            at = step
            continue
        links += 1
        if links > _MAX_LINKS:
            raise OSError(0, "too many links")
        target = os.readlink(step)
        if os.path.isabs(target):
            at = os.path.abspath(os.sep)
        names += target.split(os.sep)[::-1]
