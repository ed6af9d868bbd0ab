// The random numbers of dmft/core/streams.py on a GPU: Philox-4x32-10, the same bits for the same (stream, index, step).

__device__ inline void philox(unsigned long long stream, unsigned long long index, unsigned long long step,
                              unsigned long long &a, unsigned long long &b) {
    unsigned k0 = (unsigned)stream, k1 = (unsigned)(stream >> 32);
    unsigned c0 = (unsigned)step, c1 = (unsigned)(step >> 32), c2 = (unsigned)index, c3 = (unsigned)(index >> 32);
    for (int round = 0; round < 10; round++) {
        unsigned long long p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
        c0 = (unsigned)(p1 >> 32) ^ c1 ^ k0;
        c1 = (unsigned)p1;
        c2 = (unsigned)(p0 >> 32) ^ c3 ^ k1;
        c3 = (unsigned)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    a = ((unsigned long long)c1 << 32) | c0;
    b = ((unsigned long long)c3 << 32) | c2;
}

__device__ inline void uniform2(unsigned long long stream, unsigned long long index, unsigned long long step,
                                double &u, double &v) {
    unsigned long long a, b;
    philox(stream, index, step, a, b);
    const double scale = 1.0 / 9007199254740992.0;
    u = ((double)(a >> 11) + 0.5) * scale;
    v = ((double)(b >> 11) + 0.5) * scale;
}

__device__ inline void normal2(unsigned long long stream, unsigned long long index, unsigned long long step,
                               double &x, double &y) {
    double u, v;
    uniform2(stream, index, step, u, v);
    double radius = sqrt(-2.0 * log(u)), angle = 6.283185307179586 * v;
    x = radius * cos(angle);
    y = radius * sin(angle);
}
