"""Where a session can run: on one node, on nodes with a shared volume or a repository, or anywhere. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

import msgspec

from dragoman.errors import Kind, ProtocolError
from dragoman.store.fleet import NodeInfo, NodeStatus
from dragoman.store.session_state import SessionState
from dragoman.transport.sandbox.spec import contains_path

# The kinds of places.
NODE, SHARED, GIT, REMOTE = "node", "shared", "git", "remote"

# The label of a volume that several nodes mount at the same path: shared:NAME=PATH.
_SHARED_PREFIX = f"{SHARED}:"

# The label of a node that may clone a repository, or all below an address: git:URL.
_GIT_PREFIX = f"{GIT}:"

# Addresses of repositories. The address is in the log and on command lines, so it has no password in it.
_GIT_URL = re.compile(
    r"(?:https?|ssh|git|file)://[^\s#]+|[A-Za-z0-9_][A-Za-z0-9_.-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[^\s#:][^\s#]*"
)
_PASSWORD = re.compile(r"^[a-z]+://[^/@]*:[^/@]*@|^https?://[^/@]+@")
_GIT_REF = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./+-]*")


class Place(msgspec.Struct, frozen=True):
    """A place: its kind, and the node, the name of the volume, or the repository."""

    kind: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}" if self.name else self.kind


class GitSource(msgspec.Struct, frozen=True):
    """A repository, and where to start in it; "" is its default branch."""

    url: str
    ref: str = ""


def git_source(place: Place) -> GitSource:
    """Return the repository of a place; raise invalid_params for an address that is not used."""
    url, _, ref = place.name.partition("#")
    if _GIT_URL.fullmatch(url) is None or (ref and (_GIT_REF.fullmatch(ref) is None or ".." in ref)):
        message = f"git:{place.name} is no repository; write git:https://HOST/PATH#BRANCH, or ssh://, or file://"
        raise ProtocolError(Kind.INVALID_PARAMS, message)
    if _PASSWORD.search(url):
        message = "the address of a repository must not have credentials in it; configure git on the nodes instead"
        raise ProtocolError(Kind.INVALID_PARAMS, message)
    return GitSource(url, ref)


def parse_place(text: str) -> Place:
    """Parse a place as a client or the log writes it; raise invalid_params."""
    kind, _, name = text.partition(":")
    if kind not in (NODE, SHARED, GIT, REMOTE) or (kind in (SHARED, GIT) and not name):
        message = f"{text!r} is no place; write node, shared:NAME, git:URL#REF or remote"
        raise ProtocolError(Kind.INVALID_PARAMS, message)
    return Place(kind, name)


def shared_volumes(labels: Iterable[str]) -> dict[str, str]:
    """Return the path of each shared volume that a node mounts, by name; "" where its label has no path."""
    volumes = [label.removeprefix(_SHARED_PREFIX) for label in labels if label.startswith(_SHARED_PREFIX)]
    return {name: path for name, _, path in (volume.partition("=") for volume in volumes)}


def label_fault(label: str) -> str:
    """Return what is wrong with a label; "" if it is valid."""
    for name, path in shared_volumes([label]).items():
        if not name or (path and not os.path.isabs(path)):
            return f"{label!r}: write a volume as shared:NAME=/PATH"
    if label.startswith(_GIT_PREFIX) and _GIT_URL.fullmatch(label.removeprefix(_GIT_PREFIX)) is None:
        return f"{label!r}: write a repository, or the address above several, as git:https://HOST/PATH"
    return "" if label and label.isprintable() and " " not in label else f"{label!r} is no label"


def place_of_folder(cwd: str, info: NodeInfo) -> Place:
    """Return the place of a session that is opened in a folder of a node."""
    real = os.path.realpath(cwd)
    for name, path in shared_volumes(info.labels).items():
        if path and contains_path(os.path.realpath(path), real):
            return Place(SHARED, name)
    return Place(NODE, info.node)


def place_of(state: SessionState) -> Place:
    """Return the place of a stored session. One that no fleet opened is bound to whichever node has its folder."""
    if not state.place:
        return Place(NODE)
    place = parse_place(state.place)
    return Place(NODE, state.node) if place.kind == NODE else place


def can_run(place: Place, info: NodeInfo) -> bool:
    """Tell whether a node can run a session of a place."""
    if place.kind == NODE:
        return place.name == info.node
    if place.kind == SHARED:
        return place.name in shared_volumes(info.labels)
    if place.kind == GIT:
        return may_clone(git_source(place).url, info.labels)
    return True


def may_clone(url: str, labels: Iterable[str]) -> bool:
    """Tell whether the labels of a node name a repository, or an address above it."""
    allowed = [label.removeprefix(_GIT_PREFIX).rstrip("/") for label in labels if label.startswith(_GIT_PREFIX)]
    is_plain = "/../" not in f"{url}/" and "%" not in url
    return is_plain and any(url in (each, f"{each}.git") or url.startswith(f"{each}/") for each in allowed)


def choose_node(place: Place, own: NodeInfo, cwd: str, nodes: Sequence[NodeStatus]) -> str:
    """Return the node that should wake a session: this one if it can, else a living one that can; "" if none can."""
    if place.kind == NODE and not place.name:
        return own.node if cwd and os.path.isdir(cwd) else ""
    if can_run(place, own) and not own.state.get("draining"):
        return own.node
    others = [
        status.info
        for status in nodes
        if status.is_alive and can_run(place, status.info) and not status.info.state.get("draining")
    ]
    return min((info.node for info in others if info.node != own.node), default="")


def away_error(session: str, place: Place, cwd: str, nodes: Sequence[NodeStatus]) -> ProtocolError:
    """Return the error of a prompt whose session cannot run on any living node."""
    known = next((status for status in nodes if status.info.node == place.name), None)
    if place.kind == NODE and place.name:
        gone = "which is not there any more" if known is None else f"which has been away for {_duration(known.age)}"
        if known is not None and known.is_alive:
            gone = "which is draining"
        message = f"its folder {cwd} is on {place.name}, {gone}"
    elif place.kind == NODE:
        message = f"its folder {cwd} is on none of the nodes that are here"
    elif place.kind == GIT:
        message = f"no living node may clone {git_source(place).url}; start one with --labels git:URL"
    else:
        message = f"no living node has {place}"
    advice = f"wait until it is back, or let an admin move it: dragoman fleet move {session} --to NODE --cwd DIR"
    return ProtocolError(
        Kind.INVALID_STATE, f"workspace_away: {message}; {advice}", {"reason": "workspace_away", "place": str(place)}
    )


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.0f} h"
