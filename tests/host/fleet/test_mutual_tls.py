"""Mutual TLS between nodes, with real certificates: nodes of one authority link, others are refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.cli.serve.fleet import make_fleet
from dragoman.config.host_section import HostSection
from dragoman.config.paths import user_paths
from dragoman.errors import ConfigFault, ConnectionFailed
from dragoman.host.fleet.node_tls import NodeTls
from dragoman.host.reload import Settings
from dragoman.store.fleet import NodeInfo
from dragoman.store.local_fleet import local_engine
from dragoman.store.memory import MemoryStore
from tests.host.fleet.memory_fleet import Node, running_fleet
from tests.host.memory_host import messages_of, open_session, until
from tests.transport.remote.certificate import Authority


class Certificates:
    """An authority in a folder, and what its nodes have of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority("authority of the fleet")
        self.ca = str(self.authority.write(folder / "ca")[0])

    def node(self, name: str, authority: Authority | None = None) -> tuple[str, str]:
        """Return the certificate and the key of a node."""
        cert, key = Authority(name, signed_by=authority or self.authority).write(self.folder / name)
        return str(cert), str(key)


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


def info_of(node: Node) -> NodeInfo:
    return NodeInfo(node=node.name, url=node.fleet.url)


async def test_nodes_with_certificates_of_their_authority_relay_sessions(certificates: Certificates) -> None:
    own = {name: certificates.node(name) for name in ("n1", "n2")}
    tls = {name: NodeTls(certificates.ca, pair) for name, pair in own.items()}
    async with running_fleet(("n1", "n2"), tls=tls, certificates=own) as (first, second):
        async with first.client() as near, second.client() as far:
            session = await open_session(near)
            await session.ask("one")
            distant = await far.load_session(session.id, "/tmp")
            assert await distant.ask("two") == "heard two"
            await until(lambda: len(messages_of(session)) == 4)
            assert first.fleet.url.startswith("https://")
            assert first.fleet.links.links.keys() == {"n2"}


async def test_a_node_without_a_certificate_or_with_a_forged_one_is_refused_by_name(certificates: Certificates) -> None:
    forger = Authority("authority of the fleet")  # the same name, another key
    own = {name: certificates.node(name) for name in ("n1", "bare")}
    own["forged"] = certificates.node("forged", forger)
    tls = {
        "n1": NodeTls(certificates.ca, own["n1"]),
        "bare": NodeTls(certificates.ca),
        "forged": NodeTls(certificates.ca, own["forged"]),
    }
    reports: list[str] = []
    async with running_fleet(("n1", "bare", "forged"), tls=tls, certificates=own, report=reports.append) as nodes:
        first, bare, forged = nodes
        with pytest.raises(ConnectionFailed, match="node n1 refuses this link: it showed no certificate"):
            await bare.fleet.links.link_to(info_of(first))
        assert "a link from node bare at 127.0.0.1 was refused: it showed no certificate; " in "\n".join(reports)
        with pytest.raises(ConnectionFailed, match=r"does not accept the certificate of this side|closed|broke"):
            await forged.fleet.links.link_to(info_of(first))
        await until(lambda: any("a connection from 127.0.0.1 was refused" in each for each in reports))
        with pytest.raises(ConnectionFailed, match="its certificate is not trusted"):
            await first.fleet.links.link_to(info_of(forged))
        assert not first.fleet.links.links


def test_a_certificate_and_an_authority_are_needed_and_files_that_cannot_be_used_are_named(
    certificates: Certificates, tmp_path: Path
) -> None:
    own = certificates.node("n1")
    with pytest.raises(ConnectionFailed, match=r"nowhere\.pem, .*cannot be used"):
        NodeTls("nowhere.pem", own).dial_context()
    engine = local_engine("memory", MemoryStore(), [])
    engine.is_shared = True
    for section in (HostSection(mutual_tls=True, tls=own), HostSection(mutual_tls=True, node_ca=certificates.ca)):
        with pytest.raises(ConfigFault, match="--mutual-tls: nodes need a certificate each"):
            make_fleet(engine, Settings(section, (), {}), user_paths({"HOME": str(tmp_path)}), None)
