"""The settings of emulators on this machine: its working directory, its clock, random ids."""

from __future__ import annotations

import os

from dragoman.dialect.emulator import EmulatorSettings, SessionIds
from dragoman.ids import new_id, now


def emulator_settings(
    cwd: str | None = None,
    permission: str = "ask",
    *,
    shows_switches: bool = False,
    joins_prompts: bool = False,
    session_ids: SessionIds | None = None,
) -> EmulatorSettings:
    """Return the emulator settings for this machine: real time, random ids."""
    return EmulatorSettings(
        cwd=cwd or os.getcwd(),
        permission=permission,
        shows_switches=shows_switches,
        joins_prompts=joins_prompts,
        now=now,
        new_id=new_id,
        session_ids=session_ids,
    )
