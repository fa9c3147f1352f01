"""What errors of the library advise, said for people at a command line: flags and commands in place of arguments.

One table; takes and gives text.
"""

from __future__ import annotations

from collections.abc import Mapping

_CLI_ADVICE: Mapping[str, str] = {
    "(tls=FILE)": "(dragoman hosts add NAME URL --ca FILE)",
    "(token=..., or a share link)": "(--token-file, DRAGOMAN_TOKEN, or dragoman hosts add NAME URL)",
    "or say tls=False if the network is safe": "or through a tunnel of another kind",
}


def with_cli_advice(text: str) -> str:
    """The same, with advice that can be followed here."""
    for argument, words in _CLI_ADVICE.items():
        text = text.replace(argument, words)
    return text
