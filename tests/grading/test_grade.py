"""The batch grader against honest, clumsy and hostile submissions. Without bubblewrap these tests skip."""

import csv
import fcntl
import hashlib
import io
import itertools
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import stress_grading
from uqhelpers.grading import _batch, _box, _copy, _engine, _marking, _mounts, _sandbox, _tables
from uqhelpers.grading.__main__ import main
from uqhelpers.grading._batch import grade
from uqhelpers.grading._limits import Limits, SandboxUnavailable
from uqhelpers.grading._sandbox import SandboxedLearner
from uqhelpers.grading._submissions import find_submissions, slug

from .corpus import DOUBLE, corpus, notebook

ROOT = Path(__file__).resolve().parents[2]
TOY = Path(__file__).with_name("toy_checks.py")
LOW = Limits(cell=4, call=3, total=30, memory=700 << 20, disk=32 << 20, processes=48, restarts=2)


def why_no_sandbox():
    try:
        _sandbox.try_sandbox()
    except SandboxUnavailable as error:
        return str(error)
    return ""


WHY_NOT = why_no_sandbox()
sandboxed = pytest.mark.skipif(bool(WHY_NOT), reason=f"no sandbox here: {WHY_NOT}")


def toy(submissions, out, **options):
    options = {"jobs": 2, "limits": LOW, "checks": TOY, "progress": False} | options
    return {record["student"]: record for record in grade("toy", submissions, out, **options)}


def tree(folder):
    """Names and contents of everything below a folder."""
    paths = sorted(p for p in Path(folder).rglob("*") if p.is_file() and not p.is_symlink())
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in paths if p.stat().st_size < 1e8}


# --- the corpus ---------------------------------------------------------------------------------------

NAMES = ["=cmd|' C calc'!A0", "@SUM(1+1)", "<script>alert(1)<b>", "a..", "Ünïcode Ärger", "a" * 150, "ALICE"]


@pytest.fixture(scope="session")
def graded(tmp_path_factory, worker_id):
    """The corpus, graded once for all workers, with names and files that are attacks themselves."""
    if WHY_NOT:
        pytest.skip(f"no sandbox here: {WHY_NOT}")
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "hostile"
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            (folder / "done").write_text(json.dumps(grade_the_corpus(folder)))
    records = json.loads((folder / "done").read_text())
    entries = corpus(ROOT, folder / "submissions", folder / "out")
    return records | {"entries": entries, "out": folder / "out"}


def grade_the_corpus(folder):
    """Hand everything in and grade it; the records, and whether anything outside changed."""
    submissions, out, canary = folder / "submissions", folder / "out", folder / "canary"
    submissions.mkdir()
    canary.write_text("sings")
    for name, entry in corpus(ROOT, submissions, out).items():
        (submissions / f"{name}.ipynb").write_bytes(entry.data())
    for name in NAMES:
        (submissions / f"{name}.ipynb").write_bytes(notebook([DOUBLE]))
    for name in ("alice/any.ipynb", "twice/one.ipynb", "twice/two.ipynb", "nobody/notes.txt"):
        (submissions / name).parent.mkdir(exist_ok=True)
        (submissions / name).write_bytes(notebook([DOUBLE]))
    (submissions / "linked.ipynb").symlink_to("/etc/passwd")
    (submissions / "linked_folder").symlink_to("/etc")
    os.mkfifo(submissions / "pipe.ipynb")
    with open(submissions / "large.ipynb", "wb") as file:
        file.truncate(500 << 20)
    with open(os.fsencode(submissions) + b"/bytes\xff\xfe.ipynb", "wb") as file:
        file.write(notebook([DOUBLE]))
    before = tree(submissions)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOPSECRET", "TOPSECRET")
        records = toy(submissions, out, junit=out / "junit.xml", gradescope=True)
    time.sleep(3)  # what was left behind would have struck by now
    unchanged = tree(submissions) == before and canary.read_text() == "sings"
    return {"records": records, "unchanged": unchanged, "files": sorted(os.listdir(folder))}


@sandboxed
@pytest.mark.parametrize("name", corpus("", "", ""))
def test_each_submission_earns_what_it_honestly_earned(name, graded):
    record = graded["records"][name]
    told = [result["message"] for result in record["results"]]
    assert record["score"] == graded["entries"][name].earns, (told, record["log"], record["problem"])


def test_the_corpus_is_large():
    assert sum(entry.earns < 5 for entry in corpus("", "", "").values()) >= 30


