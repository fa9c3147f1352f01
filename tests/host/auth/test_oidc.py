"""Tokens of an OpenID Connect issuer: a real one on this machine, with keys made for each run."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from dragoman.config.host_section import IssuerSection
from dragoman.errors import ConfigFault
from dragoman.host.auth import jwks
from dragoman.host.auth.oidc import Oidc
from dragoman.transport.remote.server.auth import Refused
from tests.host.memory_host import until

RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())


def published(key: Any, id: str, **more: Any) -> dict[str, Any]:
    algorithm = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    return {**json.loads(algorithm.to_jwk(key.public_key())), "kid": id, "use": "sig", **more}


class Published:
    """An issuer on this machine."""

    def __init__(self) -> None:
        self.keys: list[Any] = [published(RSA, "r1"), published(EC, "e1", alg="ES256")]
        self.name = ""  # its issuer name; its address by default
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                answers: dict[str, Any] = {
                    "/.well-known/openid-configuration": {
                        "issuer": outer.name or outer.url,
                        "jwks_uri": f"{outer.url}/keys",
                    },
                    "/keys": {"keys": outer.keys},
                }
                body = json.dumps(answers.get(self.path)).encode()
                self.send_response(200 if self.path in answers else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def published_once() -> Iterator[Published]:
    server = Published()
    yield server
    server.close()


@pytest.fixture
def provider(published_once: Published) -> Published:
    published_once.keys = [published(RSA, "r1"), published(EC, "e1", alg="ES256")]
    published_once.name = ""
    published_once.asked.clear()
    return published_once


def claims(provider: Published, **more: Any) -> dict[str, Any]:
    return {"iss": provider.url, "aud": "dragoman", "sub": "ann", "exp": time.time() + 300, **more}


def signed(provider: Published, key: Any = RSA, algorithm: str = "RS256", id: str | None = "r1", **more: Any) -> str:
    stored = {name: value for name, value in claims(provider, **more).items() if value is not None}
    return jwt.encode(stored, key, algorithm=algorithm, headers={} if id is None else {"kid": id})


def by_hand(header: dict[str, Any], body: dict[str, Any], secret: bytes | None) -> str:
    """Return a token that no library would make."""

    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    start = f"{part(json.dumps(header).encode())}.{part(json.dumps(body).encode())}"
    return f"{start}.{part(b'' if secret is None else hmac.digest(secret, start.encode(), 'sha256'))}"


def oidc_settings(provider: Published, **more: Any) -> IssuerSection:
    return IssuerSection(issuer=provider.url, audience="dragoman", **more)


def refusal(issuer: Oidc, text: str, status: int = 401) -> str:
    with pytest.raises(Refused) as caught:
        asyncio.run(issuer.verify(text))
    assert caught.value.status == status
    assert text not in caught.value.message
    return caught.value.message


@pytest.mark.parametrize(("key", "algorithm", "id"), [(RSA, "RS256", "r1"), (RSA, "PS256", "r1"), (EC, "ES256", "e1")])
def test_a_token_of_the_issuer_is_accepted(provider: Published, key: Any, algorithm: str, id: str) -> None:
    found = asyncio.run(Oidc(oidc_settings(provider)).verify(signed(provider, key, algorithm, id)))
    assert (found.user, found.role) == ("ann", "viewer")
    assert 0 < found.expires - time.time() < 400


def test_forged_tokens_are_refused(provider: Published) -> None:
    issuer = Oidc(oidc_settings(provider))
    public = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    body = claims(provider)
    other = rsa.generate_private_key(65537, 2048)
    wrong = {
        "no signature": by_hand({"alg": "none", "kid": "r1"}, body, None),
        "no signature, oddly": by_hand({"alg": "nOnE", "kid": "r1"}, body, None),
        "public key as a secret": by_hand({"alg": "HS256", "kid": "r1"}, body, public),
        "empty secret": by_hand({"alg": "HS256", "kid": "r1"}, body, b""),
        "somebody else's key": signed(provider, other),
        "key of another kind": signed(provider, RSA, "RS256", "e1"),
        "unknown key": signed(provider, other, id="x9"),
        "no key named": signed(provider, id=None),
        "key brought along": jwt.encode(
            body, other, algorithm="RS256", headers={"kid": "r1", "jwk": published(other, "r1")}
        ),
        "changed": signed(provider)[:-6] + "AAAAAA",
        "not a token": "abc",
        "nothing": "..",
        "too long": "a" * 20_000,
    }
    for why, text in wrong.items():
        assert refusal(issuer, text), why


def test_tokens_with_wrong_audience_issuer_or_time_are_refused(provider: Published) -> None:
    issuer = Oidc(oidc_settings(provider))
    assert "expired" in refusal(issuer, signed(provider, exp=time.time() - 60))
    assert "not for the audience dragoman" in refusal(issuer, signed(provider, aud="payments"))
    assert "not from the issuer" in refusal(issuer, signed(provider, iss="https://evil.example"))
    assert refusal(issuer, signed(provider, nbf=time.time() + 600))
    for missing in ("exp", "aud", "iss", "sub"):
        assert refusal(issuer, signed(provider, **dict[str, Any]({missing: None}))), missing


def test_small_clock_differences_are_tolerated(provider: Published) -> None:
    assert asyncio.run(Oidc(oidc_settings(provider)).verify(signed(provider, exp=time.time() - 5))).user == "ann"


async def test_new_keys_are_fetched_and_withdrawn_ones_dropped(provider: Published) -> None:
    now = time.time()
    issuer = Oidc(oidc_settings(provider), clock=lambda: now)

    await issuer.verify(signed(provider))
    await issuer.verify(signed(provider))
    assert len(provider.asked) == 2  # the document and the keys, once
    later = rsa.generate_private_key(65537, 2048)
    provider.keys = [published(later, "r2")]
    now += jwks.MIN_REFETCH_INTERVAL
    assert (await issuer.verify(signed(provider, later, id="r2"))).user == "ann"
    with pytest.raises(Refused):
        await issuer.verify(signed(provider))
    asked = len(provider.asked)
    for _ in range(20):
        with pytest.raises(Refused):
            await issuer.verify(signed(provider, id="invented"))
    assert len(provider.asked) == asked  # invented key ids do not cause a fetch each time


async def test_keys_stay_valid_for_a_while_when_the_issuer_is_unreachable(provider: Published) -> None:
    now = time.time()
    issuer = Oidc(oidc_settings(provider), clock=lambda: now)

    await issuer.verify(signed(provider))
    provider.name = "somebody else"  # its document is not accepted any more
    now += jwks.FRESH_FOR + 1
    await issuer.verify(signed(provider))
    now += jwks.STALE_AFTER
    with pytest.raises(Refused) as caught:
        await issuer.verify(signed(provider))
    assert caught.value.status == 503


def test_a_discovery_document_of_another_issuer_is_refused(provider: Published) -> None:
    provider.name = "https://evil.example"
    assert "cannot be fetched" in refusal(Oidc(oidc_settings(provider)), signed(provider), 503)


def test_roles_come_from_a_claim_and_the_highest_counts(provider: Published) -> None:
    settings = oidc_settings(provider, role="", role_claim="groups", roles={"staff": "viewer", "devs": "editor"})
    issuer = Oidc(settings)
    assert asyncio.run(issuer.verify(signed(provider, groups=["staff", "devs", "x"]))).role == "editor"
    assert asyncio.run(issuer.verify(signed(provider, groups="staff"))).role == "viewer"
    assert "no role here" in refusal(issuer, signed(provider, groups=["x"]), 403)
    assert "no role here" in refusal(issuer, signed(provider), 403)


def test_a_user_named_like_the_owner_does_not_become_the_owner(provider: Published) -> None:
    assert "owner" in refusal(Oidc(oidc_settings(provider), "ann"), signed(provider), 403)
    found = asyncio.run(
        Oidc(oidc_settings(provider, user="email", owner="a@b.org"), "ann").verify(signed(provider, email="a@b.org"))
    )
    assert (found.user, found.role) == ("ann", "admin")


@pytest.mark.parametrize("name", ["", "a b", "ann (guest)", 7, "x\n", "a" * 200])
def test_a_claim_that_is_not_a_user_name_is_refused(provider: Published, name: Any) -> None:
    assert refusal(Oidc(oidc_settings(provider, user="name")), signed(provider, name=name))


@pytest.mark.parametrize("said", [False, "false", "no", None, 0])
def test_an_email_address_that_is_not_verified_is_refused(provider: Published, said: Any) -> None:
    text = jwt.encode(claims(provider) | {"email": "a@b.org", "email_verified": said}, RSA, "RS256", {"kid": "r1"})
    assert "verified" in refusal(Oidc(oidc_settings(provider, user="email")), text)


def test_malformed_tokens_are_refused(provider: Published) -> None:
    issuer = Oidc(oidc_settings(provider))
    deep = by_hand({}, {}, None).split(".")
    deep[0] = base64.urlsafe_b64encode(b"[" * 9000).rstrip(b"=").decode()
    assert refusal(issuer, ".".join(deep))
    assert "critical headers" in refusal(
        issuer, jwt.encode(claims(provider), RSA, "RS256", {"kid": "r1", "crit": ["b64"], "b64": False})
    )
    for odd in (float("inf"), float("nan"), "soon", [1], 10**400):
        assert refusal(issuer, signed(provider, exp=odd)), odd


@pytest.mark.filterwarnings("ignore")  # about keys that are too short
def test_a_key_is_accepted_only_with_its_own_algorithm(provider: Published) -> None:
    curve = ec.generate_private_key(ec.SECP384R1())
    weak = rsa.generate_private_key(65537, 1024)
    provider.keys = [
        published(curve, "c"),
        published(EC, "d", alg="ES384"),
        published(weak, "w"),
        published(RSA, "enc"),
    ]
    provider.keys[-1]["use"] = "enc"
    provider.keys += [{"kty": "EC", "crv": "P-256", "x": "!", "y": 7, "kid": "broken"}, "no key", {"kid": "empty"}]
    issuer = Oidc(oidc_settings(provider))
    assert asyncio.run(issuer.verify(signed(provider, curve, "ES384", "c"))).user == "ann"
    assert "does not match its key" in refusal(issuer, signed(provider, EC, "ES256", "d"))
    assert "does not publish" in refusal(issuer, signed(provider, weak, id="w"))
    for id in ("enc", "broken", "empty"):
        assert "does not publish" in refusal(issuer, signed(provider, id=id))


def test_a_role_claim_can_be_nested(provider: Published) -> None:
    roles = {"devs": "editor"}
    inside = Oidc(oidc_settings(provider, role="", role_claim="realm_access.roles", roles=roles))
    assert asyncio.run(inside.verify(signed(provider, realm_access={"roles": ["devs"]}))).role == "editor"
    assert "no role here" in refusal(inside, signed(provider, realm_access="devs"), 403)
    dotted = Oidc(oidc_settings(provider, role="", role_claim="https://b.org/roles", roles=roles))
    assert asyncio.run(dotted.verify(signed(provider, **{"https://b.org/roles": "devs"}))).role == "editor"


class Scripted:
    """The answers of an issuer, without a network."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {"issuer": "https://login.example", "jwks_uri": "https://login.example/keys"} | answers
        self.asked: list[str] = []
        self.gate: asyncio.Event | None = None
        self.keys: Any = {"keys": [published(RSA, "r1")]}

    async def fetch(self, url: str) -> Any:
        self.asked.append(url)
        if self.gate is not None:
            await self.gate.wait()
        found = self.keys if url.endswith("keys") else self.answers
        if isinstance(found, Exception):
            raise found
        return found


