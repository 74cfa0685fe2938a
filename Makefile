# Known Unknowns. `make help` lists what can be made; everything is built inside this folder.

PYTHON ?= python3
VENV := .venv
PEERS := .venv-peers
PY := $(VENV)/bin/python
REPO ?=

.DEFAULT_GOAL := help
.PHONY: help env wheel lint tidy execute book pdf slides serve test look elsewhere seeds mnist bench reproduce peers stress publish-as clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

# --- the environment ------------------------------------------------------------------------------

env:  ## the pinned environment in .venv
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@cmp -s requirements.txt $(VENV)/requirements.txt || { \
	  $(PY) -m pip install --quiet --disable-pip-version-check -r requirements.txt \
	  && cp requirements.txt $(VENV)/requirements.txt; }

wheel: env  ## the helpers as a wheel, installed into .venv: the chapters run against it
	@$(PY) -m tools.wheel

# --- the book -------------------------------------------------------------------------------------

execute: wheel  ## run the notebooks that are not proven for the present code
	@$(PY) -m tools.execute

book: env  ## the site, in _build/html/index.html; nothing, if nothing has changed
	@$(PY) -m tools.fresh || { $(MAKE) --no-print-directory execute && $(PY) -m tools.site && $(PY) -m tools.fresh --done; }

pdf: book  ## the whole book as one PDF, in _build/html/known-unknowns.pdf
	@$(PY) -m tools.pdf

slides: book  ## a deck for each chapter, in _build/slides: figures, formulas, questions
	@$(PY) -m tools.slides

serve: book  ## the site on http://localhost:8000
	$(PY) -m http.server --bind 127.0.0.1 --directory _build/html 8000

# --- the proof ------------------------------------------------------------------------------------

lint: env  ## style of code and notebooks
	@$(PY) -m ruff check --quiet .
	@$(PY) -m ruff format --quiet --check . || { echo "make tidy would format these files"; exit 1; }

test: lint book  ## style, every notebook, the site, its PDF, and all tests
	@$(PY) -m tools.pdf --if-possible & printing=$$!; \
	  $(PY) -m pytest -n 2; tested=$$?; wait $$printing && exit $$tested

look: book  ## every page in a browser, wide and narrow: what a reader would see wrong
	@$(PY) -m tools.look

elsewhere: wheel  ## every notebook as other processors round: do its claims still hold?
	@$(PY) -m tools.execute --elsewhere

seeds: wheel  ## the chapters again from three other sets of training seeds
	@$(PY) -m tools.execute --seeds

mnist: wheel  ## the chapters of images again on MNIST and its relatives
	@$(PY) -m tools.execute --mnist

tidy: env  ## format code and notebooks, strip outputs
	@$(PY) -m tools.tidy
	@$(PY) -m tools.readme
	@$(PY) -m ruff check --quiet --fix .
	@$(PY) -m ruff format --quiet .

# --- measured -------------------------------------------------------------------------------------

bench: env  ## our ways beside the naive ones and the least there is to do, timed
	$(PY) -m benchmarks.bench

reproduce: env  ## published tables beside our figures (MNIST edition)
	$(PY) -m benchmarks.reproduce

peers:  ## ask the other libraries again, in an environment of their own
	@test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	@cmp -s requirements-peers.txt $(PEERS)/requirements.txt || { \
	  $(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0 \
	  && $(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-peers.txt \
	  && cp requirements-peers.txt $(PEERS)/requirements.txt; }
	@$(PEERS)/bin/python -m tests.peers.record
	@$(PEERS)/bin/python -m tests.peers.chains
	@$(PEERS)/bin/python -m tests.peers.table --write

stress: env  ## the grader at size: 200 submissions, interrupted, and over a Dask cluster
	$(PY) -m benchmarks.stress_grading

# --- the owner ------------------------------------------------------------------------------------

publish-as: env  ## give the book its published name: REPO=owner/name
	@$(PY) -m tools.publish_as "$(REPO)"

clean:  ## remove what was built, except the environment
	rm -rf _build
