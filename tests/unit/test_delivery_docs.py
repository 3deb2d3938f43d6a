"""What the documentation says about delivery is what the code does."""

import re
import textwrap
from typing import Any

import pytest

from tally.domain.billing_document import FORMAT
from tally.services.delivery_targets import parse_targets
from tally.store.targets import webhook
from tally.store.targets.webhook import signature
from tests.conftest import REPOSITORY
from tests.receiver import SECRET
from tests.unit.domain.test_billing_document import document

REFERENCE = (REPOSITORY / "docs/reference/delivery.md").read_text(encoding="utf-8")
HOW_TO = (REPOSITORY / "docs/how-to/deliver-bills.md").read_text(encoding="utf-8")


def block(page: str, language: str) -> str:
    """The first code of a language, however far it is indented."""
    found = re.search(rf"^( *)```{language}\n(.*?)^\1```$", page, re.MULTILINE | re.DOTALL)
    assert found is not None
    return textwrap.dedent(found[2])


@pytest.mark.parametrize("page", [REFERENCE, HOW_TO], ids=["reference", "how-to"])
def test_the_files_of_targets_can_be_copied(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tally.services.delivery_targets._file", lambda _: "a secret")
    found = parse_targets(block(page, "yaml"), "targets.yaml", {"ERP_WEBHOOK_SECRET": SECRET, "S3_ACCESS_KEY": "a"})
    assert {"erp", "drop"} <= {each.name for each in found}


def test_the_members_of_a_document_are_listed() -> None:
    """In their order."""
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", REFERENCE.partition("## Targets")[0], re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"\w+", row)]
    assert listed == re.findall(r'(?:^\{|, )"(\w+)": ', document().body.decode().partition('"bill": {')[0] + '"bill": ')
    assert f"`{FORMAT}`" in REFERENCE


def test_the_answers_of_a_webhook_are_listed() -> None:
    """What is refused, and what is tried again."""
    refused = re.search(r"^\| ([\d, ]+) \| This document is refused", REFERENCE, re.MULTILINE)
    busy = re.search(r"^\| ([\d, ]+), or none \| Again at once, four times in all, 1 to 30 s", REFERENCE, re.MULTILINE)
    assert refused is not None
    assert busy is not None
    assert {int(status) for status in refused[1].split(", ")} == webhook._OF_THE_DOCUMENT
    assert {int(status) for status in busy[1].split(", ")} == webhook._BUSY
    assert (webhook.ATTEMPTS, webhook.LONGEST_PAUSE, webhook.MOST_READ) == (4, 30.0, 16 * 1024)


def test_the_receiver_of_the_how_to_verifies() -> None:
    """What Tally signs, and nothing else."""
    code: dict[str, Any] = {}
    exec(block(HOW_TO, "python"), code)  # noqa: S102 - the page is ours
    now = int(code["time"].time())
    headers = {
        "webhook-id": "n:erp",
        "webhook-timestamp": str(now),
        "webhook-signature": signature(webhook.read_secret(SECRET), "n:erp", now, b"{}"),
    }
    assert code["verified"](SECRET, headers, b"{}")
    assert not code["verified"](SECRET, headers, b"{} ")
    assert not code["verified"](SECRET, headers | {"webhook-timestamp": str(now - 301)}, b"{}")
