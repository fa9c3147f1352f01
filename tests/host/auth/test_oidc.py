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

from dragoman.errors import ConfigFault
from dragoman.host.auth import jwks
from dragoman.host.auth.oidc import Oidc, OidcSettings
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
        self.name = ""  # what it calls itself; its address unless told
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
def there(published_once: Published) -> Published:
    published_once.keys = [published(RSA, "r1"), published(EC, "e1", alg="ES256")]
    published_once.name = ""
    published_once.asked.clear()
    return published_once


def claims(there: Published, **more: Any) -> dict[str, Any]:
    return {"iss": there.url, "aud": "dragoman", "sub": "ann", "exp": time.time() + 300, **more}


def signed(there: Published, key: Any = RSA, algorithm: str = "RS256", id: str | None = "r1", **more: Any) -> str:
    kept = {name: value for name, value in claims(there, **more).items() if value is not None}
    return jwt.encode(kept, key, algorithm=algorithm, headers={} if id is None else {"kid": id})


def by_hand(header: dict[str, Any], body: dict[str, Any], secret: bytes | None) -> str:
    """A token that no library would make."""

    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    start = f"{part(json.dumps(header).encode())}.{part(json.dumps(body).encode())}"
    return f"{start}.{part(b'' if secret is None else hmac.digest(secret, start.encode(), 'sha256'))}"


def trust(there: Published, **more: Any) -> OidcSettings:
    return OidcSettings(issuer=there.url, audience="dragoman", **more)


def refusal(issuer: Oidc, text: str, status: int = 401) -> str:
    with pytest.raises(Refused) as caught:
        asyncio.run(issuer.verify(text))
    assert caught.value.status == status
    assert text not in caught.value.message
    return caught.value.message


@pytest.mark.parametrize(("key", "algorithm", "id"), [(RSA, "RS256", "r1"), (RSA, "PS256", "r1"), (EC, "ES256", "e1")])
def test_a_token_of_the_issuer_lets_its_user_in(there: Published, key: Any, algorithm: str, id: str) -> None:
    found = asyncio.run(Oidc(trust(there)).verify(signed(there, key, algorithm, id)))
    assert (found.user, found.role) == ("ann", "viewer")
    assert 0 < found.expires - time.time() < 400


def test_forged_tokens_are_refused(there: Published) -> None:
    issuer = Oidc(trust(there))
    public = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    body = claims(there)
    other = rsa.generate_private_key(65537, 2048)
    wrong = {
        "no signature": by_hand({"alg": "none", "kid": "r1"}, body, None),
        "no signature, oddly": by_hand({"alg": "nOnE", "kid": "r1"}, body, None),
        "public key as a secret": by_hand({"alg": "HS256", "kid": "r1"}, body, public),
        "empty secret": by_hand({"alg": "HS256", "kid": "r1"}, body, b""),
        "somebody else's key": signed(there, other),
        "key of another kind": signed(there, RSA, "RS256", "e1"),
        "unknown key": signed(there, other, id="x9"),
        "no key named": signed(there, id=None),
        "key brought along": jwt.encode(
            body, other, algorithm="RS256", headers={"kid": "r1", "jwk": published(other, "r1")}
        ),
        "changed": signed(there)[:-6] + "AAAAAA",
        "not a token": "abc",
        "nothing": "..",
        "too long": "a" * 20_000,
    }
    for why, text in wrong.items():
        assert refusal(issuer, text), why


def test_tokens_for_others_from_others_and_of_other_times_are_refused(there: Published) -> None:
    issuer = Oidc(trust(there))
    assert "expired" in refusal(issuer, signed(there, exp=time.time() - 60))
    assert "somebody else than dragoman" in refusal(issuer, signed(there, aud="payments"))
    assert "from somebody else" in refusal(issuer, signed(there, iss="https://evil.example"))
    assert refusal(issuer, signed(there, nbf=time.time() + 600))
    for missing in ("exp", "aud", "iss", "sub"):
        assert refusal(issuer, signed(there, **dict[str, Any]({missing: None}))), missing


def test_clocks_may_differ_a_little(there: Published) -> None:
    assert asyncio.run(Oidc(trust(there)).verify(signed(there, exp=time.time() - 5))).user == "ann"


