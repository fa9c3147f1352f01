"""Claims of logs, the same for every store: which appends they allow, and how an owner finds out what is stored."""

from __future__ import annotations

from dragoman.errors import StoreFault
from dragoman.store.contract import Claim, Store


class Fenced(StoreFault):
    """A log has a later claim; `owner` is that claim, with node "" if it was released or the log was deleted."""

    def __init__(self, owner: Claim) -> None:
        who = f"node {owner.node!r} owns session {owner.session_id!r} now"
        nobody = f"this node does not run session {owner.session_id!r} any more, because it let it go or it was deleted"
        super().__init__("fenced", f"{who if owner.node else nobody}; nothing was stored, try again")
        self.owner = owner


def no_claim(session_id: str) -> Claim:
    """Return the claim of a log that was never claimed."""
    return Claim(session_id=session_id, node="", epoch=0, seq=0)


def check_append(owner: Claim, claim: Claim | None) -> None:
    """Raise Fenced unless the owner of a log is the one who appends: this claim, or nobody without one."""
    if (claim.epoch, claim.node) != (owner.epoch, owner.node) if claim is not None else owner.node:
        raise Fenced(owner)


def check_epoch(owner: Claim, epoch: int) -> None:
    """Raise Fenced if a log was claimed after this epoch."""
    if owner.epoch != epoch:
        raise Fenced(owner)


async def settle(store: Store, claim: Claim) -> Claim:
    """Claim a log again for its owner. A claim of the same node after this one is an earlier try without an answer."""
    try:
        return await store.claim(claim.session_id, claim.node, epoch=claim.epoch)
    except Fenced as fenced:
        if fenced.owner.node != claim.node or fenced.owner.epoch < claim.epoch:
            raise
        return await store.claim(claim.session_id, claim.node, epoch=fenced.owner.epoch)
