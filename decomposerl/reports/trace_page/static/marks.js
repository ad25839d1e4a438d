// Reviewer marks: agree, disagree or unclear, with a note and a span; export and import as JSONL.
import { useState } from "preact/hooks";
import { signal } from "@preact/signals";

import { MARKS } from "trace-page/badges.js";
import { source } from "trace-page/data.js";
import { html, plural } from "trace-page/html.js";
import { selectedSpan } from "trace-page/spans.js";
import {
  announced, currentMarksAt, identity, index, isEarlier, markKey, marks, marksAt, wellFormed,
} from "trace-page/state.js";

const REVIEWER = "trace-reviewer";
const SHOWN_CHARACTERS = 160;
const WHERES = ["evidence", "answer"];

export const reviewer = signal("");

/** What a reviewer has typed or attached and not stored yet, by the trace's key: {note?, span?}. */
const drafts = signal({});

/** Take the reviewer's name and the marks, now and whenever another tab may have added some. */
export async function openMarks(all) {
  reviewer.value = all.reviewer || remembered() || "";
  const again = () => document.hidden || readMarks(all).catch(() => {});
  addEventListener("storage", again);
  document.addEventListener("visibilitychange", again);
  await readMarks(all);
}

/** Take the marks of these claims: pages of one title share their store. */
async function readMarks(all) {
  const stored = await source.marks(all.title);
  marks.value = stored.filter((one) => all.positions.has(wellFormed(one.claim_id)));
}

function remembered() {
  try {
    return localStorage.getItem(REVIEWER);
  } catch {
    return "";
  }
}

function rename(name) {
  reviewer.value = name;
  try {
    localStorage.setItem(REVIEWER, name);
  } catch {
    // A browser that keeps nothing: the name holds until the page is closed.
  }
}

/** The reviewer's own mark among some. */
const own = (found) => found.find((one) => one.reviewer === reviewer.value.trim());

/** Store a mark of the trace at `at` with the draft; the last note and span are kept where it has none. */
export async function mark(at, kind, given) {
  const all = index.value;
  const name = reviewer.value.trim();
  if (!name) {
    announced.value = "Enter your name first.";
    document.getElementById("reviewer")?.focus();
    return;
  }
  const key = markKey(identity(all, at));
  const draft = drafts.value[key];
  try {
    await readMarks(all);
    const before = own(currentMarksAt(all, at));
    const { note = before?.note ?? "", span = before?.span ?? null } = given ?? draft ?? {};
    const stored = await source.save({ ...identity(all, at), reviewer: name, mark: kind, note, span, of: all.of?.[at] });
    if (drafts.value[key] === draft) drafts.value = { ...drafts.value, [key]: undefined };
    await readMarks(all).catch(() => (marks.value = [...marks.value, stored]));
    announced.value = kind ? `Marked: ${MARKS[kind].slice(2)}.` : "Mark withdrawn.";
  } catch (error) {
    announced.value = `The mark was not stored: ${error.message}`;
  }
}

export function Review({ at, detail, evidence }) {
  return html`<section class="review" aria-labelledby="review-title">
    <h2 id="review-title">Review</h2>
    <${Form} at=${at} detail=${detail} evidence=${evidence} />
    <${Others} at=${at} />
    <${Exchange} />
  </section>`;
}

function Form({ at, detail, evidence }) {
  const all = index.value;
  const mine = own(currentMarksAt(all, at));
  const key = markKey(identity(all, at));
  const { note = mine?.note ?? "", span = mine?.span ?? null } = drafts.value[key] ?? {};
  const keep = (part) => (drafts.value = { ...drafts.value, [key]: { ...drafts.value[key], ...part } });
  const setSpan = (chosen) => keep({ span: chosen });
  const texts = (where, cycle) => (where === "evidence" ? evidence?.text : detail.cycles[cycle]?.answer) ?? "";
  const withdraw = () => mark(at, "", { note: "", span: null });
  const attach = () => {
    const chosen = selectedSpan(texts);
    if (chosen) setSpan(chosen);
    else announced.value = "Select text in the evidence or in an answer first.";
  };
  const choose = (name) => name && setSpan(whole(name, detail, evidence));
  return html`<form onSubmit=${(event) => event.preventDefault()}>
    <label class="stacked">Your name
      <input id="reviewer" value=${reviewer.value} autocomplete="off" onChange=${(event) => rename(event.currentTarget.value)} />
    </label>
    <label class="stacked">Note
      <textarea id="note" rows="2" value=${note} onInput=${(event) => keep({ note: event.currentTarget.value })} />
    </label>
    <div class="attach">
      <button type="button" onMouseDown=${(event) => event.preventDefault()} onClick=${attach}>Attach selected text</button>
      <label>or <select value="" onChange=${(event) => choose(event.currentTarget.value)}>
        <option value="">a whole sentence or answer …</option>
        ${evidence?.sentences.map((_, number) => html`<option value=${`s${number}`}>sentence ${number + 1}</option>`)}
        ${detail.cycles.map((_, number) => html`<option value=${`a${number}`}>answer ${number + 1}</option>`)}
      </select></label>
    </div>
    ${span && html`<p class="attached">
      <${Quoted} span=${span} /> <button type="button" class="plain" onClick=${() => setSpan(null)}>Remove</button>
    </p>`}
    <div class="kinds" role="group" aria-label="Your mark">
      ${Object.entries(MARKS).map(([kind, title]) => html`<button type="button" class="kind ${kind}"
        aria-pressed=${mine?.mark === kind} onClick=${() => mark(at, kind)}>${title}</button>`)}
      ${own(marksAt(all, at)) && html`<button type="button" class="plain" onClick=${withdraw}>Withdraw</button>`}
    </div>
  </form>`;
}

