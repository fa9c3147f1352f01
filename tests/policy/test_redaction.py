"""Secrets are redacted in every encoding, and other text is unchanged."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.policy.redaction import REDACTED, Redactor, environment_secrets, is_secret_name, mcp_server_secrets
from dragoman.schema.mcp import McpServer, NameValue

CANARY = "canary/s3cr+t=value"


@pytest.mark.parametrize(
    "text",
    [
        CANARY,
        f"before {CANARY} after",
        f"--key={CANARY}",
        quote(CANARY, safe=""),
        base64.b64encode(CANARY.encode()).decode(),
        base64.urlsafe_b64encode(CANARY.encode()).decode().rstrip("="),
        json.dumps({"x": CANARY}),
    ],
)
def test_a_known_value_is_redacted_in_every_encoding(text: str) -> None:
    clean = Redactor([CANARY]).redact_text(text)
    assert REDACTED in clean
    for spelling in (CANARY, quote(CANARY, safe=""), base64.b64encode(CANARY.encode()).decode().rstrip("=")):
        assert spelling not in clean


@given(
    st.text(min_size=8).filter(lambda text: len(text.strip()) >= 8 and text.strip() not in REDACTED),
    st.text(),
    st.text(),
)
def test_any_known_value_is_redacted_from_any_text(value: str, before: str, after: str) -> None:
    assert value.strip() not in Redactor([value]).redact_text(before + value + after).replace(REDACTED, "\0")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("key sk-proj-abcdefghij0123456789xyz", "sk-proj"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "ghp_"),
        ("github_pat_11ABCDEFG0abcdefghijkl_mn", "github_pat"),
        ("glpat-abcdefghij0123456789", "glpat"),
        ("xoxb-1234567890-abcdef", "xoxb"),
        ("AKIAIOSFODNN7EXAMPLE", "AKIA"),
        ("AIzaSyA1234567890abcdefghijklmnopqrstuv", "AIza"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3", "eyJ"),
        ("curl -H 'Authorization: Bearer abcdef123456'", "abcdef123456"),
        ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ("git clone https://me:hunter22@example.org/x", "hunter22"),
        ("API_KEY=abcd1234 make", "abcd1234"),
        ("mysql --password hunter22", "hunter22"),
        ('{"token": "abcd1234"}', "abcd1234"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "MIIE"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl", "b3Bl"),
    ],
)
def test_text_with_the_format_of_a_key_is_redacted(text: str, secret: str) -> None:
    clean = Redactor().redact_text(text)
    assert secret not in clean
    assert REDACTED in clean


@pytest.mark.parametrize(
    "text",
    [
        "git commit -m 'Add the token bucket'",
        "/home/me/keys/readme.md",
        "npm run build -- --mode production",
        "https://example.org/a?b=c",
        "rule 2 of policy.toml, line 6: not this one",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "the author of this",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert Redactor(["true", "1", "x"]).redact_text(text) == text


def test_redacting_twice_changes_nothing() -> None:
    once = Redactor([CANARY]).redact_text(f"TOKEN={CANARY} Bearer {CANARY}")
    assert Redactor([CANARY]).redact_text(once) == once


def test_environment_secrets_are_found_by_variable_name() -> None:
    environ = {
        "OPENAI_API_KEY": "one-secret",
        "GH_TOKEN": "two-secret",
        "MY_PASSWORD": "three-secret",
        "AWS_SECRET_ACCESS_KEY": "four-secret",
        "PROXY_AUTHORIZATION": "five-secret",
        "HOME": "/home/me",
        "GIT_AUTHOR_NAME": "Ada Lovelace",
        "SSH_AUTH_SOCK": "/tmp/agent.sock",
    }
    assert environment_secrets(environ) == ["one-secret", "two-secret", "three-secret", "four-secret", "five-secret"]


def test_all_env_and_header_values_of_mcp_servers_are_secret() -> None:
    servers = [
        McpServer(name="a", command="x", args=[], env=[NameValue(name="PLAIN", value="stdio-canary")]),
        McpServer(name="b", type="http", url="u", headers=[NameValue(name="X", value="Bearer http-canary")]),
    ]
    assert mcp_server_secrets(servers) == ["stdio-canary", "Bearer http-canary", "http-canary"]


def test_json_is_redacted_in_strings_keys_and_under_secret_names() -> None:
    redaction = Redactor([CANARY])
    value = {"a": [CANARY, 1, None], CANARY: True, "password": "short", "nested": {"apiKey": "x1"}, "path": "/w/a"}
    clean = redaction.redact_json(value)
    assert CANARY not in json.dumps(clean)
    assert clean["password"] == clean["nested"]["apiKey"] == REDACTED
    assert clean["path"] == "/w/a"
    assert clean["a"][1:] == [1, None]


def test_values_added_later_are_redacted_from_then_on() -> None:
    redaction = Redactor()
    assert redaction.redact_text(CANARY) == CANARY
    redaction.add_values([CANARY])
    assert redaction.redact_text(CANARY) == REDACTED


@pytest.mark.parametrize(
    ("name", "expected"), [("x-api-key", True), ("Cookie", True), ("author", False), ("path", False)]
)
def test_names_of_secrets(name: str, expected: bool) -> None:
    assert is_secret_name(name) is expected


@pytest.mark.parametrize(
    ("line", "clean"),
    [
        ("env API_KEY=x HOME=/x agent", "env API_KEY=[redacted] HOME=/x agent"),
        ("agent --api-key pw --acp", "agent --api-key [redacted] --acp"),
        ("agent --token=pw --model=big", "agent --token=[redacted] --model=big"),
        ("agent --no-auth server --token", "agent --no-auth server --token"),
        ("agent https://me:pass@host/", "agent https://me:[redacted]@host/"),
        ("agent sk-0123456789abcdefghij", "agent [redacted]"),
    ],
)
def test_a_command_line_is_shown_without_its_secrets(line: str, clean: str) -> None:
    assert Redactor().redact_command(line.split()) == clean.split()


def test_a_script_in_a_command_line_keeps_its_other_words() -> None:
    words = ["sh", "-c", "GITHUB_TOKEN=abcdef12 my-agent --acp"]
    assert Redactor().redact_command(words) == ["sh", "-c", "GITHUB_TOKEN=[redacted] my-agent --acp"]


def test_many_token_prefixes_do_not_make_redaction_slow() -> None:
    text = "-eyJaaaaaaaa" * 80_000
    assert Redactor().redact_text(text) == text
