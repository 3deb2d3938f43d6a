"""The file of targets is taken whole or refused with everything that is wrong; what is secret is never told."""

from pathlib import Path

import pytest

from tally.domain.errors import InvalidInput
from tally.services.delivery_targets import named, parse_targets, read_targets
from tally.store.targets.directory import Directory
from tally.store.targets.object_storage import ObjectStorage
from tally.store.targets.webhook import Webhook
from tests.receiver import SECRET

ENVIRONMENT = {"ERP_SECRET": SECRET, "S3_KEY": "AKIAEXAMPLE", "S3_SECRET": "very-secret", "EMPTY": " "}
GOOD = """
erp:
  type: webhook
  from: 2026-03
  url: https://erp.example.com/hooks/s3cret-path
  secret: {env: ERP_SECRET}
  timeout_seconds: 20
archive:
  type: object_storage
  from: 2026-01
  url: s3://bills/tally
  endpoint: https://s3.example.com
  region: eu-central-1
  access_key: {env: S3_KEY}
  secret_key: {env: S3_SECRET}
drop:
  type: directory
  from: 2026-03
  path: /srv/bills
"""


def faults(text: str) -> list[str]:
    """What is wrong with a file, one fault each."""
    with pytest.raises(InvalidInput) as raised:
        parse_targets(text, "targets.yaml", ENVIRONMENT)
    return str(raised.value).removeprefix("targets.yaml: ").split("; line ")


def webhook(**keys: str) -> str:
    """A file with one webhook, some of its keys otherwise."""
    written = {"type": "webhook", "from": "2026-03", "url": "https://a.example", "secret": "{env: ERP_SECRET}"} | keys
    return "erp:\n" + "".join(f"  {key}: {value}\n" for key, value in written.items())


def test_targets_are_read_with_their_first_month() -> None:
    """In the order of the file."""
    found = parse_targets(GOOD, "targets.yaml", ENVIRONMENT)
    assert [(each.name, each.first, type(each.target)) for each in found] == [
        ("erp", "2026-03", Webhook), ("archive", "2026-01", ObjectStorage), ("drop", "2026-03", Directory),
    ]


def test_nothing_that_is_secret_is_shown_by_what_is_read() -> None:
    """Whoever prints a target sees its name."""
    shown = repr(parse_targets(GOOD, "targets.yaml", ENVIRONMENT))
    assert [secret for secret in (*ENVIRONMENT.values(), "s3cret-path") if secret.strip() and secret in shown] == []


def test_a_secret_and_an_address_can_lie_in_a_file_of_their_own(tmp_path: Path) -> None:
    """With the line break that editors leave at the end."""
    (tmp_path / "secret").write_text(SECRET + "\n")
    (tmp_path / "url").write_text("https://erp.example.com/hooks/s3cret-path\n")
    text = webhook(url=f"{{file: {tmp_path / 'url'}}}", secret=f"{{file: {tmp_path / 'secret'}}}")
    assert [each.name for each in parse_targets(text, "targets.yaml", {})] == ["erp"]


def test_everything_that_is_wrong_is_said_at_once() -> None:
    """With its line."""
    text = """
ERP:
  type: webhook
  from: March
  url: http://erp.example.com/s3cret-path
  secret: whsec_in_the_file
archive:
  type: object_storage
  from: 2026-03
  url: https://bills
  access_key: {env: NOWHERE}
drop:
  type: printer
"""
    assert faults(text) == [
        "line 3: 'ERP' is no name of a target: small letters, digits and dashes",
        "4: ERP: from: 'March' is not a billing period; write a month such as 2026-03",
        "5: ERP: url: it has to begin with https://; http:// is for the machine itself alone",
        "6: ERP: secret does not stand in this file; write {env: NAME} or {file: PATH}",
        "10: archive: access_key and secret_key come together",
        "10: archive: url: not a URL such as s3://bucket/prefix",
        "11: archive: access_key: the environment variable NOWHERE holds no text",
        "13: drop has no type that is known: directory, webhook, object_storage",
    ]


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ({"secret": "{env: EMPTY}"}, "secret: the environment variable EMPTY holds no text"),
        ({"secret": "{env: S3_SECRET}"}, "secret: not whsec_ and 24 to 64 random bytes in base64"),
        ({"secret": "{env: ERP_SECRET, file: /x}"}, "secret names one place"),
        ({"secret": "{file: /nowhere}"}, "secret: the file /nowhere holds no text"),
        ({"url": "https://user:pw@a.example"}, "url: not a URL such as"),
        ({"url": "https://a.example:x"}, "url: not a URL such as"),
        ({"url": "http://169.254.169.254/"}, "url: it has to begin with https://"),
        ({"timeout_seconds": "0"}, "timeout_seconds is no whole number from 1 to 300"),
        ({"timeout_seconds": "301"}, "timeout_seconds is no whole number from 1 to 300"),
        ({"path": "/x"}, "has the unknown key 'path'"),
        ({"type": "directory", "path": "bills"}, "path: not an absolute path"),
        ({"type": "object_storage", "url": "s3://b"}, "url: not a URL such as s3://bucket/prefix"),
        ({"type": "object_storage", "url": "s3://bills/../x"}, "url: not a URL such as s3://bucket/prefix"),
        ({"type": "object_storage", "url": "s3://bills", "overwrite": "yes"}, "overwrite: write true or false"),
    ],
)
def test_what_makes_no_sense_is_refused(keys: dict[str, str], fault: str) -> None:
    """Without saying what was found where a secret should be."""
    found = "; ".join(faults(webhook(**keys)))
    assert fault in found
    assert [secret for secret in ("very-secret", "pw@") if secret in found] == []


def test_http_is_for_the_machine_itself() -> None:
    assert parse_targets(webhook(url="http://127.0.0.1:8080/x"), "targets.yaml", ENVIRONMENT)


def test_a_target_is_chosen_by_its_name(tmp_path: Path) -> None:
    """Without a file there is none, and without a name it is all of them."""
    (tmp_path / "targets.yaml").write_text(GOOD)
    found = read_targets(tmp_path / "targets.yaml", ENVIRONMENT)
    assert list(named(found, None)) == list(found)
    assert [each.name for each in named(found, "drop")] == ["drop"]
    with pytest.raises(InvalidInput, match="'dorp' is no target; there are erp, archive, drop"):
        named(found, "dorp")
    with pytest.raises(InvalidInput, match="TALLY_DELIVERY_TARGETS names the file"):
        named(read_targets(None), None)
    with pytest.raises(InvalidInput, match=r"cannot be read: No such file or directory$"):
        read_targets(tmp_path / "nowhere.yaml")
