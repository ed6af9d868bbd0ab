"""Exponents of teachers with several directions: leaps, their spans, and the order in which SGD learns."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import onepass
from dmft.core.errors import UserError
from dmft.model import links
from onepass import hermite
from onepass.cli import main
from onepass.networks.exponents import multi_index_exponent, staircase
from onepass.networks.scaling import learning_times


def link(name):
    return lambda z: links.evaluate(links.BUILT_IN_LINKS[name].g, np.ascontiguousarray(z))


@pytest.mark.long
@pytest.mark.parametrize(("name", "k", "exponents", "transformed"), [
    ("staircase", 2, [1, 1], [1]), ("product", 2, [2], [2]), ("product", 3, [3], [2]), ("parity", 3, [3], [3]),
    ("hermite3", 1, [3], [1]), ("erf", 2, [1, 2], [1, 2]), ("quadratic", 2, [2], [2]),
])  # fmt: skip
def test_leaps_of_links(name, k, exponents, transformed):
    once, again = staircase(link(name), k), staircase(link(name), k, transformed=True)
    assert [leap.exponent for leap in once.leaps] == exponents and once.leap == max(exponents)
    assert [leap.exponent for leap in again.leaps] == transformed and not len(once.unseen)
    spans = np.concatenate([leap.directions for leap in once.leaps])
    assert_allclose(spans @ spans.T, np.eye(k), atol=1e-9)
    assert multi_index_exponent(link(name), k)[0] == once.first


@pytest.mark.long
def test_directions_do_not_depend_on_the_basis():
    """A rotated staircase has the same leaps along rotated directions; the span of a leap is what has a meaning."""
    rotation, _ = np.linalg.qr(np.random.default_rng(2).standard_normal((3, 3)))
    plain = staircase(link("staircase"), 3)
    turned = staircase(lambda z: link("staircase")(z @ rotation.T), 3)
    assert [leap.exponent for leap in turned.leaps] == [leap.exponent for leap in plain.leaps] == [1, 1, 1]
    for i, leap in enumerate(turned.leaps):
        assert_allclose(np.abs(leap.directions @ rotation.T), np.eye(3)[i : i + 1], atol=1e-6)
    assert np.abs(np.abs(turned.leaps[0].directions) - np.eye(3)[:1]).max() > 0.1      # it was turned indeed


def test_exponents_of_a_teacher_whose_vectors_are_not_orthonormal():
    """He_3 of a field of variance 2 has a part of degree 1, and SGD a drift at M = 0; at variance 1 it has neither. The vectors of
    two correlated erf units: their sum first."""
    for norm, exponent in ((1.0, 3), (2.0, 1)):
        net = onepass.Network("erf", link="hermite3", gamma=0.5, teacher_overlaps=((norm,),))
        assert net.information_exponent()[0] == staircase(net.labels_of_normals, 1).first == exponent
        drift = net.drift(net.start({"M": [[0.0]], "Q": [[1.0]]}))[1]
        assert (abs(drift) > 0.1) == (exponent == 1)
    net = onepass.Network("erf", teacher_width=2, teacher_overlaps=((1.0, 0.6), (0.6, 1.0)))
    first, second = staircase(net.labels_of_normals, 2).leaps
    assert (first.exponent, second.exponent) == (1, 2)
    assert_allclose(np.abs(first.directions), [[0.5**0.5, 0.5**0.5]], atol=1e-9)
    P = np.array([[1.0, 0.0], [0.0, 4.0]])      # a longer vector tells more: the first direction leans towards it
    leaning = onepass.Network("erf", teacher_width=2, teacher_overlaps=tuple(map(tuple, P.tolist())))
    slopes = np.sqrt(np.diag(P) / (1.0 + np.diag(P)))         # E[erf(u/2^.5) z] for u = P^.5 z, up to a factor
    found = staircase(leaning.labels_of_normals, 2).leaps[0].directions[0]
    assert_allclose(np.abs(found), slopes / np.linalg.norm(slopes), atol=1e-6)


def test_a_leap_that_waits_for_the_one_before():
    """u1 + u1 h2(u2): after u1 the second direction has exponent 2, and h4(u2) alone would have 4."""
    found = staircase(lambda z: z[:, 0] + z[:, 0] * (z[:, 1] ** 2 - 1.0), 2)
    assert [leap.exponent for leap in found.leaps] == [1, 2]
    alone = staircase(lambda z: z[:, 1] ** 4 - 6.0 * z[:, 1] ** 2, 2)
    assert [leap.exponent for leap in alone.leaps] == [4] and len(alone.unseen) == 1
    assert_allclose(np.abs(alone.leaps[0].directions), [[0.0, 1.0]], atol=1e-9)


@pytest.mark.long
def test_one_direction_is_the_toolkit_of_hermite():
    for f in (math.tanh, lambda x: x**3 - 3 * x, lambda x: x**4 - 6 * x * x, abs, lambda x: 1.0 if x > 0.3 else 0.0):
        many = lambda z, f=f: np.array([f(float(x)) for x in z[:, 0]])  # noqa: E731
        assert staircase(many, 1).first == hermite.information_exponent(f)
        assert staircase(many, 1, transformed=True).first == hermite.generative_exponent(f)


@pytest.mark.long
@pytest.mark.statistical
def test_sgd_learns_in_the_order_of_the_leaps():
    """Two leaps of exponent 1 come one after the other; the two directions of a product at once, and later, after about d log d
    steps; a twin without the coupling u1 u2 never learns the second."""
    d = 200

    def times(link, directions, t_max):
        net = onepass.Network("relu", 6, 2, 1.0, link=link, second_layer="trained")
        return learning_times(net, directions, d, 6, t_max, 0.5)

    first, second = times("staircase", np.eye(2), 6.0)
    assert first.share == second.share == 1.0
    assert second.mean - first.mean > 8.0 * np.hypot(first.error, second.error)
    one, other = times("product", np.eye(2), 15.0)
    assert abs(one.mean - other.mean) < 4.5 * np.hypot(one.error, other.error) and one.mean > second.mean

    def uncoupled(u, k):
        return 1.414 * u[0]

    assert times(uncoupled, np.eye(2)[1:], 6.0)[0].share == 0.0


@pytest.mark.cli
def test_the_command(capsys, tmp_path):
    assert main(["exponents", "erf", "--directions", "2"]) == 0
    out = capsys.readouterr().out
    assert "information exponent 1, leap exponent 2" in out and "0.71 u1 +0.71 u2" in out and "d log d" in out
    run = tmp_path / "run.toml"
    run.write_text('[model]\nkind = "Network"\nwidth = 1\nteacher_width = 1\ngamma = 0.1\nactivation = "quadratic"\n'
                   '[initial]\nstart = "random"\n')
    assert main(["exponents", str(run)]) == 0 and "information exponent 2" in capsys.readouterr().out
    assert main(["exponents", "stairs"]) == 2
    error = capsys.readouterr().err.strip()
    assert "allowed: product" in error and len(error.splitlines()) == 1


def test_bad_links_are_one_line():
    with pytest.raises(UserError, match="constant"):
        staircase(lambda z: np.ones(len(z)), 2)
    with pytest.raises(UserError, match="up to 4 directions"):
        staircase(link("product"), 5)
    with pytest.raises(UserError, match="no exponent up to order 3"):
        staircase(lambda z: z[:, 0] ** 4 - 6.0 * z[:, 0] ** 2, 1, order=3)
