"""One student among many, on a machine with others: nobody ends the batch, no file tricks its reader."""

import csv
import io
import json
import os
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from uqhelpers.grading import _batch, _tables, _worker
from uqhelpers.grading.__main__ import backend, main
from uqhelpers.grading._batch import grade
from uqhelpers.grading._submissions import find_submissions, slug
from uqhelpers.grading._text import printable, readable

from .corpus import DOUBLE, notebook
from .test_grade import ROOT, TOY, sandboxed, toy


def hand_in(folder, cells):
    """A folder of submissions: ``{name: source}``."""
    (folder / "submissions").mkdir()
    for name, source in cells.items():
        (folder / "submissions" / f"{name}.ipynb").write_bytes(notebook([source]))
    return folder / "submissions"


# --- nobody ends the batch ------------------------------------------------------------------------------


def test_a_name_that_imitates_anothers_file_has_a_file_of_its_own():
    names = ["ann lee", slug("ann lee"), slug(slug("ann lee")), "Ann Lee", "ann_lee"]
    names.append(slug("ann lee")[: len("ann_lee-") + 10])  # as the digests were once cut
    assert len({slug(name) for name in names}) == len(names)
    short = [slug(name) for name in names if slug(name) == name]
    long = [slug(name) for name in names if slug(name) != name]
    assert max(map(len, short)) <= 40 < 64 < min(map(len, long))


@sandboxed
def test_students_whose_names_collide_have_their_own_grades(tmp_path):
    cut = slug("ann lee")[: len("ann_lee-") + 10]
    submissions = hand_in(tmp_path, {"ann lee": DOUBLE, cut: "x = 1", slug("ann lee"): DOUBLE})
    records = toy(submissions, tmp_path / "out")
    assert {name: record["score"] for name, record in records.items()} == {
        "ann lee": 2,
        cut: 0,
        slug("ann lee"): 2,
    }
    assert len(list((tmp_path / "out" / "records").iterdir())) == 3


def test_bytes_and_the_text_of_their_escape_are_two_names():
    assert readable(b"a\xff") != readable("a\\xff")


CHECKS = """
import os, signal
import numpy as np
from uqhelpers.grading._engine import expect, question

@question("q1")
def ends_the_process_that_asks(learner, seed):
    answer = learner.value("answer")
    if answer == "end":
        os.kill(os.getpid(), signal.SIGKILL)
    expect(np.asarray(answer).size > 0, "nothing")
"""
HUGE = "answer = ['x' * 500_000] + ['y'] * 2000"


@pytest.fixture
def fragile(tmp_path):
    """Checks that an answer can kill."""
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "fragile.py").write_text(CHECKS)
    return tmp_path / "checks" / "fragile.py"


@sandboxed
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_process_that_dies_takes_nothing_else_with_it_and_is_named(jobs, fragile, tmp_path, capsys):
    cells = {"ann": "answer = 1.0", "mallory": "answer = 'end'", "zoe": "answer = 1.0"}
    submissions, out = hand_in(tmp_path, cells), tmp_path / "out"
    arguments = ["grade", "toy", str(submissions), "--out", str(out), "--checks", str(fragile)]
    assert main([*arguments, "--jobs", str(jobs), "--quiet"]) == 1
    said = capsys.readouterr()
    assert "mallory: could not be graded: the process that graded it ended (SIGKILL" in said.out
    assert said.err == "error: not graded, and tried again next time: mallory\n"
    rows = {row["student"]: row for row in csv.DictReader(io.StringIO((out / "grades.csv").read_text()))}
    assert {name: row["score"] for name, row in rows.items()} == {"ann": "1", "mallory": "0", "zoe": "1"}
    assert (out / "summary.html").exists()
    (submissions / "mallory.ipynb").write_bytes(notebook(["answer = 2.0"]))
    assert main([*arguments, "--quiet"]) == 0


@sandboxed
def test_an_answer_of_monstrous_size_costs_its_student_a_point_and_nobody_else(fragile, tmp_path):
    submissions = hand_in(tmp_path, {"ann": "answer = 1.0", "mallory": HUGE})
    records = toy(submissions, tmp_path / "out", checks=fragile)
    assert [record["score"] for record in records.values()] == [1, 0]
    assert "MemoryError" in json.dumps(records["mallory"])


