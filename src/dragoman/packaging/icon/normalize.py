"""Check an icon and write it as editors want it: SVG, 16 by 16, with padding, in one color, small.

What can be repaired is repaired and reported as a fix; what only the author can decide is a fault.
"""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from dragoman.packaging.faults import Findings
from dragoman.packaging.icon import colors
from dragoman.packaging.icon.geometry import Box, GeometryFault, drawing_box, local_name, number

SIZE = 16
MIN_PADDING = 1.0  # Zed recommends 1 to 2 pixels
_TOLERANCE = 0.05  # a curve may touch the padding by less than anybody sees

MAX_INPUT = 256 * 1024  # no icon of 16 by 16 needs more; the rest would be an image
_LARGE = 4096  # bytes; above this the author is told

_NAMESPACE = "http://www.w3.org/2000/svg"
_XLINK = "{http://www.w3.org/1999/xlink}href"

# What editors would not draw, or must not: programs, images, fonts of somebody's machine, movement.
_FORBIDDEN = {
    "script": "remove it",
    "foreignObject": "draw it with paths",
    "image": "draw it with paths",
    "text": "convert the text to paths",
    "animate": "remove it",
    "animateTransform": "remove it",
    "animateMotion": "remove it",
    "set": "remove it",
    "a": "remove the link",
    "svg": "take the inner <svg> apart",
}

# What no editor draws.
_SUPERFLUOUS = frozenset({"metadata", "title", "desc", "namedview"})
_SUPERFLUOUS_ATTRIBUTES = frozenset(
    {"version", "baseProfile", "enable-background", "overflow", "xml:space", "role", "focusable", "class", "color"}
)
_REFERENCES = ("clip-path", "mask", "filter", "href", _XLINK, "marker-start", "marker-mid", "marker-end")


def normalize_icon(data: bytes) -> tuple[str, Findings]:
    """Return the icon as editors want it, and what was found; "" if it cannot be used."""
    findings = Findings()
    root = _parse(data, findings)
    if root is None:
        return "", findings
    _refuse(root, findings)
    colors.inline_styles(root, findings)
    colors.use_one_color(root, findings)
    _remove_superfluous(root, findings)
    if not findings.faults:
        _fit(root, findings)
    if findings.faults:
        return "", findings
    text = _serialize(root)
    if len(text) > _LARGE:
        findings.notes.append(f"the icon has {len(text)} bytes; fewer points or SVGOMG make it smaller")
    return text, findings


def _parse(data: bytes, findings: Findings) -> Element | None:
    if len(data) > MAX_INPUT:
        findings.add_fault("icon.size", f"the file has {len(data)} bytes", "export it as a plain SVG without images")
        return None
    if re.search(rb"<!(?:DOCTYPE|ENTITY)", data, re.I):
        # An entity can make a small file huge, or read other files.
        if re.search(rb"<!ENTITY", data, re.I):
            findings.add_fault("icon.svg", "the icon defines entities", "remove <!ENTITY ...>")
            return None
        data = re.sub(rb"<!DOCTYPE[^>\[]*>", b"", data, flags=re.I)
        findings.fixes.append("icon.svg: removed the DOCTYPE")
    if b"<!--" in data:
        findings.fixes.append("icon.comment: removed comments")
    try:
        root = ElementTree.fromstring(data)
    except ElementTree.ParseError as error:
        what = "a PNG image" if data.startswith(b"\x89PNG") else "no XML"
        findings.add_fault("icon.svg", f"icon.svg is {what} ({error})", "save it as SVG")
        return None
    if local_name(root) != "svg":
        findings.add_fault("icon.svg", f"the root is <{local_name(root)}>", "save it as SVG")
        return None
    return root


def _refuse(root: Element, findings: Findings) -> None:
    for element in root.iter():
        name = local_name(element)
        if name in _FORBIDDEN and element is not root:
            findings.add_fault("icon.content", f"the icon has <{name}>", _FORBIDDEN[name])
        for key, value in element.attrib.items():
            plain = key.rpartition("}")[2]
            if plain.lower().startswith("on"):
                findings.add_fault("icon.content", f"the icon has the attribute {plain}", "remove it")
            if plain == "href" and not value.startswith("#"):
                findings.add_fault("icon.content", f"the icon refers to {value[:40]!r}", "put it into the icon itself")
            if re.search(r"url\(\s*['\"]?(?!#)", value):
                findings.add_fault("icon.content", f"{plain} refers to another file", "put it into the icon itself")


