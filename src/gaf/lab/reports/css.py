"""The page's style sheet: for a desktop, a phone and paper."""

CSS = """
:root { color-scheme: light; --ink: #1d2530; --soft: #55606e; --line: #dde2e8; --wash: #f5f7f9;
  --better: #0b7a43; --worse: #b3261e; --same: #6b7684; --link: #0b5cad; }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; color: var(--ink); background: #fff; line-height: 1.5;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1200px; margin: 0 auto; padding: 1.5rem 1.25rem 3rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .35rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .5rem; }
h3 { font-size: .95rem; margin: 0; overflow-wrap: anywhere; }
p { margin: .35rem 0; max-width: 75ch; }
.soft, .about { color: var(--soft); } .soft { max-width: none; }
.about { font-size: .88rem; }
.headline { font-size: 1.2rem; font-weight: 600; margin: 1.3rem 0 .7rem; }
code, pre { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: .86em; }
pre { background: var(--wash); border: 1px solid var(--line); border-radius: 6px; padding: .7rem .9rem;
  white-space: pre-wrap; overflow-wrap: anywhere; margin: .4rem 0; }
.verdicts { list-style: none; margin: 0; padding: 0; }
.verdicts li { display: grid; grid-template-columns: 8.6rem 1fr; gap: .2rem .9rem; align-items: baseline;
  border-top: 1px solid var(--line); padding: .45rem 0; overflow-wrap: anywhere; }
.verdicts li:last-child { border-bottom: 1px solid var(--line); }
.mark { font-weight: 600; font-size: .88rem; white-space: nowrap; color: var(--same); }
.mark::before { content: "="; display: inline-block; width: 1.25em; font-weight: 700; }
.better .mark, td.better { color: var(--better); } .better .mark::before { content: "\\25B2"; }
.worse .mark, td.worse { color: var(--worse); } .worse .mark::before { content: "\\25BC"; }
.failed .mark, td.failed { color: var(--worse); } .failed .mark::before { content: "\\2715"; }
.baseline .mark::before { content: "\\25CF"; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; margin: .6rem 0; }
.scroll:focus-visible { outline: 2px solid var(--link); }
table { border-collapse: collapse; width: 100%; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { padding: .45rem .55rem; text-align: right; vertical-align: top; border-top: 1px solid var(--line); }
th:first-child, td:first-child, .text { text-align: left; }
thead th { border-top: 0; background: var(--wash); vertical-align: bottom; }
td small { display: block; color: var(--soft); font-size: .86em; }
th[scope=row], td:first-child { font-weight: 600; background: #fff; min-width: 11rem;
  overflow-wrap: anywhere; }
td { white-space: nowrap; } td.text { white-space: normal; }
td.wrap { white-space: normal; overflow-wrap: anywhere; min-width: 12rem; }
.results th:first-child { position: sticky; left: 0; z-index: 1; box-shadow: 1px 0 0 var(--line); }
th button { all: unset; cursor: pointer; font-weight: 600; }
th button:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
th button::after { content: "\\2195"; color: #9aa4b0; padding-left: .3em; }
th[aria-sort=ascending] button::after { content: "\\2191"; color: var(--ink); }
th[aria-sort=descending] button::after { content: "\\2193"; color: var(--ink); }
.whisker { display: block; margin: .2rem 0 0 auto; }
.legend { border: 0; padding: 0; margin: .5rem 0; display: flex; flex-wrap: wrap; align-items: center;
  gap: .25rem .9rem; }
.legend legend { float: left; padding: 0; }
.legend label { display: inline-flex; align-items: center; gap: .35rem; font-size: .86rem; cursor: pointer;
  overflow-wrap: anywhere; }
.legend svg { flex: none; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 21rem), 1fr)); gap: 1.2rem; }
.plots figure { margin: 0; min-width: 0; }
.plot { width: 100%; height: 320px; }
.small .plot { height: 250px; }
dl { display: grid; grid-template-columns: minmax(5.5rem, max-content) minmax(0, 1fr); gap: .2rem 1.2rem;
  font-size: .9rem; margin: .5rem 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; min-width: 0; }
details { margin: .6rem 0; } summary { cursor: pointer; font-weight: 600; font-size: .95rem; }
footer { margin-top: 2.5rem; border-top: 1px solid var(--line); padding-top: .8rem; }
.note { border-left: 3px solid #c98a00; padding: .1rem .8rem; background: #fffaf0; }
@media (max-width: 600px) {
  main { padding: 1rem .9rem 2rem; } h1 { font-size: 1.35rem; } .headline { font-size: 1.08rem; }
  .verdicts li { grid-template-columns: 1fr; }
  .results th:first-child { max-width: 9.5rem; min-width: 8rem; font-size: .8rem; }
  .legend label { padding: .3rem 0; } .plot { height: 280px; }
}
@media print {
  @page { size: A4; margin: 13mm; }
  body { font-size: 9.5pt; } main { max-width: none; padding: 0; } h1 { font-size: 16pt; }
  h2 { font-size: 12pt; margin-top: 1.2rem; break-after: avoid; } .headline { font-size: 11.5pt; }
  table { font-size: 7pt; } th, td { padding: .25rem .3rem; } td, thead th { white-space: normal; }
  th[scope=row], td:first-child { min-width: 0; } td.wrap { min-width: 0; }
  .scroll { overflow: visible; border: 0; } .results th:first-child { position: static; }
  th button::after { content: none !important; } .whisker { display: none; }
  .legend input, .legend button { display: none; } .plot { height: 230px; } .small .plot { height: 190px; }
  h2 + p, h2 + p + p, .legend { break-after: avoid; } dl { font-size: 8.5pt; }
  .legend label.off { display: none; }
  .plots { grid-template-columns: 1fr 1fr; gap: .6rem; } .small.plots { grid-template-columns: 1fr 1fr 1fr; }
  .pair.plots { grid-template-columns: 1fr 1fr; }
  figure, tr, .verdicts li { break-inside: avoid; } .modebar { display: none; }
  pre { background: #fff; }
}
"""
