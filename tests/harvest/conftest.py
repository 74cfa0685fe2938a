"""What an nbval run puts out, kept: one file a notebook, for the book's pages.

``tools.execute`` copies this file beside the copies of the notebooks it runs.
A notebook is kept only if every cell of it ran and passed. Each is run by one
worker (``--dist loadfile``), which writes its files when its session ends.
"""

import datetime
import json
import os
from pathlib import Path

import psutil
import pytest

_cells = {}  # notebook -> {number of the code cell: what its run gave}


def is_cell(item):
    return type(item).__name__ == "IPyNbCell"


def cpu_seconds(kernel):
    """What the kernel has computed so far, whatever else the machine was doing; 0 if it is dead."""
    try:
        times = psutil.Process(kernel.km.provisioner.pid).cpu_times()
    except (AttributeError, psutil.Error):
        return 0.0
    return times.user + times.system + times.children_user + times.children_system


def pytest_runtest_setup(item):
    """After a failing cell the rest of its notebook says nothing new."""
    earlier = _cells.get(item.path, {}).values() if is_cell(item) else []
    if any(not cell["passed"] for cell in earlier):
        pytest.skip("an earlier cell of this notebook failed")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call" and is_cell(item):
        _cells.setdefault(item.path, {})[item.cell_num] = {
            "outputs": item.test_outputs or [],
            "passed": report.passed,
            "seconds": call.duration,
            "cpu": cpu_seconds(item.parent.kernel),
        }
    return report


def pytest_sessionfinish(session):
    for notebook, cells in _cells.items():
        source = json.loads(notebook.read_text(encoding="utf-8"))
        code = [cell for cell in source["cells"] if cell["cell_type"] == "code"]
        if sorted(cells) == list(range(len(code))) and all(cell["passed"] for cell in cells.values()):
            run = {
                "date": datetime.date.today().isoformat(),
                "seconds": sum(cell["seconds"] for cell in cells.values()),
                "cpu": max(cell["cpu"] for cell in cells.values()),
                "outputs": [cells[number]["outputs"] for number in sorted(cells)],
            }
            target = Path(os.environ["UQ_HARVEST"], f"{notebook.parent.name}.json")
            target.write_text(json.dumps(run), encoding="utf-8")
