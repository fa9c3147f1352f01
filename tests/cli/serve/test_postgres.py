"""`dragoman serve --store postgresql://...`: sessions, tokens and roles are in the database, and survive the host."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cli.process import EVERYTHING, TIMEOUT, dragoman
from tests.cli.serve_process import Served


def get(served: Served, path: str, token: str) -> Any:
    request = urllib.request.Request(served.url + path, headers={"authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        return json.load(response)


def test_a_host_on_postgres_keeps_sessions_tokens_and_roles(tmp_path: Path, postgres_url: Callable[[], str]) -> None:
    url = postgres_url()
    key = tmp_path / "key"
    key.write_text("0f" * 32 + "\n")
    key.chmod(0o600)
    made = {user: dragoman("tokens", "create", user, "--store", url) for user in ("ann", "eve")}
    tokens = {user: done.stdout.strip() for user, done in made.items()}
    assert all(text.startswith("dgm_") for text in tokens.values()), [done.stderr for done in made.values()]
    arguments = ("--bind", "127.0.0.1:0", "--store", url, "--secrets-key", str(key), "--root", str(tmp_path))
    served = Served(tmp_path, *arguments, "--no-local", agent=EVERYTHING)
    try:
        secret = tmp_path / "token"
        secret.write_text(tokens["ann"])
        secret.chmod(0o600)
        where = ("--host", served.url, "--token-file", str(secret))
        done = dragoman("run", *where, "--session", "roof", "hello there", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert served.end() == 0
        assert served.process.stderr is not None
        said = served.process.stderr.read()
        assert "acknowledged means: synced on the disk of one server" in said
        assert "dgm_" not in said
        served.start()
        [session] = get(served, "/api/sessions", tokens["ann"])["sessions"]
        assert session["name"] == "roof"
        assert session["role"] == "editor"  # an admin with a token for editors
        assert get(served, "/api/sessions", tokens["eve"])["sessions"] == []
        assert get(served, "/api/search?q=hello", tokens["ann"])["hits"]
        assert not get(served, "/api/search?q=hello", tokens["eve"])["hits"]
        listed = json.loads(dragoman("tokens", "--json", "--store", url).stdout)
        assert {token["user"] for token in listed} == {"ann", "eve"}
        assert all(token.get("used") for token in listed)
    finally:
        served.end()


def test_a_database_that_is_away_ends_the_host_with_a_sentence(tmp_path: Path) -> None:
    done = dragoman("serve", "--store", "postgresql://127.0.0.1:1/x", "--", *EVERYTHING, cwd=tmp_path)
    assert done.returncode == 10
    assert "postgresql://127.0.0.1:1/x cannot be reached" in done.stderr
    done = dragoman("serve", "--store", "postgresql://ann:hunter2@db/x", "--", *EVERYTHING, cwd=tmp_path)
    assert done.returncode == 2
    assert "PGPASSWORD" in done.stderr
