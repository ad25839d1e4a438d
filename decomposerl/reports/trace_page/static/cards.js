// Question cards: what was asked and answered, what it rests on, and what the judge found.
import { useEffect, useState } from "preact/hooks";

import { source } from "trace-page/data.js";
import { Cited, showSentence } from "trace-page/evidence.js";
import { classes, decimal, html, plural } from "trace-page/html.js";
import { terms } from "trace-page/search.js";
import { Found, focused, hovered, isCitation, isLit, lit, segments, sentencesOf, termRanges } from "trace-page/spans.js";
import { query } from "trace-page/state.js";

const STATUS = {
  quotes_evidence: ["❝", "Quotes the evidence"],
  abstained: ["◌", "Abstained"],
  not_in_evidence: ["△", "Not in evidence"],
  unknown: ["?", "Not checked"],
};
const NECESSITY = {
  necessary: "the verdict is lost without it",
  redundant: "the verdict stays right without it",
  neutral: "the verdict is wrong with it and without it",
  harmful: "the verdict is right only without it",
  changed: "the verdict is another without it",
  unchanged: "the verdict is the same without it",
  ungrounded: "the evidence does not bear out its answer",
};
const DIFFERENCES = { same: "same answer", differs: "answer differs", alone: "asked here only" };

export function Cards({ detail, evidence, side, marked, differences, texts }) {
  return html`<ol class="cards" role="list">
    ${detail.cycles.map((cycle, at) => html`<li key=${at}>
      <${Card} cycle=${cycle} at=${at} side=${side} evidence=${evidence}
        calls=${callsOf(detail, at)} texts=${texts}
        marked=${marked.filter((span) => span.where === "answer" && span.cycle === at)}
        difference=${differences?.[at]} />
    </li>`)}
  </ol>`;
}

/** The judge's calls on question `at`, null for those on the whole trace: {call, place}. */
export const callsOf = (detail, at) =>
  detail.judge.map((call, place) => ({ call, place })).filter(({ call }) => (call.question ?? null) === at);

function Card({ cycle, at, side, evidence, calls, texts, marked, difference }) {
  const [icon, title] = STATUS[cycle.status] ?? STATUS.unknown;
  const key = { keys: [{ side, cycle: at }] };
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
    ${calls.length > 0 && html`<${More} title=${`Judge, ${plural(calls.length, "call")}`}><${Calls} calls=${calls} texts=${texts} /><//>`}
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
    const cite = one.keys.find(isCitation);
    const enter = cite && (() => (hovered.value = { keys: [{ side, cycle: at, span: cite.span }] }));
    const names = {
      cite: cite,
      [cite?.match ?? "near"]: cite,
      on: cite && isLit(now, side, at, cite.span),
      found: one.keys.includes("found"),
      reviewed: one.keys.includes("reviewed"),
    };
    return html`<span data-from=${one.start} class=${classes(names) || undefined} onMouseEnter=${enter}
      onMouseLeave=${cite && (() => (hovered.value = { keys: [{ side, cycle: at }] }))}>${one.text}</span>`;
  };
  return html`<p class="answer" dir="auto" data-where="answer" data-cycle=${at}>
    ${cycle.answer ? segments(cycle.answer, ranges).map(part) : html`<span class="muted">(no answer)</span>`}
  </p>
  ${cycle.cells.map((cell) => html`<p class="muted" dir="auto">Table: ${cell}</p>`)}`;
}

/** What the judge found of a question, as pairs of name and value. */
function Findings({ cycle, side }) {
  const { necessity, atomicity, nearest } = cycle;
  const rows = [
    necessity && ["Leave one out", html`<${Necessity} found=${necessity} />`],
    cycle.answerable !== null && ["Answerable", answerable(cycle)],
    cycle.correct !== null && ["Correct", html`<${YesNo} value=${cycle.correct} />`],
    atomicity?.length && ["Atomicity", html`<span class="marks-five">${atomicity.map((one) => html`<${Criterion} one=${one} />`)}</span>`],
    nearest && ["Nearest before", html`<${Nearest} side=${side} found=${nearest} />`],
  ].filter(Boolean);
  if (!rows.length) return null;
  return html`<dl class="findings">${rows.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

function Necessity({ found }) {
  const then = found.without && html` <span class="muted">(then: ${found.without})</span>`;
  if (!found.finding) return then;
  return html`<b class="finding ${found.finding}">${found.finding}</b>: ${NECESSITY[found.finding] ?? ""}${then}`;
}

/** The nearest earlier question, where it is known which, and how near it is. */
function Nearest({ side, found }) {
  const { question, cosine } = found;
  if (question === null) return `cosine ${decimal(cosine)}`;
  return html`<${ToCard} side=${side} at=${question}>question ${question + 1}<//>, cosine ${decimal(cosine)}`;
}

function Criterion({ one }) {
  const [name, sign, state] = one.met ? ["met", "✓", " met"] : ["unmet", "✕", " not met"];
  return html`<span class=${name}>${sign} ${one.mark}<span class="unseen">${state}</span></span>`;
}

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
export function Calls({ calls, texts }) {
  return html`<ul class="calls" role="list">${calls.map(({ call, place }) => html`<li key=${place}>
    <p><b>${call.task}</b>${call.role && ` · ${call.role}`}: <${Ruling} call=${call} /></p>
    ${(call.prompt || call.reply || source.live) && html`<${More} title="Prompt and reply"><${Texts} place=${place} texts=${texts} /><//>`}
  </li>`)}</ul>`;
}

function Ruling({ call }) {
  const read = call.failure ? html`<span class="unmet">✕ ${call.failure}</span>` : (call.value ?? "no value");
  return html`${read} <span class="muted">${call.engine}</span>`;
}

/** Prompt and reply of the judge's call number `place`; `texts` gives those of the whole trace. */
function Texts({ place, texts }) {
  const [read, setRead] = useState(null);
  useEffect(() => {
    texts().then((calls) => setRead(calls[place] ?? {}), (error) => setRead({ error: error.message }));
  }, [place]);
  if (!read) return html`<p class="muted" role="status">Reading …</p>`;
  if (read.error) return html`<p class="unmet" role="alert">${read.error}</p>`;
  if (!read.prompt && !read.reply) return html`<p class="muted">Neither prompt nor reply of this call is stored.</p>`;
  return ["prompt", "reply"].map((name) => read[name] && html`<h4>${name}</h4><pre dir="auto" tabindex="0">${read[name]}</pre>`);
}
