"""Features as a table, cases drawn from it, and the smallest case that still fails.

A feature is a list of options, the first of which is the default that a failing case shrinks to; an option says which keys of a
run file it sets. A new feature of the package is one more entry in such a table (runs.py, onepass_runs.py). Case number `index`
of a seed is a function of the two alone: every feature draws its numbers from a stream of its own, so that a case keeps all other
numbers when one feature goes back to its default.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

Choice = dict[str, str]                     # feature -> option
Pair = tuple[str, str, str, str]            # feature, option, feature, option
SURVEY = 20_000                             # draws that show which pairs of options there are
TRIES = 5_000                               # draws for a case with a given pair
NAMED = 40                                  # empty pairs at most that are named


class Numbers:
    """The random numbers of one feature of one case."""

    def __init__(self, seed: int, index: int, name: str):
        self.rng = np.random.default_rng([seed, index, zlib.crc32(name.encode())])

    def real(self, low: float, high: float) -> float:
        """A number with three digits."""
        return float(f"{self.rng.uniform(low, high):.3g}")

    def whole(self, low: int, high: int) -> int:
        """An integer, both ends included."""
        return int(self.rng.integers(low, high + 1))

    def one_of(self, *values: Any) -> Any:
        return values[self.rng.integers(len(values))]


@dataclass(frozen=True)
class Option:
    """One way of a feature. keys: what it sets, from its numbers and the case; allowed: beside options of earlier features."""

    name: str
    keys: Callable[[Numbers, Case], Mapping[str, Any]] = lambda numbers, case: {}
    allowed: Callable[[Choice], bool] = lambda chosen: True
    weight: float = 1.0


@dataclass(frozen=True)
class Feature:
    """A feature, its default first."""

    name: str
    options: tuple[Option, ...]

    def option(self, name: str) -> Option:
        return next(option for option in self.options if option.name == name)


@dataclass(frozen=True)
class Case:
    """One combination of options with its numbers."""

    table: Table = field(repr=False)
    seed: int
    index: int
    choice: Choice

    def __reduce__(self) -> tuple[Callable[..., Case], tuple[Any, ...]]:
        return made_again, self.name

    @property
    def name(self) -> tuple[str, int, int, Choice]:
        """What it is made of again: options are functions, which do not travel."""
        return self.table.name, self.seed, self.index, self.choice

    def numbers(self, name: str) -> Numbers:
        return Numbers(self.seed, self.index, name)

    @cached_property
    def keys(self) -> dict[str, Any]:
        """What all options set; of two that set the same key the later one wins."""
        found: dict[str, Any] = {}
        for feature in self.table.features:
            found |= feature.option(self.choice[feature.name]).keys(self.numbers(feature.name), self)
        return found

    @property
    def pairs(self) -> Iterator[Pair]:
        for (a, one), (b, other) in combinations(self.choice.items(), 2):
            yield a, one, b, other

    def __str__(self) -> str:
        defaults = self.table.defaults
        special = [f"{name} {option}" for name, option in self.choice.items() if option != defaults[name]]
        return f"case {self.index} of seed {self.seed}: {', '.join(special) or 'defaults alone'}"


@dataclass(frozen=True)
class Table:
    """The features, those that others depend on first."""

    name: str
    features: tuple[Feature, ...]

    def __post_init__(self) -> None:
        _tables[self.name] = self

    @property
    def defaults(self) -> Choice:
        return {feature.name: feature.options[0].name for feature in self.features}

    def valid(self, choice: Choice) -> bool:
        """Whether every option is allowed beside those of the features before it."""
        before: Choice = {}
        for feature in self.features:
            if not feature.option(choice[feature.name]).allowed(before):
                return False
            before[feature.name] = choice[feature.name]
        return True

    def draw(self, rng: np.random.Generator) -> Choice:
        """Options one by one, each allowed beside those before it."""
        chosen: Choice = {}
        for feature, u in zip(self.features, rng.random(len(self.features)).tolist()):
            options = [option for option in feature.options if option.allowed(chosen)]
            left = u * sum(option.weight for option in options)
            for option in options:
                left -= option.weight
                if left < 0.0:
                    break
            chosen[feature.name] = option.name
        return chosen

    @cached_property
    def pairs(self) -> list[Pair]:
        """All pairs of options that go together, as far as many draws show."""
        rng, names = np.random.default_rng(0), [feature.name for feature in self.features]
        places = [{option.name: k for k, option in enumerate(feature.options)} for feature in self.features]
        drawn = [self.draw(rng) for _ in range(SURVEY)]
        codes = np.array([[place[choice[name]] for name, place in zip(names, places)] for choice in drawn]).T
        found = []
        for a, b in combinations(range(len(names)), 2):
            for code in np.unique(1000 * codes[a] + codes[b]).tolist():
                one, other = self.features[a].options[code // 1000].name, self.features[b].options[code % 1000].name
                found.append((names[a], one, names[b], other))
        return found

    def case(self, seed: int, index: int) -> Case:
        """Case number `index`: random but for one pair of options, another one for every index, so that as many cases as there are
        pairs leave none empty."""
        order = self._order(seed)
        a, one, b, other = self.pairs[order[index % len(order)]]
        rng = np.random.default_rng([seed, index])
        for _ in range(TRIES):
            choice = self.draw(rng)
            if choice[a] == one and choice[b] == other:
                return Case(self, seed, index, choice)
        raise AssertionError(f"{a} {one} and {b} {other} hardly ever go together: raise the weights of these options")

    def _order(self, seed: int) -> np.ndarray:
        return np.random.default_rng([seed, zlib.crc32(self.name.encode())]).permutation(len(self.pairs))

    def made_for(self, seed: int, pair: Pair) -> int:
        """The first case that is made to contain a pair."""
        return int(np.flatnonzero(self._order(seed) == self.pairs.index(pair))[0])


_tables: dict[str, Table] = {}


def made_again(table: str, *rest: Any) -> Case:
    """The case of that `name`."""
    return Case(_tables[table], *rest)


def shrunk(case: Case, fails: Callable[[Case], bool]) -> Case:
    """The case with as many features at their defaults as it can have and still fail; the last ones of the table go first."""
    going = True
    while going:
        going = False
        for feature in reversed(case.table.features):
            smaller = replace(case, choice={**case.choice, feature.name: feature.options[0].name})
            if smaller.choice != case.choice and case.table.valid(smaller.choice) and fails(smaller):
                case, going = smaller, True
    return case


def coverage(table: Table, cases: list[Case]) -> Counter[Pair]:
    """How many cases have each pair of options that there is, none of them 0 without a reason."""
    counts: Counter[Pair] = Counter(dict.fromkeys(table.pairs, 0))
    for case in cases:
        counts.update(case.pairs)
    return counts


def coverage_text(table: Table, cases: list[Case]) -> str:
    """For each pair of features the fewest cases that any pair of their options has, as a triangle."""
    counts = coverage(table, cases)
    names = [feature.name for feature in table.features]
    fewest: dict[tuple[str, str], int] = {}
    for (a, _, b, _), count in counts.items():
        fewest[a, b] = min(count, fewest.get((a, b), count))
    width = max(map(len, names))
    lines = [f"{'':{width}} " + " ".join(f"{name[:5]:>5}" for name in names[:-1])]
    for k, b in enumerate(names[1:], 1):
        lines.append(f"{b:{width}} " + " ".join(f"{fewest[a, b]:5d}" for a in names[:k]))
    empty = [pair for pair, count in counts.items() if count == 0]
    lines.append(f"{len(cases)} cases, {len(counts)} pairs of options, {len(empty)} of them empty; fewest {min(counts.values())}")
    if len(empty) <= NAMED:
        lines += [f"empty: {a} {one}, {b} {other} (--case {table.made_for(cases[0].seed, (a, one, b, other))})"
                  for a, one, b, other in empty]
    return "\n".join(lines)
