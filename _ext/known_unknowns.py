"""What the book asks of Sphinx beyond its extensions.

No request to another host (MathJax and plotly.js come from the installed
wheels), no stray scripts, no notebook executed by the build, pages that are
read again when their notebook ran again, glossary terms that plain Markdown
links can reach, one line for each module of the API reference, what raises
where a docstring does not repeat it, and cards for the chapters that exist.
"""

import base64
import hashlib
import importlib
import importlib.util
import inspect
import io
import json
import os
import re
import shutil
import sys
from itertools import pairwise
from pathlib import Path

import nbformat
import yaml
from docutils import nodes
from jupyter_cache import get_cache
from PIL import Image
from sphinx.errors import ExtensionError

# The parts of MathJax that a page asks for: 1.7 MB of the wheel's 24 MB.
MATHJAX = ["tex-mml-chtml.js", "output/chtml/fonts/woff-v2"]
AS_EVERYWHERE = "As everywhere (:doc:`conventions </book/reference/conventions>`)."
MODULE_LINE = re.compile(r"^\{module\} (\w+)$", re.MULTILINE)
MINUTES = re.compile(r"\{minutes ([\w/ ]+)\}")
NUMERIC = re.compile(r"[\d.,\s±+−–—×%()/*<>≤≥~≈^e-]*")  # what a column of numbers is made of
MODULE = """\
# {name}

```{{eval-rst}}
.. automodule:: uqhelpers.{name}
   :members:
   :member-order: bysource
```
"""


def folder_of(package):
    return Path(importlib.util.find_spec(package).submodule_search_locations[0])


def copy_vendor(app):
    """Copy MathJax and plotly.js out of the installed wheels."""
    if app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    mathjax = folder_of("sphinx-mathjax-offline") / "static" / "mathjax"
    wanted = {mathjax / part: static / "mathjax" / part for part in MATHJAX}
    wanted[folder_of("plotly") / "package_data" / "plotly.min.js"] = static / "plotly" / "plotly.min.js"
    for source, target in wanted.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copyfile(source, target)


def tidy_scripts(app, pagename, templatename, context, doctree):
    """Drop scripts that are there twice, and those of Thebe, which is off and lives on another host."""
    seen, kept = set(), []
    for script in context.get("script_files", []):
        body = str(getattr(script, "attributes", {}).get("body") or "")
        name = str(getattr(script, "filename", "") or "")
        stray = "THEBE_JS_URL" in body or name.endswith("sphinx-thebe.js")
        if stray or (body or name) in seen:
            continue
        seen.add(body or name)
        kept.append(script)
    context["script_files"] = kept


def dress_tables(app, doctree):
    """Columns of numbers stand to the right, and a spread is never parted from its mean."""
    for group in doctree.findall(nodes.tgroup):
        rows = [list(row.findall(nodes.entry)) for row in group.findall(nodes.row)]
        body = [list(row.findall(nodes.entry)) for part in group.findall(nodes.tbody) for row in part]
        for column, cells in enumerate(zip(*body, strict=False)):
            texts = [cell.astext().strip() for cell in cells]
            if all(map(NUMERIC.fullmatch, texts)) and any(re.search(r"\d", text) for text in texts):
                for row in rows:
                    row[column]["classes"].append("uq-number")
        for text in list(group.findall(nodes.Text)):
            if " ± " in text:
                text.parent.replace(text, nodes.Text(text.replace(" ± ", "\u00a0±\u00a0")))


def give_tables_room(app, pagename, templatename, context, doctree):
    """A frame around each table of Markdown: the table keeps its width, and what is around it scrolls."""
    frame = '<div class="pst-scrollable-table-container">'
    body = context.get("body", "")
    context["body"] = re.sub(
        f"{frame}(<table.*?</table>)", rf'{frame}<div class="uq-wide">\1</div>', body, flags=re.DOTALL
    )


def reread_what_ran(app, env, added, changed, removed):
    """The pages whose notebook has run again since they were read.

    Sphinx compares the dates of sources; a helper that changed leaves the
    notebook's own file as it was.
    """
    path = Path(app.srcdir) / "_build" / "executed" / "keys.json"
    keys = json.loads(path.read_text()) if path.exists() else {}
    before = getattr(env, "executed_keys", {})
    env.executed_keys = keys
    again = [page for page, key in keys.items() if page in env.found_docs and before.get(page) != key]
    return [*again, app.config.root_doc] if again else []  # the first page shows their figures


