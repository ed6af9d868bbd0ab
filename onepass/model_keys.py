"""Keys of [model] and [initial] for each kind of model: what they take, their defaults, what they mean."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from dmft.core import schema
from dmft.core.schema import boolean, choice, integer, number, option, text
from onepass.mixtures.binary_mixture import BinaryMixture
from onepass.mixtures.mixture_model import GaussianMixture
from onepass.mixtures.xor_mixture import XorMixture
from onepass.model import Model
from onepass.networks.named import Committee, MultiIndexNetwork, QuadraticNetwork
from onepass.networks.network import Network
from onepass.networks.overlaps import LAYER_LAWS
from onepass.spiked.tensor import SpikedTensor

# Larger numbers are refused: such a run would only fill the memory.
MOST_UNITS, MOST_NODES, MOST_TIMES, MOST_ORDER = 4096, 200, 10**7, 100
_VECTOR = schema.array("a list of numbers", 1, number())
_MATRIX = schema.array("a list of rows of numbers", 2, number())


class ModelKey(NamedTuple):
    """A key of a run file. An empty list or string as a default stands for the model's own."""

    check: schema.Check
    default: Any        # None: the key is mandatory
    doc: str


class ModelKind(NamedTuple):
    """A model and the keys of [model] beside kind."""

    model: type[Model]
    keys: Mapping[str, ModelKey]


def _positive_or_infinite(value: Any) -> float:
    if isinstance(value, float) and math.isinf(value) and value > 0:
        return value
    try:
        return number(0.0, above=True)(value)
    except ValueError as error:
        raise ValueError(f"{error} (inf is allowed)") from None


def _pair(value: Any) -> Any:
    if len(found := _VECTOR(value)) != 2:
        raise ValueError("a list of two numbers")
    return found


schema.told_as(_pair, type="array", items=schema.form_of(number()), minItems=2, maxItems=2)
schema.told_as(_positive_or_infinite, type="number", exclusiveMinimum=0.0)

