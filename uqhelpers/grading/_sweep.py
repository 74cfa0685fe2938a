"""Looks from inside a sandbox for what must not be seen there. It runs as a submission's cell would."""


def seen(stems, digests):
    """Paths of checks and solutions that can be read from here.

    Parameters
    ----------
    stems : list of str
        The exercises there are.
    digests : dict
        ``{size: [sha256]}`` of every file of checks and solutions.

    Returns
    -------
    list of str
        At most 20.
    """
    import hashlib
    import os

    secret = {("grading", "checks"), ("grading", "solutions"), ("exercises", "solutions")}
    packed = (".whl", ".egg", ".zip", ".pex", ".tar.gz", ".tgz")
    found, left = [], ["/"]
    while left:
        folder = left.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:  # not for us to read
            continue
        kind = tuple(folder.split("/")[-2:])
        if kind in secret and any(entry.name.split(".")[0] in stems for entry in entries):
            found.append(folder)
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.path not in ("/proc", "/sys", "/dev", "/tmp/home"):
                    left.append(entry.path)
            elif entry.name.startswith("uqhelpers") and entry.name.endswith(packed):
                found.append(entry.path)
            elif entry.is_file(follow_symlinks=False):
                size = str(entry.stat(follow_symlinks=False).st_size)
                if size in digests:
                    try:
                        with open(entry.path, "rb") as file:
                            digest = hashlib.sha256(file.read()).hexdigest()
                    except OSError:
                        continue
                    if digest in digests[size]:
                        found.append(entry.path)
    return sorted(found)[:20]