/** A whole sentence ("s3") or answer ("a0") as a span. */
function whole(name, detail, evidence) {
  const number = Number(name.slice(1));
  const answer = detail.cycles[number]?.answer ?? "";
  const [start, end] = name[0] === "s" ? evidence.sentences[number] : [0, answer.length];
  const text = (name[0] === "s" ? evidence.text : answer).slice(start, end);
  return { where: name[0] === "s" ? "evidence" : "answer", cycle: name[0] === "s" ? null : number, start, end, text };
}

function Quoted({ span }) {
  const text = span.text.length > SHOWN_CHARACTERS ? `${span.text.slice(0, SHOWN_CHARACTERS)}…` : span.text;
  const where = span.where === "answer" ? `answer ${span.cycle + 1}` : "evidence";
  return html`<span class="muted">${where}:</span> <q dir="auto">${text}</q>`;
}

function Others({ at }) {
  const found = marksAt(index.value, at);
  if (!found.length) return null;
  return html`<ul class="marks" role="list" aria-label="Marks of this trace">${found.map((one) => html`<li key=${one.reviewer}>
    <b class="kind-word ${one.mark}">${MARKS[one.mark]}</b> <span dir="auto">${one.reviewer}</span> <${When} at=${one.at} />
    ${isEarlier(index.value, at, one) && html`<span class="muted">of an earlier reply</span>`}
    ${one.note && html`<p dir="auto">${one.note}</p>`}
    ${one.span && html`<p><${Quoted} span=${one.span} /></p>`}
  </li>`)}</ul>`;
}

const When = ({ at }) => html`<time class="muted" datetime=${at}>${at.slice(0, 16).replace("T", " ")} UTC</time>`;

/** Export and, in a file, import. The live page's server gives the JSONL of all reviewers. */
export function Exchange() {
  const [message, setMessage] = useState("");
  const take = async (event) => {
    const [file] = event.currentTarget.files;
    event.currentTarget.value = "";
    if (file) setMessage(await imported(await file.text()));
  };
  return html`<div class="exchange">
    <span class="muted">${plural(marks.value.length, "mark")} stored</span>
    ${source.live && html`<a class="button" href="/marks.jsonl" download="marks.jsonl">Export marks</a>`}
    ${!source.live && html`<${Files} take=${take} />`}
    ${message && html`<span role="status">${message}</span>`}
  </div>`;
}

const Files = ({ take }) => html`<button onClick=${download}>Export marks</button>
  <label class="button">Import marks<input class="unseen" type="file" accept=".jsonl,.ndjson" onChange=${take} /></label>`;

function download() {
  const lines = marks.value.map((one) => `${JSON.stringify(one)}\n`);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(lines, { type: "application/jsonl" }));
  link.download = "marks.jsonl";
  link.click();
  URL.revokeObjectURL(link.href);
}

async function imported(text) {
  const lines = text.split("\n").filter((line) => line.trim());
  const read = lines.map(readMark).filter(Boolean);
  const fresh = await source.merge(read);
  marks.value = [...marks.value, ...fresh];
  const bad = lines.length - read.length;
  return `${plural(fresh.length, "mark")} imported${bad ? `, ${plural(bad, "line")} of another form skipped` : ""}.`;
}

/** A mark from one line of JSONL; null where it is none. */
function readMark(line) {
  try {
    const read = JSON.parse(line);
    const { claim_id, system, step = null, rollout = null, reviewer: by, mark: kind, note = "", span = null, at, of } = read;
    const texts = [claim_id, system, by, kind, note, at, of ?? ""].every((one) => typeof one === "string");
    const known = kind === "" || Object.hasOwn(MARKS, kind);
    if (!texts || !known || !(span === null || isSpan(span))) return null;
    return { claim_id, system, step, rollout, reviewer: by, mark: kind, note, span, at, of };
  } catch {
    return null;
  }
}

function isSpan(span) {
  return WHERES.includes(span.where) && typeof span.text === "string" && [span.start, span.end].every(Number.isInteger);
}
