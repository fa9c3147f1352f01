"""Faults that only the official schema shows."""

from __future__ import annotations

from tests.conformance.faults.edits import edit_results, with_
from tests.conformance.faults.fault import Json, seed


def _odd_description(result: Json) -> None:
    if result.get("modes"):
        result["modes"]["availableModes"][0]["description"] = 5


seed("agent.schema.01", edit_results("session/new", _odd_description))
seed("agent.schema.02", edit_results("session/prompt", with_(vendorData={"cost": 1})))
