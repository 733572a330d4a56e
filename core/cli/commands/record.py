"""`outrider record`: an acceptance card, from which comparisons run without the models."""

from dataclasses import replace
from pathlib import Path

from outrider.base.errors import require
from outrider.base.folders import write_whole
from outrider.base.terminal import remark
from outrider.cli.commands.compare import measured
from outrider.cli.comparison import print_comparison
from outrider.cli.settings import Compare
from outrider.lab.runs.files import FACTS
from outrider.lab.runs.labels import model
from outrider.lab.runs.summary import Summary
from outrider.lab.tables.formats import as_markdown
from outrider.lab.tables.rates import rates_table


def record(settings: Compare) -> None:
    """Measures overlap as `compare` does, and keeps p and each q; a second run continues."""
    require(settings.protocol == "overlap", "protocol", settings.protocol, "overlap")
    goes_on = Path(str(settings.out), FACTS).expanduser().is_file()
    run = measured(replace(settings, resume=goes_on))
    print_comparison(run.summary, settings)
    run.check()
    path = run.folder.path / "README.md"
    write_whole(path, model_card(run.summary))
    remark(path, stderr=False)


def model_card(summary: Summary) -> str:
    """Returns the page of a card for the hub, with its figures as the hub's model index."""
    from huggingface_hub import EvalResult, ModelCardData

    name = model(summary.run.facts["settings"])
    results = [
        EvalResult(
            "text-generation",
            "prompts",
            f"{row.prompts} prompts",
            rate,
            figure.value,
            metric_name=f"{rate} of {row.drafter}",
        )
        for row in summary.rows
        for rate in ("alpha", "expected_block_efficiency")
        if (figure := row.rates[rate]) is not None
    ]
    data = ModelCardData(model_name=name, eval_results=results, tags=["speculative-decoding"])
    table = as_markdown(rates_table({"": summary.rows}, f"{len(summary.prompts)} prompts"))
    said = "`outrider compare card=FOLDER` has other rules, draft lengths and policies."
    return f"---\n{data.to_yaml()}\n---\n\n# Acceptance card of {name}\n\n{table}\n{said}\n"
