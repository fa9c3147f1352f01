"""An agent of a host that does not answer initialize: the client is told what to configure."""

from __future__ import annotations

import subprocess
from pathlib import Path

from dragoman.cli.connect.hosted import START_LIMIT
from dragoman.dialect import detect
from dragoman.host.limits import HostLimits
from dragoman.roles.client.dial import RETRY_TIMEOUT
from tests.cli.process import DRAGOMAN, TIMEOUT
from tests.cli.serve_process import Served


def test_a_client_of_a_silent_agent_is_told_to_set_its_dialect(tmp_path: Path) -> None:
    folder = tmp_path / "config" / "dragoman"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("[host.limits]\nopen_timeout = 0.5\n")
    served = Served(tmp_path, "--bind", "127.0.0.1:0", "--store", "memory:", agent=("sh", "-c", "cat > /dev/null"))
    command = [*DRAGOMAN, "run", "--host", served.url, "hello"]
    done = subprocess.run(command, env=served.environ, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT)
    assert served.end() == 0
    assert done.returncode == 1
    assert "initialize was not answered within 0.5 s" in done.stderr
    assert "name it (dialect = in [agents.NAME] of config.toml" in done.stderr


def test_a_host_gives_up_before_its_clients_do() -> None:
    others = len(detect.TRY_ORDER)  # and the next version, without the first
    assert HostLimits().open_timeout + others * RETRY_TIMEOUT < START_LIMIT
