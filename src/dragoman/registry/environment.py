"""Which environment variables an entry of an index may set for its agent."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# Variables that decide which code runs, where files are, or whom a program trusts. An entry sets options of its agent;
# these would replace a library, the interpreter or the network under it. The registry's own checks remove them too.
_STEERING = re.compile(
    r"""(?x)
    PATH | HOME | USER | LOGNAME | SHELL | IFS | ENV | BASH_ENV | TMPDIR | TEMP | TMP | PWD | EDITOR | VISUAL | PAGER
    | LD_.* | DYLD_.* | GLIBC_.* | MALLOC_.* | GCONV_PATH | LOCPATH | NLSPATH
    | NODE_.* | NPM_.* | NVM_.* | YARN_.* | PNPM_.* | BUN_.* | DENO_.*
    | PYTHON.* | PIP_.* | UV_.* | VIRTUAL_ENV | CONDA_.* | PYENV_.*
    | RUBY.* | GEM_.* | PERL.* | JAVA_.* | JDK_.* | _JAVA_OPTIONS | CLASSPATH | DOTNET_.* | GO(ROOT|PATH|FLAGS|PROXY)
    | SSL_CERT_.* | SSLKEYLOGFILE | CURL_CA_BUNDLE | REQUESTS_CA_BUNDLE | OPENSSL_.*
    | (HTTPS?|ALL|NO|FTP)_PROXY
    | GIT_.* | SSH_.* | GPG_.* | XDG_.* | DBUS_.* | DISPLAY | WAYLAND_DISPLAY
    | DRAGOMAN.*
    """
)

# Longer values are no options of a program.
MAX_VALUE = 4096


def may_set(name: str, value: str) -> bool:
    """Whether an entry may set this variable."""
    if _NAME.fullmatch(name) is None or _STEERING.fullmatch(name.upper()) is not None:
        return False
    return "\0" not in value and len(value) <= MAX_VALUE


def filter_variables(variables: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the variables that an entry may set, and the names of the others."""
    allowed = {name: value for name, value in variables.items() if may_set(name, value)}
    return allowed, sorted(variables.keys() - allowed.keys())