def refuse_execution(app, env, docnames):
    """Stop before the build itself would run a notebook; in the cache are only runs that nbval proved."""
    cache = get_cache(Path(app.outdir).parent / ".jupyter_cache")
    for page in docnames:
        path = Path(app.srcdir) / f"{page}.ipynb"
        if path.exists():
            try:
                cache.match_cache_notebook(nbformat.read(path, as_version=4))
            except KeyError:
                raise ExtensionError(f"{page}: not executed yet; `make book` does that first") from None


def expand_lines(app, docname, source):
    """Lines that stand for more.

    In ``book/reference/api`` a page holds ``{module} metrics`` and nothing else:
    it documents ``uqhelpers.metrics``. The page above them lists them where it
    says ``{modules}``; ``{protocol}`` becomes the table of what predicts and what
    ranks; on the first page ``{chapters}`` becomes a card for each chapter that
    exists; on the page of the paths ``{minutes foundations/calibration}`` becomes
    what the chapters named there take together.
    """
    if docname.startswith("book/reference/api"):
        source[0] = MODULE_LINE.sub(lambda line: MODULE.format(name=line[1]), source[0])
        source[0] = source[0].replace("{modules}", list_modules(app))
    elif docname == "book/reference/conventions":
        source[0] = source[0].replace("{protocol}", list_protocol(app))
    elif docname == app.config.root_doc:
        source[0] = source[0].replace("{chapters}", cards(app, docname))
    elif docname == "book/paths":
        source[0] = MINUTES.sub(lambda asked: minutes_of(app, asked[1]), source[0])


def list_modules(app):
    """A line for each documented module: a link, and the first sentence of its docstring."""
    names = [path.stem for path in sorted(Path(app.srcdir, "book/reference/api").glob("*.md"))]
    about = {name: importlib.import_module(f"uqhelpers.{name}").__doc__.split("\n")[0] for name in names}
    return "\n".join(f"- [{name}](api/{name}.md): {text}" for name, text in about.items())


def list_protocol(app):
    """Who has what, found in the package as the test of it finds it."""
    sys.path.insert(0, str(app.srcdir))
    try:
        from tools import protocol
    finally:
        sys.path.remove(str(app.srcdir))
    app.env.note_dependency(protocol.__file__)
    return protocol.table()


def chapters(app):
    """The chapters of the table of contents that exist: {page: path of the notebook}."""
    paths = {page: Path(app.srcdir) / f"{page}.ipynb" for page in app.config.external_site_map}
    return {page: path for page, path in paths.items() if path.exists() and "exercises" not in path.parts}


def cards(app, docname):
    """A card for each chapter: a picture from it, the question it answers, and what one can do after it."""
    path = Path(app.srcdir, "book/cards.yml")
    known = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
    app.env.note_dependency(str(path))
    lines = ["::::{grid} 1 2 2 3", ":gutter: 3", ":class-container: uq-cards", ""]
    for page, path in chapters(app).items():
        app.env.note_dependency(str(path))
        about = known.get(path.stem, {})
        title = nbformat.read(path, as_version=4).cells[0].source.split("\n\n")[0]
        link = os.path.relpath(page, os.path.dirname(docname))
        lines += [f":::{{grid-item-card}} {title.lstrip('# ')}", f":link: {link}", ":link-type: doc"]
        lines += picture_lines(app, path, about.get("picture"))
        lines += [about.get("question", ""), ":::", ""]
    return "\n".join([*lines, "::::"])


