// plotly.js stands in the page compressed. The policy lets it run by its checksum, wherever it comes from.
"use strict";

const plotlyLoaded = (async () => {
  try {
    const packed = atob(document.getElementById("plotly").textContent);
    const bytes = Uint8Array.from(packed, (char) => char.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
    script.remove();
  } catch (error) {
    document.querySelector("main").prepend(document.getElementById("too-old"));
    document.getElementById("too-old").hidden = false;
    throw error;
  }
})();

// A colour of the style sheet, which is another one in the dark.
function shade(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// What all plots share, in the colours of the moment.
function themed(layout, fontSize = 12) {
  const family = "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif";
  const axis = { gridcolor: shade("grid"), zerolinecolor: shade("zero"), linecolor: shade("grey") };
  const made = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family, size: fontSize, color: shade("ink") }, ...layout,
  };
  for (const name of ["xaxis", "yaxis", "yaxis2"]) if (name in made) made[name] = { ...axis, ...made[name] };
  if (made.scene) {
    made.scene = { ...made.scene };
    for (const name of ["xaxis", "yaxis", "zaxis"]) made.scene[name] = { ...axis, gridcolor: shade("zero"), ...made.scene[name] };
  }
  return made;
}

// Calls draw when the colours have changed; paper is white for those who read in the dark.
function redraw(draw) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  for (const [event, isPaper] of [["beforeprint", true], ["afterprint", false]])
    addEventListener(event, () => {
      document.documentElement.classList.toggle("paper", isPaper);
      draw();
    });
}
