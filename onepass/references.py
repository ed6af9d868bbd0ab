"""The papers to cite for a run of onepass, by its model."""

from __future__ import annotations

from onepass.runfile import OnePassRun

ARNABOLDI, BENAROUS, BOCCHI, VEIGA = "arnaboldi2024escaping", "benarous2022high", "bocchi2026escape", "veiga2022phase"
REFERENCES_BY_MODEL = {
    "QuadraticNetwork": [(ARNABOLDI, "quadratic networks by their overlaps"), (BOCCHI, "quadratic networks of any width")],
    "Network": [(VEIGA, "two-layer networks by their overlaps"), (ARNABOLDI, "their SDE and its exit times")],
    "Committee": [(VEIGA, "committee machines by their overlaps")],
    "MultiIndexNetwork": [(VEIGA, "two-layer networks by their overlaps"), (ARNABOLDI, "learning generalized linear models")],
    "SpikedTensor": [(BENAROUS, "effective dynamics of the spiked tensor")],
    "BinaryMixture": [(BENAROUS, "effective dynamics of the binary mixture")],
    "GaussianMixture": [(BENAROUS, "effective dynamics of Gaussian mixtures")],
    "XorMixture": [(BENAROUS, "effective dynamics of the XOR mixture")],
}


def onepass_references(run: OnePassRun) -> list[tuple[str, str]]:
    """(key of dmft.core.references, reason) of everything to cite for a run."""
    return REFERENCES_BY_MODEL[run.model_keys["kind"]]
