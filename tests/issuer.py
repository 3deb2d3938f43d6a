"""An OIDC issuer on the loopback interface: real HTTP, real keys, and every way of misbehaving that tests need."""

import base64
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

AUDIENCE = "tally"
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


def rsa_key(bits: int = 2048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def public_pem(key: PrivateKey) -> bytes:
    """What everybody knows of a key."""
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def segment(content: bytes) -> str:
    """One part of a JWT."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def raw_token(header: bytes, payload: bytes, signature: bytes = b"") -> str:
    """A JWT of parts that no library would write."""
    return ".".join(map(segment, (header, payload, signature)))


class Issuer:
    """Serves its discovery document and its keys; ``published`` are the private keys of the public ones by id."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.published: dict[str, PrivateKey] = {}
        self.documents: dict[str, Any] = {}  # path -> what is answered instead: an object, bytes, or a status
        self.asked: list[str] = []  # paths, in the order of the requests
        self.down = False

    def publish(self, key_id: str, key: PrivateKey) -> PrivateKey:
        """Let a key be known."""
        self.published[key_id] = key
        return key

    def jwk(self, key_id: str) -> dict[str, Any]:
        """The public half of a key as a JWK."""
        key = self.published[key_id]
        written = (
            RSAAlgorithm.to_jwk(key.public_key())
            if isinstance(key, rsa.RSAPrivateKey)
            else ECAlgorithm.to_jwk(key.public_key())
        )
        return {**json.loads(written), "kid": key_id, "use": "sig"}

    def answer(self, path: str) -> Any:
        """What stands at a path."""
        self.asked.append(path)
        if self.down:
            return 500
        if path in self.documents:
            return self.documents[path]
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        return {"keys": [self.jwk(key_id) for key_id in self.published]} if path == "/keys" else 404

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Claims that are believed; a change to None leaves one out."""
        now = int(time.time())
        claims = {"iss": self.url, "aud": AUDIENCE, "sub": "alice", "iat": now, "nbf": now, "exp": now + 300} | changes
        return {name: value for name, value in claims.items() if value is not None}

    def token(
        self,
        key_id: str | None = "rsa-1",
        *,
        key: Any = None,
        algorithm: str = "",
        header: Mapping[str, Any] | None = None,
        **changes: Any,
    ) -> str:
        """A token that is signed by a published key, or by ``key`` in its name."""
        key = key or self.published[key_id or "rsa-1"]
        algorithm = algorithm or ("ES256" if isinstance(key, ec.EllipticCurvePrivateKey) else "RS256")
        headers = ({} if key_id is None else {"kid": key_id}) | dict(header or {})
        return jwt.encode(self.claims(**changes), key, algorithm=algorithm, headers=headers)


@contextmanager
def running_issuer() -> Iterator[Issuer]:
    """An issuer with an RSA key rsa-1 and an EC key ec-1, for a block."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = issuer.answer(self.path)
            status, content = (answer, b"") if isinstance(answer, int) else (200, answer)
            content = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", f"{issuer.url}/keys")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer = Issuer(f"http://127.0.0.1:{server.server_port}")
        issuer.publish("rsa-1", rsa_key())
        issuer.publish("ec-1", ec_key())
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join()
