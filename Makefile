# Everything runs in .venv, which .ci/setup.sh makes and keeps in step with tests/requirements.lock.
.DEFAULT_GOAL := help
.PHONY: help setup demo serve test test-full check lint bench bench-ledger bench-sdk bench-lint small-world faults replay chaos accuracy lock clean

BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest -n 2

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:
	@.ci/setup.sh

demo: setup ## See one order placed once, though the assistant asks again and again, and is killed
	@$(BIN)/oncegate demo
	@echo
	@$(BIN)/oncegate demo --crash

serve: setup ## Run the gateway for development, on loopback
	@$(BIN)/oncegate serve --dev

test: setup lint ## Check everything and run the tests
	$(PYTEST) -m "not slow"

test-full: setup lint ## The same with the long searches, and with examples that were not tried before
	$(PYTEST) --hypothesis-profile=new-examples

check: setup lint ## Style, types, layers and documentation
	@if [ -d tests/docs ]; then $(BIN)/python -m pytest tests/docs; fi

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup ## Measure the gateway on this machine (ARGS=--quick: a look in 15 seconds)
	@$(BIN)/python -m benchmarks.bench $(ARGS)

bench-ledger: setup ## Measure what a recorded call takes in Redis, and a ledger that grows (ARGS=--quick, --million)
	@$(BIN)/python -m benchmarks.ledger_size $(ARGS)

bench-sdk: setup ## Measure `once` on a private PostgreSQL, and race it with killed workers (ARGS=--quick)
	@$(BIN)/python -m benchmarks.sdk $(ARGS)

bench-lint: setup ## Measure lint on a file of 10,000 tools against reading it, and 10,000 against 1,000
	@$(BIN)/python -m benchmarks.lint $(ARGS)

small-world: setup ## Go through every interleaving of two callers, two gateways and a crash (half an hour; ARGS=--near: 20 s)
	@$(BIN)/python -m tests.small_world $(ARGS)

faults: setup ## 100,000 histories of faults in virtual time (ARGS="--seed N" tells one, ARGS=--guards)
	@$(BIN)/python -m tests.faults $(ARGS)

replay: setup ## Replay recorded calls: make replay DATA=calls.jsonl
	@test -n "$(DATA)" || { echo "which calls? make replay DATA=calls.jsonl (its format: python -m benchmarks.replay --help)" >&2; exit 2; }
	@$(BIN)/python -m benchmarks.replay "$(DATA)"

chaos: setup ## Kill, stop and cut off real processes, and look what is true after: make chaos ARGS="--seed 7 --seconds 30"
	@$(BIN)/python -m benchmarks.chaos $(ARGS)

accuracy: setup ## How often names are judged rightly: make accuracy DATA=names.csv (ARGS=--json, ARGS="--heuristic platform")
	@test -n "$(DATA)" || { echo "which names? make accuracy DATA=names.csv (columns: name, effect, repo)" >&2; exit 2; }
	@$(BIN)/python tests/heuristics/accuracy.py "$(DATA)" $(ARGS)

lock: setup ## Write tests/requirements.lock anew (ARGS=--upgrade for the newest versions)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install -qq --disable-pip-version-check uv
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --extra test --generate-hashes \
		--no-emit-index-url --no-header --no-annotate $(ARGS) pyproject.toml -o tests/requirements.lock
	@.ci/setup.sh

clean: ## Remove .venv and what tools leave behind (never a ledger)
	rm -rf .venv build dist .mypy_cache .ruff_cache .import_linter_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
