"""A progress bar for long work, silent where nobody watches."""

import os


def bar(iterable, show, **options):
    """``iterable`` under a tqdm bar that appears after two seconds, or as it is.

    The bar stays away when ``show`` is false or ``TQDM_DISABLE`` is set, as it
    is while the book is built: there tqdm is not even imported, because its
    notebook flavour warns when it finds no widgets.
    """
    if not show or os.environ.get("TQDM_DISABLE"):
        return iterable
    from tqdm.auto import tqdm

    return tqdm(iterable, delay=2, leave=False, **options)
