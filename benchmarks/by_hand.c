/* Mean loss and gradient of the four cases, by hand: gcc -O3 -march=native -ffast-math -fopenmp, with libmvec.
   Functions stand in loops of their own: in one loop, gcc makes one scalar call of sin and cos. */
#include <math.h>
#define STRIP 512
#define OVER_STRIPS for (long begin = 0; begin < n; begin += STRIP)
#define LENGTH (n - begin < STRIP ? n - begin : STRIP)

void a(const double **col, const double *y, long n, const double *p, double *out, int threads) {
  double v = 0, ga = 0, gb = 0, gc = 0, gd = 0;
  const double *x = col[0];
#pragma omp parallel for num_threads(threads) if (threads > 1 && n > 4096) reduction(+ : v, ga, gb, gc, gd)
  OVER_STRIPS {
    double e[STRIP], s[STRIP], k[STRIP];
    long m = LENGTH;
    const double *u = x + begin, *w = y + begin;
    for (long i = 0; i < m; i++) e[i] = exp(-p[1] * u[i]);
    for (long i = 0; i < m; i++) s[i] = sin(p[3] * u[i]);
    for (long i = 0; i < m; i++) k[i] = cos(p[3] * u[i]);
    for (long i = 0; i < m; i++) {
      double r = w[i] - (p[0] * e[i] + p[2] * s[i]), g = -2 * r;
      v += r * r; ga += g * e[i]; gb -= g * p[0] * u[i] * e[i]; gc += g * s[i]; gd += g * p[2] * u[i] * k[i];
    }
  }
  double found[] = {v, ga, gb, gc, gd};
  for (int j = 0; j < 5; j++) out[j] = found[j] / n;
}

void b(const double **col, const double *y, long n, const double *p, double *out, int threads) {
  double v = 0, g0 = 0, g[10] = {0};
  const double *restrict c0 = col[0], *restrict c1 = col[1], *restrict c2 = col[2], *restrict c3 = col[3],
               *restrict c4 = col[4], *restrict c5 = col[5], *restrict c6 = col[6], *restrict c7 = col[7],
               *restrict c8 = col[8], *restrict c9 = col[9];
#pragma omp parallel for num_threads(threads) if (threads > 1 && n > 4096) reduction(+ : v, g0, g[:10])
  OVER_STRIPS {
    double s[STRIP], e[STRIP], l[STRIP], t0 = 0, t1 = 0, t2 = 0, t3 = 0, t4 = 0, t5 = 0, t6 = 0, t7 = 0, t8 = 0, t9 = 0;
    long m = LENGTH;
    for (long i = 0; i < m; i++) {
      long k = begin + i;
      s[i] = p[0] + p[1] * c0[k] + p[2] * c1[k] + p[3] * c2[k] + p[4] * c3[k] + p[5] * c4[k] + p[6] * c5[k] +
             p[7] * c6[k] + p[8] * c7[k] + p[9] * c8[k] + p[10] * c9[k];
    }
    for (long i = 0; i < m; i++) e[i] = exp(-fabs(s[i]));
    for (long i = 0; i < m; i++) l[i] = log1p(e[i]);
    for (long i = 0; i < m; i++) {
      long k = begin + i;
      double d = (s[i] < 0 ? e[i] : 1.0) / (1 + e[i]) - y[k];
      v += (s[i] < 0 ? 0.0 : s[i]) + l[i] - y[k] * s[i]; g0 += d;
      t0 += d * c0[k]; t1 += d * c1[k]; t2 += d * c2[k]; t3 += d * c3[k]; t4 += d * c4[k];
      t5 += d * c5[k]; t6 += d * c6[k]; t7 += d * c7[k]; t8 += d * c8[k]; t9 += d * c9[k];
    }
    double t[] = {t0, t1, t2, t3, t4, t5, t6, t7, t8, t9};
    for (int j = 0; j < 10; j++) g[j] += t[j];
  }
  out[0] = v / n; out[1] = g0 / n;
  for (int j = 0; j < 10; j++) out[2 + j] = g[j] / n;
}

void c(const double **col, const double *y, long n, const double *p, double *out, int threads) {
  double v = 0, g0 = 0, g1 = 0, g2 = 0, g3 = 0, g4 = 0;
  const double *x = col[0];
#pragma omp parallel for simd num_threads(threads) if (parallel : threads > 1 && n > 4096) \
    reduction(+ : v, g0, g1, g2, g3, g4)
  for (long i = 0; i < n; i++) {
    double u = x[i], q = 1 / (1 + p[3] * u + p[4] * u * u), z = (p[0] + p[1] * u + p[2] * u * u) * q;
    double r = y[i] - z, g = -2 * r * q, h = -g * z;
    v += r * r; g0 += g; g1 += g * u; g2 += g * u * u; g3 += h * u; g4 += h * u * u;
  }
  double found[] = {v, g0, g1, g2, g3, g4};
  for (int j = 0; j < 6; j++) out[j] = found[j] / n;
}

#define H 10
#define PART 128
/* p: V[10], k[10] (into the first layer), W[10][10], m[10], w[10], b */
void d(const double **col, const double *y, long n, const double *p, double *out, int threads) {
  const double *x = col[0], *V = p, *K = p + H, *W = p + 2 * H, *M = W + H * H, *O = M + H, B = O[H];
  double v = 0, g[141] = {0};
#pragma omp parallel for num_threads(threads) if (threads > 1 && n > 1024) reduction(+ : v, g[:141])
  for (long begin = 0; begin < n; begin += PART) {
    long m = n - begin < PART ? n - begin : PART;
    const double *u = x + begin, *w = y + begin;
    double h[H][PART], z[H][PART], t[H][PART], d[PART];
    for (int j = 0; j < H; j++) for (long i = 0; i < m; i++) h[j][i] = tanh(V[j] * u[i] + K[j]);
    for (int j = 0; j < H; j++) {
      for (long i = 0; i < m; i++) z[j][i] = M[j];
      for (int k = 0; k < H; k++) for (long i = 0; i < m; i++) z[j][i] += W[H * j + k] * h[k][i];
      for (long i = 0; i < m; i++) z[j][i] = tanh(z[j][i]);
    }
    for (long i = 0; i < m; i++) d[i] = B;
    for (int j = 0; j < H; j++) for (long i = 0; i < m; i++) d[i] += O[j] * z[j][i];
    for (long i = 0; i < m; i++) { double r = w[i] - d[i]; v += r * r; d[i] = -2 * r; g[140] += d[i]; }
    for (int k = 0; k < H; k++) for (long i = 0; i < m; i++) t[k][i] = 0;
    for (int j = 0; j < H; j++) {
      double sum = 0, sums = 0;
      for (long i = 0; i < m; i++) {
        sum += d[i] * z[j][i];
        z[j][i] = d[i] * O[j] * (1 - z[j][i] * z[j][i]);
        sums += z[j][i];
      }
      g[130 + j] += sum; g[120 + j] += sums;
      for (int k = 0; k < H; k++) {
        double dot = 0;
        for (long i = 0; i < m; i++) { dot += z[j][i] * h[k][i]; t[k][i] += W[H * j + k] * z[j][i]; }
        g[20 + H * j + k] += dot;
      }
    }
    for (int k = 0; k < H; k++) {
      double into = 0, sum = 0;
      for (long i = 0; i < m; i++) {
        double s = t[k][i] * (1 - h[k][i] * h[k][i]);
        into += s * u[i]; sum += s;
      }
      g[k] += into; g[H + k] += sum;
    }
  }
  out[0] = v / n;
  for (int j = 0; j < 141; j++) out[1 + j] = g[j] / n;
}