def picture_lines(app, path, wanted=None):
    """What shows a figure of the chapter on its card: that of the cell ``wanted``, or the first."""
    cache = get_cache(Path(app.outdir).parent / ".jupyter_cache")
    try:
        run = cache.get_cache_bundle(cache.match_cache_notebook(nbformat.read(path, as_version=4)).pk).nb
    except KeyError:
        return []
    sources = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    shown = [(c, o) for c, ran in zip(sources, run.cells, strict=True) for o in ran.outputs]
    figures = [(c, o.data["image/png"]) for c, o in shown if "image/png" in o.get("data", {})]
    figures = [(c, png) for c, png in figures if wanted in (None, c.id)]
    if not figures:
        return []
    cell, png = figures[0]
    image = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    frame = Image.new("RGB", (640, 400), "white")  # all cards alike, whatever the figure's shape
    image.thumbnail((620, 380), Image.Resampling.LANCZOS)
    frame.paste(image, ((640 - image.width) // 2, (400 - image.height) // 2))
    target = Path(app.outdir).parent / "cards" / f"{path.stem}.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    frame.save(target, optimize=True)
    alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "A figure of the chapter.")
    return [f":img-top: /{target.relative_to(app.srcdir).as_posix()}", f":img-alt: {alt}"]


def minutes_of(app, names):
    """The minutes that the chapters ``names`` (``part/stem``) state, added up."""
    total = 0
    for name in names.split():
        path = Path(app.srcdir, "book", f"{name}.ipynb")
        app.env.note_dependency(str(path))
        total += int(re.search(r"about (\d+) minutes", nbformat.read(path, as_version=4).cells[0].source)[1])
    hours, rest = divmod(5 * round(total / 5), 60)
    return f"About {hours} h {rest:02d} min of reading." if hours else f"About {rest} minutes of reading."


def foot(app, pagename, templatename, context, doctree):
    """A line at the foot of each page: the version, the run that made its numbers, how to cite."""
    if "body" not in context or templatename != "page.html":
        return
    notes = [f"Known Unknowns {version(app)}"]
    keys = getattr(app.env, "executed_keys", {})
    kept = Path(app.srcdir, "_build/executed", pagename, f"{keys.get(pagename)}.json")
    if kept.exists():
        ran = json.loads(kept.read_text(encoding="utf-8")).get("date", "")
        notes.append(f'run on {ran}, code <code title="{kept.stem}">{kept.stem[:12]}</code>')
    depth = "../" * pagename.count("/")
    notes.append(f'<a href="{depth}book/getting_started.html#how-to-cite">how to cite</a>')
    context["body"] += f'<p class="uq-foot">{" · ".join(notes)}</p>'


def version(app):
    path = Path(app.srcdir, "pyproject.toml")
    found = re.search(
        r'^version = "([^"]+)"', path.read_text(encoding="utf-8") if path.exists() else "", re.M
    )
    return found[1] if found else "(no version)"


def slug(term):
    """The fragment of a link to a term: "Brier score" is #brier-score."""
    return re.sub(r"[^\w]+", "-", term.lower()).strip("-")


def name_terms(app, doctree):
    """Let ``[calibrated](../reference/glossary.md#calibration)`` lead to the glossary's term.

    Such a link is plain Markdown: it reads well in Colab, where ``{term}`` is debris.
    """
    docname = app.env.docname
    slugs = app.env.metadata[docname].setdefault("myst_slugs", {})
    for term in doctree.findall(nodes.term):
        if term["ids"]:
            slugs[slug(term.astext())] = (term.line, term["ids"][0], term.astext())


def say_what_raises(app, what, name, obj, options, lines):
    """Lead from a docstring with arguments, but nothing special that raises, to what raises everywhere.

    The conventions say it once; this says on every page where.
    """
    headings = {above: place for place, (above, below) in enumerate(pairwise(lines)) if set(below) == {"-"}}
    takes = "Parameters" in headings or any("Parameters are those of" in line for line in lines)
    if takes and "Raises" not in headings:
        place = next((headings[last] for last in ("References", "Examples") if last in headings), len(lines))
        lines[place:place] = ["", "Raises", "------", "ValueError", f"    {AS_EVERYWHERE}", ""]


def keep_whole(app, what, name, obj, options, lines):
    """Napoleon takes what a property says before a colon for its type: give back what stood there."""
    said = inspect.cleandoc(obj.__doc__ or "").splitlines()
    if what == "property" and not any(set(line) == {"-"} for line in said):
        lines[:] = [*said, ""]


def setup(app):
    app.connect("builder-inited", copy_vendor)
    app.connect("source-read", expand_lines)
    app.connect("doctree-read", name_terms)
    app.connect("doctree-read", dress_tables)
    app.connect("env-get-outdated", reread_what_ran)
    app.connect("env-before-read-docs", refuse_execution)
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", say_what_raises, priority=400)  # before Napoleon reads it
    app.connect("autodoc-process-docstring", keep_whole, priority=600)  # after it
    app.connect("html-page-context", tidy_scripts, priority=900)
    app.connect("html-page-context", give_tables_room)
    app.connect("html-page-context", foot)
    # A change of this file makes every page be read again.
    version = int(hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8], 16)
    return {"env_version": version, "parallel_read_safe": True, "parallel_write_safe": True}