@sandboxed
def test_nothing_outside_the_sandbox_changed(graded):
    assert graded["unchanged"]
    assert graded["files"] == ["canary", "lock", "out", "submissions"]


@sandboxed
def test_every_file_of_ours_lies_in_the_output_folder_under_a_plain_name(graded):
    for path in graded["out"].rglob("*"):
        assert all(character.isalnum() or character in "._-" for character in path.name), path
        assert path.name.isascii()


@sandboxed
@pytest.mark.parametrize(
    ("student", "problem"),
    [
        ("empty", "empty"),
        ("truncated", "cannot be read as JSON"),
        ("not_a_notebook", "cannot be read as JSON"),
        ("nested_json", "cannot be read as JSON"),
        ("wrong_format", "no list of cells"),
        ("strange_cells", "a cell is malformed"),
        ("wrong_exercise", "answers 'uncertainty', not 'toy'"),
        ("large", "500 MiB; a submission has at most 10 MiB"),
        ("linked", "a link"),
        ("linked_folder", "a link"),
        ("pipe", "not an ordinary file"),
        ("twice", "2 files of one student: one.ipynb, two.ipynb"),
        ("nobody", "no notebook"),
    ],
)
def test_what_cannot_be_graded_gets_a_clear_line(student, problem, graded):
    assert problem in graded["records"][student]["problem"]
    assert graded["records"][student]["score"] == 0
    assert "\n" not in graded["records"][student]["problem"]


@sandboxed
def test_a_name_that_is_not_utf8_is_graded_like_any_other(graded):
    assert graded["records"]["bytes\\xff\\xfe"]["score"] == 2


@sandboxed
@pytest.mark.parametrize("name", [*NAMES, "alice"])
def test_a_strange_name_is_graded_like_any_other(name, graded):
    assert graded["records"][name]["score"] == 2


@sandboxed
def test_no_cell_of_the_csv_is_a_formula(graded):
    text = (graded["out"] / "grades.csv").read_text(encoding="utf-8")
    rows = list(csv.reader(io.StringIO(text)))
    assert len(rows) == 1 + len(graded["records"])
    for row in rows:
        assert len(row) == len(rows[0])
        assert not any(value.lstrip().startswith(("=", "+", "-", "@", "\t", "\r")) for value in row), row


@sandboxed
def test_the_pages_are_escaped_and_carry_no_script(graded):
    pages = [*graded["out"].glob("feedback/*.html"), graded["out"] / "summary.html"]
    assert len(pages) == 1 + len(graded["records"])
    for path in pages:
        text = path.read_text(encoding="utf-8")
        assert "default-src 'none'" in text
        assert "<script" not in text.lower()
        assert "onerror=alert(1)>" not in text
        assert "http://" not in text.replace("http://x&quot;", "").replace("http://x", "")
    assert "&lt;script&gt;alert(1)" in (graded["out"] / "summary.html").read_text(encoding="utf-8")


@sandboxed
def test_the_summary_shows_where_the_class_struggles(graded):
    text = (graded["out"] / "summary.html").read_text(encoding="utf-8")
    assert 'aria-label="Students by points: ' in text
    assert "Questions, the hardest first" in text
    assert "Known mistakes" in text


@sandboxed
def test_junit_and_gradescope_can_be_read_and_agree_with_the_records(graded):
    suites = ElementTree.parse(graded["out"] / "junit.xml").getroot()
    assert len(suites) == len(graded["records"])
    record = graded["records"]["one_right"]
    results = json.loads((graded["out"] / "gradescope" / record["slug"] / "results.json").read_text())
    assert results["score"] == 2
    assert [test["score"] for test in results["tests"]] == [2, 0]
    (suite,) = [suite for suite in suites if suite.get("name") == "one_right"]
    assert [len(case) for case in suite] == [0, 1]


# --- resuming, merging, refusing --------------------------------------------------------------------------


