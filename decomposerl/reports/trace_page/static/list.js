// The list: filters, search, and the rows, of which only those in view are in the document.
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { computed, signal } from "@preact/signals";

import { Confidence, Flag, MARKS, Result, Verdict, flagTitle, flagsAt, isSilent } from "trace-page/badges.js";
import { classes, count, decimal, html, plural } from "trace-page/html.js";
import { Exchange } from "trace-page/marks.js";
import { progress, terms } from "trace-page/search.js";
import { Found } from "trace-page/spans.js";
import {
  addressOf, announced, benchmarksAt, change, flagsChosen, hits, index, isEarlier, marksAt, momentOf, query, rows, sorts,
  systemOf,
} from "trace-page/state.js";

const BEYOND_VIEW = 8;
const BINS = 10;

/** Place in `rows` of the row that the keyboard is on. */
export const place = signal(0);
const view = signal({ first: 0, height: 60 });
/** How often the row of the keyboard was asked to take the focus. */
const focusAsked = signal(0);
let scrolled = 0;
let focusTaken = 0;
let filtered = null;

/** The filters as one text: other filters start at the top again. */
const filters = computed(() => JSON.stringify({ ...query.value, vs: "" }));

function restart() {
  if (filtered !== null && filtered !== filters.value) {
    place.value = 0;
    scrolled = 0;
    scrollTo(0, 0);
  }
  filtered = filters.value;
}

export function List() {
  useEffect(() => {
    document.title = index.value.title;
  }, []);
  useLayoutEffect(restart, [filters.value]);
  return html`<main class="list-page" id="main">
    <div class="filters-side"><${Filters} /></div>
    <div class="rows-side">
      <${Summary} />
      <${Rows} />
    </div>
  </main>`;
}

const words = computed(() => terms(query.value.q ?? ""));

function Summary() {
  const all = index.value;
  const left = rows.value;
  let known = 0;
  let right = 0;
  for (const at of left) {
    known += all.right[at] >= 0;
    right += all.right[at] === 1;
  }
  const percent = ((100 * right) / known).toFixed(1);
  const share = known ? `${percent} % of ${plural(known, "labelled trace")} right` : "no gold labels";
  const busy = progress.value;
  return html`<div class="summary">
    <p role="status">
      <strong>${count(left.length)}</strong> of ${plural(all.size, "trace")}<span class="muted"> · ${share}</span>
      ${busy && html`<span class="busy"> · searching texts, part ${busy.done + 1} of ${busy.of}</span>`}
    </p>
    <label>Sort <select value=${query.value.sort ?? ""} onChange=${(event) => change({ sort: event.currentTarget.value })}>
      <option value="">As collected</option>
      ${sorts.map(([key, title]) => html`<option value=${key}>${title}</option>`)}
    </select></label>
  </div>`;
}

function Rows() {
  const list = useRef(null);
  const probe = useRef(null);
  const measure = () => {
    if (!list.current) return;
    const top = list.current.getBoundingClientRect().top + scrollY;
    const height = probe.current.offsetHeight || view.value.height;
    const first = Math.max(0, Math.floor((scrollY - top) / height) - BEYOND_VIEW);
    const now = view.value;
    if (now.first !== first || now.height !== height || now.top !== top) view.value = { first, height, top };
  };
  useLayoutEffect(() => {
    measure();
    scrollTo(0, scrolled);
    const resized = new ResizeObserver(measure);
    resized.observe(document.documentElement);
    resized.observe(probe.current);
    addEventListener("scroll", measure, { passive: true });
    return () => {
      scrolled = scrollY;
      resized.disconnect();
      removeEventListener("scroll", measure);
    };
  }, []);
  const left = rows.value;
  const here = Math.min(place.value, left.length - 1);
  const { first, height } = view.value;
  const last = Math.min(left.length, first + Math.ceil(innerHeight / height) + 2 * BEYOND_VIEW);
  const places = Array.from({ length: Math.max(0, last - first) }, (_, at) => first + at);
  if (left.length && !places.includes(here)) places.push(here);
  return html`<div class="rows">
    <div class="row-height" ref=${probe} aria-hidden="true" />
    ${!left.length && html`<${Nothing} />`}
    <ol ref=${list} style=${{ height: `${left.length * height}px` }} aria-label="Traces">
      ${places.map((at) => html`<${Row} key=${left[at]} at=${left[at]} place=${at} top=${at * height}
        size=${left.length} here=${at === here} />`)}
    </ol>
  </div>`;
}