async def test_new_keys_are_found_and_withdrawn_ones_forgotten(there: Published) -> None:
    now = time.time()
    issuer = Oidc(trust(there), clock=lambda: now)

    await issuer.verify(signed(there))
    await issuer.verify(signed(there))
    assert len(there.asked) == 2  # the document and the keys, once
    later = rsa.generate_private_key(65537, 2048)
    there.keys = [published(later, "r2")]
    now += jwks.MIN_REFETCH_INTERVAL
    assert (await issuer.verify(signed(there, later, id="r2"))).user == "ann"
    with pytest.raises(Refused):
        await issuer.verify(signed(there))
    asked = len(there.asked)
    for _ in range(20):
        with pytest.raises(Refused):
            await issuer.verify(signed(there, id="invented"))
    assert len(there.asked) == asked  # inventing key ids does not make us ask each time


async def test_keys_go_on_counting_for_a_while_when_the_issuer_is_gone(there: Published) -> None:
    now = time.time()
    issuer = Oidc(trust(there), clock=lambda: now)

    await issuer.verify(signed(there))
    there.name = "somebody else"  # its document is not believed any more
    now += jwks.FRESH_FOR + 1
    await issuer.verify(signed(there))
    now += jwks.STALE_AFTER
    with pytest.raises(Refused) as caught:
        await issuer.verify(signed(there))
    assert caught.value.status == 503


def test_an_issuer_that_calls_itself_something_else_is_not_believed(there: Published) -> None:
    there.name = "https://evil.example"
    assert "cannot be had" in refusal(Oidc(trust(there)), signed(there), 503)


def test_roles_come_from_a_claim_and_the_highest_counts(there: Published) -> None:
    settings = trust(there, role="", role_claim="groups", roles={"staff": "viewer", "devs": "editor"})
    issuer = Oidc(settings)
    assert asyncio.run(issuer.verify(signed(there, groups=["staff", "devs", "x"]))).role == "editor"
    assert asyncio.run(issuer.verify(signed(there, groups="staff"))).role == "viewer"
    assert "no role here" in refusal(issuer, signed(there, groups=["x"]), 403)
    assert "no role here" in refusal(issuer, signed(there), 403)


def test_nobody_becomes_the_owner_by_calling_themselves_so(there: Published) -> None:
    assert "owner" in refusal(Oidc(trust(there), "ann"), signed(there), 403)
    found = asyncio.run(Oidc(trust(there, user="email", owner="a@b.org"), "ann").verify(signed(there, email="a@b.org")))
    assert (found.user, found.role) == ("ann", "admin")


@pytest.mark.parametrize("name", ["", "a b", "ann (guest)", 7, "x\n", "a" * 200])
def test_a_claim_that_is_no_name_is_refused(there: Published, name: Any) -> None:
    assert refusal(Oidc(trust(there, user="name")), signed(there, name=name))


@pytest.mark.parametrize("said", [False, "false", "no", None, 0])
def test_an_address_of_which_the_issuer_does_not_say_yes_is_refused(there: Published, said: Any) -> None:
    text = jwt.encode(claims(there) | {"email": "a@b.org", "email_verified": said}, RSA, "RS256", {"kid": "r1"})
    assert "verified" in refusal(Oidc(trust(there, user="email")), text)


def test_odd_tokens_are_refused_and_disturb_nobody(there: Published) -> None:
    issuer = Oidc(trust(there))
    deep = by_hand({}, {}, None).split(".")
    deep[0] = base64.urlsafe_b64encode(b"[" * 9000).rstrip(b"=").decode()
    assert refusal(issuer, ".".join(deep))
    assert "wants something" in refusal(
        issuer, jwt.encode(claims(there), RSA, "RS256", {"kid": "r1", "crit": ["b64"], "b64": False})
    )
    for odd in (float("inf"), float("nan"), "soon", [1], 10**400):
        assert refusal(issuer, signed(there, exp=odd)), odd


