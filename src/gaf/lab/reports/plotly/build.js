// Makes plotly.min.js.gz, which README.md describes: `npm install && node build.js` in a copy of this folder.
const { createHash } = require("crypto");
const { writeFileSync } = require("fs");
const { gzipSync } = require("zlib");
const { environmentPlugin } = require("esbuild-plugin-environment");
const { glsl } = require("esbuild-plugin-glsl");
const { version } = require("plotly.js/package.json");

const entry = `
const Plotly = require("plotly.js/lib/core"); // has scatter
Plotly.register([
  require("plotly.js/lib/contour"), require("plotly.js/lib/scatter3d"), require("plotly.js/lib/surface"),
]);
module.exports = Plotly;`;

// The one style sheet is that of maps, which are not drawn.
const noCss = { name: "no-css", setup: (build) => build.onLoad({ filter: /\.css$/ }, () => ({ contents: "" })) };

require("esbuild").build({
  stdin: { contents: entry, resolveDir: __dirname },
  banner: { js: `/* plotly.js v${version}, Copyright 2012-2026, Plotly, Inc., licensed under the MIT license */` },
  bundle: true, minify: true, write: false, format: "iife", globalName: "Plotly", target: "es2016", legalComments: "eof",
  // as in plotly.js's own esbuild-config.js
  plugins: [noCss, glsl({ minify: true }), environmentPlugin({ NODE_DEBUG: false })],
  alias: { stream: "stream-browserify" },
  define: { global: "window", "define.amd": "false" },
}).then(({ outputFiles: [{ contents }] }) => {
  writeFileSync("plotly.min.js.gz", gzipSync(contents, { level: 9 }));
  console.log(contents.length, "bytes, sha256-" + createHash("sha256").update(contents).digest("base64"));
});
