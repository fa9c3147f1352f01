"""One host for all tests of a worker, and one browser for each module.

The browser is closed after its module: the driver's event loop would be in the way of asynchronous tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.web.browser import CHROMIUM, DESK, MakePerson, Person, WebHost, chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if not CHROMIUM:
        pytest.skip("there is no Chromium here")
    with chromium() as found:
        yield found


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHost]:
    served = WebHost(tmp_path_factory.mktemp("host"))
    yield served
    served.end()


@pytest.fixture(scope="session")
def tokens(host: WebHost) -> dict[str, str]:
    return {"ann": host.token("ann", "admin"), "ben": host.token("ben", "editor")}


@pytest.fixture
def person(browser: Any, host: WebHost) -> Iterator[MakePerson]:
    """Return a function that gives somebody a browser of their own; scripts of the page must not fail."""
    people: list[Person] = []

    def make(token: str = "", *, size: Any = None, at: WebHost | None = None, **more: Any) -> Person:
        context = browser.new_context(viewport=size or DESK, **more)
        made = Person(at or host, context)
        people.append(made)
        return made.sign_in(token) if token else made

    yield make
    errors = [error for each in people for error in each.errors]
    for each in people:
        each.context.close()
    assert errors == []