@sandboxed
def test_only_what_changed_is_graded_again(tmp_path):
    submissions, out = tmp_path / "submissions", tmp_path / "out"
    submissions.mkdir()
    for name in ("ann", "bob", "cid"):
        (submissions / f"{name}.ipynb").write_bytes(notebook([DOUBLE]))
    toy(submissions, out)
    csv_before = (out / "grades.csv").read_bytes()
    written = {path.name: path.stat().st_mtime_ns for path in (out / "records").iterdir()}
    (submissions / "bob.ipynb").write_bytes(notebook(["def double(x):\n    return x"]))
    (out / "records" / "cid.json").write_text('{"student": "cid", "key"')  # cut short by a full disk
    records = toy(submissions, out)
    again = {
        path.name for path in (out / "records").iterdir() if path.stat().st_mtime_ns != written[path.name]
    }
    assert again == {"bob.json", "cid.json"}
    assert [records[name]["score"] for name in ("ann", "bob", "cid")] == [2, 0, 2]
    (submissions / "bob.ipynb").write_bytes(notebook([DOUBLE]))
    toy(submissions, out)
    assert (out / "grades.csv").read_bytes() == csv_before
    assert (out / "state.json").stat().st_mode & 0o077 == 0


@sandboxed
def test_two_dozen_survive_a_kill_and_a_cluster_gives_the_same(tmp_path):
    pytest.importorskip("distributed")
    result = stress_grading.stress(24, tmp_path)
    assert result["kept_when_killed"] >= 12
    assert stress_grading.memory_growth(result) < 20
    assert result["seconds"] < 8 * result["quarter_seconds"]


