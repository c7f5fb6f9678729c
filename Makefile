# Each target does its own set-up. `make run` opens the microscope, `make test` runs the tests.
.PHONY: run test check verify bench conformance model soak web docs wheel peers start help

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
JOBS ?= 2

run: $(READY)
	@$(BIN)/headscope

test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(TESTS)

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@if command -v npm >/dev/null; then $(MAKE) --silent verify; \
	else echo "npm is not installed: the built page is not compared with its sources"; fi

bench: $(READY) .venv/peers/.ready
	$(BIN)/python bench/module.py --out bench/results/module-cpu.json

soak: $(READY)
	$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),30)

web: $(READY) web/node_modules/.ready
	cd web && env -u PYTHON npm run web

verify: $(READY) web/node_modules/.ready
	cd web && env -u PYTHON npm run verify

conformance: $(READY)
	$(BIN)/python -m tests.conformance.sweep --write docs/conformance.md

model: $(READY)
	@test -n "$(TEXT)" || { echo 'make model TEXT="novels.jsonl.xz source.jsonl.xz": see src/headscope/models/embedded/MODEL_CARD.md'; exit 1; }
	$(BIN)/python bench/train_model.py $(TEXT) --out runs/embedded --tokenizer src/headscope/models/embedded/tokenizer.json

docs: $(READY)
	$(BIN)/python -m headscope.cli.page docs/reference/commands.md
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "open site/index.html"

wheel: $(READY)
	$(BIN)/python -m build --quiet --outdir dist .
	$(BIN)/python bench/wheel.py dist

peers: $(READY)
	$(BIN)/python bench/peers.py

start: $(READY)
	$(BIN)/python bench/start.py --out bench/results/start.json

help:
	@echo "make run    the microscope, in the browser"
	@echo "make test   all tests (JOBS=2 workers, TESTS=path to choose)"
	@echo "make check  ruff, mypy, import-linter, generated files"
	@echo "make bench  the attention module beside its peers, on this machine"
	@echo "make soak   looks, edits, exports and scans at once for half an hour (MINUTES=30): is memory flat?"
	@echo "make web    rebuild the page (needs Node 20 or later); make verify compares it with its sources"
	@echo "make conformance   every model family of the installed transformers, held against its own attention (half an hour)"
	@echo "make model TEXT=…  train the embedded model again (a GPU and ten minutes)"
	@echo "make docs   build the documentation into site/"
	@echo "make wheel  build the wheel and the sdist, check what is inside, and look at a text with it in a fresh environment"
	@echo "make peers  the same tasks with TransformerLens, nnsight, BertViz and CircuitsVis; writes the README's table"
	@echo "make start  how long importing headscope and headscope --help take"

$(READY): pyproject.toml constraints.txt
	@echo "Setting up .venv (some minutes the first time) …"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

.venv/peers/.ready: bench/peers.txt $(READY)
	@$(BIN)/python -m pip install --quiet --no-deps --upgrade --target .venv/peers -r bench/peers.txt
	@touch $@

web/node_modules/.ready: web/package-lock.json
	cd web && npm install --no-audit --no-fund
	@touch $@