_NETWORK = {
    "activation": ModelKey(text, "erf", "activation of the student: erf, relu, tanh, quadratic, or one that a plugin registers"),
    "width": ModelKey(integer(1, MOST_UNITS), None, "number of units p of the student"),
    "teacher_width": ModelKey(integer(1, MOST_UNITS), 1, "number of units k of the teacher"),
    "gamma": ModelKey(number(0.0, above=True), None, "learning rate"),
    "noise": ModelKey(number(0.0), 0.0, "variance Delta of the labels' noise"),
    "second_layer": ModelKey(choice("fixed", "trained"), "fixed", "whether the second layer learns, too"),
    "constraint": ModelKey(choice("none", "sphere"), "none", "sphere: every weight vector keeps its norm"),
    "teacher_activation": ModelKey(text, "", "activation of the teacher; that of the student unless given"),
    "teacher_weights": ModelKey(_VECTOR, (), "second layer of the teacher; ones unless given"),
    "teacher_overlaps": ModelKey(_MATRIX, (), "overlaps of the teacher's vectors; the identity unless given"),
    "second_layer_rate": ModelKey(number(0.0), 1.0, "learning rate of the second layer over that of the first"),
    "nodes": ModelKey(integer(5, MOST_NODES), 41, "nodes of the rules for Gaussian averages"),
    "link": ModelKey(text, "", "a function of k directions as the teacher: product, staircase, hermite3, parity, ..."),
    "uses": ModelKey(integer(1), 1, "how often each sample is used in a row"),
    "batch": ModelKey(integer(1), 1, "samples in a mini-batch"),
    "weight_decay": ModelKey(number(0.0), 0.0, "strength lambda of the weight decay"),
    "rate_decay": ModelKey(_pair, (1.0, 0.0), "[t_0, kappa]: the learning rate falls as (1 + t/t_0)^-kappa"),
    "rate_steps": ModelKey(_MATRIX, (), "[[time, factor], ...] of the learning rate, each factor from its time on"),
    "loss": ModelKey(text, "square", "square, absolute, logcosh, or logistic"),
    "clip": ModelKey(_positive_or_infinite, np.inf, "largest size of the derivative of the loss"),
    "normalised": ModelKey(boolean, False, "divide every gradient by its norm"),
    "friction": ModelKey(number(0.0), 0.0, "friction phi of momentum; 0: none"),
    "reduction": ModelKey(choice("none", "mean_field"), "none", "mean_field: solve the reduced equations of wide networks"),
}
_MIXTURE = {
    "snr": ModelKey(_positive_or_infinite, None, "inverse variance of the clusters"),
    "ridge": ModelKey(number(0.0), None, "strength of the ridge"),
    "step": ModelKey(number(0.0), 1.0, "learning rate times the dimension"),
    "class_weights": ModelKey(_MATRIX, (), "weights of the clusters, a row [+mean, -mean] a direction; all equal unless given"),
    "class_labels": ModelKey(_MATRIX, (), "labels of the clusters, in rows as the weights"),
}
_POINTS = "log2 of the quasi-random points of the drift"
MODEL_KINDS: dict[str, ModelKind] = {
    "Network": ModelKind(Network, _NETWORK),
    "QuadraticNetwork": ModelKind(QuadraticNetwork, {
        **_NETWORK, "activation": ModelKey(choice("quadratic"), "quadratic", "activation of the student")}),
    "Committee": ModelKind(Committee, _NETWORK),
    "MultiIndexNetwork": ModelKind(MultiIndexNetwork, {**_NETWORK, "link": _NETWORK["link"]._replace(default="product")}),
    "SpikedTensor": ModelKind(SpikedTensor, {
        "order": ModelKey(integer(2, MOST_ORDER), None, "order of the tensor"),
        "signal": ModelKey(number(0.0), None, "strength of the spike"),
        "step": _MIXTURE["step"],
        "ridge": _MIXTURE["ridge"]._replace(default=0.0),
        "literal": ModelKey(boolean, False, "draw whole matrices (order 2)")}),
    "BinaryMixture": ModelKind(BinaryMixture, {
        **_MIXTURE, "quadrature": ModelKey(integer(4, MOST_NODES), 48, "nodes per dimension")}),
    "GaussianMixture": ModelKind(GaussianMixture, {
        **_MIXTURE, "neurons": ModelKey(integer(1, MOST_UNITS), None, "number of units"),
        "activation": ModelKey(text, "relu", "activation of the units"),
        "class_labels": _MIXTURE["class_labels"]._replace(default=None), "quadrature": ModelKey(integer(4, 20), 13, _POINTS)}),
    "XorMixture": ModelKind(XorMixture, {**_MIXTURE, "quadrature": ModelKey(integer(4, 20), 13, _POINTS)}),
}


def model_section(kind: str) -> type:
    """The section [model] of a kind."""
    return _section("Model", {"kind": ModelKey(choice(kind), kind, "kind of model"), **MODEL_KINDS[kind].keys})


def initial_section(kind: str) -> type:
    """The section [initial] of a kind."""
    how = {"start": ModelKey(choice("given", "random"), "given", "the statistics given here, or those of random weights"),
           "starts": ModelKey(integer(1), 1, "random: starts of the ODE, whose average is the quenched one")}
    return _section("Initial", how | _statistics(MODEL_KINDS[kind].model))


def _section(name: str, keys: Mapping[str, ModelKey]) -> type:
    mandatory = [(key, Any, option(each.check, doc=each.doc)) for key, each in keys.items() if each.default is None]
    others = [(key, Any, option(*each)) for key, each in keys.items() if each.default is not None]
    return dataclasses.make_dataclass(name, mandatory + others, frozen=True)


def _statistics(cls: type[Model]) -> dict[str, ModelKey]:
    """Keys of the statistics in [initial]: nested lists of their depth; an empty list means "not given"."""
    checks, doc = {0: number(), 1: _VECTOR, 2: _MATRIX}, "statistic at t = 0"
    if issubclass(cls, Network):
        depth = {"a": 1, "M": 2, "Q": 2, "V": 2, "VW": 2, "VV": 2, "clock": 0}
        law = ModelKey(choice(*LAYER_LAWS), "", "random: law of the second layer")
        return {"second_layer": law} | {name: ModelKey(checks[d], (), doc) for name, d in depth.items()}
    depth = {SpikedTensor: {"m": 0, "r2": 0}, BinaryMixture: {"v": 1, "m": 1, "R": 2}, XorMixture: {"v": 1, "m": 2, "R": 2},
             GaussianMixture: {"v": 1, "m": 2, "R": 2}}[cls]
    return {name: ModelKey(checks[d], (), doc) for name, d in depth.items()}
