# Known Unknowns. `make help` lists what can be made; everything is built inside this folder.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
REPO ?=

.DEFAULT_GOAL := help
.PHONY: help env wheel lint tidy execute book serve test bench reproduce publish-as clean

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

book: execute  ## the site, in _build/html/index.html
	@$(PY) -m tools.site

serve: book  ## the site on http://localhost:8000
	$(PY) -m http.server --bind 127.0.0.1 --directory _build/html 8000

# --- the proof ------------------------------------------------------------------------------------

lint: env  ## style of code and notebooks
	@$(PY) -m ruff check --quiet .
	@$(PY) -m ruff format --quiet --check . || { echo "make tidy would format these files"; exit 1; }

test: lint book  ## style, every notebook, the site, and all tests
	$(PY) -m pytest -n 2

tidy: env  ## format code and notebooks, strip outputs
	@$(PY) -m tools.tidy
	@$(PY) -m ruff check --quiet --fix .
	@$(PY) -m ruff format --quiet .

# --- measured -------------------------------------------------------------------------------------

bench: env  ## our ways beside the naive ones, timed
	$(PY) -m benchmarks.bench

reproduce: env  ## published tables beside our figures (MNIST edition)
	$(PY) -m benchmarks.reproduce

# --- the owner ------------------------------------------------------------------------------------

publish-as: env  ## give the book its published name: REPO=owner/name
	@$(PY) -m tools.publish_as "$(REPO)"

clean:  ## remove what was built, except the environment
	rm -rf _build