def _remove_superfluous(root: Element, findings: Findings) -> None:
    """Remove what is not drawn: data of editors, titles, ids that nothing uses."""
    removed = set()
    for parent in list(root.iter()):
        for child in list(parent):
            is_foreign = not str(child.tag).startswith(f"{{{_NAMESPACE}}}") and "}" in str(child.tag)
            if is_foreign or local_name(child) in _SUPERFLUOUS:
                parent.remove(child)
                removed.add(f"<{local_name(child)}>")
    used = {
        match
        for element in root.iter()
        for name in _REFERENCES
        for match in re.findall(r"#([^)\"']+)", element.get(name, ""))
    }
    for element in root.iter():
        element.text = element.tail = None
        for key in list(element.attrib):
            plain = key.rpartition("}")[2]
            is_foreign = key.startswith("{") and key != _XLINK
            is_unused = key == "id" and element.attrib[key] not in used
            if is_foreign or is_unused or key in _SUPERFLUOUS_ATTRIBUTES or plain.startswith(("data-", "aria-")):
                del element.attrib[key]
                removed.add(plain)
        if _XLINK in element.attrib:
            element.set("href", element.attrib.pop(_XLINK))
    if removed:
        findings.fixes.append(f"icon.optimized: removed {', '.join(sorted(removed))}")


# --- size and padding -----------------------------------------------------------------------------------------


def _fit(root: Element, findings: Findings) -> None:
    """Bring the drawing to 16 by 16 with padding."""
    try:
        left, top, width, height = _view_box(root)
        drawn = drawing_box(root)
    except GeometryFault as error:
        findings.add_fault("icon.size", str(error), "export the icon as a plain SVG")
        return
    if drawn is None:
        findings.add_fault("icon.content", "the icon draws nothing", "draw something")
        return
    if width <= 0 or height <= 0:
        findings.add_fault("icon.size", f"the icon is {width:g} by {height:g}", 'give it viewBox="0 0 16 16"')
        return
    scale = SIZE / max(width, height)
    offset = ((SIZE - width * scale) / 2 - left * scale, (SIZE - height * scale) / 2 - top * scale)
    placed = _place(drawn, scale, offset)
    if (left, top, width, height) != (0, 0, SIZE, SIZE):
        findings.fixes.append(f"icon.size: scaled from {width:g} by {height:g} to {SIZE} by {SIZE}")
    padding = min(placed[0], placed[1], SIZE - placed[2], SIZE - placed[3])
    if padding < MIN_PADDING - _TOLERANCE:
        findings.fixes.append(f"icon.padding: moved in from {max(padding, 0):.2g} to {MIN_PADDING:g} pixel")
        room = SIZE - 2 * MIN_PADDING
        scale = room / max(drawn[2] - drawn[0], drawn[3] - drawn[1])
        offset = (
            SIZE / 2 - scale * (drawn[0] + drawn[2]) / 2,
            SIZE / 2 - scale * (drawn[1] + drawn[3]) / 2,
        )
    _transform(root, scale, offset)


def _view_box(root: Element) -> Box:
    """Return left, top, width and height of what is shown."""
    text = root.get("viewBox")
    if text:
        values = [float(each) for each in re.findall(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", text)]
        if len(values) != 4:
            raise GeometryFault(f"the viewBox {text!r} has not four numbers")
        return values[0], values[1], values[2], values[3]
    if root.get("width") is None or root.get("height") is None:
        raise GeometryFault("the icon has neither a viewBox nor a width and a height")
    return 0.0, 0.0, number(root.get("width")), number(root.get("height"))


def _place(box: Box, scale: float, offset: tuple[float, float]) -> Box:
    x, y = offset
    return box[0] * scale + x, box[1] * scale + y, box[2] * scale + x, box[3] * scale + y


def _transform(root: Element, scale: float, offset: tuple[float, float]) -> None:
    for name in ("width", "height", "viewBox", "x", "y", "preserveAspectRatio"):
        root.attrib.pop(name, None)
    _shorten(root, scale)
    if math.isclose(scale, 1, abs_tol=1e-6) and all(math.isclose(each, 0, abs_tol=1e-6) for each in offset):
        return
    group = Element(f"{{{_NAMESPACE}}}g" if str(root.tag).startswith("{") else "g")
    move = "" if offset == (0, 0) else f"translate({_short(offset[0])} {_short(offset[1])})"
    group.set("transform", f"{move}scale({scale:.6g})")
    group.extend(list(root))
    for child in list(root):
        root.remove(child)
    root.append(group)


def _shorten(root: Element, scale: float) -> None:
    """Cut digits that nobody sees. Cut, not rounded: a carry could change the flags of an arc that stand before."""
    digits = 3 + max(0, math.ceil(math.log10(scale)))
    pattern = re.compile(rf"(\.\d{{{digits}}})\d+")
    for element in root.iter():
        for key in ("d", "points", "x", "y", "cx", "cy", "r", "rx", "ry", "width", "height"):
            if key in element.attrib:
                element.set(key, " ".join(pattern.sub(r"\1", element.attrib[key]).split()))


def _short(value: float) -> str:
    return f"{round(value, 4):g}"


def _serialize(root: Element) -> str:
    ElementTree.register_namespace("", _NAMESPACE)
    if not str(root.tag).startswith("{"):
        for element in root.iter():
            element.tag = f"{{{_NAMESPACE}}}{element.tag}"
    rest = dict(root.attrib)
    root.attrib.clear()
    root.attrib.update({"width": str(SIZE), "height": str(SIZE), "viewBox": f"0 0 {SIZE} {SIZE}", **rest})
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True).replace(" />", "/>") + "\n"
