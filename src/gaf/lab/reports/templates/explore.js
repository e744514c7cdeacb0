// The controls of the page and what they draw. Everything is drawn again at every change.
"use strict";

const COLORS = ["#000000", "#E69F00", "#D55E00", "#56B4E9", "#009E73", "#0072B2", "#CC79A7"]; // Okabe and Ito
const DASHES = ["solid", "dot", "solid", "dash", "dashdot", "longdash", "longdashdot"];
const MARKS = ["circle", "x", "square", "diamond", "cross", "circle-open", "square-open"];
const DISTANCES = [0.01, 0.1, 1];
const POINTS = 61;
const SCENES = {
  bowl: { curvature: (condition) => [2, 2 / condition], condition: 5, radius: 1, start: [-0.9, 0.8], rate: 0.3 },
  saddle: { curvature: (condition) => [2, -2 / condition], condition: 1, radius: SADDLE, start: [0.8, 0.02], rate: 0.1 },
};
const plotOptions = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["toImage", "lasso2d", "select2d"] };
const byId = (id) => document.getElementById(id);

// A range slides from 0 to 1000; data-from and data-to are its ends, data-log says that it slides by factors. Where
// nobody has moved it, it stands for the value it was given, to the last digit.
const given = {};

function valueOf(id) {
  const { from, to, log, whole } = byId(id).dataset;
  const place = byId(id).valueAsNumber;
  if (given[id] && given[id].place === place) return given[id].value;
  const [a, b] = [Number(from), Number(to)];
  const value = log === undefined ? a + (place / 1000) * (b - a) : a * (b / a) ** (place / 1000);
  return whole === undefined ? Number(value.toPrecision(2)) : Math.round(value);
}

function setValue(id, value) {
  const { from, to, log } = byId(id).dataset;
  const [a, b] = [Number(from), Number(to)];
  const share = log === undefined ? (value - a) / (b - a) : Math.log(value / a) / Math.log(b / a);
  byId(id).value = Math.round(1000 * Math.max(0, Math.min(1, share)));
  given[id] = { place: byId(id).valueAsNumber, value };
}

function read() {
  const scene = byId("scene").value;
  const radius = valueOf("radius");
  return {
    scene,
    name: byId("function").value,
    shown: byId("shown").value,
    alpha: valueOf("alpha"),
    beta: valueOf("beta"),
    norm: valueOf("norm"),
    h: SCENES[scene].curvature(valueOf("condition")),
    radius,
    rate: valueOf("rate"),
    momentum: valueOf("momentum"),
    steps: valueOf("steps"),
    start: [valueOf("start1") * radius, valueOf("start2") * radius],
  };
}

function say(number) {
  if (!Number.isFinite(number)) return "infinite";
  const size = Math.abs(number);
  if (size === 0 || (size >= 1e-3 && size < 1e3)) return String(Number(number.toPrecision(3)));
  const [head, power] = number.toExponential(1).split("e");
  const raised = String(Number(power)).replace(/./g, (sign) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)]);
  return `${head}×10${raised}`;
}

// An element with text or other elements in it; text is never read as HTML.
function make(tag, inside = [], attributes = {}) {
  const element = Object.assign(document.createElement(tag), attributes);
  element.append(...[inside].flat());
  return element;
}

const shownName = (settings) => (settings.shown === "function" ? settings.name : settings.shown);
const inside = (settings) => (point) => point.every((x) => Math.abs(x) <= settings.radius);

