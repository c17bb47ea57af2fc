# Everything runs from .venv, which `make install` keeps up to date.
#
#   PYTHON=python3.13           another interpreter for a new .venv
#   VENV=.venvs/other           another environment
#   DJANGO='Django~=6.0.0'      another Django in it
#   ARGS='-k fencing'           arguments for test, demo and bench
#   JOBS=0                      tests at the same time; 0 is one, in this process

VENV ?= .venv
PYTHON ?=
EXTRAS ?= dev
DJANGO ?=
ARGS ?=
# How many tests at the same time; those of a file run one after the other, as some
# look at all databases of the server.
JOBS ?= 2

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# What the environment was made from, kept in the stamp: a moved folder or another
# Django makes the environment stale, as a newer pyproject.toml does.
MADE_FROM := $(CURDIR) [$(EXTRAS)] $(DJANGO)

ifneq ($(shell cat $(STAMP) 2>/dev/null),$(MADE_FROM))
.PHONY: $(STAMP)
endif

.DEFAULT_GOAL := help
.PHONY: help install demo test lint format types layers migrations bench clean

help: ## Show this list
	@echo "make TARGET"
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  \1|\2/p' Makefile | \
		while IFS='|' read -r target text; do printf '%-14s %s\n' "$$target" "$$text"; done

install: $(STAMP) ## Create .venv with the app, the demo, the tests and the linters
	@:

$(STAMP): pyproject.toml
	@bash .ci/install '$(VENV)' '$(PYTHON)' '$(EXTRAS)' $(if $(DJANGO),'$(DJANGO)')
	@printf '%s\n' '$(MADE_FROM)' > $@

# `exec`: the program takes make's place in the shell, so that Ctrl-C and SIGTERM reach
# it, once.
demo: install ## Run the demo: a database, a web server and workers, until Ctrl-C
	@exec $(BIN)/python manage.py demo $(ARGS)

test: install ## Run the tests, on DATABASE_URL or an embedded PostgreSQL
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(ARGS)

lint: install ## Check style, types, import layers and migrations
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .
	@$(MAKE) --no-print-directory types layers migrations

format: install ## Put the code into shape
	@$(BIN)/python -m ruff check --fix .
	@$(BIN)/python -m ruff format .

# No server is asked for types: the URL only keeps the settings from starting one.
types: install ## Check types
	@DATABASE_URL=postgres:///types $(BIN)/python -m mypy

layers: install ## Check that imports go downwards only
	@$(BIN)/lint-imports --no-logo

migrations: install ## Check that no model change lacks its migration
	@$(BIN)/python manage.py makemigrations --check --dry-run

bench: install ## Run all benchmarks
	@exec $(BIN)/python manage.py pgqueue_bench all $(ARGS)

clean: ## Remove the environments, caches and build results
	rm -rf .venv .venvs .pytest_cache .mypy_cache .ruff_cache .import_linter_cache \
		.hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