function Nothing() {
  if (progress.value) return html`<p class="nothing">Nothing so far; the search goes on.</p>`;
  if (!index.value.size) return html`<p class="nothing">There are no traces here.</p>`;
  return html`<p class="nothing">No trace passes these filters. <button class="plain" onClick=${clear}>Clear them</button></p>`;
}

function Row({ at, place: number, top, size, here }) {
  const all = index.value;
  const link = useRef(null);
  const asked = here ? focusAsked.value : 0;
  useLayoutEffect(() => {
    if (!here || asked === focusTaken) return;
    focusTaken = asked;
    link.current.focus({ preventScroll: true });
    link.current.scrollIntoView({ block: "nearest" });
  }, [here, asked]);
  const found = hits.value?.where.get(at);
  const flags = flagsAt(all, at);
  const marked = marksAt(all, at);
  return html`<li style=${{ transform: `translateY(${top}px)` }} aria-setsize=${size} aria-posinset=${number + 1}>
    <a ref=${link} href=${addressOf(all, at)} tabindex=${here ? 0 : -1} class="row" onFocus=${() => (place.value = number)}>
      <span class="cell-verdict"><${Verdict} value=${all.verdict[at]} silent=${isSilent(all, at)} /><${Result} right=${all.right[at]} /></span>
      <span class="cell-claim">
        <span class="claim" dir="auto"><${Found} text=${all.claim[at] || "(no claim)"} words=${words.value} /></span>
        <span class="under">
          ${found && html`<${Snippet} found=${found} />`}
          ${flags.map((name) => html`<${Flag} name=${name} />`)}
          ${marked.map((mark) => html`<span class="flag marked">${MARKS[mark.mark]}${isEarlier(all, at, mark) && ", earlier reply"}</span>`)}
        </span>
      </span>
      <${Score} all=${all} at=${at} />
      <span class="cell-from">
        <span>${systemOf(all, at)?.title}</span>
        ${momentOf(all, at) && html`<span>${momentOf(all, at)}</span>`}
        <span class="muted">${[benchmarksAt(all, at), plural(all.questions[at], "question")].filter(Boolean).join(" · ")}</span>
      </span>
    </a>
  </li>`;
}

/** The confidence; of a rollout, which has none, the total reward. */
function Score({ all, at }) {
  if (all.confidence[at] !== null || all.total[at] === null) {
    return html`<${Confidence} value=${all.confidence[at]} right=${all.right[at]} />`;
  }
  return html`<span class="confidence"><span class="muted">reward</span> <span class="number">${decimal(all.total[at])}</span></span>`;
}

const Snippet = ({ found }) => html`<span class="snippet" dir="auto">
  <i>${found.place}:</i> <${Found} text=${found.text} words=${words.value} />
</span>`;

/** Move the keyboard's row by `by`, or to a place. */
export function step(by, to = place.value + by) {
  const next = Math.max(0, Math.min(rows.value.length - 1, to));
  if (next < 0) return;
  place.value = next;
  const { height, top, first } = view.value;
  const drawn = next >= first && (next - first) * height < innerHeight + 2 * BEYOND_VIEW * height;
  if (!drawn) scrollTo(0, top + next * height - innerHeight / 3);
  focusAsked.value += 1;
}

/** After a return to the list: the row of the trace at `at` takes the focus once it is drawn. */
export function resume(at) {
  const found = rows.value.indexOf(at);
  filtered = filters.value;
  place.value = Math.max(0, found);
  focusAsked.value += 1;
}

function clear() {
  const names = ["f", "system", "benchmark", "verdict", "result", "step", "mark", "low", "high", "q"];
  change(Object.fromEntries(names.map((name) => [name, ""])));
  announced.value = "All filters cleared.";
}

const RESULTS = [["right", "Right"], ["wrong", "Wrong"], ["unknown", "No gold label"]];
const OPEN = ["open", "Not enough information"];
const VERDICTS = [["supported", "Supported"], ["refuted", "Refuted"], ["none", "No verdict"]];
const MARKED = [["any", "Marked"], ["none", "Not marked"], ["agree", "Agree"], ["disagree", "Disagree"], ["unclear", "Unclear"]];

