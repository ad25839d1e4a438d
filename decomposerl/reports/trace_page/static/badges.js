// Small signs used everywhere: verdict, right or wrong, confidence, and the kinds of errors.
import { decimal, html } from "trace-page/html.js";
import { CONFIDENT, hasFlag } from "trace-page/state.js";

const VERDICTS = {
  S: ["supported", "Supported"],
  R: ["refuted", "Refuted"],
  N: ["open", "Not enough information"],
  "": ["none", "No verdict"],
};

/** A verdict: shape and word, and a colour, which one without any answer has not. */
export function Verdict({ value, rests = "", silent = false }) {
  const [name, word] = VERDICTS[value];
  return html`<span class="verdict ${name} ${silent ? "silent" : ""}"><${Shape} name=${name} />${word}${rests}</span>`;
}

export const isSilent = (all, at) => hasFlag(all, at, "silent");

/** What the verdict rests on, where that is not an answer to every question. */
export function restsOn(all, at) {
  if (isSilent(all, at)) return ": the evidence does not say";
  return hasFlag(all, at, "partly_answered") ? ": the evidence answers only some questions" : "";
}

const SHAPES = {
  supported: "M6 1.5 11 10.5H1Z",
  refuted: "M6 10.5 1 1.5H11Z",
  open: "M6 1.5 10.5 6 6 10.5 1.5 6Z",
  none: "M1.5 5H10.5V7H1.5Z",
};

const Shape = ({ name }) => html`<svg class="shape" viewBox="0 0 12 12" aria-hidden="true"><path d=${SHAPES[name]} /></svg>`;

export const verdictWord = (value) => VERDICTS[value][1];

/** Whether the verdict agrees with the gold label. */
export function Result({ right }) {
  if (right < 0) return null;
  return right ? html`<span class="result">✓ right</span>` : html`<span class="result wrong">✕ wrong</span>`;
}

/** A confidence as bar and number; red where it is high and the verdict wrong. */
export function Confidence({ value, right }) {
  if (value === null) return html`<span class="confidence"><span class="muted">–</span></span>`;
  const alarm = value >= CONFIDENT && right === 0;
  return html`<span class="confidence ${alarm ? "alarm" : ""}">
    <span class="track" aria-hidden="true"><span style=${{ width: `${Math.min(1, Math.max(0, value)) * 100}%` }} /></span>
    <span class="number">${decimal(value)}</span>
  </span>`;
}

export const FLAGS = {
  wrong: "wrong",
  confident_and_wrong: "confident and wrong",
  silent: "the evidence does not say",
  harmful_question: "harmful question",
  unparsed: "unparsed",
  truncated: "truncated",
  failed: "failed",
  not_in_evidence: "not in evidence",
};
const SERIOUS = new Set(["confident_and_wrong", "failed"]);

export const flagTitle = (name) => FLAGS[name] ?? name.replaceAll("_", " ");

/** The flags of a trace, most serious first; "wrong" is shown by the result already. */
export function flagsAt(all, at) {
  const set = all.flag_names.filter((name) => name !== "wrong" && hasFlag(all, at, name));
  return set.sort((a, b) => SERIOUS.has(b) - SERIOUS.has(a));
}

export const Flag = ({ name }) => html`<span class="flag ${name}">${flagTitle(name)}</span>`;

export const MARKS = { agree: "✓ Agree", disagree: "✕ Disagree", unclear: "? Unclear" };
