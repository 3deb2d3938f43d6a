# What people run. `make demo` needs Python 3.11 or later, make, and the package registry; nothing else, and no root.

# uv of the machine, or one in .tools; it takes the interpreter that is there and never downloads another.
UV := $(shell command -v uv || echo .tools/bin/uv)
export UV_PYTHON_DOWNLOADS := never
# Once, here: a process of a close imports 4,000 modules, and where Python may not keep what it compiles (containers often
# set PYTHONDONTWRITEBYTECODE), each process would compile them anew, for longer than many a close takes.
export UV_COMPILE_BYTECODE := 1
# With telemetry off nothing phones home, and nothing waits for a closed network.
export DO_NOT_TRACK := 1
export DBT_SEND_ANONYMOUS_USAGE_STATS := false
export DAGSTER_DISABLE_TELEMETRY := true
export GX_ANALYTICS_ENABLED := false

PYTHON := .venv/bin/python
DBT := .venv/bin/dbt
# File by file, so that what a module prepares for its tests is prepared once; in the order of tests/conftest.py.
SHARED_OUT := -n 2 --dist loadfile --no-loadscope-reorder
PACKAGES := tally pricing assets resources tally_dagster

.PHONY: help demo up test drill validator check bench screenshots setup setup-runtime clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: setup-runtime ## close the example month and show its bills
	@.venv/bin/tally demo

up: setup-runtime ## PostgreSQL, Dagster webserver and daemon, until Ctrl-C
	@.venv/bin/tally up

test: setup ## every test, on the embedded PostgreSQL or on TALLY_TEST_SERVER_URL
	$(PYTHON) -m pytest $(SHARED_OUT) $(ARGS)

drill: setup ## the tests that take minutes each, which make test leaves out
	$(PYTHON) -m pytest $(SHARED_OUT) -m drill $(ARGS)

# It wants another Python, and libraries that Tally has in newer releases; the newest pyarrow does not fit those. Its numpy
# comes ready for no Python after 3.12: with one of those it is compiled, for many minutes, if there is a compiler.
VALIDATOR_PYTHON := 3.12
validator: | $(UV) ## focus-validator for the tests of FOCUS exports; VALIDATOR_PYTHON=... is the path of a Python 3.12
	$(UV) venv --quiet --clear --no-project --python '$(VALIDATOR_PYTHON)' .tools/focus-validator \
		|| { echo "no Python for it runs; name one: make validator VALIDATOR_PYTHON=/path/to/python3.12" >&2; exit 1; }
	$(UV) pip install --quiet --python .tools/focus-validator 'focus-validator==2.2.1' 'pyarrow<21'

check: setup ## lint, types, import contracts, SQL
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy
	.venv/bin/lint-imports
	$(PYTHON) -m sqlfluff lint --disable-progress-bar tally/store dbt_project/models

bench: setup ## benchmarks; make bench ONLY=name for one
	$(PYTHON) -m tests.bench $(ONLY)

screenshots: setup ## the pictures of docs/how-to/close-a-month.md, from the real web interface in chromium; ONLY=name for one
	$(PYTHON) -m tests.screenshots $(ONLY)

setup: .venv/.development ## the virtual environment from the lock, with what development needs

setup-runtime: .venv/.runtime

# Each marker is as new as the lock that it was made from. The one for development also stands for the other.
SETTING_UP := setting up .venv: its packages are fetched and compiled, which takes a minute or two at first

.venv/.development: uv.lock pyproject.toml | $(UV)
	@echo '$(SETTING_UP)' >&2
	@$(UV) sync --frozen --quiet
	@touch .venv/.runtime $@

# --inexact: packages that development needs, and that are there already, stay.
.venv/.runtime: uv.lock pyproject.toml | $(UV)
	@echo '$(SETTING_UP)' >&2
	@$(UV) sync --frozen --quiet --no-dev --inexact
	@touch $@

.tools/bin/uv:
	@python3 .ci/install_uv.py

clean: ## remove what the other targets made here; data in TALLY_HOME stay
	rm -rf .venv .tools .mypy_cache .ruff_cache .import_linter_cache .hypothesis dbt_project/target dbt_project/logs bench.json
