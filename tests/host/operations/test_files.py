"""The files of docs/operations: parsed, checked against each other, and given to the programs that read them."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from dragoman.cli.commands import serve
from dragoman.host.fleet.places import label_fault
from dragoman.store.urls import parse_address
from tests.host.operations.proxies import FILES, find_program


def parse_serve(words: list[str], monkeypatch: pytest.MonkeyPatch) -> Namespace:
    """Parse a command line of `dragoman serve` as the command does, without serving."""
    seen: list[Namespace] = []
    monkeypatch.setattr(serve, "serve", lambda _, __, options: seen.append(options))
    monkeypatch.setattr(serve, "run_loop", lambda _: 0)
    at = words.index("serve")
    assert serve.main(words[at + 1 :]) == 0
    return seen[0]


def unit_values(name: str) -> dict[str, list[str]]:
    lines = (FILES / name).read_text().splitlines()
    found: dict[str, list[str]] = {}
    for line in lines:
        if line and line[0] not in "#[":
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


@pytest.mark.parametrize("name", sorted(path.name for path in FILES.glob("*.service")))
def test_a_systemd_unit_starts_serve_and_reloads_it(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    values = unit_values(name)
    options = parse_serve(shlex.split(values["ExecStart"][0].replace("%i", "n1")), monkeypatch)
    assert options.log == "json"
    assert values["ExecReload"] == ["/bin/kill -HUP $MAINPID"]
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed here")
    # It wants the command and the user to exist.
    text = (
        (FILES / name).read_text().replace("/opt/dragoman/bin/dragoman", "/bin/true").replace("=dragoman\n", "=root\n")
    )
    unit = tmp_path / name
    unit.write_text(text)
    run = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60)
    assert name not in run.stderr, run.stderr


def test_the_container_starts_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (FILES / "Containerfile").read_text()
    entry = re.search(r"^ENTRYPOINT (\[.*\])$", text, re.M)
    command = re.search(r"^CMD (\[.*\])$", text, re.M)
    assert entry is not None
    assert command is not None
    words = yaml.safe_load(entry[1]) + yaml.safe_load(command[1])
    options = parse_serve(words, monkeypatch)
    assert options.bind == "0.0.0.0:7437"
    assert options.tls
    assert "USER dragoman" in text, "it must not run as root"


def kubernetes_objects(name: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all((FILES / name).read_text()) if each]


@pytest.mark.parametrize("name", sorted(path.name for path in FILES.glob("kubernetes*.yaml")))
def test_the_kubernetes_objects_fit_each_other(name: str) -> None:
    objects = {each["kind"]: each for each in kubernetes_objects(name)}
    workload = objects.get("Deployment") or objects["StatefulSet"]
    pod = workload["spec"]["template"]
    labels, spec = pod["metadata"]["labels"], pod["spec"]
    assert workload["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (container,) = spec["containers"]
    ports = {port["name"] for port in container["ports"]}
    for probe in ("livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] in ports
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    templates = {each["metadata"]["name"] for each in workload["spec"].get("volumeClaimTemplates", ())}
    volumes = {volume["name"] for volume in spec.get("volumes", ())} | templates
    assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
    for service in kubernetes_objects(name):
        if service["kind"] == "Service":
            assert service["spec"]["selector"].items() <= labels.items()
            assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports


@pytest.mark.parametrize("name", sorted(path.name for path in FILES.glob("compose*.yaml")))
def test_the_compose_file_names_only_volumes_and_files_that_it_has(name: str) -> None:
    compose = yaml.safe_load((FILES / name).read_text())
    named = set(compose.get("volumes", {}))
    for service in compose["services"].values():
        if "build" in service:
            assert (FILES / service["build"]["dockerfile"]).is_file()
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert source.startswith((".", "/")) or source in named
        for other in service.get("depends_on", ()):
            assert other in compose["services"]


def node_commands() -> dict[str, tuple[list[str], float]]:
    """Return the command of each node in the examples of a fleet, and how long it may take to stop."""
    compose = yaml.safe_load((FILES / "compose-fleet.yaml").read_text())
    found = {
        name: (service["command"], float(service["stop_grace_period"].removesuffix("s")))
        for name, service in compose["services"].items()
        if "command" in service
    }
    (workload,) = [each for each in kubernetes_objects("kubernetes-fleet.yaml") if each["kind"] == "StatefulSet"]
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    for number in range(workload["spec"]["replicas"]):
        words = [word.replace("$(POD_NAME)", f"dragoman-{number}") for word in container["args"]]
        found[f"dragoman-{number}"] = words, workload["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    return found


def test_the_nodes_of_the_fleet_examples_have_their_own_names_and_equal_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = (FILES / "Containerfile").read_text()
    entry = re.search(r"^ENTRYPOINT (\[.*\])$", text, re.M)
    assert entry is not None
    commands = node_commands()
    assert len(commands) == 6
    for name, (words, patience) in commands.items():
        options = parse_serve(yaml.safe_load(entry[1]) + words, monkeypatch)
        assert options.node == name
        assert options.advertise.startswith(f"https://{name}")
        assert 0 < options.grace < patience, "it may be killed before its turns have ended"
        assert options.tls
        assert options.node_ca
        assert options.secrets_key
        assert not any(label_fault(label) for label in options.labels)
        assert parse_address(options.store).is_shared
        assert "password" not in options.store
    for names in (("n1", "n2", "n3"), ("dragoman-0", "dragoman-1", "dragoman-2")):
        assert len({str(commands[name][0][2:]) for name in names}) == 1, "only name and address differ"


def test_logrotate_takes_its_file(tmp_path: Path) -> None:
    program = find_program("logrotate")
    config = tmp_path / "dragoman"
    config.write_bytes((FILES / "dragoman.logrotate").read_bytes())
    config.chmod(0o644)
    run = subprocess.run([program, "--debug", str(config)], capture_output=True, text=True, timeout=60)
    assert "error" not in run.stderr.lower().replace("missingok", ""), run.stderr
