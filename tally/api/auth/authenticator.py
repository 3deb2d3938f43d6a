"""How a request proves who sends it: a service token, a JWT of the OIDC issuer, or a certificate that a proxy verified.

A bearer token decides alone; a certificate is only looked at where there is none. Nothing is remembered between
requests: a revocation holds for the next one.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from ipaddress import IPv6Address, ip_address

from starlette.datastructures import Headers

from tally.api.auth.caller import Connect
from tally.api.auth.keys import Keys, fetch_from
from tally.api.auth.oidc import Oidc
from tally.api.problems import unauthenticated
from tally.domain.principal import Principal
from tally.services.credentials import TOKEN_PREFIX, authenticate_certificate, authenticate_token
from tally.settings import Network, Settings

_BEARER = re.compile(r"bearer +(?P<token>[A-Za-z0-9._~+/-]+=*)", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class CallerCheck:
    """Knows the callers that an installation lets in. ``oidc`` is None where it has no issuer."""

    clock: Callable[[], datetime]
    oidc: Oidc | None
    trusted_proxies: Sequence[Network]
    certificate_header: str

    def authenticate(self, headers: Headers, peer: str, connect: Connect) -> Principal | None:
        """Return who sends a request from the address ``peer``; None if it holds no proof of an identity.

        Raises:
            Problem: 401 if the proof is not good.
            Unavailable: if it cannot be judged now.
        """
        given = headers.getlist("authorization")
        if len(given) > 1:
            raise unauthenticated("the request holds several Authorization headers; send one")
        if given:
            return self._by_token(given[0], connect)
        return self._by_certificate(headers, peer, connect)

    def _by_token(self, given: str, connect: Connect) -> Principal:
        match = _BEARER.fullmatch(given)
        if match is None:
            raise unauthenticated("the Authorization header is not written: Bearer <token>")
        token = match["token"]
        if token.startswith(TOKEN_PREFIX):
            with connect() as connection:
                principal = authenticate_token(connection, token, self.clock())
            if principal is None:
                raise unauthenticated("the token is not known, has expired, or was revoked")
            return principal
        if self.oidc is None:
            raise unauthenticated("the token is not one of Tally, and no OIDC issuer is configured")
        return self.oidc.authenticate(token)

    def _by_certificate(self, headers: Headers, peer: str, connect: Connect) -> Principal | None:
        if not self._is_trusted(peer):
            return None  # whatever the header says: anybody could have written it
        given = headers.getlist(self.certificate_header)
        if len(given) > 1:
            raise unauthenticated(f"the request holds several {self.certificate_header} headers; a proxy sets one")
        if not given or not given[0]:
            return None
        with connect() as connection:
            principal = authenticate_certificate(connection, _text(given[0]), self.clock())
        if principal is None:
            raise unauthenticated("the certificate's subject is not known, has expired, or was revoked")
        return principal

    def _is_trusted(self, peer: str) -> bool:
        try:
            address = ip_address(peer)
        except ValueError:  # a socket, or no address at all
            return False
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self.trusted_proxies)


def _text(header: str) -> str:
    """Read a header as UTF-8; the server reads them byte by byte."""
    try:
        return header.encode("latin-1").decode()
    except UnicodeError:
        raise unauthenticated("the certificate's subject is no UTF-8") from None


def caller_check(settings: Settings, clock: Callable[[], datetime]) -> CallerCheck:
    """Return the check that an installation's settings ask for; the issuer is asked when its first token comes."""
    oidc = None
    if settings.oidc_issuer:
        oidc = Oidc(
            settings.oidc_issuer,
            settings.oidc_audience,
            Keys(fetch_from(settings.oidc_issuer, settings.oidc_jwks_url)),
            settings.oidc_algorithms,
            settings.oidc_role_claim,
            settings.oidc_projects_claim,
        )
    return CallerCheck(clock, oidc, settings.trusted_proxies, settings.certificate_header)
