"""What a single-line mutation is, and the tests that must notice it. Each is a slip that somebody could make; they are
listed in mutations_of_theory.py and mutations_of_simulators.py."""

from __future__ import annotations

from typing import NamedTuple

EQUATIONS = ("tests/dmft/equations",)
SOLVERS = ("tests/dmft/equations/test_first_steps.py", "tests/dmft/equations/test_solver_limits.py",
           "tests/dmft/equations/test_linear_loss.py", "tests/dmft/solvers/test_march_and_iterate.py")
FIRST_STEPS = SOLVERS[:1]
NOISE = ("tests/dmft/equations/test_noise.py",)
HESSIAN = ("tests/dmft/equations/test_hessian.py",)
FDT = ("tests/dmft/equations/test_fdt.py",)
FIXED_POINT = ("tests/dmft/solvers/test_march_and_iterate.py",)
TWO_TIMES = ("tests/sgd_sim/test_two_times.py",)
CLOSED = ("tests/exact/test_exact_closed.py",)
NETWORK_MARCH = ("tests/dmft/committee/test_networks_exact.py", "tests/dmft/committee/test_one_unit.py")
CLONES = ("tests/dmft/running/test_clones.py",)
DYADIC = ("tests/dmft/equations/test_dyadic_history.py",)
MOMENTS = ("tests/dmft/equations/test_start_moments.py", "tests/dmft/equations/test_linear_loss.py")
MOMENTUM = ("tests/dmft/equations/test_momentum.py",)
TEMPERATURE = ("tests/dmft/equations/test_temperature.py",)
TANGENTS = ("tests/dmft/samples/test_tangents.py",)
OVERSHOOT = ("tests/dmft/samples/test_overshoot.py",)
GPU_MARCH, GPU_COMPANY = ("tests/dmft/samples/test_gpu_march.py",), ("tests/dmft/samples/test_gpu_company.py",)
GPU_SOLVE = ("tests/dmft/running/test_gpu_solve.py",)
PACKING, PACKED = ("tests/dmft/core/test_packing.py",), ("tests/dmft/running/test_packed_checkpoints.py",)
NETWORK_LABELS = ("tests/dmft/model/test_network_labels.py",)
SPECIALISATION = ("tests/dmft/model/test_specialisation.py",)
GPU_NETWORKS = ("tests/dmft/committee/test_gpu_networks.py",)
IBP = ("tests/dmft/equations/test_ibp.py", "tests/dmft/equations/test_first_steps.py")
RIDGE = ("tests/dmft/equations/test_ridge_strength.py",)
DATA = ("tests/dmft/model/test_data_models.py", "tests/dmft/equations/test_data_rows.py")
DRIVER = ("tests/dmft/core/test_driver.py",)
COMMAND = ("tests/dmft/core/test_command.py", "tests/dmft/running/test_solver_behaviour.py")
SPECTRAL = ("tests/dmft/equations/test_spectral_start.py",)
ALGORITHMS = ("tests/dmft/equations/test_algorithms.py", "tests/dmft/model/test_algorithm_settings.py")
LOST = ("tests/dmft/samples/test_lost.py", "tests/dmft/running/test_divergence.py")
LOSSES = ("tests/dmft/model/test_losses.py",)
RUN_FILES = ("tests/dmft/model/test_run_files.py",)
PLUGINS = ("tests/dmft/model/test_plugins.py", "tests/dmft/model/test_plugin_physics.py")
STORE = ("tests/dmft/core/test_store.py", "tests/dmft/core/test_locks.py")
STREAMS = ("tests/dmft/core/test_streams.py", "tests/sgd_sim/test_fast_normals.py")
AVERAGES = ("tests/dmft/core/test_averages.py",)
EXACT = ("tests/dmft/core/test_exact_sum.py",)
OBSERVABLES = ("tests/dmft/model/test_sample_averages.py", "tests/sgd_sim/test_simulator_averages.py")
STREAMING = ("tests/dmft/core/test_streaming.py",)
COMPARISON = ("tests/dmft/result/test_comparison.py", "tests/dmft/result/test_bound.py")
STATISTICS = ("tests/dmft/result/test_statistics.py",)
ORDERS = ("tests/dmft/convergence/test_orders.py",)
RUNNING = ("tests/dmft/running/test_solver_behaviour.py", "tests/dmft/running/test_error_bars.py")
RESUME = ("tests/dmft/running/test_solver_resume.py",)
SUBMIT = ("tests/workbench/cluster",)
INSPECT = ("tests/workbench/inspection",)
POINTS = ("tests/dmft/samples/test_points.py",)
SIMULATOR = ("tests/sgd_sim/test_simulator_reference.py", "tests/sgd_sim/test_simulator_laws.py")
SIMULATOR_ALGORITHMS = ("tests/sgd_sim/test_simulator_algorithms.py",)
MINIBATCH = ("tests/sgd_sim/test_simulator_minibatch.py", "tests/sgd_sim/test_simulator_laws.py")
SIMULATOR_RESULT = ("tests/sgd_sim/test_simulator_result.py", "tests/sgd_sim/test_simulator_shares.py",
                    "tests/sgd_sim/test_simulator_limits.py")
REPRODUCIBLE = ("tests/sgd_sim/test_simulator_reproducible.py",)
GPU_SIMULATOR = ("tests/sgd_sim/test_gpu_simulator.py",)
GPU_NETWORK_SIMULATION = ("tests/sgd_sim/test_gpu_network_simulation.py",)
GPU_PRODUCTS = ("tests/sgd_sim/test_gpu_products.py",)
ONEPASS = ("tests/onepass/test_onepass_laws.py", "tests/onepass/test_onepass_machinery.py")
QUADRATIC = ("tests/onepass/test_onepass_quadratic.py",)
QUADRATIC_LAW = ("tests/onepass/test_onepass_quadratic_law.py",)
COMMITTEE = ("tests/onepass/test_onepass_committee.py",)
OVERLAPS = ("tests/onepass/test_network_overlaps.py",)
SPIKED = ("tests/onepass/test_onepass_laws.py", "tests/onepass/test_effective_sgd.py",
             "tests/onepass/test_effective_fixed_points.py")
DIFFERENTIAL = ("tests/differential/test_differential.py",)
MIXTURES = ("tests/onepass/test_onepass_laws.py", "tests/onepass/test_mixture_integrals.py",
             "tests/onepass/test_effective_sgd.py")


class Mutation(NamedTuple):
    """Replace `old`, which stands once below `folder`, by `new`: one of the tests must fail."""

    name: str
    folder: str
    old: str
    new: str
    tests: tuple[str, ...]


# Mutations that change nothing a test could see, each with the reason.
EQUIVALENT: dict[str, str] = {}
