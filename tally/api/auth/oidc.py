"""JWTs of the OIDC issuer: which are believed, and what their claims make of a caller (docs/reference/security.md)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jwt

from tally.api.auth.keys import Keys
from tally.api.problems import unauthenticated
from tally.domain.event import MAX_TEXT_BYTES
from tally.domain.principal import Principal, ProjectKey, Role
from tally.settings import ASYMMETRIC

MAX_TOKEN_CHARACTERS = 16_384
MAX_PROJECTS = 1_000
LEEWAY = 30  # seconds that the clocks of issuer and API may differ
ROLES = (Role.READ_ALL, Role.OPERATOR, Role.CONSUMER)  # ingest and sync are bound to a cloud: credentials

_REQUIRED = ["iss", "aud", "sub", "exp", "iat"]  # nbf is verified where it is there: common issuers leave it out
_MAX_KEY_ID = 256
_SUBJECT = re.compile(r"[!-~]{1,255}", re.ASCII)  # it becomes the actor of the audit log
# What a hostile token raises in the parsers below PyJWT: numbers without end, values of the wrong type, deep nesting.
_BROKEN = (jwt.PyJWTError, ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)


@dataclass(frozen=True)
class Oidc:
    """Verifies JWTs of one issuer that were made for one audience."""

    issuer: str
    audience: str
    keys: Keys
    algorithms: Sequence[str] = ("RS256", "ES256")
    role_claim: str = "tally_role"
    projects_claim: str = "tally_projects"

    def __post_init__(self) -> None:
        assert set(self.algorithms) <= ASYMMETRIC, "a symmetric algorithm would let the public key sign"

    def authenticate(self, token: str) -> Principal:
        """Return who a token speaks for.

        Raises:
            Problem: 401, if it is not believed, or its claims make no caller.
            Unavailable: if the issuer's keys are needed and it does not answer.
        """
        claims = self._verified(token)
        subject = claims["sub"]
        if not _SUBJECT.fullmatch(subject):
            raise unauthenticated("the claim sub is no printable ASCII text of up to 255 characters without blanks")
        role = self._role(claims.get(self.role_claim, Role.CONSUMER))
        projects = self._projects(claims.get(self.projects_claim, [])) if role is Role.CONSUMER else None
        return Principal(f"oidc:{subject}", role, None, projects)

    def _verified(self, token: str) -> Mapping[str, Any]:
        if len(token) > MAX_TOKEN_CHARACTERS:
            raise unauthenticated(f"the token is longer than {MAX_TOKEN_CHARACTERS} characters")
        algorithm, key_id = self._header(token)
        key = self.keys.find(key_id)
        if key is None or key.algorithm not in (None, algorithm):
            raise unauthenticated("the token is signed by no key of the issuer that this algorithm is for")
        try:
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key.public,
                algorithms=[algorithm],
                issuer=self.issuer,
                audience=self.audience,
                leeway=LEEWAY,
                options={"require": _REQUIRED, "enforce_minimum_key_length": True},
            )
        except jwt.ExpiredSignatureError:
            raise unauthenticated("the token has expired; get a new one from the issuer") from None
        except _BROKEN as error:
            raise unauthenticated(f"the token is not believed: {_reason(error)}") from None
        return claims

    def _header(self, token: str) -> tuple[str, str | None]:
        """Read which key signed a token, before anything in it is believed; nothing else in the header is followed."""
        try:
            header = jwt.get_unverified_header(token)
        except _BROKEN:
            raise unauthenticated("the token is neither one of Tally nor a JWT") from None
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in self.algorithms:
            raise unauthenticated(f"the token is not signed by {' or '.join(self.algorithms)}")
        if key_id is not None and not (isinstance(key_id, str) and len(key_id) <= _MAX_KEY_ID):
            raise unauthenticated("the token names its key by what is no key id")
        return algorithm, key_id

    def _role(self, claim: object) -> Role:
        if not isinstance(claim, str) or claim not in ROLES:
            raise unauthenticated(f"the claim {self.role_claim} is none of {', '.join(ROLES)}")
        return Role(claim)

    def _projects(self, claim: object) -> frozenset[ProjectKey]:
        """Read a list of cloud/external_id; a list that is half understood would show half of what it should."""
        if not isinstance(claim, list) or len(claim) > MAX_PROJECTS:
            raise unauthenticated(f"the claim {self.projects_claim} is no list of at most {MAX_PROJECTS} projects")
        return frozenset(map(self._project, claim))

    def _project(self, text: object) -> ProjectKey:
        if isinstance(text, str) and text.isprintable():
            cloud, _, external_id = text.partition("/")
            if cloud and external_id and len(text.encode()) <= 2 * MAX_TEXT_BYTES:
                return cloud, external_id
        raise unauthenticated(f"an entry of the claim {self.projects_claim} is not written cloud/project")


def _reason(error: Exception) -> str:
    """Tell what the check says of the token, without the values of it."""
    told = {
        jwt.InvalidAudienceError: "it is made for another audience",
        jwt.InvalidIssuerError: "it is of another issuer",
        jwt.ImmatureSignatureError: "it is not valid yet",
        jwt.InvalidSignatureError: "its signature is wrong",
        jwt.MissingRequiredClaimError: f"it lacks one of the claims {', '.join(_REQUIRED)}",
    }
    return next((text for kind, text in told.items() if isinstance(error, kind)), "it is malformed")
