"""How a report looks: on a phone, on a desktop and on paper."""

STYLE = """\
:root { color-scheme: light; --ink: #1c2430; --soft: #5a6675; --line: #d5dbe3; --ground: #f6f8fa;
  --good: #1b6e4b; --open: #8a5a00; --bad: #a32121; }
* { box-sizing: border-box; }
body { margin: 0; background: #fff; color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 1rem 1rem 3rem; }
h1 { margin: 0 0 .25rem; font-size: 1.75rem; line-height: 1.2; }
h2 { margin: 2.25rem 0 .5rem; font-size: 1.25rem; }
h3 { margin: 0; font-size: 1rem; }
p { margin: .25rem 0; overflow-wrap: anywhere; }
ul { margin: .5rem 0; padding-left: 1.25rem; }
code { font-size: .85em; overflow-wrap: anywhere; }
.subject { color: var(--soft); margin-bottom: .5rem; }
.verdict { border: 1px solid var(--line); border-left: .5rem solid; border-radius: .5rem;
  padding: 1rem 1.25rem; background: var(--ground); }
.verdict p { font-size: 1.1rem; }
.verdict.good { border-left-color: var(--good); }
.verdict.open { border-left-color: var(--open); }
.verdict.bad { border-left-color: var(--bad); }
.good .mark { color: var(--good); } .open .mark { color: var(--open); }
.bad .mark { color: var(--bad); }
.facts { display: flex; flex-wrap: wrap; gap: .25rem 2rem; margin: 1rem 0 0; }
dt { color: var(--soft); font-size: .85rem; }
dd { margin: 0; }
.cards, .figures { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(19rem, 100%), 1fr)); }
article { border: 1px solid var(--line); border-left: .35rem solid var(--good);
  border-radius: .5rem; padding: .75rem 1rem; }
article.off { border-left-color: var(--bad); background: #fdf4f3; }
.value { font-size: 1.5rem; font-variant-numeric: tabular-nums; }
.state { font-size: .85rem; white-space: nowrap; color: var(--good); }
.off .state { color: var(--bad); font-weight: 600; }
.range { color: var(--soft); font-size: .9rem; }
.name { color: var(--soft); }
figure { margin: 0; border: 1px solid var(--line); border-radius: .5rem; padding: .75rem; }
img { display: block; width: 100%; height: auto; }
figcaption { margin-top: .5rem; font-size: .9rem; color: var(--soft); }
table { border-collapse: collapse; width: 100%; font-size: .9rem; margin-top: .5rem; }
td { border-bottom: 1px solid var(--line); padding: .25rem .5rem .25rem 0; vertical-align: top; }
td:last-child { text-align: right; padding-right: 0; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
summary { cursor: pointer; color: var(--soft); }
@media print {
  :root { font-size: 10pt; }
  body { font-size: 1rem; }
  main { max-width: none; padding: 0; }
  article, figure, .verdict { break-inside: avoid; }
  h2 { break-after: avoid; }
  .cards, .figures { grid-template-columns: 1fr 1fr; }
  article.off { background: none; }
  section:has(> details:not([open])) { display: none; }
}
"""