function Filters() {
  const all = index.value;
  const parts = query.value;
  const set = Object.keys(parts).some((name) => name !== "sort" && name !== "vs" && parts[name]);
  const narrow = matchMedia("(max-width: 60rem)").matches;
  return html`<details class="filters" open=${!narrow}>
    <summary><span>Filters</span></summary>
    <form onSubmit=${(event) => event.preventDefault()} aria-label="Filters">
      <${Flags} all=${all} />
      <${Band} all=${all} />
      ${all.gold.some(Boolean) && html`<${Choice} name="result" title="Result" options=${RESULTS} />`}
      <${Choice} name="verdict" title="Verdict" options=${all.verdict.includes("N") ? [...VERDICTS, OPEN] : VERDICTS} />
      <${Choice} name="system" title="System" options=${all.systems.map((one) => [one.key, one.title])} />
      <${Choice} name="benchmark" title="Benchmark" options=${all.benchmarks.map((name) => [name, name])} />
      <${Choice} name="step" title="Training step" options=${all.steps.map((one) => [String(one), String(one)])} />
      <${Choice} name="mark" title="Reviewer marks" options=${MARKED} />
      ${set && html`<button type="button" class="plain" onClick=${clear}>Clear all filters</button>`}
    </form>
    <${Exchange} />
  </details>`;
}

function Flags({ all }) {
  const chosen = flagsChosen.value;
  const toggle = (name) => {
    const next = chosen.includes(name) ? chosen.filter((one) => one !== name) : [...chosen, name];
    change({ f: next.join(",") });
  };
  const counts = all.flag_names.map(() => 0);
  for (const at of rows.value) counts.forEach((_, bit) => (counts[bit] += (all.flags[at] >> bit) & 1));
  return html`<fieldset class="flags-choice">
    <legend>Show only</legend>
    ${all.flag_names.map((name, at) => html`<label class=${classes({ empty: !counts[at] && !chosen.includes(name) })}>
      <input type="checkbox" checked=${chosen.includes(name)} onChange=${() => toggle(name)} />
      <span>${flagTitle(name)}</span><span class="number">${count(counts[at])}</span>
    </label>`)}
  </fieldset>`;
}

const KINDS = { calibrated: "calibrated", normalised: "not calibrated" };

/** The confidence band, under a histogram of right and wrong verdicts. */
function Band({ all }) {
  if (!all.confidence.some((value) => value !== null)) return null;
  const { low = "", high = "" } = query.value;
  const field = (name, title, value, other) => html`<label>${title}
    <input type="number" min="0" max="100" step="1" inputmode="numeric" placeholder=${other} value=${value}
      onInput=${(event) => change({ [name]: event.currentTarget.value })} /></label>`;
  return html`<fieldset class="band">
    <legend>Confidence in %${KINDS[all.confidence_kind] && ` (${KINDS[all.confidence_kind]})`}</legend>
    <${Histogram} all=${all} />
    <div class="pair">${field("low", "from", low, "0")}${field("high", "to", high, "100")}</div>
  </fieldset>`;
}

function Histogram({ all }) {
  const bins = Array.from({ length: BINS }, () => [0, 0]);
  for (const at of rows.value) {
    const value = all.confidence[at];
    if (value === null) continue;
    const bin = Math.min(BINS - 1, Math.max(0, Math.floor(value * BINS)));
    bins[bin][Number(all.right[at] === 0)] += 1;
  }
  const tallest = Math.max(1, ...bins.map(([others, wrong]) => others + wrong));
  const tall = (number) => (number && Math.max(1, (30 * number) / tallest));
  const counts = bins.map(([others, wrong]) => `${others + wrong}, wrong ${wrong}`).join("; ");
  return html`<svg class="histogram" viewBox="0 0 100 32" preserveAspectRatio="none" role="img"
    aria-label=${`Traces by confidence, in tenths: ${counts}`}>
    ${bins.map(([others, wrong], at) => html`
      <rect class="others" x=${at * 10 + 0.6} width="8.8" y=${31 - tall(others) - tall(wrong)} height=${tall(others)} />
      <rect class="wrong" x=${at * 10 + 0.6} width="8.8" y=${31 - tall(wrong)} height=${tall(wrong)} />`)}
    <rect class="base" x="0" y="31" width="100" height="1" />
  </svg>`;
}

function Choice({ name, title, options }) {
  if (options.length < 2) return null;
  return html`<label class="choice"><span>${title}</span>
    <select value=${query.value[name] ?? ""} onChange=${(event) => change({ [name]: event.currentTarget.value })}>
      <option value="">All</option>
      ${options.map(([value, shown]) => html`<option value=${value}>${shown}</option>`)}
    </select></label>`;
}