@sandboxed
def test_a_rubric_sheet_is_merged_back(tmp_path):
    submissions, out, sheet = tmp_path / "submissions", tmp_path / "out", tmp_path / "sheet.csv"
    submissions.mkdir()
    text = {"cell_type": "markdown", "metadata": {}, "source": "## q3 In words\n"}
    answer = {"cell_type": "markdown", "metadata": {}, "source": ["=I see it\n", "and say it"]}
    for name in ("ann", "=bob"):
        content = json.loads(notebook([DOUBLE]))
        content["cells"] += [text, answer]
        (submissions / f"{name}.ipynb").write_text(json.dumps(content))
    records = toy(submissions, out)
    assert records["ann"]["waiting"] == ["q3"]
    rows = list(csv.DictReader(io.StringIO((out / "rubric.csv").read_text())))
    assert [row["criterion"] for row in rows] == ["sees it", "says it"] * 2
    assert rows[0]["answer"].startswith("'=I see it")
    for row in rows:
        row["points"] = (
            "1" if row["slug"] == slug("=bob") else ("0.5" if row["criterion"] == "sees it" else "")
        )
    with open(sheet, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    records = toy(submissions, out, rubric=sheet)
    assert records["=bob"]["score"] == 4
    assert records["ann"]["score"] == 2  # a question counts when all its criteria have points
    assert '"4","7","2","0","2",' in (out / "grades.csv").read_text()
    for points, row in (("3", 0), ("-1", 0), ("=1", 0), ("nan", 0)):
        bad = [dict(one) for one in rows]
        bad[row]["points"] = points
        with open(sheet, "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows(bad)
        with pytest.raises(ValueError, match="line 2: expected points from 0 to 1"):
            toy(submissions, out, rubric=sheet)


def test_without_bubblewrap_nothing_is_run(tmp_path, monkeypatch, capsys):
    (tmp_path / "submissions").mkdir()
    (tmp_path / "submissions" / "ann.ipynb").write_bytes(notebook([DOUBLE]))
    monkeypatch.setattr(shutil, "which", lambda *args, **options: None)
    arguments = ["grade", "toy", str(tmp_path / "submissions"), "--out", str(tmp_path / "out")]
    assert main([*arguments, "--checks", str(TOY), "--quiet"]) == 1
    assert "bubblewrap (bwrap) was not found" in capsys.readouterr().err
    assert not list((tmp_path / "out").glob("records/*"))
    assert main(["sandbox"]) == 1


def test_what_submissions_could_read_is_refused(tmp_path, monkeypatch):
    (tmp_path / "lib" / "submissions").mkdir(parents=True)
    monkeypatch.setattr(_mounts, "environment", lambda: [str(tmp_path)])
    with pytest.raises(SandboxUnavailable, match="which submissions can read"):
        toy(tmp_path / "lib" / "submissions", tmp_path / "out")


@pytest.mark.parametrize("missing", ["no_such_folder", "a_file"])
def test_a_folder_of_submissions_that_cannot_be_read_is_told(missing, tmp_path):
    (tmp_path / "a_file").write_text("x")
    with pytest.raises(ValueError, match="submissions: expected a folder"):
        find_submissions(tmp_path / missing, "toy")


def test_a_students_folder_that_cannot_be_read_is_a_problem_of_that_student(tmp_path, monkeypatch):
    (tmp_path / "ann").mkdir()
    (tmp_path / "bob.ipynb").write_text("{}")
    monkeypatch.setattr(
        os, "listdir", lambda path: (_ for _ in ()).throw(PermissionError(13, "Permission denied"))
    )
    ann, bob = find_submissions(tmp_path, "toy")
    assert ann.problem == "the folder cannot be read: Permission denied"
    assert bob.problem == ""


def test_two_batches_do_not_meet_in_one_folder(tmp_path):
    with _batch.locked(tmp_path), pytest.raises(ValueError, match="another batch"), _batch.locked(tmp_path):
        pass


def test_an_output_folder_of_another_exercise_is_refused(tmp_path):
    _batch.load_state(tmp_path, "toy")
    with pytest.raises(ValueError, match="expected a folder for 'other', got one that holds 'toy'"):
        _batch.load_state(tmp_path, "other")


def test_students_never_share_a_file_name():
    names = ["ann", "Ann", "an/n", "an_n", "..", "../x", "", "a" * 100, "a" * 101, "ä", "CON", "."]
    slugs = [slug(name) for name in names]
    assert len({one.lower() for one in slugs}) == len(names)
    assert all(one and "/" not in one and not one.startswith(".") for one in slugs)


def test_the_secret_seeds_tell_nothing_about_each_other():
    seeds = {_marking.derived_seed(b"secret", f"question q{n}", b"notebook") for n in range(100)}
    assert len(seeds) == 100
    assert all(0 <= seed < 2**64 for seed in seeds)
    assert max(seeds) > 2**62  # sixty-four bits, not fewer
    assert _marking.derived_seed(b"secret", "submission", b"notebook") not in seeds
    assert _marking.derived_seed(b"other", "question q1", b"notebook") not in seeds


def test_a_notebook_that_changed_by_a_letter_is_asked_something_else():
    seeds = [_marking.derived_seed(b"secret", "question q1", data) for data in (b"one", b"one ", b"one")]
    assert seeds[0] == seeds[2] != seeds[1]


@pytest.mark.parametrize("text", ["=1+1", " =1", "+1", "-1", "@a", "\t=1", "\ufeff=1", "＝1", "|x", "\n=1"])
def test_text_is_never_a_formula(text):
    assert _tables.cell(text).startswith("'")


def test_numbers_stay_numbers():
    assert _tables.cell(-1.5) == "-1.5"
    assert _tables.cell(2) == "2"


def test_a_file_is_written_wholly_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "grades.csv"
    _tables.write_atomically(path, "old")
    monkeypatch.setattr(os, "replace", lambda *a: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        _tables.write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["grades.csv"]


# --- the sandbox --------------------------------------------------------------------------------------------


def test_the_copy_of_the_package_holds_no_checks_solutions_or_forbidden_helpers(tmp_path):
    stems = _engine.stems()
    forbids = sorted({name for stem in stems for name in _engine.forbidden(_engine.load_checks(stem))})
    _copy.copy_package(tmp_path, forbids)
    grading = {path.relative_to(tmp_path / "uqhelpers/grading").as_posix() for path in
               (tmp_path / "uqhelpers/grading").rglob("*")}  # fmt: skip
    assert grading == {"__init__.py", "_wire.py"}
    assert not list(tmp_path.rglob("*.ipynb"))
    assert not list(tmp_path.rglob("*.pyc"))
    text = "".join(path.read_text() for path in tmp_path.rglob("*.py"))
    assert text.count("write this one yourself") >= len(forbids)
    assert "LEARNERS_SEED" not in text
    original = (ROOT / "uqhelpers" / "metrics" / "decomposition.py").read_text()
    assert original.count("return") > (tmp_path / "uqhelpers/metrics/decomposition.py").read_text().count(
        "return"
    )


def test_a_misspelt_forbidden_helper_is_refused(tmp_path):
    with pytest.raises(ValueError, match="forbids: expected a function of uqhelpers"):
        _copy.copy_package(tmp_path, ["metrics.mutual_infomation"])


def test_an_installed_copy_of_the_package_is_covered(tmp_path, monkeypatch):
    place = tmp_path / "lib" / "site-packages"
    (place / "uqhelpers").mkdir(parents=True)
    monkeypatch.setattr(_mounts, "environment", lambda: [str(tmp_path)])
    monkeypatch.syspath_prepend(str(place))
    arguments = _mounts.mounts(Path("/copy"), Path("/runner.py"))
    place = str(place / "uqhelpers")
    covered = [a for a, target in itertools.pairwise(arguments) if target == place]
    assert covered == ["/copy/uqhelpers"]
    assert arguments.index(place) > arguments.index(str(tmp_path / "lib"))


@sandboxed
def test_it_works_for_an_ordinary_user_too(monkeypatch):
    monkeypatch.setattr(_box, "unused_uid", lambda: None)
    cell = "import os\ndef who():\n    return [os.getpid() < 100, os.path.exists('/etc/passwd')]"
    with SandboxedLearner([cell], limits=LOW) as learner:
        assert learner.call("who") == [True, False]
        assert learner.call("who") == [True, False]


@sandboxed
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has other users to become")
def test_under_root_the_user_is_real_and_nobody_elses():
    cell = "import os\nwho = os.getuid()\ncan = os.getgroups()"
    with SandboxedLearner([cell], limits=LOW) as learner:
        who = learner.value("who")
        assert who >= _box.FIRST_UID
        assert learner.value("can") == []
        facts = {
            Path(f"/proc/{p}").stat().st_uid
            for p in os.listdir("/proc")
            if p.isdigit() and Path(f"/proc/{p}").exists()
        }
        assert who in facts


@sandboxed
def test_its_random_numbers_repeat_and_do_not_depend_on_the_checks():
    cell = "import numpy as np, random\ndef draw():\n    return [float(np.random.rand()), random.random()]"
    draws = []
    for _ in range(2):
        with SandboxedLearner([cell], seed=5, limits=LOW) as learner:
            draws.append([learner.call("draw"), learner.call("draw")])
    assert draws[0] == draws[1]
    assert draws[0][0] != draws[0][1]


@sandboxed
def test_a_submission_that_uses_only_numpy_takes_three_seconds_at_most(tmp_path):
    (tmp_path / "submissions").mkdir()
    (tmp_path / "submissions" / "ann.ipynb").write_bytes(solution("uncertainty"))
    record = grade("uncertainty", tmp_path / "submissions", tmp_path / "out", jobs=1, progress=False)[0]
    assert record["automatic"] == record["out_of"] == 18, [r["message"] for r in record["results"]]
    assert record["log"] == []
    assert record["seconds"] <= 3 * busy()


@sandboxed
def test_a_submission_that_trains_the_digits_network_takes_ten_seconds_at_most(tmp_path):
    (tmp_path / "submissions").mkdir()
    (tmp_path / "submissions" / "ann.ipynb").write_bytes(solution("mc_dropout"))
    record = grade("mc_dropout", tmp_path / "submissions", tmp_path / "out", jobs=1, progress=False)[0]
    assert record["automatic"] == record["out_of"] == 18, [r["message"] for r in record["results"]]
    assert record["log"] == []
    assert record["seconds"] <= 10 * busy()


def busy():
    """How many times longer things may take here, because others want the cores too."""
    return max(1.0, os.getloadavg()[0] / os.cpu_count())


def solution(stem):
    """A master's solution as a student would hand it in."""
    return (Path(_engine.__file__).parent / "solutions" / f"{stem}.ipynb").read_bytes()


@sandboxed
@pytest.mark.parametrize("stem", _engine.stems())
def test_a_learners_notebook_that_was_handed_in_empty_earns_nothing(stem, tmp_path):
    path = ROOT / "book" / "exercises" / f"{stem}.ipynb"
    (tmp_path / "submissions").mkdir()
    shutil.copy(path, tmp_path / "submissions" / "ann.ipynb")
    record = grade(stem, tmp_path / "submissions", tmp_path / "out", jobs=1, progress=False)[0]
    assert record["score"] == 0
    assert record["log"] == []
    assert {result["status"] for result in record["results"]} == {"not yet"}


@sandboxed
def test_nothing_of_a_sandbox_is_left_behind():
    with SandboxedLearner(
        ["import os\nif os.fork() == 0:\n    __import__('time').sleep(60)"], limits=LOW
    ) as learner:
        folder, uid = learner.folder, learner.box.uid
    assert not Path(folder).exists()
    if uid is None:
        return
    for _ in range(20):  # the kernel buries the dead in its own time
        time.sleep(0.3)
        done = subprocess.run(["ps", "-eo", "uid"], capture_output=True, text=True)
        if str(uid) not in done.stdout.split():
            break
    assert str(uid) not in done.stdout.split()
