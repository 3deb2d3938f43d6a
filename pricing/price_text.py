"""A price version written as a file: what price_file.py reads back as the same version, with the same hash."""

from decimal import Decimal

import yaml

from pricing.model import PriceVersion


class _Dumper(yaml.SafeDumper):
    """Writes decimals as they are: PyYAML knows binary floats only."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - PyYAML's
        """Write everything where it stands."""
        return True


def _decimal(dumper: yaml.SafeDumper, number: Decimal) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:float", f"{number:f}")


_Dumper.add_representer(Decimal, _decimal)


def to_yaml(version: PriceVersion) -> str:
    """Write a version in the form of its file; comments of the original are not kept."""
    content = {key: part for key, part in version.content.items() if part}
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
