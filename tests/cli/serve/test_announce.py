"""What `dragoman serve` says when it is ready."""

from __future__ import annotations

import io
from argparse import Namespace
from typing import Any

import pytest

from dragoman.cli.serve.process import announce, report_engine
from dragoman.cli.ui.log_lines import LogLines
from dragoman.config.config_file import NamedAgent
from dragoman.config.host_section import HostSection
from dragoman.store.fleet import Engine
from dragoman.store.memory import MemoryStore
from dragoman.store.urls import parse_address
from tests.cli.process import EVERYTHING, in_process


def test_a_host_says_how_to_sign_in_to_its_web_page(capsys: pytest.CaptureFixture[str]) -> None:
    agents = [NamedAgent(name="ok", command=EVERYTHING[0])]
    for store, flag in ((None, ""), ("team db", " --store 'team db'")):
        options = Namespace(json=False, store=store)
        announce(agents, "http://127.0.0.1:1/acp", parse_address("x.db"), options, LogLines(io.StringIO()))
        first, second = capsys.readouterr().out.splitlines()
        assert "web page at http://127.0.0.1:1/" in first
        assert second.endswith(f': dragoman tokens create "$USER" --role admin{flag}')


def test_help_says_who_needs_a_token_and_names_every_engine() -> None:
    text = " ".join(in_process("serve", "--help").stdout.split())
    assert "commands that you run on this machine need no token. A browser always does" in text
    assert "memory:, postgresql://HOST/DATABASE, nats://A,B,C" in text


def test_an_address_that_ends_with_a_colon_gets_no_second_one() -> None:
    lines = io.StringIO()
    none: Any = None
    engine = Engine(
        name="nats",
        store=MemoryStore(),
        nodes=none,
        signals=none,
        records=none,
        guarantees=["stored"],
        is_shared=True,
    )
    report_engine(engine, parse_address("nats:"), HostSection(), LogLines(lines))
    assert "info: nats: stored\n" in lines.getvalue()


def test_the_configuration_lists_all_extras_of_users() -> None:
    text = in_process("config").stdout
    for name in ("tui", "host", "web", "mcp", "postgres", "nats"):
        assert f"extra {name} " in text
