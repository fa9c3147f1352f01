"""The page over TLS: of the host itself, and behind a real nginx and HAProxy below a path, as docs/web.md says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from tests.host.operations.proxies import Proxy, find_program, free_port
from tests.transport.remote.certificate import certificate
from tests.web.browser import IS_WHOLE, MakePerson, WebHost, needs_browser, rpc_session, secret_of

pytestmark = needs_browser

PAGE = Path(__file__).parents[2] / "docs" / "web.md"


def documented(begin: str) -> str:
    """Return the block of docs/web.md that begins with this line."""
    (block,) = re.findall(rf"(?m)^    {re.escape(begin)}\n(?:(?:    .*)?\n)*", PAGE.read_text())
    return dedent(block)


def replaced(text: str, changes: dict[str, str]) -> str:
    """Return a text with other words; each of them is in it."""
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return text


def start_nginx(folder: Path, port: int, host_port: int) -> Proxy:
    """Start nginx with the location of the page."""
    program = find_program("nginx")
    location = replaced(documented("location /dragoman/ {"), {"127.0.0.1:7437": f"127.0.0.1:{host_port}"})
    temporary = "\n".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off;\nmaster_process off;\npid {folder}/nginx.pid;\nerror_log {folder}/error.log;\nevents {{}}\n"
        f"http {{\naccess_log {folder}/access.log;\n{temporary}\nserver {{\nlisten 127.0.0.1:{port} ssl http2;\n"
        f"ssl_certificate {folder}/cert.pem;\nssl_certificate_key {folder}/key.pem;\n{location}\n}}\n}}\n"
    )
    return Proxy([program, "-p", str(folder), "-c", str(config)], port, folder / "nginx.log")


def start_haproxy(folder: Path, port: int, host_port: int) -> Proxy:
    """Start HAProxy with the frontend and the backend of the page."""
    program = find_program("haproxy")
    both = folder / "both.pem"
    both.write_bytes((folder / "cert.pem").read_bytes() + (folder / "key.pem").read_bytes())
    changes = {
        "bind :443": f"bind 127.0.0.1:{port}",
        "/etc/haproxy/office.pem": str(both),
        "127.0.0.1:7437": f"127.0.0.1:{host_port}",
    }
    config = folder / "haproxy.cfg"
    config.write_text(f"global\n    maxconn 200\n{replaced(documented('defaults'), changes)}")
    return Proxy([program, "-db", "-f", str(config)], port, folder / "haproxy.log")


@pytest.mark.item("FA-17")
@pytest.mark.parametrize("start", [start_nginx, start_haproxy])
def test_the_page_works_below_a_path_behind_a_proxy(
    tmp_path: Path, person: MakePerson, start: Callable[[Path, int, int], Proxy]
) -> None:
    port = free_port()
    origin = f"https://localhost:{port}"
    certificate(tmp_path)
    host = WebHost(tmp_path, "--no-local", "--name", "localhost", "--origin", origin)
    try:
        proxy = start(tmp_path, port, host.port)
        try:
            ann = person(at=host, ignore_https_errors=True)
            ann.page.goto(f"{origin}/dragoman/#token={host.token('ann', 'admin')}")
            ann.page.wait_for_selector(".app")
            assert ann.page.url == f"{origin}/dragoman/"
            (cookie,) = ann.context.cookies()
            assert (cookie["path"], cookie["secure"], cookie["httpOnly"]) == ("/dragoman/", True, True)
            rpc_session(ann)
            ann.say("/stream 40 20")
            ann.see("chunk 00039")
            ann.say("/ask")
            ann.answer_question("y")
            ann.page.wait_for_selector(".asks", state="detached")
            ann.idle()
            if IS_WHOLE:  # the host is started again: the proxy answers for it meanwhile
                host.kill()
                ann.page.wait_for_selector(".banner:has-text('No connection for')")
                host.start()
                ann.page.wait_for_selector(".banner:has-text('Connected again')")
            ann.say("/echo through the proxy")
            ann.see("through the proxy")
            ann.page.click("button.share")
            ann.page.click("text=Make a link")
            ann.page.wait_for_selector(".qr svg")
            link = ann.page.input_value(".made input")
            assert link.startswith(f"{origin}/dragoman/#token=")
            guest = person(at=host, ignore_https_errors=True)
            guest.page.goto(link)
            guest.page.wait_for_selector(".log:not([hidden])")
            guest.see("through the proxy")
            assert guest.page.url.startswith(f"{origin}/dragoman/link/")
            assert all(url.startswith((f"{origin}/dragoman/", "blob:")) for url in ann.requests + guest.requests)
        finally:
            proxy.stop()
    finally:
        host.end()


@pytest.mark.item("FA-01")
def test_over_tls_the_cookie_is_secure_and_the_token_is_in_no_log(tmp_path: Path, person: MakePerson) -> None:
    cert, key = certificate(tmp_path)
    access = tmp_path / "access.log"
    host = WebHost(tmp_path, "--no-local", "--tls", str(cert), str(key), "--access-log", str(access))
    try:
        token = host.token("ann", "admin")
        ann = person(at=host, ignore_https_errors=True)
        ann.page.goto(f"{host.url}/")
        ann.page.fill("#token", token)
        ann.page.click("button[type=submit]")
        ann.page.wait_for_selector(".app")
        (cookie,) = ann.context.cookies()
        assert (cookie["secure"], cookie["httpOnly"], cookie["sameSite"]) == (True, True, "Strict")
        assert host.url.startswith("https://")
        rpc_session(ann)
        ann.say("/echo over TLS")
        ann.see("over TLS")
        logs = access.read_text() + host.log.read_text()
        assert "api/host" in logs
        assert secret_of(token) not in logs
        # Signing out works there too.
        ann.page.click("button[aria-label='Account and settings']")
        ann.page.click("text=Sign out")
        ann.page.wait_for_selector("#token")
        assert ann.context.cookies() == []
    finally:
        host.end()
