// What the page computes: fields, potentials, measures and trajectories. The formulas of the functions and of
// the loss curves are not here: FUNCTIONS and CURVES come from the same expressions as the Python ones.
"use strict";

// A loss is L = (h1 w1^2 + h2 w2^2) / 2, given by its curvatures h; its gradient is (h1 w1, h2 w2).
const gradient = (h, w) => [h[0] * w[0], h[1] * w[1]];
const lossAt = (h, w) => (h[0] * w[0] ** 2 + h[1] * w[1] ** 2) / 2;

// A transform has field(g), a vector, and where it acts by element slope(x) and potential(x), which is even:
// the integral of its own function from 0 to x.
function transforms(settings) {
  const { alpha, beta, norm } = settings;
  const made = {
    original: { field: (g) => g, slope: () => 1, potential: (x) => (x * x) / 2 },
  };
  for (const [name, code] of Object.entries(FUNCTIONS)) {
    const f = (x) => Math.sign(x) * code.field(Math.abs(x), alpha, beta);
    made[name] = {
      field: (g) => g.map(f),
      slope: (x) => code.slope(Math.abs(x), alpha, beta),
      potential: (x) => code.potential(Math.abs(x), alpha, beta),
    };
  }
  made["norm clipping"] = {
    field: (g) => {
      const size = Math.hypot(...g);
      return size > norm ? g.map((x) => (x * norm) / size) : g;
    },
  };
  made["value clipping"] = {
    field: (g) => g.map((x) => Math.max(-alpha, Math.min(alpha, x))),
    slope: (x) => (Math.abs(x) < alpha ? 1 : 0),
    potential: (x) => (Math.abs(x) < alpha ? (x * x) / 2 : alpha * (Math.abs(x) - alpha / 2)),
  };
  return made;
}

function axis(radius, points) {
  return Array.from({ length: points }, (_, i) => radius * ((2 * i) / (points - 1) - 1));
}

// The equivalent loss over a grid, values[j][i] at (w1[i], w2[j]). By element, E(w) = sum of F(h w) / h.
function surface(h, transform, radius, points) {
  const w = axis(radius, points);
  if (transform.potential) {
    const side = h.map((k) => w.map((x) => transform.potential(k * x) / k));
    return { w, values: side[1].map((b) => side[0].map((a) => a + b)), residual: 0 };
  }
  return fitted((x, y) => transform.field(gradient(h, [x, y])), w);
}

// The potential that fits a field best: least squares over the edges of the grid, solved by cosines.
function fitted(field, w) {
  const n = w.length;
  const step = w[1] - w[0];
  const nodes = [-Math.sqrt(0.6), 0, Math.sqrt(0.6)].map((x) => ((x + 1) / 2) * step); // Gauss, 3 points
  const weights = [5 / 18, 8 / 18, 5 / 18];
  const along = (k, x, y) =>
    nodes.reduce((sum, t, i) => sum + weights[i] * (k ? field(x, y + t) : field(x + t, y))[k], 0);
  const grid = (f) => w.map((y, j) => w.map((x, i) => f(x, y, i, j)));
  // mean slope along the edge to the right of a point and to the one above it; 0 beyond the last
  const right = grid((x, y, i) => (i < n - 1 ? along(0, x, y) : 0));
  const up = grid((x, y, i, j) => (j < n - 1 ? along(1, x, y) : 0));
  const source = grid(
    (x, y, i, j) =>
      ((i ? right[j][i - 1] : 0) - right[j][i] + (j ? up[j - 1][i] : 0) - up[j][i]) / step
  );
  const cosines = w.map((_, k) => w.map((_, i) => Math.cos((Math.PI * k * (i + 0.5)) / n)));
  const multiply = (a, b) => a.map((row) => b[0].map((_, j) => row.reduce((s, x, k) => s + x * b[k][j], 0)));
  const turn = (a) => a[0].map((_, j) => a.map((row) => row[j]));
  const spectrum = multiply(multiply(cosines, source), turn(cosines)).map((row, j) =>
    row.map((x, i) => {
      if (!i && !j) return 0; // the constant is free
      const scale = (i ? 2 : 1) * (j ? 2 : 1);
      const eigen = 4 - 2 * Math.cos((Math.PI * i) / n) - 2 * Math.cos((Math.PI * j) / n);
      return (scale * x * step * step) / (eigen * n * n);
    })
  );
  const values = multiply(multiply(turn(cosines), spectrum), cosines);
  let left = 0;
  let size = 0;
  for (let j = 0; j < n; j++) {
    for (let i = 0; i < n; i++) {
      if (i < n - 1) left += ((values[j][i + 1] - values[j][i]) / step - right[j][i]) ** 2;
      if (j < n - 1) left += ((values[j + 1][i] - values[j][i]) / step - up[j][i]) ** 2;
      size += right[j][i] ** 2 + up[j][i] ** 2;
    }
  }
  const zero = values[(n - 1) / 2][(n - 1) / 2];
  const residual = Math.sqrt(left / size);
  return { w, values: values.map((row) => row.map((z) => z - zero)), residual: residual > 1e-6 ? residual : 0 };
}

