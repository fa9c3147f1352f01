"""The chain that a command means: from its arguments, or from [chains.NAME] of the config."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from dragoman.cli.connect.missing_program import report_missing_program
from dragoman.cli.connect.which_agent import resolve_agent
from dragoman.cli.parser import Parser, unknown_word
from dragoman.config.chains_section import ChainSection, ProxySection
from dragoman.config.config_file import NamedAgent, load_config
from dragoman.config.paths import user_paths
from dragoman.roles.proxy.chain import Chain
from dragoman.roles.proxy.component import Component
from dragoman.transport.address import is_remote
from dragoman.transport.base import Transport

Wrap = Callable[[Transport, str], Transport]


def open_chain(parser: Parser, options: argparse.Namespace, command: list[str], *, wrap: Wrap | None = None) -> Chain:
    """Return the chain of `dragoman conduct`; exit with advice if something is wrong."""
    if options.chain:
        return _configured_chain(parser, options, wrap)
    agent: list[str] | NamedAgent = command
    if not command and not options.as_proxy:
        agent = resolve_agent(parser, options.agent, [], yes=options.yes)
    proxies = [ProxySection(proxy=proxy, on_exit=options.on_exit) for proxy in options.proxies]
    return _make(parser, proxies, agent, options, "chain", wrap)


def _configured_chain(parser: Parser, options: argparse.Namespace, wrap: Wrap | None) -> Chain:
    chains = load_config(user_paths().config_file).chains
    section: ChainSection | None = chains.get(options.chain)
    if section is None:
        parser.error(unknown_word("chain", options.chain, chains or ["none is configured"]))
    agent = list(section.command) or resolve_agent(parser, section.agent, [], yes=options.yes)
    return _make(parser, section.proxies, agent, options, section.name, wrap)


def _make(
    parser: Parser,
    proxies: Iterable[ProxySection],
    agent: list[str] | NamedAgent,
    options: argparse.Namespace,
    name: str,
    wrap: Wrap | None,
) -> Chain:
    more: dict[str, Any] = {"agent": agent or None, "agent_dialect": options.agent_dialect}
    if isinstance(agent, NamedAgent):
        dialect = agent.dialect if options.agent_dialect == "auto" else options.agent_dialect
        more = {
            "agent": agent.argv,
            "agent_dialect": dialect,
            "agent_env": agent.env,
            "agent_sandbox": agent.confinement,
        }
    try:
        return Chain(
            [_component(each) for each in proxies],
            **more,
            client_dialect=options.client_dialect,
            name=name,
            wrap=wrap,
        )
    except ValueError as error:
        parser.error(str(error))


def _component(section: ProxySection) -> Component:
    on_exit: Any = section.on_exit
    return Component(proxy=section.proxy, name=section.name, on_exit=on_exit, env=section.env, dialect=section.dialect)


def report_missing_programs(chain: Chain) -> None:
    """Name the proxies and the agent of a chain whose program is not there, on stderr."""
    from dragoman.roles.proxy.built_in.table import BUILT_IN

    for number, component in enumerate(chain.proxy_components, 1):
        if component.command:
            who = f"proxy {number} ({component.label})"
            report_missing_program(who, component.command, component.env, BUILT_IN)
    if chain.agent_command and not is_remote(chain.agent_command[0]):
        report_missing_program("the agent", chain.agent_command)
