"""What all rooms of a shared process say in the same words is said once, and its answer given to all. No I/O.

Who comes later gets the answer that is known; a failure is forgotten, so that whoever comes next may try again. Above
is the pier, which has the process.
"""

from __future__ import annotations

from msgspec import Raw, UnsetType

from dragoman.host.pool.ids import OTHERWISE, Joint, Out, put, soon, under
from dragoman.host.pool.transport import Berth
from dragoman.wire.envelope import Envelope, Id, say_error, say_result

# They introduce themselves in the same words, and log in as the same user.
JOINT = frozenset({"initialize", "authenticate"})


class Joints:
    """The requests of one process that are everybody's."""

    def __init__(self) -> None:
        self._known: dict[str, Joint] = {}  # by method
        self._open: dict[int, tuple[str, Joint]] = {}  # by the number it was said under

    def ask(self, berth: Berth, id: Id, method: str, params: bytes, number: int) -> bool:
        """Whether a room's request must be said, under this number; else it is answered with what others asked."""
        joint = self._known.get(method)
        if joint is not None and joint.params == params:
            if joint.result is None:
                joint.waiting.append((berth, id))
            else:
                soon(berth, say_result(id, joint.result))
            return False
        if joint is not None and method == "initialize":  # the pool keeps them apart; nobody must be taken for another
            soon(berth, say_error(id, OTHERWISE))
            return False
        self._known[method] = joint = Joint(params, [(berth, id)])
        self._open[number] = method, joint
        return True

    def answered(self, envelope: Envelope, fine: bool, out: Out) -> bool:
        """Give an answer to all who wait for it; says whether it was one of these."""
        if not isinstance(envelope.id, int) or envelope.id not in self._open:
            return False
        method, joint = self._open.pop(envelope.id)
        if fine and not isinstance(envelope.result, UnsetType):
            joint.result = envelope.result
        elif self._known.get(method) is joint:
            del self._known[method]
        for berth, id in joint.waiting:
            put(out, [berth], under(id, envelope))
        joint.waiting = []
        return True

    def withdraw(self, berth: Berth, id: Id | UnsetType) -> None:
        """A room does not need an answer any more, or (no id) none at all; the others still do."""
        is_any = isinstance(id, UnsetType)
        for joint in self._known.values():
            joint.waiting = [each for each in joint.waiting if each[0] is not berth or not (is_any or each[1] == id)]

    def forget(self, method: str) -> None:
        """What was answered does not hold any more."""
        self._known.pop(method, None)

    def result(self, method: str) -> Raw | None:
        """What was answered, if anything."""
        known = self._known.get(method)
        return None if known is None else known.result
