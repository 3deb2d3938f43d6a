"""A bucket takes each document once, under a name of its own, from a real server of the S3 protocol."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tally.domain.delivery import Parcel
from tally.domain.errors import Refused, Unavailable
from tally.store.targets.object_storage import ObjectStorage

PARCEL = Parcel("2026-03/2026-03-A.json", "2026-03-A:archive", b'{"total": 1.00}\n')
KEYS = {"access_key": "AKIAEXAMPLE", "secret_key": "s3cret-key"}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    yield f"http://127.0.0.1:{port}"
    server.stop()


@pytest.fixture
def bucket(endpoint: str) -> Iterator[Any]:
    """An empty bucket whose versions are kept, so that each put can be counted."""
    client = boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
    )
    client.create_bucket(Bucket="bills")
    client.put_bucket_versioning(Bucket="bills", VersioningConfiguration={"Status": "Enabled"})
    yield client
    for version in versions(client):
        client.delete_object(Bucket="bills", Key=version["Key"], VersionId=version["VersionId"])
    client.delete_bucket(Bucket="bills")


def versions(client: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.list_object_versions(Bucket="bills").get("Versions", [])
    return found


def storage(endpoint: str, **options: Any) -> ObjectStorage:
    return ObjectStorage("bills", "tally/prod", endpoint=endpoint, region="us-east-1", **KEYS, **options)


def test_a_document_is_one_object_however_often_it_is_delivered(endpoint: str, bucket: Any) -> None:
    """The second put is refused by the server, and the object is the same: it is kept as it is."""
    target = storage(endpoint)
    assert target.deliver(PARCEL) == storage(endpoint).deliver(PARCEL) == "s3://bills/tally/prod/2026-03/2026-03-A.json"
    (version,) = versions(bucket)
    kept = bucket.get_object(Bucket="bills", Key=version["Key"])
    assert (kept["Body"].read(), kept["ContentType"]) == (PARCEL.body, "application/json")


def test_another_object_of_the_name_is_not_overwritten(endpoint: str, bucket: Any) -> None:
    """Refused: a person looks at it, and the other documents go on."""
    bucket.put_object(Bucket="bills", Key="tally/prod/2026-03/2026-03-A.json", Body=b"mine")
    with pytest.raises(Refused, match="another object has its name"):
        storage(endpoint).deliver(PARCEL)
    assert len(versions(bucket)) == 1


def test_a_server_without_conditional_puts_gets_the_same_object_again(endpoint: str, bucket: Any) -> None:
    """With overwrite: the key and the bytes are the same."""
    for _ in range(2):
        storage(endpoint, overwrite=True).deliver(PARCEL)
    assert len({version["ETag"] for version in versions(bucket)}) == 1


def test_a_bucket_that_is_not_there_is_named_without_the_keys(endpoint: str) -> None:
    """Neither in the message nor in what the target shows of itself."""
    target = storage(endpoint)
    with pytest.raises(Unavailable, match=r"s3://bills/tally/prod/2026-03/2026-03-A\.json cannot be put: ") as raised:
        target.deliver(PARCEL)
    assert [text for text in (str(raised.value), repr(target)) if "s3cret" in text or "AKIA" in text] == []


def test_a_server_that_is_away_is_told() -> None:
    """Whatever the library calls it."""
    with pytest.raises(Unavailable, match=r"cannot be put: .*127\.0\.0\.1:1"):
        storage("http://127.0.0.1:1").deliver(PARCEL)
