"""Copy the pages of the site to a folder: `copy_pages.py FOLDER`. Called by `make site`.

The pages keep their paths, so that links between them work. Files that a page links to, such as examples, tests and
pictures, are copied too. `<!-- api: NAME -->` becomes the directive with which mkdocstrings inserts signatures and
docstrings. The colors of code blocks are a style sheet of Pygments.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from pygments.formatters import HtmlFormatter

ROOT = Path(__file__).parents[2]
DIRECTIVE = re.compile(r"^<!-- api: (?P<name>[\w.]+) -->$", re.M)
FENCED = re.compile(r"^ *(```|~~~).*?^ *\1 *$", re.M | re.S)
LINK = re.compile(r"\[[^\]]*\]\(<?(?P<target>[^)\s>#]+)[^)\s>]*>?\)")


def pages() -> list[Path]:
    """Return the pages of the site."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md")])


def linked_files(page: Path, text: str) -> set[Path]:
    """Return the files that a page links to."""
    targets = {link["target"] for link in LINK.finditer(FENCED.sub("", text))}
    files = {(page.parent / target).resolve() for target in targets if ":" not in target}
    return {file for file in files if file.is_file() and file.is_relative_to(ROOT)}


def copy_pages(folder: Path) -> None:
    """Replace the folder by the pages and the files that they link to."""
    shutil.rmtree(folder, ignore_errors=True)
    files: set[Path] = set()
    for page in pages():
        text = page.read_text(encoding="utf-8")
        files |= linked_files(page, text)
        target = folder / page.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(DIRECTIVE.sub(r"::: \g<name>", text), encoding="utf-8")
    for file in files.difference(pages()):
        target = folder / file.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    (folder / "pygments.css").write_text(HtmlFormatter(style="friendly").get_style_defs(".highlight"), encoding="utf-8")


if __name__ == "__main__":
    copy_pages(Path(sys.argv[1]))