function drawSurface(settings, made, paths) {
  const name = shownName(settings);
  const face = surface(settings.h, made[name], settings.radius, POINTS);
  const flat = [
    { type: "contour", x: face.w, y: face.w, z: face.values, colorscale: "Cividis", ncontours: 18,
      contours: { coloring: "fill" }, line: { color: "rgba(255,255,255,0.6)", width: 0.6 },
      colorbar: { thickness: 12, len: 0.9, tickfont: { size: 11 } }, hovertemplate: "w₁ %{x:.3g}, w₂ %{y:.3g}: %{z:.3g}<extra></extra>" },
  ];
  const solid = [
    { type: "surface", x: face.w, y: face.w, z: face.values, colorscale: "Cividis", showscale: false,
      contours: { z: { show: true, color: "rgba(255,255,255,0.5)", width: 1 } },
      hovertemplate: "w₁ %{x:.3g}, w₂ %{y:.3g}: %{z:.3g}<extra></extra>" },
  ];
  const heights = face.values.flat();
  const lift = 0.01 * (Math.max(...heights) - Math.min(...heights));
  Object.entries(paths).forEach(([method, path], k) => {
    if (!byId(`method${k}`).checked) return;
    const end = path.findIndex((point) => !inside(settings)(point));
    const drawn = end < 0 ? path : path.slice(0, end);
    const towards = end < 0 ? path : path.slice(0, end + 1); // the step out of the box is cut at its edge
    const [x, y] = [0, 1].map((c) => towards.map((point) => point[c]));
    const line = { color: COLORS[k], width: 2.5, dash: DASHES[k] };
    // The lines lie on blue and on yellow: a white edge keeps them apart from both.
    flat.push({ type: "scatter", mode: "lines", x, y, line: { color: "white", width: 4.5 }, hoverinfo: "skip" });
    flat.push({ type: "scatter", mode: "lines+markers", name: method, x, y, line,
      marker: { symbol: MARKS[k], size: 5, color: COLORS[k] } });
    solid.push({ type: "scatter3d", mode: "lines+markers", name: method,
      x: drawn.map((point) => point[0]), y: drawn.map((point) => point[1]), z: drawn.map((point) => heightAt(face, point) + lift),
      line: { color: COLORS[k], width: 5 }, marker: { size: 2.5, color: COLORS[k] } });
  });
  const margin = { l: 46, r: 8, t: 8, b: 40 };
  const range = [-settings.radius, settings.radius];
  Plotly.react("flat", flat, themed({ margin, showlegend: false, uirevision: "flat",
    xaxis: { title: { text: "w₁" }, range, constrain: "domain" },
    yaxis: { title: { text: "w₂" }, range, scaleanchor: "x", constrain: "domain" } }), plotOptions);
  const axisOf = (text) => ({ title: { text }, nticks: 5 });
  Plotly.react("solid", solid, themed({ margin: { l: 0, r: 0, t: 0, b: 0 }, showlegend: false, uirevision: "solid",
    scene: { xaxis: axisOf("w₁"), yaxis: axisOf("w₂"), zaxis: axisOf("height"),
      camera: { eye: { x: 1.15, y: -1.35, z: 1.35 } } } }), plotOptions);
  byId("what").textContent =
    name === "original" ? "The loss itself."
    : face.residual ? `After ${name} the field is no gradient, so no loss has it. Shown is the surface that fits it best, with ${(100 * face.residual).toFixed(0)} % of the field left over.`
    : `The equivalent loss: its plain gradient is the gradient of the loss after ${name}.`;
}

function drawMeasures(settings, made) {
  const rows = Object.entries(made).map(([name, transform]) => ({
    name,
    condition: condition(settings.h, transform, settings.radius),
    ratios: DISTANCES.map((d) => anisotropy(settings.h, transform, d)),
  }));
  const convex = settings.h.every((k) => k > 0);
  const cells = (row) => [convex ? say(row.condition) : "none", ...row.ratios.map(say)].map((text) => make("td", text));
  byId("measures").tBodies[0].replaceChildren(
    ...rows.map((row) => make("tr", [make("th", row.name, { scope: "row" }), ...cells(row)],
      { className: row.name === shownName(settings) ? "now" : "" }))
  );
  const [original, now] = [rows[0], rows.find((row) => row.name === settings.name)];
  const [byZeta, byRatio] = [verdict(now.condition, original.condition), verdict(now.ratios[2], original.ratios[2])];
  let said = `By ζ, ${settings.name} ${byZeta}; by anisotropy at d = 1 it ${byRatio}.`;
  if (byZeta.endsWith("worse") && byRatio.endsWith("better")) {
    said += " The two measures disagree: f flattens the field where gradients are large, which spoils ζ, and makes its components alike, which is what anisotropy sees.";
  }
  byId("disagree").textContent = convex ? said : "A saddle is not convex: it has no c, and so no ζ.";
}

function verdict(now, before) {
  const ratio = now / before;
  if (!(Math.abs(ratio - 1) > 0.005)) return "leaves this loss as it is";
  return ratio > 1 ? "makes this loss worse" : "makes this loss better";
}

