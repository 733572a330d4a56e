"""The contract of import-linter that holds products to the stable API."""

from typing import Any

import grimp
from importlinter import Contract, ContractCheck, fields, output


class ProductContract(Contract):
    """Each product imports itself and what is stable, and no other product.

    products: the package whose children are products.
    stable: the modules and packages that they may import, those below included.
    """

    type_name = "products"
    products: Any = fields.StringField()
    stable: Any = fields.ListField(subfield=fields.StringField())

    def check(self, graph: grimp.ImportGraph, verbose: bool) -> ContractCheck:
        root = self.products.partition(".")[0]
        illegal = [
            f"{importer} -> {imported}"
            for product in sorted(graph.find_children(self.products))
            for importer in sorted({product} | graph.find_descendants(product))
            for imported in sorted(graph.find_modules_directly_imported_by(importer))
            if imported.startswith(f"{root}.") and not is_below(imported, [product, *self.stable])
        ]
        return ContractCheck(kept=not illegal, metadata={"illegal": illegal})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for line in check.metadata["illegal"]:
            output.print_error(line, bold=False)


def is_below(module: str, packages: list[str]) -> bool:
    """Returns whether a module is one of some packages, or is in one."""
    return any(module == package or module.startswith(f"{package}.") for package in packages)
