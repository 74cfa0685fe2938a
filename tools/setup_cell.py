"""The first lines of every notebook: install the helpers where they are missing, as in Colab.

An unpublished copy has no address to install from, and says so instead of
installing a stranger's package.
"""

from tools.book import UNPUBLISHED

GUARD = """\
try:
    import uqhelpers
except ImportError:
    {remedy}
"""
PUBLISHED = '%pip install -q "uqhelpers @ git+https://github.com/{repository}"'
NOT_PUBLISHED = 'raise SystemExit("Not published yet: run `pip install .` in a checkout.") from None'


def guard(repository):
    """The guard for the published name ``repository`` (``owner/name``), ending in a newline."""
    if repository == UNPUBLISHED:
        return GUARD.format(remedy=NOT_PUBLISHED)
    return GUARD.format(remedy=PUBLISHED.format(repository=repository))


def replace_guard(source, old, new):
    """The source of a setup cell with its guard changed from the name ``old`` to ``new``."""
    if not (source + "\n").startswith(guard(old)):
        raise ValueError(f"setup cell: expected it to begin with the guard for {old}, got {source[:60]!r}")
    return (guard(new) + (source + "\n")[len(guard(old)) :]).removesuffix("\n")