EXAMPLE = IssuerSection(issuer="https://login.example", audience="dragoman")


def for_example(id: str = "r1") -> str:
    body = {"iss": EXAMPLE.issuer, "aud": "dragoman", "sub": "ann", "exp": time.time() + 9e5}
    return jwt.encode(body, RSA, "RS256", {"kid": id})


@pytest.mark.parametrize("jwks_uri", ["http://127.0.0.1/keys", "http://login.example/keys", "file:///keys", "", 7])
def test_keys_are_fetched_only_from_secure_urls(jwks_uri: Any) -> None:
    provider, reports = Scripted(jwks_uri=jwks_uri), list[str]()
    issuer = Oidc(EXAMPLE, fetch=provider.fetch, report=reports.append)
    assert "cannot be fetched" in refusal(issuer, for_example(), 503)
    assert len(provider.asked) == 1
    assert reports == [
        "the keys of https://login.example cannot be fetched: its discovery document has no secure jwks_uri"
    ]


@pytest.mark.parametrize("keys", [OSError("no route"), ValueError("no JSON"), RecursionError("deep"), [], {"keys": 3}])
async def test_an_unreachable_issuer_is_retried_only_after_a_delay(keys: Any) -> None:
    now = time.time()
    provider, reports = Scripted(), list[str]()
    valid, provider.keys = provider.keys, keys
    issuer = Oidc(EXAMPLE, fetch=provider.fetch, clock=lambda: now, report=reports.append)
    for _ in range(5):
        with pytest.raises(Refused) as caught:
            await issuer.verify(for_example())
        assert (caught.value.status, caught.value.headers["retry-after"]) == (503, "10")
    assert (len(provider.asked), len(reports)) == (2, 1)
    provider.keys = valid
    now += jwks.MIN_REFETCH_INTERVAL
    assert (await issuer.verify(for_example())).user == "ann"


