# Two commands are all that a fresh checkout needs: `make demo` and `make test`. Everything goes into .venv.
# Kept to what GNU make 3.81 understands, because that is the make of macOS.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RUNS := $(VENV)/.runs
# The first of these that is 3.11 or newer makes .venv; `make PYTHON=/path/to/python demo` names another one.
PYTHON := python3 python3.13 python3.12 python3.11
LINE_BUDGET := 400
SUBJECT_BUDGET := 72
# Commits behind this one are checked; those up to it are older than the rule.
SUBJECTS_SINCE := 2a1a68de
SEEDS := 2000
VERSIONS := 5000
JOBS := 2

# Many processes are started here, and without bytecode on disk each of them compiles PyTorch again, for ten seconds.
unexport PYTHONDONTWRITEBYTECODE

# Every platform and Python in one file, with hashes, and without the address of any package index.
PIN := $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-emit-find-links --no-emit-package driftline --no-annotate --custom-compile-command "make requirements" \
	--quiet $(UPGRADE)
EDITABLE := $(BIN)/uv pip install --python $(BIN)/python --no-deps --no-build-isolation --quiet --editable .

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast check commits fix hooks docs settings sim nodes chaos soak bench compose-test requirements clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' Makefile

demo: $(RUNS) ## train the digits task through a Kafka on this machine
	$(BIN)/driftline train digits

test: check ## run every check, then every test (the last line counts them)
	$(BIN)/python -m pytest -n 3 --dist loadfile

test-fast: $(READY) ## the unit tests that need no Kafka and little time
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m "not nodes and not kafka and not slow" tests/unit tests/kills tests/recorded

fix: $(READY) ## format, and fix what ruff can fix by itself
	$(BIN)/ruff check --fix --exit-zero --quiet .
	$(BIN)/ruff format .
	$(BIN)/ruff check .

check: $(READY) commits ## lint, format, types, layers, sizes of modules and of commit subjects; no tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	@find src producers consumers schemas training tests bench -name '*.py' -exec \
		awk 'FNR == $(LINE_BUDGET) + 1 { print FILENAME ": over $(LINE_BUDGET) lines; give one part a module of its own"; bad = 1 } \
		END { exit bad }' {} +

docs: $(READY) ## build the pages of docs/ as a site, into site/, with every link checked
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "read it: $(BIN)/python -m http.server --bind 127.0.0.1 --directory site"

settings: $(READY) ## write the tables and the reference file of the docs again, after a setting changed
	$(BIN)/python -m driftline.config.reference docs

hooks: $(READY) ## let git call `ruff` and check the subject at each commit, by pre-commit
	$(BIN)/pre-commit install

commits: ## the subject of every commit since the rule has at most 72 characters (a part of `make check`)
	@if git merge-base --is-ancestor $(SUBJECTS_SINCE) HEAD 2>/dev/null; then \
		git log --no-merges --format='%h %s' $(SUBJECTS_SINCE)..HEAD | awk '\
			{ short = $$1; sub(/^[^ ]+ /, "") } \
			length > $(SUBJECT_BUDGET) { print short ": subject of " length " characters, over $(SUBJECT_BUDGET): " $$0; bad = 1 } \
			END { exit bad }'; \
	else \
		echo "commit subjects: not checked, because this is no clone whose history reaches back to $(SUBJECTS_SINCE)"; \
	fi

sim: $(READY) ## simulate runs with faults: SEEDS=N or SEEDS=A:B, JOBS=2 processes; the same call goes on after Ctrl-C
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) --progress .driftline/simulation --jobs $(JOBS)

nodes: $(READY) ## the tests that need a Kafka of three nodes: some minutes
	$(BIN)/python -m pytest -m nodes tests/integration

chaos: $(READY) ## kill processes of runs at every step and ten times each; the same call goes on after Ctrl-C
	$(BIN)/python -m tests.simulation.deaths
	$(BIN)/python -m tests.kills

soak: $(READY) ## a long run made short: memory and disk must stay flat; VERSIONS=5000
	$(BIN)/python -m bench.soak --versions $(VERSIONS)

bench: $(READY) ## measure, and write bench/latest.json
	$(BIN)/python -m bench

compose-test: $(READY) ## run docker-compose.yml for real, on this machine's engine (STAND_IN=1: on one of its own)
	$(BIN)/python -m tests.compose $(if $(STAND_IN),--stand-in)

requirements: $(READY) ## pin the dependencies again, after pyproject.toml changed (add UPGRADE=--upgrade for newer ones)
	$(PIN) pyproject.toml --all-extras --group dev -o requirements-dev.txt
	$(PIN) pyproject.toml --extra all --group build --constraint requirements-dev.txt -o requirements.txt
	echo "uv>=0.9" | $(PIN) - -o requirements-uv.txt

clean: ## remove what checks and builds leave behind; keeps .venv and the runs in .driftline
	rm -rf dist build site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

# What a run needs. `make demo` asks for no more than this.
$(RUNS): requirements.txt requirements-uv.txt pyproject.toml $(BIN)/uv
	@echo "Installing what driftline needs into $(VENV). The first time this downloads much: PyTorch alone is"
	@echo "about 3 GB on Linux, where it brings CUDA along, and 0.1 GB on macOS. Later calls skip it."
	$(BIN)/uv pip install --python $(BIN)/python --require-hashes -r requirements.txt
	$(EDITABLE)
	@touch $@

# That, and what tests, checks, docs and the examples need.
$(READY): $(RUNS) requirements-dev.txt
	@rm -f $(RUNS) # while driftline itself is not installed
	$(BIN)/uv pip sync --python $(BIN)/python --require-hashes requirements-dev.txt
	$(EDITABLE)
	@touch $(RUNS) $@

$(BIN)/uv: requirements-uv.txt $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-uv.txt
	@touch $@

$(BIN)/python:
	@for python in $(PYTHON); do \
		if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			echo "$$python -m venv --clear $(VENV)"; \
			$$python -m venv --clear $(VENV); exit $$?; \
		fi; \
	done; \
	echo "driftline needs Python 3.11 or newer, and none of these is: $(PYTHON)." >&2; \
	echo "Install one, or name one: make PYTHON=/path/to/python demo" >&2; \
	exit 1
