"""Texts in a CSV that people open: a spreadsheet would work out what a name that comes from a platform says."""

_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")


def plain_text(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula: one that looks like it begins with an apostrophe."""
    return f"'{text}" if text.startswith(_FORMULAS) else text
