"""The node of a fleet, from the settings of `dragoman serve`: its name, labels, secret and digest of settings."""

from __future__ import annotations

import argparse
import hashlib
import hmac
import os
import re
import socket
from typing import TYPE_CHECKING

import msgspec

from dragoman.config.host_section import HostSection
from dragoman.errors import ConfigFault, StartFailed

if TYPE_CHECKING:
    from dragoman.config.paths import UserPaths
    from dragoman.host.fleet.fleet import Fleet
    from dragoman.host.reload import Settings
    from dragoman.store.fleet import Engine
    from dragoman.store.urls import StoreAddress

# What the settings of all nodes must agree on: a session may run at any of them.
_SHARED_SETTINGS = ("unattended", "mode", "share", "limits", "roots", "user_roots")

# The shortest lease that can be configured. Seconds.
MIN_LEASE = 3.0


def check_fleet_settings(address: StoreAddress, section: HostSection, options: argparse.Namespace) -> None:
    """Raise ConfigFault for settings that a store of one host would ignore: whoever set them relies on them."""
    given = {
        "--node": section.node,
        "--advertise": section.advertise,
        "--labels": section.labels,
        "--node-ca": section.node_ca,
        "--mutual-tls": section.mutual_tls,
        "--secrets-key": section.secrets_key,
        "--trust-engine": options.trust_engine,
        "--allow-drift": options.allow_drift,
        "--grace": options.grace,
    }
    names = [name for name, value in given.items() if value]
    if names and not address.is_shared:
        listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
        raise ConfigFault(
            [
                f"{listed} {'need' if len(names) > 1 else 'needs'} a store of several hosts: "
                "--store postgresql://HOST/DATABASE or nats://A,B,C; with another store leave "
                f"{'them' if len(names) > 1 else 'it'} out, also in [host] of config.toml"
            ]
        )


def make_fleet(engine: Engine, settings: Settings, paths: UserPaths, secrets_key: bytes | None) -> Fleet | None:
    """Return this node; None on a store that only one host uses. Raise ConfigFault for wrong names and labels."""
    from dragoman.host.fleet.audit_anchors import AuditAnchors, anchor_key
    from dragoman.host.fleet.fleet import Fleet
    from dragoman.host.fleet.lease import LeaseTimes
    from dragoman.host.fleet.links import NODE_NAME
    from dragoman.host.fleet.node_tls import NodeTls
    from dragoman.host.fleet.places import label_fault
    from dragoman.store.audit import AuditLog

    section = settings.section
    if not engine.is_shared:
        return None
    name = section.node or re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname())[:63]
    faults = [f"--labels: {fault}" for label in section.labels if (fault := label_fault(label))]
    if NODE_NAME.fullmatch(name) is None:
        faults.append(f"--node: {name!r} is no name of a node; use letters, digits and . _ -")
    if section.lease < MIN_LEASE:
        faults.append(f"host.lease: a lease of less than {MIN_LEASE:g} s is lost by nodes that are only busy")
    if section.mutual_tls and not (section.tls and section.node_ca):
        faults.append(
            "--mutual-tls: nodes need a certificate each (--tls CERT KEY), and the authority of all (--node-ca FILE)"
        )
    if faults:
        raise ConfigFault(faults)
    return Fleet(
        engine,
        name,
        section.advertise,
        labels=section.labels,
        token=link_token(secrets_key) if secrets_key is not None else "",
        tls=NodeTls(section.node_ca, section.tls if section.mutual_tls else ()),
        config_digest=config_digest(settings, paths),
        times=LeaseTimes.of(section.lease),
        workspaces=os.path.join(_workspaces_folder(section, paths), name),
        has_checkpoints=section.checkpoints,
        audit=None
        if secrets_key is None
        else AuditAnchors(engine.records, name, AuditLog(paths.audit), anchor_key(secrets_key)),
    )


def _workspaces_folder(section: HostSection, paths: UserPaths) -> str:
    """Return the folder for working trees. It is none of our own folders: agents may not write those."""
    return os.path.abspath(os.path.expanduser(section.workspaces or os.path.join(paths.home, "dragoman-workspaces")))


def link_token(secrets_key: bytes) -> str:
    """Return the token by which nodes know each other: only nodes with the same key have it."""
    return hmac.new(secrets_key, b"dragoman node link", hashlib.sha256).hexdigest()


def config_digest(settings: Settings, paths: UserPaths) -> str:
    """Return a digest of the settings that all nodes of a fleet must share: agents, policy, limits, roots."""
    section: HostSection = settings.section
    values = {name: msgspec.to_builtins(getattr(section, name)) for name in _SHARED_SETTINGS}
    agents = [[agent.name, agent.command, *agent.args] for agent in settings.agents]
    policy = b""
    try:
        with open(section.policy or paths.policy, "rb") as file:
            policy = file.read()
    except OSError:
        pass
    data = msgspec.json.encode([values, agents, policy.decode("utf-8", "replace")], order="sorted")
    return hashlib.sha256(data).hexdigest()[:16]


async def check_drift(fleet: Fleet, *, is_allowed: bool) -> list[str]:
    """Return the living nodes whose settings differ, as warnings; raise StartFailed unless that is allowed."""
    differing = [
        status.info.node
        for status in await fleet.engine.nodes.list_nodes()
        if status.is_alive and status.info.node != fleet.node and status.info.state.get("config") != fleet.config_digest
    ]
    if not differing:
        return []
    text = f"the agents, policy, roots or limits of this node differ from those of {', '.join(differing)}"
    if not is_allowed:
        raise StartFailed(f"{text}; make them equal, or start with --allow-drift during an update")
    return [text]
