"""A host on a store of its own refuses the settings of a fleet, which it could not use."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.cli.main import main
from tests.cli.process import EVERYTHING


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--secrets-key", "key.txt"), "--secrets-key needs a store of several hosts"),
        (("--trust-engine",), "--trust-engine needs a store of several hosts"),
        (("--node-ca", "ca.pem", "--grace", "5"), "--node-ca and --grace need a store of several hosts"),
        (("--node", "a", "--allow-drift", "--labels", "git:x"), "--node, --labels and --allow-drift need a store of"),
    ],
)
@pytest.mark.parametrize("store", ["a.db", "memory:"])
def test_settings_of_a_fleet_are_refused_on_a_store_of_one_host(
    arguments: tuple[str, ...], expected: str, store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = store if store == "memory:" else str(tmp_path / store)
    assert main(["serve", "--bind", "127.0.0.1:0", "--store", address, *arguments, "--", *EVERYTHING]) == 2
    assert expected in capsys.readouterr().err
    assert not list(tmp_path.iterdir())  # refused before the store was created


def test_a_setting_of_a_fleet_in_the_configuration_is_refused_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dragoman").mkdir()
    (tmp_path / "dragoman" / "config.toml").write_text('[host]\nsecrets_key = "/etc/key"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main(["serve", "--bind", "127.0.0.1:0", "--store", "memory:", "--", *EVERYTHING]) == 2
    assert "leave it out, also in [host] of config.toml" in capsys.readouterr().err
