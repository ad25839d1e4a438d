// Question cards: what was asked and answered, what it rests on, and what the judge found.
import { useState } from "preact/hooks";

import { Cited, showSentence } from "trace-page/evidence.js";
import { classes, decimal, html, plural } from "trace-page/html.js";
import { terms } from "trace-page/search.js";
import { Found, focused, hovered, isLit, lit, segments, sentencesOf, termRanges } from "trace-page/spans.js";
import { query } from "trace-page/state.js";

const STATUS = {
  grounded: ["●", "Grounded"],
  abstained: ["◌", "Abstained"],
  contradicted: ["✕", "Contradicted"],
  not_in_evidence: ["△", "Not in evidence"],
  unknown: ["?", "Not checked"],
};
const NECESSITY = {
  necessary: "the verdict is lost without it",
  redundant: "the verdict stays right without it",
  neutral: "the verdict is wrong with it and without it",
  harmful: "the verdict is right only without it",
};
const DIFFERENCES = { same: "same answer", differs: "answer differs", alone: "asked here only" };

export function Cards({ detail, evidence, side, marked, differences }) {
  return html`<ol class="cards" role="list">
    ${detail.cycles.map((cycle, at) => html`<li key=${at}>
      <${Card} cycle=${cycle} at=${at} side=${side} evidence=${evidence}
        calls=${detail.judge.filter((call) => call.question === at)}
        marked=${marked.filter((span) => span.where === "answer" && span.cycle === at)}
        difference=${differences?.[at]} />
    </li>`)}
  </ol>`;
}