def fake(monkeypatch, outcomes):
    """In place of grading: each student's outcomes one after the other, and who was asked, and with whom."""
    asked, running, module = [], [], _batch.load_checks("toy", TOY)

    def graded(stem, secret, limits, checks, data):
        name = json.loads(data)["cells"][0]["source"]
        running.append(name)
        time.sleep(0.2)
        asked.append((name, len(running)))
        running.remove(name)
        outcome = outcomes[name].pop(0)
        if type(outcome) is str:
            return None, outcome
        return {**_batch.not_graded(module, ""), "starved": outcome}, ""

    monkeypatch.setattr(_batch, "grade_apart", graded)
    monkeypatch.setattr(_batch, "try_sandbox", lambda checks: None)
    return asked


def test_a_cluster_that_breaks_down_loses_no_grade(tmp_path, monkeypatch):
    import joblib

    class Broken(joblib.Parallel):
        def __call__(self, tasks):
            function, arguments, _ = next(iter(tasks))
            yield function(*arguments)
            raise RuntimeError("the workers are gone")

    asked = fake(monkeypatch, {name: [False] for name in ("ann", "bob", "cid")})
    monkeypatch.setattr(joblib, "Parallel", Broken)
    records = toy(hand_in(tmp_path, {name: name for name in ("ann", "bob", "cid")}), tmp_path / "out")
    assert [name for name, _ in asked] == ["ann", "bob", "cid"]
    assert all(record["key"] for record in records.values())


def test_who_ran_out_of_time_beside_others_is_graded_once_more_alone(tmp_path, monkeypatch):
    asked = fake(monkeypatch, {"ann": [False], "bob": [True, True], "cid": [False], "dan": ["died", False]})
    submissions = hand_in(tmp_path, {name: name for name in ("ann", "bob", "cid", "dan")})
    records = toy(submissions, tmp_path / "out")
    assert sorted(name for name, _ in asked) == ["ann", "bob", "bob", "cid", "dan", "dan"]
    assert {name for name, _ in asked[-2:]} == {"bob", "dan"}
    assert [others for _, others in asked[-2:]] == [1, 1]
    assert all(record["key"] and not record["trouble"] for record in records.values())


def test_who_was_alone_already_is_not_graded_twice(tmp_path, monkeypatch):
    asked = fake(monkeypatch, {"ann": [True], "bob": ["died"]})
    records = toy(hand_in(tmp_path, {"ann": "ann", "bob": "bob"}), tmp_path / "out", jobs=1)
    assert len(asked) == 2
    assert records["bob"]["trouble"] == "died"
    assert records["bob"]["key"] == ""


def test_a_record_that_is_gone_is_told_and_the_others_are_written(tmp_path, monkeypatch):
    fake(monkeypatch, {"ann": [False], "bob": [False]})
    keep = _batch.Grader.keep

    def forget(self, submission, *rest, **options):
        keep(self, submission, *rest, **options)
        if submission.student == "ann":
            self.path(submission).unlink()

    monkeypatch.setattr(_batch.Grader, "keep", forget)
    records = toy(hand_in(tmp_path, {"ann": "ann", "bob": "bob"}), tmp_path / "out")
    assert "its record is gone" in records["ann"]["problem"]
    assert len((tmp_path / "out" / "grades.csv").read_text().splitlines()) == 3


# --- what is read by spreadsheets and terminals ------------------------------------------------------------

STRANGE = [
    "x;=cmd|' /C calc'!A0;9",
    'x";=1+1;"',
    "x\u202egnp",
    "x\x1b[31mred",
    "x\ny",
    "x\u2028y",
    "x\u200bz",
]


def test_every_field_is_quoted_and_no_semicolon_begins_a_formula():
    text = _tables.table([[name, 1] for name in STRANGE])
    lines = text.splitlines()
    assert len(lines) == len(STRANGE)
    for line in lines:
        assert line.startswith('"')
        assert line.endswith('"')
    for divider in (",", ";", "\t"):
        for row in csv.reader(io.StringIO(text), delimiter=divider):
            assert not any(field.lstrip().startswith(("=", "+", "-", "@")) for field in row), (divider, row)
    assert all(len(row) == 1 for row in csv.reader(io.StringIO(text.replace('","', "")), delimiter=";"))


def test_what_has_no_sign_of_its_own_is_shown_as_an_escape():
    assert printable("x\x1b[31m\u202e\n\u2028\u200b é 語 🙂") == r"x\x1b[31m\u202e\n\u2028\u200b é 語 🙂"


