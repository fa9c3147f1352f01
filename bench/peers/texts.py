"""What is said in the measured work: takes positions and sizes, gives the texts both ends expect.

Every agent makes its texts here and every client compares with them, so a lost, doubled or reordered message
fails the measurement instead of speeding it up. ts/work.mjs says the same in JavaScript. Knows no protocol.
"""

from collections.abc import Iterator
from itertools import count

CHUNK_BYTES = 40  # what a model's token or two looks like on the wire: a frame of about 200 bytes
ANSWER = "the same few words every time\n"  # a client's constant answer to fs/read_text_file

_TAIL = "all work and no play makes a dull agent " * 8
_LINE = "line {:06d} of a long document, written once and sent in one piece\n"
_BLOCK = "".join(_LINE.format(number) for number in range(1024))


def chunks(size: int = CHUNK_BYTES) -> Iterator[str]:
    """Texts without end, each `size` characters long and different. Cheap, for making them is measured too."""
    tail = _TAIL[: size - len("chunk 00000 ")]
    for number in count():
        yield f"chunk {number:05d} {tail}"


def document(size: int) -> str:
    """A text of `size` characters for the large-message rows, built without other copies of that size."""
    head = f"document of {size} characters\n"
    blocks, rest = divmod(size - len(head), len(_BLOCK))
    # One multiplication and one concatenation would hold the text twice; the join sizes its result first.
    return "".join([head, *([_BLOCK] * blocks), _BLOCK[:rest]])


def is_document(text: str, size: int) -> bool:
    """Whether `text` is `document(size)`, compared by blocks to keep the check out of the peak memory."""
    head = f"document of {size} characters\n"
    if len(text) != size or not text.startswith(head):
        return False
    step = len(_BLOCK)
    return all(_BLOCK.startswith(text[start : start + step]) for start in range(len(head), size, step))


class Reader:
    """Takes the chunks of one turn and insists on their text, order and count."""

    def __init__(self, size: int = CHUNK_BYTES) -> None:
        self.count = 0
        self._expected = chunks(size)

    def take(self, text: str) -> None:
        """One chunk has arrived."""
        if text != next(self._expected):
            raise ValueError(f"chunk {self.count} is another one: {text[:80]!r}")
        self.count += 1

    def expect(self, count: int) -> None:
        """The turn is over: exactly `count` chunks must have arrived."""
        if self.count != count:
            raise ValueError(f"got {self.count} chunks, expected {count}")
