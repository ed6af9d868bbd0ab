"""The two ways to solve: the causal march and the damped iteration, as loops over samples and equations."""
