"""How the page of a fit looks: on a screen, on a phone, on paper."""

CSS = """
:root { --ink: #1f2933; --soft: #5b6673; --line: #dde2e8; --blue: #0072B2; --orange: #B84A00; --paper: #fff }
* { box-sizing: border-box }
body { font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; color: var(--ink);
  background: var(--paper); max-width: 70rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem;
  overflow-wrap: anywhere }
h1 { font-size: 1.75rem; line-height: 1.2; margin: .5rem 0 .25rem; letter-spacing: -.01em }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .4rem }
h3 { font-size: 1rem; margin: .2rem 0 0; font-weight: 600 }
p { margin: .4rem 0; max-width: 46rem }
.source, .hint, figcaption { color: var(--soft); font-size: .9rem }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem; margin: 1.25rem 0 }
.figures div { border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .8rem }
.figures b { display: block; font-size: 1.3rem; font-weight: 650; font-variant-numeric: tabular-nums;
  line-height: 1.25 }
.figures span { color: var(--soft); font-size: .85rem }
.doubts { border-left: 5px solid var(--orange); background: #fff6ef; padding: .7rem 1rem; margin: 1.25rem 0;
  border-radius: 0 .4rem .4rem 0 }
.doubts h2 { margin: 0 0 .2rem; color: var(--orange); font-size: 1.05rem }
.doubts ul, .remarks { margin: .3rem 0; padding-left: 1.2rem }
.trust { border-left: 5px solid #009E73; background: #effaf6; padding: .5rem 1rem; border-radius: 0 .4rem .4rem 0 }
.plot { width: 100%; min-width: 0 }
figure { margin: 0; min-width: 0 }
.three { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(19rem, 100%), 1fr)); gap: 1.25rem }
.bar { display: flex; flex-wrap: wrap; gap: .5rem; margin: .4rem 0; align-items: center }
button { font: inherit; font-size: .875rem; padding: .3rem .75rem; border: 1px solid #b9c1cb; border-radius: .4rem;
  background: #f6f8fa; color: var(--ink); cursor: pointer }
button:hover { background: #e9eef3 }
button:focus-visible { outline: 2px solid var(--blue); outline-offset: 1px }
.scroll { overflow-x: auto; max-height: 34rem; overflow-y: auto; border: 1px solid var(--line); border-radius: .5rem }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .92rem }
th, td { padding: .35rem .8rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap }
.flagged td:first-child, .flagged th:first-child, .made th, .made td { text-align: left }
.flagged thead th { position: sticky; top: 0; background: #f6f8fa; z-index: 1; padding: 0 }
th button { border: 0; background: none; font-weight: 600; width: 100%; text-align: inherit; padding: .45rem .8rem }
th[aria-sort=ascending] button::after { content: " ▲" } th[aria-sort=descending] button::after { content: " ▼" }
.made th { font-weight: 500; color: var(--soft); white-space: nowrap; vertical-align: top; width: 1% }
.made td { white-space: normal }
@media (max-width: 40rem) {
  body { padding: 1rem .8rem 3rem; font-size: 15px } h1 { font-size: 1.4rem }
  th, td { padding: .3rem .5rem } .made th { white-space: normal; width: 30% }
}
@media print {
  body { max-width: none; padding: 0; font-size: 10.5pt } .bar, .modebar, .screen { display: none !important }
  .scroll { max-height: none; overflow: visible; border: 0 } figure, .figures, .doubts { break-inside: avoid }
  h2 { break-after: avoid } thead { display: table-header-group } .flagged thead th { position: static }
}
"""
