"""A small shell process that ends the agents we leave behind when we die, also by SIGKILL: it reads a pipe of ours.

It is /bin/sh, since a second interpreter would slow every start.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from dragoman.transport.process.process_tree import MARKER

# Input lines: "+ token group" (a later one replaces an earlier one) and "- token". The pause of one second lets the
# trees end by themselves: their input ended when we died.
_SCRIPT = r"""
trap '' HUP INT QUIT TERM
live=
while read -r sign token group; do
  rest=
  for entry in $live; do
    case $entry in "$token":*) ;; *) rest="$rest $entry" ;; esac
  done
  live=$rest
  if [ "$sign" = + ]; then live="$live $token:$group"; fi
done
strike() {
  hit=1
  for entry in $live; do
    token=${entry%%:*} group=${entry#*:}
    if [ "$group" != 0 ] && kill -s "$1" -- "-$group"; then hit=0; fi
    for file in $(grep -l "MARKER=[0-9a-f:]*$token" /proc/[0-9]*/environ); do
      pid=${file#/proc/}
      if kill -s "$1" "${pid%/environ}"; then hit=0; fi
    done
  done
  return $hit
}
if [ -n "$live" ] && strike TERM; then
  sleep 1
  strike KILL && strike KILL
fi
""".replace("MARKER", MARKER)


class Watchdog:
    """Our end of the pipe; safe to use from several threads and after a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._guarded: dict[str, int] = {}
        # Called with the token and the group of each tree that is guarded from now on; with None when it is gone.
        self.observers: list[Callable[[str, int | None], None]] = []
        self._fd = -1
        os.register_at_fork(after_in_child=self._reset_after_fork)

    def guard(self, token: str, group: int) -> None:
        """End this tree if we die; group 0 while its leader is not known yet."""
        with self._lock:
            if self._fd < 0:
                self._start_shell()
            self._guarded[token] = group
            self._write_line(f"+ {token} {group}")
        for observer in self.observers:
            observer(token, group)

    def guarded(self) -> dict[str, int]:
        """Return the groups of the trees that are guarded, by token."""
        with self._lock:
            return dict(self._guarded)

    def unguard(self, token: str) -> None:
        """Stop guarding this tree: it is gone."""
        with self._lock:
            if self._guarded.pop(token, None) is not None:
                self._write_line(f"- {token} 0")
        for observer in self.observers:
            observer(token, None)

    def _start_shell(self) -> None:
        import subprocess

        self._close_pipe()
        read_fd, self._fd = os.pipe()
        try:
            shell = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT],
                stdin=read_fd,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": "/usr/bin:/bin"},
                start_new_session=True,  # Ctrl-C in our terminal must not reach it
            )
        except OSError:
            pass  # no shell: the pidfiles remain
        else:
            shell.returncode = 0  # it ends after us, so nothing here waits for it
        finally:
            os.close(read_fd)

    def _close_pipe(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _reset_after_fork(self) -> None:
        """Forget the trees in a forked child: they are the parent's, and its death must still close the pipe."""
        self._lock = threading.Lock()
        self._guarded.clear()
        self.observers.clear()
        self._close_pipe()

    def _write_line(self, line: str) -> None:
        try:
            os.write(self._fd, line.encode() + b"\n")
            return
        except OSError:  # the shell was ended: start it again with the whole list
            self._start_shell()
        try:
            for token, group in self._guarded.items():
                os.write(self._fd, f"+ {token} {group}\n".encode())
        except OSError:
            pass


WATCHDOG = Watchdog()
