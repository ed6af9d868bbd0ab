"""Gaussian averages of activations with kinks or jumps at known places, at any width, by rules that are cut there.

The structure is that of smooth_moments.py: es, f, j2 and the square need pairs of fields, g[i, j] = E[s'(u_i) s'(u_j) E^2] needs
u_i, u_j and, given them, Mehler's series for the others. But every rule is Gauss-Legendre on panels whose ends are the kinks
of its own field, so that no integrand has a kink inside a panel. A field that nearly follows from the variables of other rules
turns their integrands within a narrow stretch (a bend); that stretch gets panels of its own.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numba import njit

from onepass.networks.field_pairs import add_pair, conditional_law, pair_roots

CUT = 8.5               # end of the integrals, in standard deviations
MOST_ORDERS = 100       # of Mehler's series; coefficients of a kink fall as n^(-5/4), so its tail is below 1e-5 even at R = 1
FEW_ORDERS, FINE = 40, 72       # series of more than 40 orders take panels of 72 nodes
SERIES_ERROR = 1e-10    # of a geometric series with the largest correlation, which sets the number of orders
BEND = 0.5              # a bend narrower than this, in standard deviations, gets panels of its own
LONGEST_PANEL = 8.6           # length of a panel, in standard deviations
BEND_REACH = 6.0             # half-length of the stretch around a bend, in widths of the bend


@lru_cache(maxsize=8)
def legendre(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights on (-1, 1), the weights divided by sqrt(2 pi)."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    return x, w / np.sqrt(2.0 * np.pi)


@njit(cache=True, error_model="numpy")
def _add_bends(edges, count, kinks, slope, offset, width):
    """Append to `edges` the places z at which offset + slope z crosses a kink; where the crossing is smeared over a `width` > 0
    of the field, also the ends of the bend. Returns the new number of edges."""
    if slope == 0.0:
        return count
    for kink in kinks:
        place, reach = (kink - offset) / slope, width / abs(slope)
        if reach >= BEND:
            continue
        edges[count] = place
        count += 1
        if reach > 0.0:
            edges[count], edges[count + 1] = place - BEND_REACH * reach, place + BEND_REACH * reach
            count += 2
    return count


@njit(cache=True, error_model="numpy")
def _panels(edges, count, rule, z, weight):
    """Fill z and weight (normal density included) with the rule of a panel on (-CUT, CUT) cut at edges[:count], in any order;
    returns the number of nodes."""
    x, w = rule
    found = np.sort(edges[:count])
    place, low = 0, -CUT
    for i in range(count + 1):
        high = found[i] if i < count else CUT
        high = min(high, CUT)
        if high - low < 1e-12:
            continue
        pieces = 1 + int((high - low) / LONGEST_PANEL)
        half = 0.5 * (high - low) / pieces
        for piece in range(pieces):
            for n in range(len(x)):
                z[place] = low + half * (2 * piece + 1 + x[n])
                weight[place] = half * w[n] * np.exp(-0.5 * z[place] ** 2)
                place += 1
        low = high
    return place


@njit(cache=True, error_model="numpy")
def _room(n, places, nodes):
    """Empty arrays for the edges, nodes and weights of the largest rule for n fields."""
    most = 3 * n * max(len(places[0]), len(places[1])) + 1
    return np.empty(most), np.empty((most + 3) * nodes), np.empty((most + 3) * nodes)


@njit(cache=True, error_model="numpy")
def pair_averages(functions, places, rule, om, c, p):
    """es (p,), f (p, n), j2 (p, p) and the square. functions: s, s', s*; places: kinks of s and of s*; rule: nodes and weights."""
    (s, ds, s_star), (kinks, kinks_star) = functions, places
    n = om.shape[0]
    es, f, j2, square = np.zeros(p), np.zeros((p, n)), np.zeros((p, p)), 0.0
    edges, z1, w1 = _room(n, places, len(rule[0]))
    _, z2, w2 = _room(n, places, len(rule[0]))
    for i in range(n):
        own = kinks if i < p else kinks_star
        for q in range(n):
            if i >= p and q < p:
                continue  # add_pair counts pairs of student and teacher twice in the square
            other = kinks if q < p else kinks_star
            root, slope, rest = pair_roots(om, i, q)
            count = _add_bends(edges, 0, own, root, 0.0, 0.0)
            if q != i:
                count = _add_bends(edges, count, other, slope, 0.0, rest)
            outer = _panels(edges, count, rule, z1, w1)
            both = first = second = slopes = 0.0
            for a in range(outer):
                u = root * z1[a]
                inner = 1
                z2[0], w2[0] = 0.0, 1.0
                if rest > 0.0:
                    inner = _panels(edges, _add_bends(edges, 0, other, rest, slope * z1[a], 0.0), rule, z2, w2)
                value0 = value1 = slope0 = 0.0
                for b in range(inner):
                    v = slope * z1[a] + rest * z2[b]
                    value = s(v) if q < p else s_star(v)
                    value0 += w2[b] * value
                    value1 += w2[b] * value * z2[b]
                    if i < p and q < p:
                        slope0 += w2[b] * ds(v)
                both += w1[a] * value0 * (s(u) if i < p else s_star(u))
                if i < p:
                    d = w1[a] * ds(u)
                    first += d * value0 * z1[a]
                    second += d * value1
                    slopes += d * slope0
            square += add_pair((es, f, j2), om, c, p, i, q, (both, first, second, slopes))
    return es, f, j2, square