// zeta = l / c over the box: the largest slope of the field over the smallest, infinite where that is not > 0.
function condition(h, transform, radius) {
  if (!transform.slope) {
    const corner = gradient(h, [radius, radius]);
    const free = Math.hypot(...corner) === Math.hypot(...transform.field(corner));
    return free ? condition(h, { slope: () => 1 }, radius) : Infinity;
  }
  const slopes = h.flatMap((k) => axis(radius, 2001).map((x) => k * transform.slope(k * x)));
  const least = Math.min(...slopes);
  return least > 0 ? Math.max(...slopes) / least : Infinity;
}

// The larger component of the field over the smaller one, at (d, d).
function anisotropy(h, transform, d) {
  const size = transform.field(gradient(h, [d, d])).map(Math.abs);
  return Math.max(...size) / Math.min(...size);
}

// Optimizers are a velocity rule and a step. The control of a function f is GD with f replaced by its slope at
// 0, which is a larger learning rate and nothing else.
function optimizers(settings, made) {
  const { name, momentum } = settings;
  const f = made[name];
  const control = f.slope(0);
  const plain = (g) => g;
  return {
    GD: { decay: 0, act: plain },
    [`GD, rate × ${Number(control.toPrecision(3))}`]: { decay: 0, act: (v) => v.map((x) => control * x) },
    [`GD with ${name}`]: { decay: 0, act: f.field },
    "GD, norm clipping": { decay: 0, act: made["norm clipping"].field },
    "GD, value clipping": { decay: 0, act: made["value clipping"].field },
    momentum: { decay: momentum, act: plain },
    [`momentum with ${name}`]: { decay: momentum, act: f.field },
  };
}

// Points from a start on; a path ends where it has left the neighbourhood or is no number any more.
function trajectory(h, optimizer, settings) {
  const { rate, steps, start, radius } = settings;
  let w = start.slice();
  let v = [0, 0];
  const path = [w];
  for (let step = 0; step < steps; step++) {
    const g = gradient(h, w);
    v = v.map((x, k) => optimizer.decay * x + g[k]);
    const u = optimizer.act(v);
    w = w.map((x, k) => x - rate * u[k]);
    if (!(Math.hypot(...w) < 100 * radius)) break;
    path.push(w);
  }
  return path;
}

// The height of a surface at a point of its box, by the four corners around it.
function heightAt(face, point) {
  const n = face.w.length;
  const place = point.map((x) => ((x / face.w[n - 1] + 1) * (n - 1)) / 2);
  const [i, j] = place.map((x) => Math.max(0, Math.min(n - 2, Math.floor(x))));
  const [s, t] = [place[0] - i, place[1] - j];
  const z = face.values;
  return (1 - t) * ((1 - s) * z[j][i] + s * z[j][i + 1]) + t * ((1 - s) * z[j + 1][i] + s * z[j + 1][i + 1]);
}

// The equivalent curve of a loss with a slope: the integral of f(slope) from 0, Simpson on each step.
function curve(slope, f, reach, points) {
  const w = axis(reach, points);
  const middle = (points - 1) / 2;
  const step = w[1] - w[0];
  const at = (x) => f(slope(x));
  const piece = (a) => (step / 6) * (at(a) + 4 * at(a + step / 2) + at(a + step));
  const values = new Array(points).fill(0);
  for (let i = middle; i < points - 1; i++) values[i + 1] = values[i] + piece(w[i]);
  for (let i = middle; i > 0; i--) values[i - 1] = values[i] - piece(w[i - 1]);
  return { w, values };
}
