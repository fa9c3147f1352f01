"""Signing in by a token or a link, what stays of it, and what each role sees."""

from __future__ import annotations

import pytest

from tests.web.browser import MakePerson, Person, WebHost, needs_browser, rpc_session, secret_of

pytestmark = needs_browser


@pytest.mark.item("FA-01")
def test_a_token_becomes_a_cookie_and_leaves_no_trace(
    host: WebHost, person: MakePerson, tokens: dict[str, str]
) -> None:
    ann = person()
    ann.page.goto(f"{host.url}/")
    # The advice is for the owner: without a role, the token would be that of an editor.
    assert ann.page.inner_text("main code") == 'dragoman tokens create "$USER" --role admin'
    ann.page.fill("#token", "dgm_nonsense")
    ann.page.click("button[type=submit]")
    ann.page.wait_for_selector(".bad:has-text('not a token')")
    ann.page.fill("#token", tokens["ann"])
    ann.page.click("button[type=submit]")
    ann.page.wait_for_selector(".app")
    (cookie,) = ann.context.cookies()
    assert (cookie["name"], cookie["path"], cookie["value"]) == (f"dragoman_{host.port}", "/", tokens["ann"])
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["secure"]) == (True, "Strict", False)
    assert ann.page.evaluate("() => document.cookie") == ""
    assert ann.page.url == f"{host.url}/"
    # A token in the address leaves it before anything else happens, and nobody writes it down.
    ben = person(tokens["ben"])
    secret = secret_of(tokens["ben"])
    assert secret not in ben.page.evaluate("() => location.href + JSON.stringify(localStorage)")
    assert not any(secret in url for url in ben.requests if "#" not in url)
    assert secret not in host.log.read_text()
    # Signing out removes it.
    ben.page.click("button[aria-label='Account and settings']")
    ben.page.click("text=Sign out")
    ben.page.wait_for_selector("#token")
    assert ben.context.cookies() == []


@pytest.mark.item("FA-01", "FA-02")
def test_a_link_opens_one_session_beside_the_own_token(
    host: WebHost, person: MakePerson, tokens: dict[str, str]
) -> None:
    ann = person(tokens["ann"])
    session = rpc_session(ann)
    ann.say("/echo hello")
    ann.see("hello")
    link = make_link(ann)
    ben = person(tokens["ben"])
    ben.page.goto(link)
    ben.page.wait_for_selector(".log:not([hidden])")
    ben.see("hello")
    assert "/link/" in ben.page.url
    assert "token" not in ben.page.url
    assert sorted(cookie["path"].partition("link")[0] for cookie in ben.context.cookies()) == ["/", "/"]
    # A viewer sees no control that would be refused.
    assert ben.page.is_hidden(".composer")
    assert ben.page.is_visible(".reading")
    assert ben.page.query_selector("button[aria-label='New session']") is None
    ben.page.click("button[aria-label='More about this session']")
    entries = ben.page.eval_on_selector_all(".menu-item", "items => items.map(item => item.innerText.trim())")
    assert entries == ["Export as Markdown", "Export as a page", "Export the log", "Who am I here?", "Sign out"]
    ben.page.keyboard.press("Escape")
    # The own token still opens the own page.
    ben.page.goto(f"{host.url}/")
    ben.page.wait_for_selector(".page")
    assert ben.page.inner_text(".me").startswith("B")
    # With another role the controls appear at once.
    ann.set_role(session, "ben", "viewer")
    ben.page.reload()
    ben.open(session)
    assert ben.page.is_hidden(".composer")
    ann.set_role(session, "ben", "editor")
    ben.page.wait_for_selector(".composer", state="visible")
    assert ben.page.is_hidden(".reading")


@pytest.mark.item("FA-04", "FA-20")
def test_a_link_that_was_revoked_says_so(person: MakePerson, tokens: dict[str, str]) -> None:
    ann = person(tokens["ann"])
    rpc_session(ann)
    link = make_link(ann)
    guest = person()
    guest.page.goto(link)
    guest.page.wait_for_selector(".log:not([hidden])")
    ann.page.click(".shares button:has-text('Revoke')")
    guest.page.wait_for_selector("[data-state=revoked]")
    assert "This link was revoked" in guest.page.inner_text("main")
    other = person()
    other.page.goto(link)
    other.page.wait_for_selector("[data-state=revoked]")
    assert "Ask whoever sent it" in other.page.inner_text("main")


def make_link(somebody: Person) -> str:
    """Make a link to the session on the screen, and return it. The dialog stays open."""
    page = somebody.page
    page.click("button.share")
    page.click("text=Make a link")
    page.wait_for_selector(".qr svg")
    assert page.eval_on_selector(".qr-dark", "path => path.getAttribute('d').length") > 1000
    return page.input_value(".made input")
