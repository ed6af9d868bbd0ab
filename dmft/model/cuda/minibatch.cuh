// The mini-batch weight of a sample at the next step: what `next_weight` and `own_weight` of dmft/model/minibatches.py do on a
// CPU, which puts the codes of the laws and MOST_DRAWS before this text. Eqs. [persistent-chain], [epochs].

struct Chain {
    int kind;
    double fraction, p_on, p_off;
    long long period, begin;
};

__device__ inline double next_weight(const Chain &chain, double s, unsigned long long key, long long label, long long n) {
    if (chain.kind == FULL_BATCH) return 1.0;
    double u, unused;
    if (chain.kind >= RESHUFFLED) {
        const long long since = (n + 1 - chain.begin) % chain.period, epoch = chain.kind == CYCLIC ? chain.begin : n + 1 - since;
        uniform2(key, label / chain.period, epoch, u, unused);
        return (label + (long long)(u * chain.period)) % chain.period == since ? 1.0 : 0.0;
    }
    uniform2(key, label, n + 1, u, unused);
    if (chain.kind == BERNOULLI) return u < chain.fraction ? 1.0 : 0.0;
    if (chain.kind == PERSISTENT) return u < (s > 0.5 ? 1.0 - chain.p_off : chain.p_on) ? 1.0 : 0.0;
    double term = exp(-chain.fraction), below = term, drawn = 0.0;
    while (u >= below && drawn < MOST_DRAWS) {
        drawn += 1.0;
        term *= chain.fraction / drawn;
        below += term;
    }
    return drawn;
}

// changes (known,): s(0) and the first changes of this sample.
__device__ inline double own_weight(const Chain &chain, double s, unsigned long long key, long long label, long long n, int known,
                                    const long long *changes) {
    if (known == 0 || changes[known - 1] <= n) return next_weight(chain, s, key, label, n);
    long long passed = changes[0];
    for (int k = 1; k < known; k++) passed += changes[k] <= n + 1;
    return passed % 2;
}
