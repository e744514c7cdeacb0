// The script of the pages: sorts tables, draws the figures, shows and hides settings, prepares for paper.
"use strict";
(() => {
  const all = (what, where = document) => [...where.querySelectorAll(what)];

  // Sorting: numbers by value, text by the alphabet, cells without a figure last.
  for (const table of all("table.sortable")) {
    const body = table.tBodies[0], heads = all("thead th", table);
    heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach(other => other.setAttribute("aria-sort", "none"));
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

  // Paper cannot be unfolded.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = all("details:not([open])");
    folded.forEach(details => { details.open = true; });
  });
  addEventListener("afterprint", () => folded.forEach(details => { details.open = false; }));

  const plots = all(".plot"), boxes = all(".legend input");
  const touch = matchMedia("(hover: none)").matches;
  const config = {responsive: true, displaylogo: false, displayModeBar: touch ? false : "hover",
    scrollZoom: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"]};

  // Colours are variables of the style sheet, some with a share of opacity behind.
  const colour = (key, value) => /color$/.test(key) && typeof value === "string"
    ? value.replace(/^var\(--([\w-]+)\)/, (_, name) => shade(name)) : value;

  function draw() {
    const paper = document.documentElement.classList.contains("paper");
    const figures = JSON.parse(document.getElementById("figures").textContent, colour);
    const on = new Set(boxes.filter(box => box.checked).map(box => box.value));
    for (const plot of plots) {
      const {data, layout: own} = figures[plot.id], small = plot.closest(".small");
      const layout = {
        margin: {l: 52, r: "yaxis2" in own ? 52 : 14, t: 8, b: 44}, showlegend: false, hovermode: "closest",
        dragmode: touch ? false : "zoom",  // a finger on a plot scrolls the page
        hoverlabel: {namelength: -1}, uirevision: plot.id, xaxis: {}, yaxis: {}, ...own,
        // narrower than most windows
        ...(paper ? {width: small ? 222 : 335, height: small ? 190 : 230} : {autosize: true}),
      };
      for (const name of ["xaxis", "yaxis", "yaxis2"]) if (name in layout) layout[name].automargin = true;
      // one legend for all figures; figures of one setting have no meta
      if (boxes.length) for (const trace of data) if (trace.meta) trace.visible = on.has(trace.meta);
      Plotly.react(plot, data, themed(layout, paper ? 9 : 12), config);
    }
  }

  const show = () => {
    boxes.forEach(box => box.parentElement.classList.toggle("off", !box.checked));
    draw();
  };
  if (!plots.length) return;
  plotlyLoaded.then(() => {
    draw();
    redraw(draw);
    boxes.forEach(box => box.addEventListener("change", show));
    all("[data-show]").forEach(button => button.addEventListener("click", () => {
      boxes.forEach(box => { box.checked = button.dataset.show === "all"; });
      show();
    }));
  });
})();
