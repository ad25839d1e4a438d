// The evidence: one line a sentence, numbered; what an answer cites is lit, in both directions.
import { useRef } from "preact/hooks";

import { classes, html } from "trace-page/html.js";
import { terms } from "trace-page/search.js";
import { focused, hovered, isCitation, isLit, lit, segments, sentencesOf, termRanges } from "trace-page/spans.js";
import { query } from "trace-page/state.js";

/** The ranges of all spans of `sides` (details, in order) that lie in this evidence. */
function citations(sides, number) {
  return sides.flatMap((detail, side) =>
    detail && detail.evidence === number
      ? detail.cycles.flatMap((cycle, at) =>
          cycle.spans.map((span, place) => ({
            start: span.evidence[0],
            end: span.evidence[1],
            key: { side, cycle: at, span: place, match: span.match },
          })),
        )
      : [],
  );
}

/** Pieces of the evidence in order: sentences with their number, and what stands between them. */
function pieces(evidence) {
  const found = [];
  let end = 0;
  evidence.sentences.forEach(([start, stop], number) => {
    const between = evidence.text.slice(end, start);
    if (between.trim()) found.push({ start: end, end: start, number: null });
    found.push({ start, end: stop, number, parted: /\n/.test(between) && number > 0 });
    end = Math.max(end, stop);
  });
  if (evidence.text.slice(end).trim()) found.push({ start: end, end: evidence.text.length, number: null });
  return found;
}

export function Evidence({ evidence, number, sides, marked }) {
  const pane = useRef(null);
  const cited = citations(sides, number);
  const words = terms(query.value.q ?? "");
  const reviewed = marked.map((span) => ({ ...span, key: "reviewed" }));
  const ranges = [...cited, ...reviewed, ...termRanges(evidence.text, words)];
  const citing = ([start, end]) => cited.filter((one) => one.start < end && one.end > start).map((one) => one.key);
  const keys = (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const buttons = [...pane.current.querySelectorAll("button.number")];
    const next = by && buttons[buttons.indexOf(document.activeElement) + by];
    if (!next || document.activeElement === pane.current) return;
    event.preventDefault();
    event.stopPropagation();
    next.focus();
  };
  return html`<section class="evidence" aria-label="Evidence">
    <h2>Evidence <span class="muted">${evidence.sentences.length} sentences</span></h2>
    <div class="evidence-text" ref=${pane} tabindex="0" role="group" aria-label="Evidence, sentence by sentence"
        data-side="0" onKeyDown=${keys}>
      <div data-where="evidence">
        ${pieces(evidence).map((piece) => html`<${Piece} key=${piece.start} piece=${piece} text=${evidence.text} ranges=${ranges}
          citing=${piece.number === null ? [] : citing([piece.start, piece.end])} />`)}
      </div>
      ${!evidence.text && html`<p class="muted">No evidence came with this trace.</p>`}
    </div>
    ${cited.length > 0 && html`<${Legend} kinds=${new Set(cited.map((one) => one.key.match))} />`}
  </section>`;
}

const KINDS = { exact: "word for word", normalised: "but for spelling", near: "the nearest sentence" };

/** What the lines under cited parts mean, for the kinds of match that there are. */
const Legend = ({ kinds }) => html`<p class="legend muted">${Object.entries(KINDS).map(([kind, meaning]) =>
  kinds.has(kind) && html`<span class="entry"><span class="cite ${kind}">cited</span> ${meaning}</span>`)}</p>`;

function Piece({ piece, text, ranges, citing }) {
  const sentence = piece.number;
  const now = lit.value;
  const on = sentence !== null && now?.sentence === sentence;
  const parts = segments(text, ranges, piece.start, piece.end);
  const asked = [...new Set(citing.map((key) => `question ${key.cycle + 1}`))].join(", ");
  const name = asked ? `cited by ${asked}` : "not cited";
  const place = { sentence, keys: citing };
  return html`<div class=${classes({ sentence: true, parted: piece.parted, on })} id=${sentence === null ? undefined : `s${sentence + 1}`}
      onMouseEnter=${citing.length ? () => (hovered.value = place) : undefined} onMouseLeave=${() => (hovered.value = null)}>
    ${sentence !== null && html`<button class="number" tabindex=${sentence ? -1 : 0} aria-label=${`Sentence ${sentence + 1}, ${name}`}
      onFocus=${() => (focused.value = place)} onBlur=${() => (focused.value = null)}
      onClick=${() => toCard(citing[0])}>${sentence + 1}</button>`}
    <span class="words" dir="auto">${parts.map((part) => html`<${Segment} part=${part} />`)}</span>
  </div>`;
}

const STRENGTH = ["near", "normalised", "exact"];

function Segment({ part }) {
  const cites = part.keys.filter(isCitation);
  const now = lit.value;
  const on = cites.some((key) => isLit(now, key.side, key.cycle, key.span));
  const best = STRENGTH[Math.max(-1, ...cites.map((key) => STRENGTH.indexOf(key.match)))];
  const [found, reviewed] = ["found", "reviewed"].map((key) => part.keys.includes(key));
  const names = { cite: cites.length, [best ?? "near"]: cites.length, on, found, reviewed };
  return html`<span data-from=${part.start} class=${classes(names) || undefined}>${part.text}</span>`;
}

function toCard(key) {
  if (key) document.getElementById(`q${key.side}-${key.cycle + 1}`)?.focus();
}

/** Bring sentence `number` into view within the evidence. */
export function showSentence(number) {
  const row = document.getElementById(`s${number + 1}`);
  row?.scrollIntoView({ block: "nearest" });
}

/** The sentences that an answer cites, as buttons; each names its kind of match. */
export function Cited({ cycle, at, side, evidence }) {
  const numbers = new Map();
  cycle.spans.forEach((span, place) => {
    const touched = sentencesOf(evidence, span.evidence).filter((number) => !numbers.has(number));
    for (const number of touched) numbers.set(number, [place, span.match]);
  });
  if (!numbers.size) return null;
  return html`<span class="cited">${[...numbers].sort(([a], [b]) => a - b).map(([number, [place, match]]) => html`
    <button class="chip ${match}" title=${`${match} match`} aria-label=${`Show sentence ${number + 1}, ${match} match`}
      onMouseEnter=${() => (hovered.value = { keys: [{ side, cycle: at, span: place }] })}
      onMouseLeave=${() => (hovered.value = { keys: [{ side, cycle: at }] })}
      onFocus=${() => (focused.value = { keys: [{ side, cycle: at, span: place }] })} onBlur=${() => (focused.value = null)}
      onClick=${() => showSentence(number)}>${number + 1}</button>`)}</span>`;
}