function Card({ cycle, at, side, evidence, calls, marked, difference }) {
  const [icon, title] = STATUS[cycle.status] ?? STATUS.unknown;
  const key = { side, cycle: at };
  const on = isLit(lit.value, side, at);
  const first = cycle.spans.length && evidence ? sentencesOf(evidence, cycle.spans[0].evidence)[0] : undefined;
  const focus = (event) => {
    if (event.target !== event.currentTarget) return;
    focused.value = key;
    if (first !== undefined) showSentence(first);
  };
  const id = `q${side}-${at + 1}`;
  return html`<article id=${id} class=${classes({ card: true, [cycle.status]: true, on })} tabindex="0" data-side=${side}
      aria-labelledby=${`${id}-title`} onFocus=${focus} onBlur=${() => (focused.value = null)}
      onMouseEnter=${() => (hovered.value = key)} onMouseLeave=${() => (hovered.value = null)}>
    <header>
      <span class="ordinal" aria-hidden="true">Q${at + 1}</span>
      <span class="status"><span aria-hidden="true">${icon}</span> ${title}</span>
      ${evidence && html`<${Cited} cycle=${cycle} at=${at} side=${side} evidence=${evidence} />`}
      ${difference && html`<span class="difference ${difference}">${DIFFERENCES[difference]}</span>`}
    </header>
    <h3 id=${`${id}-title`} dir="auto"><span class="unseen">Question ${at + 1}: </span>
      <${Found} text=${cycle.question || "(no question)"} words=${terms(query.value.q ?? "")} />
    </h3>
    <${Answer} cycle=${cycle} at=${at} side=${side} marked=${marked} />
    <${Findings} cycle=${cycle} side=${side} />
    ${cycle.thought && html`<${More} title="Thought"><p class="thought" dir="auto">${cycle.thought}</p><//>`}
    ${calls.length > 0 && html`<${More} title=${`Judge, ${plural(calls.length, "call")}`}><${Calls} calls=${calls} /><//>`}
  </article>`;
}

function Answer({ cycle, at, side, marked }) {
  const spans = cycle.spans.flatMap((span, place) => {
    const key = { span: place, match: span.match };
    return span.answer ? [{ start: span.answer[0], end: span.answer[1], key }] : [];
  });
  const reviewed = marked.map((span) => ({ ...span, key: "reviewed" }));
  const ranges = [...spans, ...reviewed, ...termRanges(cycle.answer, terms(query.value.q ?? ""))];
  const now = lit.value;
  const part = (one) => {
    const cite = one.keys.find((key) => key.match);
    const enter = cite && (() => (hovered.value = { side, cycle: at, span: cite.span }));
    const names = {
      cite: cite,
      [cite?.match ?? "near"]: cite,
      on: cite && isLit(now, side, at, cite.span),
      found: one.keys.includes("found"),
      reviewed: one.keys.includes("reviewed"),
    };
    return html`<span data-from=${one.start} class=${classes(names) || undefined} onMouseEnter=${enter}
      onMouseLeave=${cite && (() => (hovered.value = { side, cycle: at }))}>${one.text}</span>`;
  };
  return html`<p class="answer" dir="auto" data-where="answer" data-cycle=${at}>
    ${cycle.answer ? segments(cycle.answer, ranges).map(part) : html`<span class="muted">(no answer)</span>`}
  </p>`;
}

/** What the judge found of a question, as pairs of name and value. */
function Findings({ cycle, side }) {
  const { necessity, atomicity, nearest } = cycle;
  const rows = [
    necessity?.finding && ["Leave one out", html`<${Necessity} found=${necessity} />`],
    cycle.answerable !== null && ["Answerable", answerable(cycle)],
    cycle.correct !== null && ["Correct", html`<${YesNo} value=${cycle.correct} />`],
    atomicity?.length && ["Atomicity", html`<span class="marks-five">${atomicity.map((one) => html`<${Criterion} one=${one} />`)}</span>`],
    nearest && ["Nearest before", html`<${ToCard} side=${side} at=${nearest.question}>question ${nearest.question + 1}<//>, cosine ${decimal(nearest.cosine)}`],
  ].filter(Boolean);
  if (!rows.length) return null;
  return html`<dl class="findings">${rows.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

function Necessity({ found }) {
  const then = found.without && html` <span class="muted">(then: ${found.without})</span>`;
  return html`<b class="finding ${found.finding}">${found.finding}</b>: ${NECESSITY[found.finding] ?? ""}${then}`;
}

const Criterion = ({ one }) =>
  html`<span class=${one.met ? "met" : "unmet"}>${one.met ? "✓" : "✕"} ${one.mark}<span class="unseen">${one.met ? " met" : " not met"}</span></span>`;

/** A button that goes to the card of answer `at`. */
export const ToCard = ({ side, at, children }) =>
  html`<button class="plain" onClick=${() => document.getElementById(`q${side}-${at + 1}`)?.focus()}>${children}</button>`;

const YesNo = ({ value }) => (value ? html`<span class="met">✓ yes</span>` : html`<span class="unmet">✕ no</span>`);

/** Answerable from the evidence? After an abstention this says whether it was honest. */
function answerable(cycle) {
  if (cycle.status !== "abstained") return html`<${YesNo} value=${cycle.answerable} />`;
  if (cycle.answerable) return html`<span class="unmet">✕ yes, so the abstention misses it</span>`;
  return html`<span class="met">✓ no, the evidence is silent</span>`;
}

/** A part that is made when it is opened. */
export function More({ title, children, open = false }) {
  const [opened, setOpened] = useState(open);
  return html`<details class="more" open=${open} onToggle=${(event) => setOpened(event.currentTarget.open)}>
    <summary>${title}</summary>${opened && children}
  </details>`;
}

/** Calls of the judge: what was read from the reply, and prompt and reply on demand. */
export function Calls({ calls }) {
  return html`<ul class="calls" role="list">${calls.map((call, at) => html`<li key=${at}>
    <p><b>${call.task}</b>${call.role && ` · ${call.role}`}: <${Ruling} call=${call} /></p>
    ${call.prompt && html`<${More} title="Prompt"><pre dir="auto" tabindex="0">${call.prompt}</pre><//>`}
    ${call.reply && html`<${More} title="Reply"><pre dir="auto" tabindex="0">${call.reply}</pre><//>`}
  </li>`)}</ul>`;
}

function Ruling({ call }) {
  const read = call.failure ? html`<span class="unmet">✕ ${call.failure}</span>` : (call.value ?? "no value");
  return html`${read} <span class="muted">${call.engine}</span>`;
}