async def test_a_slow_issuer_delays_nobody_whose_key_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jwks, "FETCH_TIMEOUT", 0.05)

    now = time.time()
    provider, reports = Scripted(), list[str]()
    issuer = Oidc(EXAMPLE, fetch=provider.fetch, clock=lambda: now, report=reports.append)
    await issuer.verify(for_example())
    provider.gate = asyncio.Event()
    now += jwks.FRESH_FOR
    looking = asyncio.ensure_future(issuer.verify(for_example()))
    await until(lambda: len(provider.asked) == 3)
    assert (await issuer.verify(for_example())).user == "ann"
    assert not looking.done()
    assert (await looking).user == "ann"  # with the old key
    assert reports == ["the keys of https://login.example cannot be fetched: it does not answer"]


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"issuer": "http://example.org", "audience": "d"}, "https"),
        ({"issuer": "https://u:p@example.org", "audience": "d"}, "https"),
        ({"issuer": "https://example.org", "audience": ""}, "audience"),
        ({"issuer": "https://example.org", "audience": "d", "role": "owner"}, "role"),
        ({"issuer": "https://example.org", "audience": "d", "role": ""}, "nobody"),
        ({"issuer": "https://example.org", "audience": "d", "roles": {"a": "admin"}}, "role_claim"),
        ({"issuer": "https://example.org", "audience": "d", "leeway": 1e9}, "leeway"),
        ({"issuer": "https://example.org", "audience": "d", "leeway": -1.0}, "leeway"),
    ],
)
def test_unsafe_settings_are_refused(settings: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigFault) as caught:
        Oidc(IssuerSection(**settings))
    assert word in str(caught.value)