@njit(cache=True, error_model="numpy")
def _expansion(s, kinks, mean, spread, edges, rule, z, weight, h):
    """Put h_n = E[s(mean + spread z) He_n(z)]/sqrt(n!) into h (orders,); returns E[s^2]. edges, z, weight are scratch."""
    count = _panels(edges, _add_bends(edges, 0, kinks, spread, mean, 0.0), rule, z, weight)
    h[:] = 0.0
    square = 0.0
    for m in range(count):
        value = s(mean + spread * z[m])
        square += weight[m] * value * value
        before, now = 0.0, weight[m] * value
        for order in range(len(h)):
            h[order] += now
            before, now = now, (z[m] * now - np.sqrt(float(order)) * before) / np.sqrt(order + 1.0)
    return square


@njit(cache=True, error_model="numpy")
def squared_error_average(functions, places, rule, fine, om, c, p, i, j):
    """g[i, j]; arguments as of `pair_averages`, and the fine rule is that of long series, whose polynomials have many zeros."""
    (s, ds, s_star), (kinks, kinks_star) = functions, places
    n = om.shape[0]
    root, slope, rest, along, across, spread, correlation = conditional_law(om, i, j)
    largest = np.abs(correlation).max()
    orders = 1
    if largest > 0.0:
        orders = MOST_ORDERS if largest > 0.999 else min(MOST_ORDERS, 2 + int(np.log(SERIES_ERROR) / np.log(largest)))
    edges, z1, w1 = _room(n, places, len(rule[0]))
    _, z2, w2 = _room(n, places, len(rule[0]))
    line = rule if orders <= FEW_ORDERS else fine
    _, z3, w3 = _room(n, places, len(line[0]))
    h, own = np.zeros((n, orders)), np.empty(n)
    count = _add_bends(edges, 0, kinks, root, 0.0, 0.0)
    if j != i:
        count = _add_bends(edges, count, kinks, slope, 0.0, rest)
    for q in range(n):
        if q != i and q != j:
            count = _add_bends(edges, count, kinks if q < p else kinks_star, along[q], 0.0, np.hypot(across[q], spread[q]))
    outer = _panels(edges, count, rule, z1, w1)
    total = 0.0
    for a in range(outer):
        first = ds(root * z1[a])
        if first == 0.0:
            continue
        inner = 1
        z2[0], w2[0] = 0.0, 1.0
        if rest > 0.0:
            count = _add_bends(edges, 0, kinks, rest, slope * z1[a], 0.0)
            for q in range(n):
                if q != i and q != j:
                    count = _add_bends(edges, count, kinks if q < p else kinks_star, across[q], along[q] * z1[a], spread[q])
            inner = _panels(edges, count, rule, z2, w2)
        for b in range(inner):
            weight = w1[a] * w2[b] * first * ds(slope * z1[a] + rest * z2[b])
            if weight == 0.0:
                continue
            for q in range(n):
                mean = along[q] * z1[a] + across[q] * z2[b]
                if spread[q] == 0.0:
                    h[q, :] = 0.0
                    h[q, 0] = s(mean) if q < p else s_star(mean)
                    own[q] = h[q, 0] ** 2
                elif q < p:
                    own[q] = _expansion(s, kinks, mean, spread[q], edges, line, z3, w3, h[q])
                else:
                    own[q] = _expansion(s_star, kinks_star, mean, spread[q], edges, line, z3, w3, h[q])
            squared = 0.0
            for q in range(n):
                squared += c[q] * c[q] * own[q]
                for r in range(q):
                    power = 2.0 * c[q] * c[r]
                    for order in range(orders):
                        squared += power * h[q, order] * h[r, order]
                        power *= correlation[q, r]
                        if abs(power) < 1e-16:
                            break
            total += weight * squared
    return total


def kinked_moments(student, teacher, kinks, om: np.ndarray, c: np.ndarray, p: int, nodes: int, diagonal: bool = False):
    """es, f, g, j2, square of field_moments.py for functions with kinks = (places of the student's, of the teacher's); a panel has
    nodes/2 nodes. With `diagonal` only i = j of g."""
    functions, rule = (student.s, student.ds, teacher.s), legendre(nodes // 2)
    places = np.array(kinks[0], float), np.array(kinks[1], float)
    es, f, j2, square = pair_averages(functions, places, rule, om, c, p)
    g = np.zeros((p, p))
    for i in range(p):
        for j in range(i, i + 1 if diagonal else p):
            g[i, j] = g[j, i] = squared_error_average(functions, places, rule, legendre(FINE), om, c, p, i, j)
    return es, f, g, j2, square


def kinked_square(student, teacher, kinks, om: np.ndarray, c: np.ndarray, p: int, nodes: int) -> float:
    """E[E^2] alone."""
    places = np.array(kinks[0], float), np.array(kinks[1], float)
    return float(pair_averages((student.s, student.ds, teacher.s), places, legendre(nodes // 2), om, c, p)[3])
