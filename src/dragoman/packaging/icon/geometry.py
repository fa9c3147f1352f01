"""The box that an SVG drawing covers: paths, shapes, transforms and strokes, to a hundredth of a unit."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from xml.etree.ElementTree import Element

Point = tuple[float, float]
Matrix = tuple[float, float, float, float, float, float]  # a b c d e f, as in SVG
Box = tuple[float, float, float, float]  # left, top, right, bottom

IDENTITY: Matrix = (1, 0, 0, 1, 0, 0)

# Points taken of a curve: the box of a curve that fills the icon is then right to a hundredth.
_STEPS = 32

# Elements that are not drawn where they stand.
_NOT_DRAWN = frozenset({"defs", "clipPath", "mask", "symbol", "pattern", "linearGradient", "radialGradient", "marker"})

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_TOKEN = re.compile(rf"([MmLlHhVvCcSsQqTtAaZz])|({_NUMBER})|[\s,]+")
_TRANSFORM = re.compile(r"(matrix|translate|scale|rotate|skewX|skewY)\s*\(([^)]*)\)")

# Numbers that each command of a path takes.
_ARITY = {"M": 2, "L": 2, "H": 1, "V": 1, "C": 6, "S": 4, "Q": 4, "T": 2, "A": 7, "Z": 0}


class GeometryFault(ValueError):
    """A drawing that cannot be measured."""


def local_name(element: Element) -> str:
    """Return the name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]


def number(text: str | None, otherwise: float = 0.0) -> float:
    """Return a length in user units; other units than px are an error."""
    if text is None or not text.strip():
        return otherwise
    match = re.fullmatch(rf"\s*({_NUMBER})(px)?\s*", text)
    if match is None:
        raise GeometryFault(f"{text!r} is not a number without a unit")
    return float(match[1])


def drawing_box(root: Element) -> Box | None:
    """Return the box of everything that is drawn; None if nothing is."""
    named = {each.get("id"): each for each in root.iter() if each.get("id")}
    boxes = list(_boxes(root, IDENTITY, {}, named, 0))
    if not boxes:
        return None
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def _boxes(
    element: Element, matrix: Matrix, inherited: Mapping[str, str], named: Mapping[str | None, Element], depth: int
) -> Iterator[Box]:
    if depth > 50:
        raise GeometryFault("elements are nested too deeply, or refer to themselves")
    name = local_name(element)
    if name in _NOT_DRAWN:
        return
    style = {**inherited, **{key: element.attrib[key] for key in _INHERITED if key in element.attrib}}
    matrix = multiply(matrix, parse_transform(element.get("transform", "")))
    if name == "use":
        target = named.get((element.get("href") or element.get("{http://www.w3.org/1999/xlink}href") or "#")[1:])
        if target is None:
            raise GeometryFault("a <use> refers to nothing in the icon")
        moved = multiply(matrix, (1, 0, 0, 1, number(element.get("x")), number(element.get("y"))))
        yield from _boxes(target, moved, style, named, depth + 1)
    points = list(_points(element, name))
    has_fill, has_stroke = style.get("fill") != "none", style.get("stroke", "none") != "none"
    if points and (has_fill or has_stroke):
        drawn = [_apply(matrix, point) for point in points]
        scale = math.sqrt(abs(matrix[0] * matrix[3] - matrix[1] * matrix[2]))
        margin = number(style.get("stroke-width"), 1.0) * scale / 2 if has_stroke else 0.0
        xs, ys = [x for x, _ in drawn], [y for _, y in drawn]
        yield min(xs) - margin, min(ys) - margin, max(xs) + margin, max(ys) + margin
    for child in element:
        yield from _boxes(child, matrix, style, named, depth + 1)


_INHERITED = ("fill", "stroke", "stroke-width")


def _points(element: Element, name: str) -> Iterator[Point]:
    get = element.attrib.get
    if name == "path":
        yield from path_points(get("d", ""))
    elif name == "rect":
        x, y, width, height = (number(get(key)) for key in ("x", "y", "width", "height"))
        yield from ((x, y), (x + width, y), (x, y + height), (x + width, y + height))
    elif name in ("circle", "ellipse"):
        cx, cy = number(get("cx")), number(get("cy"))
        rx, ry = number(get("r") or get("rx")), number(get("r") or get("ry"))
        turns = [2 * math.pi * step / (4 * _STEPS) for step in range(4 * _STEPS)]
        yield from ((cx + rx * math.cos(turn), cy + ry * math.sin(turn)) for turn in turns)
    elif name == "line":
        yield number(get("x1")), number(get("y1"))
        yield number(get("x2")), number(get("y2"))
    elif name in ("polyline", "polygon"):
        values = [float(each) for each in re.findall(_NUMBER, get("points", ""))]
        yield from zip(values[::2], values[1::2], strict=False)


# --- transforms -----------------------------------------------------------------------------------------------


def multiply(outer: Matrix, inner: Matrix) -> Matrix:
    """Return the transform that applies `inner` first."""
    a, b, c, d, e, f = outer
    g, h, i, j, k, m = inner
    return a * g + c * h, b * g + d * h, a * i + c * j, b * i + d * j, a * k + c * m + e, b * k + d * m + f


def parse_transform(text: str) -> Matrix:
    """Return the matrix of a transform attribute."""
    matrix = IDENTITY
    if _TRANSFORM.sub("", text).strip(" ,\t\r\n"):
        raise GeometryFault(f"the transform {text!r} cannot be read")
    for name, arguments in _TRANSFORM.findall(text):
        matrix = multiply(matrix, _single_transform(name, [float(each) for each in re.findall(_NUMBER, arguments)]))
    return matrix


