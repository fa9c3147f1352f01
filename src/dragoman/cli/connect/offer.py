"""One word for an agent: what the registry calls it here, or an offer to install it and go on.

On a terminal one key installs and starts it; --yes does it without asking; otherwise the command is told.
"""

from __future__ import annotations

import sys
from typing import NoReturn

from dragoman.cli import exit_codes
from dragoman.cli.parser import Parser
from dragoman.config.config_file import NAME_PATTERN, Config, NamedAgent
from dragoman.registry.index.lookup import ALIASES


def find_installed(word: str, configured: Config, agents: str) -> NamedAgent | None:
    """Return the agent that was installed under another name, such as claude-acp for "claude"."""
    from dragoman.registry.install.records import configured_installs

    ids = {word, ALIASES.get(word, word)}
    for name, installed in configured_installs(agents, configured.agents).items():
        if installed.record.id in ids:
            return configured.agents[name]
    return None


def offer_agent(parser: Parser, word: str, *, yes: bool) -> NamedAgent | None:
    """Offer to install an agent that a registry has; None if none has it. Exits if it is not installed."""
    if NAME_PATTERN.fullmatch(word) is None:
        return None
    from dragoman.cli.registry.installer import Installer
    from dragoman.cli.registry.registries import Registries
    from dragoman.registry.fault import RegistryFault
    from dragoman.registry.index.lookup import find_by_word
    from dragoman.registry.install.plan import Wishes

    try:
        if find_by_word(Registries().kept_catalog, word) is None:
            return None
        installer = Installer(Registries(), yes=yes)
        if not yes and not installer.can_ask:
            _exit_with_command(parser, word)
        result = installer.install_word(word, Wishes(), command=f"dragoman agents install {word}")
    except RegistryFault as fault:
        code = exit_codes.FAILED if fault.why == "declined" else exit_codes.DIED
        sys.exit(parser.fail(str(fault), code, kind=fault.why))
    return result.agent


def _exit_with_command(parser: Parser, word: str) -> NoReturn:
    advice = f"install it with: dragoman agents install {word} --yes, or add --yes here"
    sys.exit(parser.fail(f"{word} is not installed; {advice}", exit_codes.USAGE))
