"""`dragoman conduct`: run a chain of proxies before an agent, as an agent for an editor or as a proxy itself."""

from __future__ import annotations

import os
import sys

from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.dialect.dialects import DIALECT_NAMES

EPILOG = """\
Configure this command as the agent of your editor. The first proxy is next to
the editor, the last one next to the agent. A proxy is the name of a built-in
one with its options, or a command, in quotes. A command speaks proxy/initialize
and proxy/successor, as under the official Rust conductor.

built-in proxies:
{built_in}

A chain can have a name in config.toml, and is then used like an agent:

  [chains.careful]
  proxies = ["context", "redact", {{ proxy = "my-proxy", on_exit = "restart" }}]
  agent = "opencode"

When the process of a proxy ends, --on-exit decides: fail ends the chain,
restart starts the proxy again, bypass goes on without it. The requests that
were open at it get an error that names it, in each case.

exit codes: 0 when the editor disconnects, 1 if a component failed, 2 for wrong
usage.

examples:
  dragoman conduct context redact -- my-agent --acp
  dragoman conduct 'budget --tokens 100000' my-proxy -- my-agent --acp
  dragoman conduct --on-exit restart my-proxy --agent opencode
  dragoman conduct --as-proxy my-proxy 'their-proxy --fast'
  dragoman run --agent careful 'What is this project?'"""


def main(arguments: list[str]) -> int:
    """Parse the arguments, then run the chain until one side disconnects."""
    parser = Parser(
        "conduct",
        "[PROXY ...] [OPTIONS] [-- CMD ARG...]",
        "Run a chain of proxies before an agent.",
        EPILOG.format(built_in=_built_in_lines()),
    )
    parser.add_argument(
        "proxies", nargs="*", metavar="PROXY", help="a built-in proxy or a command, with its options in quotes"
    )
    parser.add_value("--chain", "NAME", "run this chain of config.toml")
    parser.add_value("--agent", "NAME", "the agent by its name, in place of a command after --")
    parser.add_flag("--as-proxy", "be one proxy of another conductor; the chain has no agent of its own")
    parser.add_argument(
        "--on-exit", default="fail", choices=("fail", "restart", "bypass"), help="when the process of a proxy ends"
    )
    dialects = ("auto", *DIALECT_NAMES)
    parser.add_value("--client-dialect", "D", "dialect of the editor", default="auto", choices=dialects)
    parser.add_value("--agent-dialect", "D", "dialect of the agent", default="auto", choices=dialects)
    parser.add_flag("-y --yes", "install an agent of the registry that is missing, without asking")
    options, command = parser.read(arguments)
    if options.chain and (options.proxies or command or options.agent or options.as_proxy):
        parser.error("--chain names the proxies and the agent; give nothing else")
    if options.as_proxy and (command or options.agent):
        parser.error("with --as-proxy the agent is that of the other conductor; leave it out")

    from dragoman.cli.connect.chains import open_chain, report_missing_programs

    chain = open_chain(parser, options, command)
    report_missing_programs(chain)

    from dragoman.engine.loop import run as run_loop
    from dragoman.roles.client.callbacks import is_login_run, run_agent_login
    from dragoman.roles.proxy.chain import exit_code
    from dragoman.roles.proxy.hop_recorder import VARIABLE
    from dragoman.transport.stdio import stdio

    if is_login_run(os.environ) and chain.agent_command:
        return run_loop(run_agent_login(chain.agent_command, os.environ))

    recording = os.environ.pop(VARIABLE, "")  # not for the chains inside this one
    if recording:
        chain.record_behind(recording)

    async def serve() -> int:
        return exit_code(await chain.serve(stdio(), report=_report))

    return run_loop(serve())


def _built_in_lines() -> str:
    from dragoman.roles.proxy.built_in.table import BUILT_IN

    return "\n".join(f"  {name:9} {row.purpose}" for name, row in BUILT_IN.items())


def _report(text: str) -> None:
    print(f"dragoman: {sanitize_line(text)}", file=sys.stderr, flush=True)
