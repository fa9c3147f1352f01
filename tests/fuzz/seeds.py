"""The frames that are mutated: those of the dialects' examples, of whole conversations and of recordings.

They are grouped by kind, so that a thousand recorded chunks do not displace the one plan.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec

from dragoman.schema.side import Side

DATA = Path(__file__).parents[1] / "data"

# Stands in seeds where a frame names its session; the run puts the id of a session that lives there.
LIVE = "the-living-session"

# Whole conversations by dialect; recordings were all made of peers that speak official v1 or banjo.
FLOWS = {
    "v1": (),
    "v2": (),
    "banjo": ("banjo_turn",),
    "2025.1": ("y2025_turn",),
    "crow": ("crow_turn",),
    "draft": ("draft_A1", "draft_A2"),
}
RECORDED = ("v1", "banjo")

# More of one kind add nothing but time.
PER_GROUP = 40

Path_ = tuple[str | int, ...]


class Seed(msgspec.Struct, frozen=True):
    """One frame to start from, and the paths of all its parts."""

    frame: bytes
    paths: tuple[Path_, ...]


class Seeds(msgspec.Struct, frozen=True):
    """The frames that one side of a connection may receive in one dialect."""

    groups: tuple[tuple[Seed, ...], ...]
    results: dict[str, tuple[Seed, ...]]  # by the dialect's method; frames without an id
    methods: tuple[str, ...]
    names: tuple[str, ...]
    parts: tuple[msgspec.Raw, ...]


def load(dialect: str, side: Side) -> Seeds:
    """All seeds of frames that `side` receives."""
    groups: defaultdict[str, list[Any]] = defaultdict(list)
    results: defaultdict[str, list[Any]] = defaultdict(list)
    for frame in (*_examples(dialect, side, results), *_conversations(dialect, side), *_errors(dialect)):
        group = groups[_group(frame)]
        if len(group) < PER_GROUP:
            group.append(frame)
    frames = [frame for group in groups.values() for frame in group]
    names: set[str] = set()
    parts: list[Any] = []
    for frame in frames:
        _collect(frame, names, parts)
    return Seeds(
        groups=tuple(tuple(map(_seed, group)) for _, group in sorted(groups.items())),
        results={method: tuple(map(_seed, found)) for method, found in sorted(results.items())},
        methods=tuple(sorted({frame["method"] for frame in frames if "method" in frame})),
        names=tuple(sorted(names)),
        parts=tuple(msgspec.Raw(msgspec.json.encode(part)) for part in parts),
    )


def _examples(dialect: str, side: Side, results: dict[str, list[Any]]) -> list[Any]:
    frames = []
    cases = json.loads((DATA / "dialects" / f"{dialect}.json").read_text(encoding="utf-8"))
    for case in json.loads((DATA / "dialects" / "canonical.json").read_text(encoding="utf-8")):
        if case["spelled"].get(dialect) is not None:
            cases.append({**case, "wire": case["spelled"][dialect]})
    for case in cases:
        wire = case["wire"]
        if case["kind"] == "call" and case["side"] == side.value:
            frames.append({"jsonrpc": "2.0", "id": 0, "method": wire["method"], "params": wire["params"]})
            if wire["method"] in ("session/update", "session/cancel", "cancel"):
                frames.append({"jsonrpc": "2.0", "method": wire["method"], "params": wire["params"]})
        elif case["kind"] == "result" and case["side"] != side.value:
            frames.append({"jsonrpc": "2.0", "id": 0, "result": wire["result"]})
            results[wire["method"]].append({"jsonrpc": "2.0", "id": 0, "result": wire["result"]})
    return frames


def _conversations(dialect: str, side: Side) -> list[Any]:
    frames = []
    for name in FLOWS[dialect]:
        for step in json.loads((DATA / "flows" / f"{name}.json").read_text(encoding="utf-8")):
            if step["from"] != side.value:
                frames.append(step["frame"])
    if dialect in RECORDED:
        towards = "c2a" if side is Side.AGENT else "a2c"
        for recording in sorted((DATA / "recordings").glob("*.ndjson")):
            for line in recording.read_text(encoding="utf-8").splitlines():
                step = json.loads(line)
                if step["dir"] == towards and isinstance(step.get("msg"), dict):
                    frames.append(step["msg"])
    return frames


def _errors(dialect: str) -> list[Any]:
    examples = json.loads((DATA / "dialects" / "errors.json").read_text(encoding="utf-8"))["examples"]
    mine = [example for example in examples if example["dialect"] == dialect]
    return [{"jsonrpc": "2.0", "id": 0, "error": example["wire"]} for example in mine]


def _group(frame: Any) -> str:
    if "method" not in frame:
        return "result" if "result" in frame else "error"
    params = frame.get("params")
    update = params.get("update", params) if isinstance(params, dict) else None
    kinds = (update.get(name) for name in ("sessionUpdate", "@type", "type")) if isinstance(update, dict) else ()
    kind = next((kind for kind in kinds if isinstance(kind, str)), "")
    return f"{frame['method']} {kind}"


def _seed(frame: Any) -> Seed:
    params = frame.get("params")
    if isinstance(params, dict):
        alive = {name: LIVE for name in ("sessionId", "session_id") if name in params}
        frame = {**frame, "params": {**params, **alive}}
    return Seed(frame=msgspec.json.encode(frame), paths=tuple(_paths(frame)))


def _paths(value: Any, here: Path_ = ()) -> list[Path_]:
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found: list[Path_] = []
    for name, item in items:
        found += [(*here, name), *_paths(item, (*here, name))]
    return found


def _collect(value: Any, names: set[str], parts: list[Any]) -> None:
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        parts.append(item)
        _collect(item, names, parts)
    if isinstance(value, dict):
        names.update(value)
