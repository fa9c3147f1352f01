"""Run npm or uv: in the sandbox where there is one, with an empty home, without the secrets of the environment."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from dragoman.errors import SandboxUnavailable
from dragoman.registry.fault import RegistryFault
from dragoman.transport.sandbox.plan import ActiveSandbox
from dragoman.transport.sandbox.spec import Limits, Sandbox, filter_environment

# The largest agent has 460 MB in 350 packages; slow networks need minutes for it. Seconds.
TIMEOUT = 1800.0
# Lines of its output that are shown when a tool fails.
TAIL = 12

# Variables that reach the package managers, since they say where packages come from and how to get there.
_PASSED = (
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
    "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX",
    "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_NATIVE_TLS", "UV_SYSTEM_CERTS", "UV_INSECURE_HOST",
)  # fmt: skip
_PASSED_PREFIX = "npm_config_"


class Access(NamedTuple):
    """What a tool may use besides the system: folders to write, files to read, the network."""

    write: Sequence[str]
    read: Sequence[str] = ()
    network: bool = True


class Output(NamedTuple):
    """What a tool printed, and how it ended."""

    status: int
    stdout: str
    stderr: str

    @property
    def tail(self) -> str:
        """The last lines that say something."""
        lines = [line for line in (self.stderr or self.stdout).splitlines() if line.strip()]
        return "\n".join(lines[-TAIL:])


def tool_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables that a package manager gets of ours."""
    passed = {
        name: value for name, value in environ.items() if name in _PASSED or name.lower().startswith(_PASSED_PREFIX)
    }
    return {**filter_environment(environ), **passed}


def run_tool(
    argv: Sequence[str], cwd: str, access: Access, env: Mapping[str, str], *, timeout: float = TIMEOUT
) -> Output:
    """Run a tool to its end; raise RegistryFault if it cannot be started or takes too long."""
    with _confined(argv, cwd, access, env) as (command, environ, fds):
        try:
            child = subprocess.Popen(
                command,
                cwd=cwd,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=fds,
                start_new_session=True,
            )
        except OSError as error:
            raise RegistryFault("tool", f"cannot start {argv[0]}: {error.strerror}") from None
        try:
            stdout, stderr = child.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise RegistryFault("network", f"{os.path.basename(argv[0])} took longer than {timeout:g} s") from None
        finally:
            if child.poll() is None:  # also after Ctrl-C
                _kill(child)
    return Output(child.returncode, stdout.decode("utf-8", "replace"), stderr.decode("utf-8", "replace"))


def _kill(child: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()


@contextmanager
def _confined(
    argv: Sequence[str], cwd: str, access: Access, env: Mapping[str, str]
) -> Iterator[tuple[list[str], Mapping[str, str], tuple[int, ...]]]:
    """Yield command, environment and descriptors: in a sandbox, or where there is none, with an empty home."""
    sandbox = Sandbox(
        read=tuple(path for path in access.read if os.path.exists(path)),
        write=tuple(map(os.path.realpath, access.write)),
        net="all" if access.network else "none",
        limits=Limits(),
    )
    try:
        active = ActiveSandbox(sandbox, [])
    except SandboxUnavailable:
        with tempfile.TemporaryDirectory(prefix="dragoman-install-") as home:
            environ = {**tool_environment(), "HOME": home, "TMPDIR": home, **env}
            yield list(argv), environ, ()
        return
    try:
        environ = active.environment({}, {**tool_environment(), **env})
        wrapped = active.wrap(argv, environ, os.path.realpath(cwd), by_user=True)
        try:
            yield wrapped.argv, wrapped.environ, (wrapped.plan_fd,)
        finally:
            os.close(wrapped.plan_fd)
    finally:
        active.close()
