"""Object storage as a target: a bucket of S3, or of what speaks like it. A document is always the same object."""

from typing import Any

import fsspec  # type: ignore[import-untyped]
from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped]

from tally.domain.delivery import Parcel
from tally.domain.errors import Refused, Unavailable

TIMEOUT_SECONDS = 30
_MOST_SHOWN = 200


class ObjectStorage:
    """Objects ``<prefix>/<month>/<number>.json`` in a bucket; without keys, by the machine's own credentials."""

    def __init__(
        self,
        bucket: str,
        prefix: str,
        *,
        endpoint: str | None = None,
        region: str | None = None,
        access_key: str | None = None,
        secret_key: str | None = None,
        overwrite: bool = False,
    ) -> None:
        self._root = f"{bucket}/{prefix}".rstrip("/")
        self._mode = "overwrite" if overwrite else "create"
        self._options: dict[str, Any] = {
            "endpoint_url": endpoint,
            "key": access_key,
            "secret": secret_key,
            "client_kwargs": {"region_name": region} if region else {},
            "config_kwargs": {
                "connect_timeout": TIMEOUT_SECONDS,
                "read_timeout": TIMEOUT_SECONDS,
                "retries": {"total_max_attempts": 2, "mode": "standard"},
            },
            "skip_instance_cache": True,  # it would keep the keys, and mix up two targets of one bucket
        }

    def deliver(self, parcel: Parcel) -> str:
        """Put the object unless it is there; one that is, has to be the same."""
        path = f"{self._root}/{parcel.name}"
        files = self._files()
        try:
            try:
                files.pipe_file(path, parcel.body, mode=self._mode, ContentType="application/json")
            except OSError as error:
                if not _exists(error):
                    raise
                if files.cat_file(path) != parcel.body:
                    raise Refused(f"s3://{path} is not put", ["another object has its name; move it away"]) from None
        except (OSError, BotoCoreError) as error:
            raise Unavailable(f"s3://{path} cannot be put: {' '.join(str(error).split())[:_MOST_SHOWN]}") from None
        return f"s3://{path}"

    def _files(self) -> Any:
        if not hasattr(self, "_kept"):  # importing it costs a second
            self._kept = fsspec.filesystem("s3", **self._options)
        return self._kept


def _exists(error: OSError) -> bool:
    """Whether a conditional put was refused because the object is there; s3fs does not call it so for every server."""
    code = getattr(error.__cause__, "response", {}).get("Error", {}).get("Code")
    return isinstance(error, FileExistsError) or code in {"PreconditionFailed", "412"}