function drawPaths(settings, paths) {
  const convex = settings.h.every((k) => k > 0);
  byId("goal").textContent = convex ? "first step with 1 % of the loss left" : "first step outside the box";
  const goal = convex
    ? (point) => lossAt(settings.h, point) <= 0.01 * lossAt(settings.h, settings.start)
    : (point) => !inside(settings)(point);
  Object.values(paths).forEach((path, k) => {
    const last = path[path.length - 1];
    const gone = path.length <= settings.steps;
    const reached = path.findIndex(goal);
    byId(`loss${k}`).textContent = gone ? (convex ? "diverges" : "far below") : say(lossAt(settings.h, last));
    byId(`reach${k}`).textContent = reached < 0 ? "not within the steps" : reached;
  });
}

function drawCurves(settings) {
  const f = (x) => Math.sign(x) * FUNCTIONS[settings.name].field(Math.abs(x), settings.alpha, settings.beta);
  const traces = [];
  Object.entries(CURVES).forEach(([name, slope], k) => {
    const color = shade(["ink", "colour-0", "colour-1"][k]);
    for (const [label, act, dash] of [[name, (x) => x, "solid"], [`${name}, after ${settings.name}`, f, "dot"]]) {
      const { w, values } = curve(slope, act, REACH, 321);
      const unit = dash === "solid" ? 1 : values[w.findIndex((x) => x > 1 - 1e-9)];
      traces.push({ type: "scatter", mode: "lines", name: label, x: w, y: values.map((y) => y / unit), line: { color, dash, width: 2.2 } });
    }
  });
  Plotly.react("curves", traces, themed({ uirevision: "curves",
    margin: { l: 46, r: 8, t: 8, b: 40 }, legend: { orientation: "h", y: -0.16 },
    xaxis: { title: { text: "w" } }, yaxis: { title: { text: "loss" }, range: [0, 3] } }), plotOptions);
}

function draw() {
  for (const input of document.querySelectorAll("input[type=range]")) {
    const value = valueOf(input.id);
    const text = Number(value.toPrecision(4));
    byId(`${input.id}-value`).textContent = text;
    input.setAttribute("aria-valuetext", text);
  }
  const settings = read();
  const made = transforms(settings);
  const methods = optimizers(settings, made);
  const paths = {};
  for (const [name, optimizer] of Object.entries(methods)) paths[name] = trajectory(settings.h, optimizer, settings);
  Object.keys(paths).forEach((name, k) => (byId(`name${k}`).textContent = name));
  drawSurface(settings, made, paths);
  drawMeasures(settings, made);
  drawPaths(settings, paths);
  drawCurves(settings);
}

function chooseScene() {
  const { condition, radius, start, rate } = SCENES[byId("scene").value];
  setValue("condition", condition);
  setValue("radius", radius);
  setValue("rate", rate);
  setValue("start1", start[0]);
  setValue("start2", start[1]);
}

function begin() {
  for (const name of Object.keys(FUNCTIONS)) byId("function").add(new Option(name, name));
  byId("paths").tBodies[0].replaceChildren(
    ...COLORS.map((color, k) => {
      const box = make("input", [], { type: "checkbox", id: `method${k}`, checked: k < 3 || k === 5 });
      const swatch = make("span", [], { className: "swatch" });
      swatch.style.background = color;
      const label = make("label", [swatch, make("span", [], { id: `name${k}` })], { htmlFor: box.id });
      return make("tr", [make("td", box), make("th", label, { scope: "row" }),
        make("td", [], { id: `loss${k}` }), make("td", [], { id: `reach${k}` })]);
    })
  );
  for (const [id, value] of Object.entries(FIRST)) setValue(id, value);
  const asked = location.hash.slice(1) || OPEN;
  if (Object.hasOwn(SCENES, asked)) byId("scene").value = asked;
  chooseScene();
  byId("scene").addEventListener("change", chooseScene);
  let waiting = 0; // draws once for all changes between two frames
  document.querySelector("main").addEventListener("input", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(draw);
  });
  byId("scene").addEventListener("change", draw);
  draw();
  redraw(draw);
  if (asked === "curves") byId("curves").scrollIntoView();
}

plotlyLoaded.then(begin);
