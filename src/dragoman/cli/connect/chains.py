"""The chain that a command means: from its arguments, or from [chains.NAME] of the config."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from typing import Any

from dragoman.cli.connect.which_agent import resolve_agent
from dragoman.cli.parser import Parser, unknown_word
from dragoman.config.chains_section import ChainSection, ProxySection
from dragoman.config.config_file import load_config
from dragoman.config.paths import user_paths
from dragoman.roles.proxy.chain import Chain
from dragoman.roles.proxy.component import Component
from dragoman.transport.base import Transport

Wrap = Callable[[Transport, str], Transport]


def open_chain(parser: Parser, options: argparse.Namespace, command: list[str], *, wrap: Wrap | None = None) -> Chain:
    """Return the chain of `dragoman conduct`; exit with advice if something is wrong."""
    if options.chain:
        return _configured_chain(parser, options, wrap)
    agent, dialect = command, options.agent_dialect
    if not command and not options.as_proxy:
        agent, dialect = _named_agent(parser, options, options.agent)
    proxies = [ProxySection(proxy=proxy, on_exit=options.on_exit) for proxy in options.proxies]
    return _make(parser, proxies, agent, dialect, options, "chain", wrap)


def _named_agent(parser: Parser, options: argparse.Namespace, name: str | None) -> tuple[list[str], str]:
    agent = resolve_agent(parser, name, [], yes=options.yes)
    os.environ.update(agent.env)  # the agent inherits them
    return agent.argv, agent.dialect if options.agent_dialect == "auto" else options.agent_dialect


def _configured_chain(parser: Parser, options: argparse.Namespace, wrap: Wrap | None) -> Chain:
    chains = load_config(user_paths().config_file).chains
    section: ChainSection | None = chains.get(options.chain)
    if section is None:
        parser.error(unknown_word("chain", options.chain, chains or ["none is configured"]))
    agent, dialect = list(section.command), options.agent_dialect
    if not agent:
        agent, dialect = _named_agent(parser, options, section.agent)
    return _make(parser, section.proxies, agent, dialect, options, section.name, wrap)


def _make(
    parser: Parser,
    proxies: Iterable[ProxySection],
    agent: list[str],
    dialect: str,
    options: argparse.Namespace,
    name: str,
    wrap: Wrap | None,
) -> Chain:
    try:
        return Chain(
            [_component(each) for each in proxies],
            agent=agent or None,
            client_dialect=options.client_dialect,
            agent_dialect=dialect,
            name=name,
            wrap=wrap,
        )
    except ValueError as error:
        parser.error(str(error))


def _component(section: ProxySection) -> Component:
    on_exit: Any = section.on_exit
    return Component(proxy=section.proxy, name=section.name, on_exit=on_exit, env=section.env, dialect=section.dialect)
