"""Which test runs which CUDA kernel on the host. tests/project/test_kernels.py holds the list against the sources, and whenever one
of these tests has run, conftest.py against what it launched."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KERNEL = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\([^)]*\)\s+)?(\w+)\(([^)]*)\)')
MARCH, NETWORKS = "dmft/samples/test_gpu_march.py::", "dmft/committee/test_gpu_networks.py::"
SIMULATOR, SIMULATED_NETWORKS = "sgd_sim/test_gpu_simulator.py::", "sgd_sim/test_gpu_network_simulation.py::"
# test: {source: kernels}
LAUNCHED = {
    f"{MARCH}test_single_precision_tangents[emulated]": {
        "dmft/samples/cuda/march.cu": "fields response_totals row_sums move next_tangents merge_columns merge_rows",
        "dmft/core/cuda/exact_sum.cuh": "exact_totals",
        "dmft/equations/cuda/equations.cu": "ask_for_matrices row_and_step noise_given_past enter_step"},
    f"{MARCH}test_rows_of_a_random_start[emulated-sobol alone]": {
        "dmft/samples/cuda/march.cu": "overlap_terms", "dmft/samples/cuda/common.cuh": "add_parts"},
    "dmft/model/test_sample_averages.py::test_lost_samples_count_with_zero[emulated]": {"dmft/samples/cuda/march.cu": "averages"},
    f"{NETWORKS}test_networks_on_a_gpu_are_those_on_the_cpu[emulated-one unit]": {
        "dmft/committee/cuda/units.cu": "fields row_sums bounds response_sums move",
        "dmft/committee/cuda/responses.cu": "control next_tangents merge_columns merge_rows"},
    f"{NETWORKS}test_observables_are_averaged_on_the_card[emulated-pair]": {"dmft/committee/cuda/units.cu": "averages"},
    f"{NETWORKS}test_products_and_solves_on_a_card_are_those_of_the_host[emulated]": {
        "dmft/committee/cuda/matrices.cu": "products enter_rows"},
    f"{SIMULATOR}test_a_stopped_run_goes_on_on_the_other_device[emulated]": {
        "sgd_sim/gpu/cuda/landscape.cuh": "fill_rows", "sgd_sim/gpu/cuda/minibatch.cuh": "draw_rows",
        "sgd_sim/gpu/cuda/rows.cuh": "pass_over_rows", "sgd_sim/gpu/cuda/weights.cuh": "update record"},
    f"{SIMULATOR}test_data_are_those_of_the_cpu[emulated-mixture]": {"sgd_sim/gpu/cuda/landscape.cuh": "place_rows"},
    f"{SIMULATOR}test_spectral_start[emulated]": {"sgd_sim/gpu/cuda/weights.cuh": "power_step"},
    "sgd_sim/test_gpu_minibatch.py::test_swaps_are_followed_to_their_end[emulated]": {
        "sgd_sim/gpu/cuda/minibatch.cuh": "draw_fixed_size"},
    "sgd_sim/test_gpu_products.py::test_a_start_depends_on_itself_alone[emulated]": {
        "sgd_sim/gpu/cuda/products.cuh": "fields_of_starts gradients_of_starts"},
    "sgd_sim/test_two_times.py::test_the_gpu_does_what_the_cpu_does[emulated-persistent]": {
        "sgd_sim/gpu/cuda/two_times.cuh": "pair_weights pair_gradients push"},
    f"{SIMULATED_NETWORKS}test_a_stopped_network_goes_on_to_the_last_bit[emulated]": {
        "sgd_sim/gpu/cuda/units.cuh": "fields_of_directions pass_over_units step_units record_units"},
}


def kernels_of(source: str) -> dict[str, str]:
    """Parameters of all kernels of a source, by name."""
    return {name: " ".join(listed.split()) for name, listed in KERNEL.findall(source)}


def not_launched(test: str, launched: set[tuple[str, str]]) -> list[str]:
    """Kernels that a test, known by its id, should have launched and has not; launched: names and parameters, because sources share
    names."""
    wanted = LAUNCHED.get(test.removeprefix("tests/"), {})
    return [f"{name} of {file}" for file, names in wanted.items() for name in names.split()
            if (name, kernels_of((ROOT / file).read_text()).get(name, "")) not in launched]