def _single_transform(name: str, values: list[float]) -> Matrix:
    if name == "matrix" and len(values) == 6:
        a, b, c, d, e, f = values
        return a, b, c, d, e, f
    if name == "translate" and 1 <= len(values) <= 2:
        return 1, 0, 0, 1, values[0], values[1] if len(values) > 1 else 0
    if name == "scale" and 1 <= len(values) <= 2:
        return values[0], 0, 0, values[-1], 0, 0
    if name in ("skewX", "skewY") and len(values) == 1:
        slope = math.tan(math.radians(values[0]))
        return (1, 0, slope, 1, 0, 0) if name == "skewX" else (1, slope, 0, 1, 0, 0)
    if name == "rotate" and len(values) in (1, 3):
        cos, sin = math.cos(math.radians(values[0])), math.sin(math.radians(values[0]))
        turn: Matrix = (cos, sin, -sin, cos, 0, 0)
        if len(values) == 1:
            return turn
        return multiply(multiply((1, 0, 0, 1, values[1], values[2]), turn), (1, 0, 0, 1, -values[1], -values[2]))
    raise GeometryFault(f"{name} has {len(values)} numbers")


def _apply(matrix: Matrix, point: Point) -> Point:
    a, b, c, d, e, f = matrix
    x, y = point
    return a * x + c * y + e, b * x + d * y + f


# --- paths ----------------------------------------------------------------------------------------------------


def path_points(text: str) -> Iterator[Point]:
    """Return points of a path: its corners, and enough points of its curves."""
    here: Point = (0, 0)
    start: Point = (0, 0)
    control: Point | None = None  # the last control point, for the commands that mirror it
    before = ""
    for letter, values in _commands(text):
        kind = letter.upper()
        base = here if letter.islower() else (0.0, 0.0)
        if kind == "Z":
            here = start
        elif kind == "A":
            end = (base[0] + values[5], base[1] + values[6])
            yield from _arc(here, end, values)
            here = end
        elif kind in "HV":
            here = (base[0] + values[0], here[1]) if kind == "H" else (here[0], base[1] + values[0])
            yield here
        else:
            points = [(base[0] + x, base[1] + y) for x, y in zip(values[::2], values[1::2], strict=True)]
            if kind in "ST":
                mirrors = before in ("CS" if kind == "S" else "QT") and control is not None
                assert not mirrors or control is not None
                first = (2 * here[0] - control[0], 2 * here[1] - control[1]) if mirrors and control else here
                points.insert(0, first)
            yield from _curve([here, *points]) if kind in "CSQT" else (here, points[-1]) if kind == "L" else points
            control, here = (points[-2] if kind in "CSQT" else None), points[-1]
            start = here if kind == "M" else start
        before = kind


def _commands(text: str) -> Iterator[tuple[str, list[float]]]:
    at, letter = 0, ""
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise GeometryFault(f"the path cannot be read at {text[at : at + 12]!r}")
        if match[1]:
            letter, at = match[1], match.end()
            if letter in "Zz":
                yield letter, []
        elif match[2]:
            if not letter or letter in "Zz":
                raise GeometryFault(f"the path has a number without a command at {text[at : at + 12]!r}")
            values, at = _arguments(text, at, letter)
            yield letter, values
            letter = {"M": "L", "m": "l"}.get(letter, letter)
        else:
            at = match.end()


def _arguments(text: str, at: int, letter: str) -> tuple[list[float], int]:
    """Return the numbers of one command; the two flags of an arc are single digits, which may stand together."""
    values: list[float] = []
    for index in range(_ARITY[letter.upper()]):
        is_flag = letter in "Aa" and index in (3, 4)
        match = re.compile(rf"[\s,]*({'[01]' if is_flag else _NUMBER})").match(text, at)
        if match is None:
            raise GeometryFault(f"the path ends too early, in the command {letter}")
        values.append(float(match[1]))
        at = match.end()
    return values, at


def _curve(points: list[Point]) -> Iterator[Point]:
    for step in range(_STEPS + 1):
        t = step / _STEPS
        level = points
        while len(level) > 1:
            level = [(x + (p - x) * t, y + (q - y) * t) for (x, y), (p, q) in pairwise(level)]
        yield level[0]


def _arc(start: Point, end: Point, values: list[float]) -> Iterator[Point]:
    """Return points of an elliptical arc, by the formulas of the SVG specification (F.6.5)."""
    rx, ry, turn, large, sweep = abs(values[0]), abs(values[1]), math.radians(values[2]), values[3], values[4]
    if not rx or not ry or start == end:
        yield from (start, end)
        return
    cos, sin = math.cos(turn), math.sin(turn)
    dx, dy = (start[0] - end[0]) / 2, (start[1] - end[1]) / 2
    x, y = cos * dx + sin * dy, -sin * dx + cos * dy
    grow = math.sqrt(max(1.0, (x / rx) ** 2 + (y / ry) ** 2))
    rx, ry = rx * grow, ry * grow
    below = (rx * y) ** 2 + (ry * x) ** 2
    factor = math.sqrt(max(0.0, (rx * ry) ** 2 - below) / below) * (-1 if large == sweep else 1)
    mx, my = factor * rx * y / ry, -factor * ry * x / rx
    cx, cy = cos * mx - sin * my + (start[0] + end[0]) / 2, sin * mx + cos * my + (start[1] + end[1]) / 2
    first = math.atan2((y - my) / ry, (x - mx) / rx)
    last = math.atan2((-y - my) / ry, (-x - mx) / rx)
    span = last - first
    span += 2 * math.pi if sweep and span < 0 else -2 * math.pi if not sweep and span > 0 else 0
    for step in range(_STEPS + 1):
        angle = first + span * step / _STEPS
        px, py = rx * math.cos(angle), ry * math.sin(angle)
        yield cx + cos * px - sin * py, cy + sin * px + cos * py
