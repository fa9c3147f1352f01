"""A small file system of its own, which can be filled. Needs root."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from pathlib import Path

# The size of the disk of a server, and how long its file system may take to be unmounted. Seconds.
DISK_SIZE, UNMOUNT_TIMEOUT = "768m", 10.0


class Disk:
    """A small file system of its own, which can be filled."""

    def __init__(self, folder: Path, size: str = DISK_SIZE) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0777", "tmpfs", str(folder)], check=True)

    def fill(self) -> None:
        """Write until no byte is left."""
        with suppress(OSError), open(self._ballast, "wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 20))
        with suppress(OSError), open(self._ballast, "ab", buffering=0) as file:
            while True:
                file.write(bytes(512))

    def free(self) -> None:
        """Remove what filled it."""
        self._ballast.unlink(missing_ok=True)

    def remove(self) -> None:
        """Unmount it."""
        deadline = time.monotonic() + UNMOUNT_TIMEOUT
        while subprocess.run(["umount", str(self.folder)], capture_output=True, check=False).returncode:
            if time.monotonic() > deadline:
                subprocess.run(["umount", "--lazy", str(self.folder)], capture_output=True, check=False)
                return
            time.sleep(0.2)