def test_names_are_printed_and_written_without_control_characters(tmp_path, monkeypatch, capsys):
    sources = [f"s{number}" for number in range(len(STRANGE))]
    fake(monkeypatch, {source: ["died\x1b[2J"] for source in sources})
    names = [name.replace("/", "") for name in STRANGE]
    submissions, out = hand_in(tmp_path, dict(zip(names, sources, strict=True))), tmp_path / "out"
    (submissions / ".secret\x1b[2J").write_text("x")
    arguments = ["grade", "toy", str(submissions), "--out", str(out), "--checks", str(TOY)]
    assert main([*arguments, "--jobs", "1", "--quiet"]) == 1
    said = capsys.readouterr()
    for text in (said.out, said.err, (out / "grades.csv").read_text(), (out / "rubric.csv").read_text()):
        assert text.replace("\n", "").isprintable()
    assert len(said.out.splitlines()) == len(names) + 3


# --- the rubric -------------------------------------------------------------------------------------------


def sheet(path, rows):
    """Write a rubric sheet, filled in."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return path


def lines(name, points, **changed):
    return [
        {"student": name, "slug": slug(name), "question": "q3", "criterion": criterion, "points": points}
        | changed
        for criterion in ("sees it", "says it")
    ]


def test_points_go_to_the_slug_whatever_the_name_looks_like(tmp_path):
    module = _batch.load_checks("toy", TOY)
    names = ["ann\u2028", "ann ", "ann"]
    rows = lines("ann\u2028", "0", student="ann") + lines("ann ", "1", student="ann") + lines("ann", "0.5")
    points = _tables.read_rubric(sheet(tmp_path / "sheet.csv", rows), module, map(slug, names))
    assert points == {(slug("ann\u2028"), "q3"): 0, (slug("ann "), "q3"): 2, (slug("ann"), "q3"): 1}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (lines("mallory", "1"), "line 2 names no student of this batch: 'mallory'"),
        (lines("ann", "1", slug="Ann"), "line 2 names no student of this batch: 'Ann'"),
        (lines("ann", "1") + lines("ann", "0"), "line 4 gives points that an earlier line gave already"),
        (lines("ann", "1", question="q9"), "line 2 names no criterion"),
        ([{"student": "ann", "question": "q3", "criterion": "sees it", "points": "1"}], "slug is missing"),
    ],
)
def test_a_sheet_that_names_strangers_or_contradicts_itself_is_refused(rows, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        _tables.read_rubric(sheet(tmp_path / "sheet.csv", rows), _batch.load_checks("toy", TOY), ["ann"])


# --- other accounts of the machine -------------------------------------------------------------------------


def test_a_cluster_without_certificates_is_refused():
    pytest.importorskip("distributed")
    for address in ("tcp://127.0.0.1:8786", "127.0.0.1:8786", "tls://127.0.0.1:8786"):
        with (
            pytest.raises(ValueError, match="expected 'local', or a tls:// address and certificates"),
            backend(address),
        ):
            pass


def test_nobody_without_the_batchs_certificate_can_talk_to_its_cluster():
    distributed = pytest.importorskip("distributed")
    with backend("local"):
        mine = distributed.get_client()
        address = mine.scheduler.address
        assert address.startswith("tls://127.0.0.1:")
        assert all(worker.startswith("tls://127.0.0.1:") for worker in mine.scheduler_info()["workers"])
        others = distributed.security.Security.temporary()
        stranger = (
            "import sys\nfrom distributed import Client\nfrom distributed.security import Security\n"
            f"Client({address!r}, security=Security.temporary(), timeout=2)"
        )
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", stranger], capture_output=True, text=True
        )
        assert done.returncode != 0
        assert "certificate" in done.stderr.lower() or "Timed out" in done.stderr
        assert others.tls_client_cert != mine.security.tls_client_cert


@sandboxed
def test_the_output_is_for_its_owner_only(tmp_path):
    out = tmp_path / "out"
    out.mkdir(mode=0o755)
    toy(hand_in(tmp_path, {"ann": DOUBLE}), out, gradescope=True, junit=tmp_path / "junit.xml")
    paths = [out, *out.rglob("*"), tmp_path / "junit.xml"]
    assert len(paths) > 8
    open_ones = [path for path in paths if path.stat().st_mode & 0o077 and path.name != ".lock"]
    assert open_ones == []


def test_hidden_files_are_not_passed_over_in_silence(tmp_path, monkeypatch, capsys):
    fake(monkeypatch, {"ann": [False]})
    submissions = hand_in(tmp_path, {"ann": "ann", ".bob": "bob"})
    (submissions / ".DS_Store").write_text("x")
    (submissions / ".cid").mkdir()
    (submissions / ".cid" / "one.ipynb").write_text("{}")
    found = {one.student: one.problem for one in find_submissions(submissions, "toy")}
    assert found == dict.fromkeys([".bob", ".cid"], "hidden: its name begins with a dot") | {"ann": ""}
    main(["grade", "toy", str(submissions), "--out", str(tmp_path / "out"), "--checks", str(TOY), "--quiet"])
    said = capsys.readouterr().out
    assert "left out, hidden and no notebook: .DS_Store" in said
    assert ".bob: hidden" in said


# --- modules in the folder of submissions -------------------------------------------------------------------

SPY = "import pathlib\npathlib.Path({!r}).write_text('imported')\nraise ImportError('a student wrote this')\n"


@pytest.fixture
def trap(tmp_path):
    """A folder of submissions that holds modules, too: what a grader might import by mistake."""
    submissions = hand_in(tmp_path, {"ann": DOUBLE})
    for name in (
        "tqdm",
        "joblib",
        "html",
        "numpy",
        "argparse",
        "uqhelpers",
        "distributed",
        "_marking",
        "cffi",
    ):
        (submissions / f"{name}.py").write_text(SPY.format(str(tmp_path / "trapped")))
    return submissions


def in_there(trap, *command):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONSAFEPATH", None)
    arguments = ["grade", "toy", ".", "--out", str(trap.parent / "out"), "--checks", str(TOY), "--quiet"]
    return subprocess.run(
        [sys.executable, *command, *arguments], cwd=trap, env=environment, capture_output=True, text=True
    )


def test_the_console_command_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"uqhelpers-grading": "uqhelpers.grading.__main__:run"}


@sandboxed
@pytest.mark.parametrize("way", ["console", "safe -m"])
def test_a_command_inside_the_folder_of_submissions_imports_nothing_from_there(way, trap):
    script = trap.parent / "bin" / "uqhelpers-grading"
    script.parent.mkdir()
    script.write_text("import sys\nfrom uqhelpers.grading.__main__ import run\nsys.exit(run())\n")
    done = in_there(trap, *([script] if way == "console" else ["-P", "-m", "uqhelpers.grading"]))
    assert not (trap.parent / "trapped").exists()
    rows = list(csv.DictReader(io.StringIO((trap.parent / "out" / "grades.csv").read_text())))
    assert {row["student"]: row["score"] for row in rows}["ann"] == "2", done.stderr


def test_a_plain_python_m_in_there_is_refused(trap):
    for path in trap.glob("*.py"):
        if path.stem not in ("tqdm", "joblib", "distributed"):  # what is imported later than the refusal
            path.unlink()
    done = in_there(trap, "-m", "uqhelpers.grading")
    assert done.returncode == 1
    assert "use the command uqhelpers-grading, or python -P -m uqhelpers.grading" in done.stderr
    assert not (trap.parent / "trapped").exists()


# --- the worker -------------------------------------------------------------------------------------------


def test_the_way_a_process_ended_is_told_in_words():
    assert _worker.ending(-9) == "SIGKILL, perhaps for want of memory"
    assert _worker.ending(-11) == "SIGSEGV"
    assert _worker.ending(3) == "exit code 3"


@sandboxed
def test_nothing_is_left_of_a_batch(tmp_path):
    before = set(Path("/tmp").glob("uqhelpers-grading-*"))
    leaves = DOUBLE + "\nimport os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(50)"
    toy(hand_in(tmp_path, {"ann": leaves, "bob": DOUBLE}), tmp_path / "out")
    children = [
        path.parent
        for path in Path("/proc").glob("[0-9]*/stat")
        if path.exists() and path.read_text().rpartition(")")[2].split()[1] == str(os.getpid())
    ]
    commands = [(path / "cmdline").read_bytes() for path in children if (path / "cmdline").exists()]
    assert not any(b"_worker" in command or b"bwrap" in command for command in commands)
    assert set(Path("/tmp").glob("uqhelpers-grading-*")) <= before


def test_grade_takes_one_file_of_checks_relative_to_the_working_folder(tmp_path, monkeypatch):
    fake(monkeypatch, {"ann": [False]})
    monkeypatch.chdir(TOY.parent)
    records = grade(
        "toy", hand_in(tmp_path, {"ann": "ann"}), tmp_path / "out", checks=TOY.name, progress=False
    )
    assert records[0]["out_of"] == 5