@pytest.mark.filterwarnings("ignore")  # of keys that are too short
def test_a_key_makes_no_signatures_but_those_it_is_for(there: Published) -> None:
    curve = ec.generate_private_key(ec.SECP384R1())
    weak = rsa.generate_private_key(65537, 1024)
    there.keys = [published(curve, "c"), published(EC, "d", alg="ES384"), published(weak, "w"), published(RSA, "enc")]
    there.keys[-1]["use"] = "enc"
    there.keys += [{"kty": "EC", "crv": "P-256", "x": "!", "y": 7, "kid": "broken"}, "no key", {"kid": "empty"}]
    issuer = Oidc(trust(there))
    assert asyncio.run(issuer.verify(signed(there, curve, "ES384", "c"))).user == "ann"
    assert "not signed in the way" in refusal(issuer, signed(there, EC, "ES256", "d"))
    assert "does not publish" in refusal(issuer, signed(there, weak, id="w"))
    for id in ("enc", "broken", "empty"):
        assert "does not publish" in refusal(issuer, signed(there, id=id))


def test_a_role_may_stand_inside_another_claim(there: Published) -> None:
    roles = {"devs": "editor"}
    inside = Oidc(trust(there, role="", role_claim="realm_access.roles", roles=roles))
    assert asyncio.run(inside.verify(signed(there, realm_access={"roles": ["devs"]}))).role == "editor"
    assert "no role here" in refusal(inside, signed(there, realm_access="devs"), 403)
    dotted = Oidc(trust(there, role="", role_claim="https://b.org/roles", roles=roles))
    assert asyncio.run(dotted.verify(signed(there, **{"https://b.org/roles": "devs"}))).role == "editor"


class Scripted:
    """What an issuer answers, without a network."""

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


EXAMPLE = OidcSettings(issuer="https://login.example", audience="dragoman")


def for_example(id: str = "r1") -> str:
    body = {"iss": EXAMPLE.issuer, "aud": "dragoman", "sub": "ann", "exp": time.time() + 9e5}
    return jwt.encode(body, RSA, "RS256", {"kid": id})


@pytest.mark.parametrize("place", ["http://127.0.0.1/keys", "http://login.example/keys", "file:///keys", "", 7])
def test_keys_come_as_safely_as_the_issuer_itself(place: Any) -> None:
    there, reports = Scripted(jwks_uri=place), list[str]()
    issuer = Oidc(EXAMPLE, fetch=there.fetch, report=reports.append)
    assert "cannot be had" in refusal(issuer, for_example(), 503)
    assert len(there.asked) == 1
    assert reports == ["the keys of https://login.example cannot be had: it does not say safely where its keys are"]


@pytest.mark.parametrize("keys", [OSError("no route"), ValueError("no JSON"), RecursionError("deep"), [], {"keys": 3}])
async def test_an_issuer_that_cannot_be_reached_is_asked_again_later_and_no_sooner(keys: Any) -> None:

    now = time.time()
    there, reports = Scripted(), list[str]()
    fine, there.keys = there.keys, keys
    issuer = Oidc(EXAMPLE, fetch=there.fetch, clock=lambda: now, report=reports.append)
    for _ in range(5):
        with pytest.raises(Refused) as caught:
            await issuer.verify(for_example())
        assert (caught.value.status, caught.value.headers["retry-after"]) == (503, "10")
    assert (len(there.asked), len(reports)) == (2, 1)
    there.keys = fine
    now += jwks.MIN_REFETCH_INTERVAL
    assert (await issuer.verify(for_example())).user == "ann"


async def test_an_issuer_that_does_not_answer_holds_up_nobody_whose_key_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jwks, "FETCH_TIMEOUT", 0.05)

    now = time.time()
    there, reports = Scripted(), list[str]()
    issuer = Oidc(EXAMPLE, fetch=there.fetch, clock=lambda: now, report=reports.append)
    await issuer.verify(for_example())
    there.gate = asyncio.Event()
    now += jwks.FRESH_FOR
    looking = asyncio.ensure_future(issuer.verify(for_example()))
    await until(lambda: len(there.asked) == 3)
    assert (await issuer.verify(for_example())).user == "ann"
    assert not looking.done()
    assert (await looking).user == "ann"  # with the key from before
    assert reports == ["the keys of https://login.example cannot be had: it does not answer"]


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
        Oidc(OidcSettings(**settings))
    assert word in str(caught.value)
