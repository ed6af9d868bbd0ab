"use strict";
// Draws the data of this page with Plotly. #t_w=0.5 in the address sets every waiting-time slider to the nearest time.
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7F7F7F", "#8C564B", "#6A3D9A"];
  // Plotly offers to send charts to a server by default; this page must not.
  // On a narrow screen its tools would lie over the titles.
  const CONFIG = { displaylogo: false, responsive: true, showSendToCloud: false, plotlyServerURL: "",
    modeBarButtonsToRemove: ["select2d", "lasso2d"], displayModeBar: window.innerWidth < 600 ? false : "hover" };
  // Plotly takes <b>, <a> and the like in labels for markup; names of files are only text.
  const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const small = (text) => "<br><span style='font-size:11px'>" + plain(text) + "</span>";   // a second line of a title
  const colour = (i) => COLOURS[i % COLOURS.length];
  const faded = (hex, alpha) => "rgba(" + [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16)).join(",") + "," + alpha + ")";
  const axis = (title, log) => ({ title: { text: title }, type: log ? "log" : "linear", gridcolor: "#e8ebee", zeroline: false,
    exponentformat: "power", automargin: true });
  // Titles stand to the left: the tools of a plot appear on its right.
  const layout = (title, x, y) => ({ title: { text: title, font: { size: 15 }, x: 0.02, xanchor: "left" }, margin: { l: 60, r: 15, t: title.includes("<br>") ? 58 : 40, b: 45 },
    xaxis: x, yaxis: y, hovermode: "closest", paper_bgcolor: "#fff", plot_bgcolor: "#fff" });
  const LEGEND_ROW = 20, PLOT = 350;   // pixels: a row of a legend, and a plot without it
  // Labels of a logarithmic axis: decades, six at most; of a short span 1, 2 and 5 in plain numbers.
  function logTicks(values) {
    const good = values.filter((v) => v > 0);
    if (!good.length) return {};
    const low = Math.min(...good), high = Math.max(...good), decades = Math.log10(high / low);
    const every = decades > 2.3 ? Math.ceil(decades / 6) : 1, tickvals = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1)
      for (const digit of decades > 2.3 ? [1] : [1, 2, 5]) if (power % every === 0) tickvals.push(Number(digit + "e" + power));
    const text = (v) => (v >= 1e-3 && v < 1e4 ? String(v) : "10<sup>" + Math.round(Math.log10(v)) + "</sup>");
    return { tickvals, ticktext: tickvals.map((v) => (Number(v.toExponential().split("e")[0]) === 1 ? text(v) : String(v))) };
  }
  const logAxis = (title, values) => ({ ...axis(title, true), ...logTicks(values) });

  function element(parent, tag, attributes, text) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    parent.appendChild(made);
    return made;
  }

  // A plot is as wide as its cell when it is drawn, and cells take their final width only when all of them are there:
  // plots are queued, and drawn together; a cell that changes later (a scroll bar, a narrower window) draws its plot again.
  const queue = [];
  const watcher = new ResizeObserver((entries) => entries.forEach((entry) => { if (entry.target.data) Plotly.Plots.resize(entry.target); }));
  function plotCell(place, id) {
    const div = document.getElementById(id) || element(place, "div", { id, class: "plot" });
    watcher.observe(div);
    return div;
  }
  // The legend stands below the axis, in rows that the cell is made higher for; its entries are as wide as the longest of them.
  // Names that are wider than the cell go on in another line.
  function folded(name, most) {
    const lines = [""];
    for (const word of name.split(/(?<=, )/)) {
      if (lines.at(-1) && (lines.at(-1) + word).trimEnd().length > most) lines.push("");
      lines[lines.length - 1] += word;
    }
    return lines;
  }
  function drawPlot(div, whole, shape) {
    const most = Math.floor((div.clientWidth - 125) / 6.3), lines = whole.map((trace) => folded(trace.name || "", most));
    const traces = whole.map((trace, i) => (trace.name ? { ...trace, name: lines[i].join("<br>") } : trace));
    const shown = lines.filter((_, i) => whole[i].name && whole[i].showlegend !== false);
    const entry = 50 + 6.3 * Math.max(0, ...shown.flat().map((line) => line.length));
    const rows = Math.ceil(shown.length / Math.max(1, Math.floor((div.clientWidth - 75) / entry)));
    const below = LEGEND_ROW * rows * Math.max(1, ...shown.map((name) => 0.4 + 0.6 * name.length)) + 10;
    div.style.height = PLOT + below + "px";
    const legend = { orientation: "h", yref: "container", y: 0, yanchor: "bottom", font: { size: 11 }, entrywidth: entry - 40 };
    Plotly.react(div, traces, { ...shape, legend, margin: { ...shape.margin, b: shape.margin.b + below } }, CONFIG);
  }
  function later(div, traces, shape) { queue.push(() => drawPlot(div, traces, shape)); }
  function drawQueue() { queue.splice(0).forEach((draw) => draw()); }

  function withBand(x, mean, error, hex, name, extra) {
    const upper = mean.map((v, i) => (v === null ? null : v + 2 * (error[i] || 0)));
    const lower = mean.map((v, i) => (v === null ? null : v - 2 * (error[i] || 0)));
    const edge = { x, mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false, legendgroup: name };
    return [{ ...edge, y: lower }, { ...edge, y: upper, fill: "tonexty", fillcolor: faded(hex, 0.25) },
      { x, y: mean, name, legendgroup: name, mode: "lines", line: { color: hex, width: 2 }, ...(extra || {}) }];
  }

  // --- curves: theory as lines with bands, simulations as points with bars ---------------------------------
  function drawCurves() {
    const log = document.getElementById("log-time").checked, logLoss = document.getElementById("log-loss").checked;
    const place = document.getElementById("curve-plots");
    // A file has the same colour in every plot.
    const sources = [...new Set(Object.values(data.observables).flat().map((curve) => curve.source))];
    for (const [name, curves] of Object.entries(data.observables)) {
      const id = "curve-" + name.replace(/[^\w-]/g, "_");
      const div = plotCell(place, id);
      const traces = [], xs = [];
      curves.forEach((curve) => {
        const x = curve.t.map((t) => (log ? t + curve.eta : t));
        xs.push(...x);
        const hex = colour(sources.indexOf(curve.source));
        if (curve.kind === "simulation") {
          traces.push({ x, y: curve.mean, name: plain(curve.label), mode: "markers", marker: { color: hex, size: 6 },
            error_y: { type: "data", array: curve.error.map((e) => 2 * (e || 0)), color: hex, thickness: 1.2, width: 2 } });
        } else {
          traces.push(...withBand(x, curve.mean, curve.error, hex, plain(curve.label), { line: { color: hex, width: 2, dash: curve.dash } }));
        }
      });
      const logY = name === "loss" && logLoss;
      const ys = curves.flatMap((curve) => curve.mean);
      later(div, traces, layout(plain(data.titles[name]), log ? logAxis("t + η", xs) : axis("t", false),
        logY ? logAxis("", ys) : axis("", false)));
    }
  }

  // --- kernels: a heat map, and slices after a waiting time ------------------------------------------------
  function kernelPanel(kernel, k) {
    const place = document.getElementById("kernel-plots");
    element(place, "h3", {}, kernel.label);
    const control = element(place, "div", { class: "control" });
    const choice = element(element(control, "label", {}, "kernel "), "select", { id: "map-choice-" + k });
    for (const name of Object.keys(kernel.maps)) element(choice, "option", { value: name }, name);
    element(control, "label", { for: "waiting-" + k }, "waiting time");
    const slider = element(control, "input", { type: "range", id: "waiting-" + k, min: 0, max: kernel.slices.length - 1, step: 1,
      value: Math.floor(kernel.slices.length / 3) });
    const output = element(control, "output", { id: "waiting-text-" + k, for: "waiting-" + k });
    const grid = element(place, "div", { class: "kernel" });
    const map = plotCell(grid, "map-" + k);
    const slices = Object.fromEntries(["C", "chi", "M_C", "M_R"].map((part) => [part, plotCell(grid, "slice-" + part + "-" + k)]));
    const values = element(place, "table", { id: "slice-values-" + k });

    // Kernels span decades near the origin: their colours are then logarithmic.
    function drawMap() {
      const name = choice.value, x = kernel.t_prime.map((t) => t + kernel.eta), y = kernel.t.map((t) => t + kernel.eta), rows = kernel.maps[name];
      const flat = rows.flat().filter((v) => v !== null).sort((a, b) => a - b);
      const at = (p) => flat[Math.floor(p * (flat.length - 1))];
      const log = at(1) > 20 * at(0.5) && at(1) > 0;
      const least = Math.max(at(0.02), 1e-3 * at(1));   // below it, and below 0, is noise
      const z = log ? rows.map((row) => row.map((v) => (v === null ? null : Math.log10(Math.max(v, least))))) : rows;
      const ticks = logTicks([least, at(1)]);
      const range = log ? { zmin: Math.log10(least), zmax: Math.log10(at(1)) } : { zmin: at(0.01), zmax: at(1) };
      later(map, [{ type: "heatmap", x, y, z, text: rows, colorscale: "Cividis", ...range,
        colorbar: { thickness: 12, ...(log ? { ...ticks, tickvals: ticks.tickvals.map(Math.log10) } : {}) },
        hovertemplate: "t + η = %{y:.4g}<br>t' + η = %{x:.4g}<br>" + name + " = %{text}<extra></extra>" }],
        layout(name + "(t, t')" + (kernel.cells ? small("averages over cells of t'") : ""), logAxis("t' + η", x), logAxis("t + η", y)));
    }

    // A response is 0 at equal times, by convention, which no line should lead to.
    const after = (slice, part) => (part === "M_R" ? [null, ...slice[part].slice(1)] : slice[part]);

    function drawSlices() {
      const chosen = Number(slider.value), now = kernel.slices[chosen];
      output.textContent = "t_w = " + now.t_w;
      const titles = { C: "C(t_w + τ, t_w)", chi: "χ(t_w + τ, t_w)" + small("integrated response"), M_C: "M_C(t_w + τ, t_w)", M_R: "M_R(t_w + τ, t_w)" };
      const last = kernel.slices.length - 1;
      Object.keys(slices).forEach((part, number) => {
        // A few fixed waiting times in grey show how the slices age.
        const traces = [0, 0.25, 0.5, 0.75].map((share) => Math.floor(share * last)).map((w) => ({
          x: kernel.slices[w].tau.map((tau) => tau + kernel.eta), y: after(kernel.slices[w], part), mode: "lines", line: { color: "#c3c9d0", width: 1 },
          name: "t_w = " + kernel.slices[w].t_w, showlegend: false, hoverinfo: "name+y" }));
        const x = now.tau.map((tau) => tau + kernel.eta);
        traces.push(...withBand(x, after(now, part), now[part + "_error"], COLOURS[number], "t_w = " + now.t_w));
        later(slices[part], traces, layout(titles[part], logAxis("τ + η", traces[0].x), axis("", false)));
      });
      values.replaceChildren();
      const head = element(values, "tr");
      for (const word of ["τ", "C(t_w + τ, t_w)", "± error", "integrated response", "± error"]) element(head, "th", {}, word);
      const count = now.tau.length, shown = [...new Set([0, 0.25, 0.5, 0.75, 1].map((p) => Math.round(p * (count - 1))))];
      for (const i of shown) {
        const row = element(values, "tr");
        // Errors of rounding size are zero: C(t_w, t_w) is exact.
        for (const cell of [now.tau[i], now.C[i], now.C_error[i], now.chi[i], now.chi_error[i]])
          element(row, "td", {}, cell === null ? "–" : String(Math.abs(cell) < 1e-12 ? 0 : cell));
      }
    }

    choice.addEventListener("change", () => { drawMap(); drawQueue(); });
    slider.addEventListener("input", () => { drawSlices(); drawQueue(); });
    function setWaiting(t_w) {
      const gaps = kernel.slices.map((slice) => Math.abs(slice.t_w - t_w));
      slider.value = gaps.indexOf(Math.min(...gaps));
      drawSlices();
      drawQueue();
    }
    drawMap();
    drawSlices();
    return setWaiting;
  }

  // --- simulations: quantiles and the share that has found the teacher -------------------------------------
  function drawSpreads() {
    const place = document.getElementById("spread-plots");
    data.spreads.forEach((spread, s) => {
      const x = spread.t.map((t) => t + spread.eta), hex = colour(s);
      for (const name of ["m", "loss"]) {
        const traces = spread.levels.map((level, i) => ({ x, y: spread[name][i], name: "quantile " + level, mode: "lines",
          line: { color: level === 0.5 ? hex : faded(hex, 0.5), width: level === 0.5 ? 2.5 : 1 },
          ...(i === 0 ? {} : { fill: "tonexty", fillcolor: faded(hex, 0.12) }) }));
        later(plotCell(place, "spread-" + name + "-" + s), traces, layout(plain(data.titles[name]) + small(spread.label), logAxis("t + η", x),
          name === "loss" ? logAxis("", spread.loss.flat()) : axis("", false)));
      }
      const edge = { x, mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false };
      later(plotCell(place, "spread-share-" + s), [{ ...edge, y: spread.low },
        { ...edge, y: spread.high, fill: "tonexty", fillcolor: faded(hex, 0.2) },
        { x, y: spread.share, mode: "lines", line: { color: hex, width: 2 }, name: "share" }],
        layout("share with loss &lt; " + spread.threshold + " (95 %)" + small(spread.label), logAxis("t + η", x), { ...axis("", false), range: [-0.03, 1.03] }));
    });
  }

  // --- convergence studies ---------------------------------------------------------------------------------
  function drawAxes() {
    const place = document.getElementById("axis-plots");
    data.axes.forEach((study, s) => {
      const traces = Object.entries(study.quantities).map(([name, y], i) => ({ x: study.values, y, name, mode: "lines+markers",
        line: { color: colour(i) }, marker: { symbol: i, size: 7 } }));
      if (study.expected) {
        const power = study.name === "samples" ? -study.expected : study.expected;
        const top = Math.max(...Object.values(study.quantities).flat().filter((v) => v !== null));
        traces.push({ x: study.values, y: study.values.map((v) => 1.6 * top * Math.pow(v / study.values[0], power)),
          name: "slope " + power, mode: "lines", line: { color: "#000", dash: "dash", width: 1 } });
      }
      later(plotCell(place, "axis-" + s), traces, layout("distance from the finest" + small(study.label),
        { ...axis(study.name, true), tickvals: study.values }, logAxis("", Object.values(study.quantities).flat())));
      if (study.residuals.length) {
        later(plotCell(place, "residuals-" + s), study.residuals.map((y, i) => ({ y,
          x: y.map((_, j) => j + 1), name: study.name + " = " + study.values[i], mode: "lines", line: { color: colour(i) } })),
          layout("residual against sweep", axis("sweep", false), logAxis("", study.residuals.flat())));
      }
    });
  }

  function hideEmpty() {
    for (const [id, list] of [["curves", Object.keys(data.observables)], ["kernels", data.kernels], ["spreads", data.spreads],
      ["axes", data.axes]]) if (!list.length) document.getElementById(id).remove();
    const nav = document.getElementById("nav");
    document.querySelectorAll("main section").forEach((section, i) => {
      section.id = section.id || "section-" + i;
      element(nav, "a", { href: "#" + section.id }, section.querySelector("h2").textContent);
    });
  }

  hideEmpty();
  if (Object.keys(data.observables).length) {
    drawCurves();
    for (const id of ["log-time", "log-loss"]) document.getElementById(id).addEventListener("change", () => { drawCurves(); drawQueue(); });
  }
  const setters = data.kernels.filter((kernel) => kernel.slices.length).map(kernelPanel);
  function fromAddress() {
    const asked = /t_w=([\d.eE+-]+)/.exec(location.hash);
    if (asked) setters.forEach((set) => set(Number(asked[1])));
  }
  drawSpreads();
  drawAxes();
  fromAddress();
  drawQueue();
  window.addEventListener("hashchange", fromAddress);
  document.body.dataset.ready = "yes";
})();
