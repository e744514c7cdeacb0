"""The page's script: sorts the table, draws the figures, shows and hides settings, prepares for paper."""

SCRIPT = """
"use strict";
(() => {
  const all = (what, where = document) => [...where.querySelectorAll(what)];

  // Sorting: numbers by value, text by the alphabet, cells without a figure last.
  for (const table of all("table.sortable")) {
    const body = table.tBodies[0], heads = all("thead th", table);
    heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach(each => each.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const numeric = head.dataset.numeric === "yes";
      const key = row => {
        const cell = row.cells[column];
        if (!numeric) return cell.textContent;
        return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
      };
      const order = (a, b) => numeric ? a - b : a.localeCompare(b, undefined, {numeric: true});
      body.append(...[...body.rows].sort((one, other) => {
        const a = key(one), b = key(other);
        if (a === null || b === null) return (a === null) - (b === null);
        if (a === b) return 0;
        return down ? order(b, a) : order(a, b);
      }));
    }));
  }

  const figures = JSON.parse(document.getElementById("figures").textContent);
  const plots = all(".plot");
  const common = {
    margin: {l: 52, r: 14, t: 8, b: 44}, showlegend: false, hovermode: "closest", dragmode: "zoom",
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: {family: "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif", size: 12,
      color: "#1d2530"},
    hoverlabel: {namelength: -1},
  };
  const axis = {gridcolor: "#e6eaee", zerolinecolor: "#c9d0d8", linecolor: "#8a94a1", automargin: true};
  const touch = matchMedia("(hover: none)").matches;
  const config = {responsive: true, displaylogo: false, displayModeBar: touch ? false : "hover",
    scrollZoom: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"]};
  for (const plot of plots) {
    const figure = figures[plot.id], layout = {...common, ...figure.layout};
    for (const name of ["xaxis", "yaxis", "yaxis2"])
      if (name in layout || name !== "yaxis2") layout[name] = {...axis, ...layout[name]};
    if ("yaxis2" in layout) layout.margin = {...common.margin, r: 52};
    if (touch) layout.dragmode = false;  // a finger on a plot scrolls the page
    Plotly.newPlot(plot, figure.data, layout, config);
  }

  // One legend for all figures.
  const boxes = all(".legend input");
  const show = () => {
    const on = new Set(boxes.filter(box => box.checked).map(box => box.value));
    boxes.forEach(box => box.parentElement.classList.toggle("off", !box.checked));
    for (const plot of plots) {
      const known = plot.data.map(trace => trace.meta);  // undefined in figures of one setting
      if (known.some(Boolean)) Plotly.restyle(plot, {visible: known.map(name => on.has(name))});
    }
  };
  boxes.forEach(box => box.addEventListener("change", show));
  all("[data-show]").forEach(button => button.addEventListener("click", () => {
    boxes.forEach(box => { box.checked = button.dataset.show === "all"; });
    show();
  }));

  // Paper is narrower than most windows, and cannot be unfolded.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = all("details:not([open])");
    folded.forEach(each => { each.open = true; });
    for (const plot of plots) {
      const small = plot.closest(".small");
      Plotly.relayout(plot, {width: small ? 222 : 335, height: small ? 190 : 230, "font.size": 9});
    }
  });
  addEventListener("afterprint", () => {
    folded.forEach(each => { each.open = false; });
    for (const plot of plots)
      Plotly.relayout(plot, {width: null, height: null, autosize: true, "font.size": 12});
  });
})();
"""
