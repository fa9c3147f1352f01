"""Write a package to its folder: all of it or nothing; an older package of ours is replaced."""

from __future__ import annotations

import os
import shutil
import tempfile

from dragoman.errors import ConfigFault
from dragoman.packaging.targets import Package

# The file by which a folder is known as ours.
_MARK = "publish.sh"


def write_package(package: Package, folder: str) -> list[str]:
    """Write the files; return their paths. Raise ConfigFault if the folder is not ours or cannot be written."""
    if os.path.lexists(folder) and not os.path.isfile(os.path.join(folder, _MARK)):
        raise ConfigFault([f"{folder} exists and was not made by `dragoman agents package`; choose another with --out"])
    parent = os.path.dirname(os.path.abspath(folder))
    try:
        os.makedirs(parent, exist_ok=True)
        new = tempfile.mkdtemp(prefix=".package-", dir=parent)
    except OSError as error:
        raise ConfigFault([f"{error.filename or parent}: {error.strerror}"]) from None
    try:
        for name, data in package.files.items():
            path = os.path.join(new, *name.split("/"))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(data)
            os.chmod(path, 0o755 if name.endswith(".sh") else 0o644)
        os.chmod(new, 0o755)
        old = f"{new}.old"
        if os.path.lexists(folder):
            os.rename(folder, old)
        os.rename(new, folder)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise ConfigFault([f"{error.filename or folder}: {error.strerror}"]) from None
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return [os.path.join(folder, *name.split("/")) for name in sorted(package.files)]
