"""Parameters that are read from the source: the same as those of the signature."""

import pytest

from outrider.plugins.entry import Entry
from outrider.plugins.options import option_schema
from outrider.plugins.registry import builtin
from outrider.plugins.roles import ROLES
from outrider.plugins.source import in_signature, parameters_of

PARTS = [entry for entry in builtin().entries if entry.role in ROLES]


@pytest.mark.parametrize("entry", PARTS, ids=lambda entry: f"{entry.role}={entry.name}")
def test_parameters_in_the_source_are_those_of_the_signature(entry: Entry) -> None:
    parameters = parameters_of(entry)
    assert list(parameters.items()) == list(in_signature(entry.factory).items())
    assert option_schema(entry).keys() == {"_target_", *parameters}
    assert entry.path == f"{entry.factory.__module__}.{entry.factory.__qualname__}"
