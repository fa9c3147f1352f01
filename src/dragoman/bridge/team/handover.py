"""One agent of a team takes over from another: what it is told, and the leases that it gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.bridge.team.messages import handover_blocks
from dragoman.store.replay import render_markdown

if TYPE_CHECKING:
    from dragoman.bridge.team.child import Child
    from dragoman.bridge.team.team import Team

# What the agent that hands over is asked for.
SUMMARY_REQUEST = (
    "Another agent takes over from you. Summarize for it in plain text: the task, what you did, what you found out, "
    "what is still to be done, and what to be careful about. Change no files."
)

KEEPS = ("summary", "transcript")


async def hand_over(team: Team, giver: Child | None, taker: str, keep: str) -> None:
    """Pass on what an agent knows; nothing if it has not worked yet."""
    if keep not in KEEPS:
        raise ValueError(f"keep is one of {', '.join(KEEPS)}, not {keep!r}")
    if giver is None or not giver.session_id:
        return
    text = render_markdown(giver.session.transcript)
    files, plan = team.files_of(giver), list(giver.session.plan)
    if keep == "summary":
        text = (await team.ask_child(giver, SUMMARY_REQUEST)).text
    after = await team.child(taker)
    await after.open()
    after.session._preamble += handover_blocks(text, giver.id, giver.session_id, plan, files, embeds=after.embeds)
    if giver.member is not None and after.member is not None:
        team.coordinator.move_leases(giver.member, after.member)
