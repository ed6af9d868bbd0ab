"""The commands behind `dmft` and some of `sgd-sim` and `onepass`, one module each."""
