// One claim: its evidence beside the question cards, rewards, judge, review; alone or against another.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { Confidence, Flag, Result, Verdict, flagsAt, isSilent, restsOn, verdictWord } from "trace-page/badges.js";
import { Calls, Cards, More, ToCard, callsOf } from "trace-page/cards.js";
import { block, source } from "trace-page/data.js";
import { Evidence } from "trace-page/evidence.js";
import { classes, count, decimal, html } from "trace-page/html.js";
import { Review } from "trace-page/marks.js";
import { focused, hovered } from "trace-page/spans.js";
import {
  addressOf, announced, benchmarksAt, change, currentMarksAt, family, go, index, listAddress, nameOf, otherOf, query, route,
  rows, second, shown, systemOf,
} from "trace-page/state.js";
import { Training } from "trace-page/training.js";

const SAME_WORDS = 0.6;
/** Flags that the verdict of the head says in words. */
const BASES = new Set(["silent", "partly_answered"]);
const BROKEN = {
  unparsed: ["Unparsed.", "No verdict could be read from this reply. What follows is what there is."],
  truncated: ["Truncated.", "The token limit cut this reply before its end. What follows is what there is."],
  failed: ["Failed.", "A call failed, so this trace ends early. What follows is what there is."],
};

/**
 * The detail of the trace at `at`: {at, detail, evidence}, or {at, error}; null before the first. While
 * another trace of the claim is read, the one before stays, so that nothing jumps.
 */
function useDetail(at) {
  const [read, setRead] = useState(null);
  useEffect(() => {
    let wanted = true;
    const all = index.value;
    if (at === null) return undefined;
    block(all.block_of[at])
      .then((found) => {
        const detail = found.items[all.place_of[at]];
        if (wanted) setRead({ at, detail, evidence: found.evidence[detail.evidence] });
      })
      .catch((error) => wanted && setRead({ at, error: error.message }));
    return () => (wanted = false);
  }, [at]);
  return at === null ? null : read;
}

export function Claim() {
  const all = index.value;
  const at = shown.value;
  if (at === null) return html`<${Missing} />`;
  return html`<${Shown} key=${all.claim_id[at]} all=${all} at=${at} other=${second.value} />`;
}

function Missing() {
  const { claim, system, step } = route.value;
  const parts = [claim, system, step && `step ${step}`].filter(Boolean).join(" · ");
  return html`<main id="main" class="claim-page">
    <p class="nothing">There is no trace here of “<span dir="auto">${parts}</span>”. <a href=${listAddress()}>To the list</a></p>
  </main>`;
}

function Shown({ all, at, other }) {
  const one = useDetail(at);
  const two = useDetail(other);
  useLayoutEffect(() => {
    hovered.value = null;
    focused.value = null;
    document.title = `${all.claim[at].slice(0, 80)} · ${all.title}`;
  }, [at]);
  const both = other !== null;
  return html`<main id="main" class=${classes({ "claim-page": true, both, stale: one && one.at !== at })}>
    <${Head} all=${all} at=${at} />
    <${Training} at=${at} />
    <${Chooser} all=${all} at=${at} other=${other} />
    ${one?.error && html`<p class="banner alarm" role="alert">${one.error}</p>`}
    ${!one && html`<p class="nothing" role="status">Reading this trace…</p>`}
    ${one?.detail && html`<${Panes} all=${all} one=${one} two=${both ? two : null} both=${both} />`}
  </main>`;
}

function Panes({ all, one, two, both }) {
  const spans = currentMarksAt(all, one.at).flatMap((mark) => (mark.span ? [mark.span] : []));
  const differences = two?.detail ? compared(one.detail.cycles, two.detail.cycles) : [null, null];
  const apart = two?.detail && one.evidence?.text !== two.evidence?.text;
  const sides = [one.detail, two?.detail && { ...two.detail, evidence: apart ? -1 : one.detail.evidence }];
  return html`<div class="panes">
    <div class="evidence-side">
      ${one.evidence && html`<${Evidence} evidence=${one.evidence} number=${one.detail.evidence} sides=${sides}
        marked=${spans.filter((span) => span.where === "evidence")} />`}
      ${apart && html`<p class="banner">The second trace was given other evidence, shown here: its sentences are not lit above.</p>
        <${More} title="Evidence of the second trace"><p class="thought" dir="auto">${two.evidence?.text}</p><//>`}
    </div>
    <${Trace} all=${all} read=${one} side=${0} spans=${spans} differences=${differences[0]} against=${two?.detail} titled=${both} />
    ${two?.detail && html`<${Trace} all=${all} read=${two} side=${1} spans=${[]} differences=${differences[1]}
      against=${one.detail} titled />`}
    ${both && !two?.detail && html`<p class="nothing" role="status">${two?.error ?? "Reading the second trace…"}</p>`}
  </div>`;
}

function Head({ all, at }) {
  const title = useRef(null);
  useEffect(() => title.current.focus({ preventScroll: true }), []);
  const place = rows.value.indexOf(at);
  const benchmark = benchmarksAt(all, at);
  const side = (by, word) => {
    const next = place < 0 ? undefined : rows.value[place + by];
    if (next === undefined) return html`<span class="button off">${word}</span>`;
    return html`<a class="button" href=${addressOf(all, next, { ...query.value, vs: "" })}>${word}</a>`;
  };
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      announced.value = "The link is copied.";
    } catch {
      announced.value = "This browser does not let a page copy: take the link from the address bar.";
    }
  };
  return html`<div class="claim-head">
    <nav aria-label="Traces">
      <a class="button" href=${listAddress()}>← List</a> ${side(-1, "Previous")} ${side(1, "Next")}
      <span class="muted">${place < 0 ? "not among the filtered" : `${count(place + 1)} of ${count(rows.value.length)}`}</span>
      <button onClick=${copy}>Copy link</button>
    </nav>
    <h1 ref=${title} tabindex="-1" dir="auto">${all.claim[at] || "(no claim)"}</h1>
    <div class="facts">
      <${Fact} name="Verdict">
        <${Verdict} value=${all.verdict[at]} rests=${restsOn(all, at)} silent=${isSilent(all, at)} /> <${Result} right=${all.right[at]} />
      <//>
      ${all.gold[at] && html`<${Fact} name="Gold label"><${Verdict} value=${all.gold[at]} /><//>`}
      ${all.confidence[at] !== null && html`<${Fact} name="Confidence">
        <${Confidence} value=${all.confidence[at]} right=${all.right[at]} />
      <//>`}
      <${Fact} name="System">${nameOf(all, at)}<//>
      ${benchmark && html`<${Fact} name="Benchmark">${benchmark}<//>`}
      <div class="fact flags">${flagsAt(all, at).filter((name) => !BASES.has(name)).map((name) => html`<${Flag} name=${name} />`)}</div>
    </div>
  </div>`;
}

const Fact = ({ name, children }) => html`<div class="fact">
  <span class="name">${name}</span><span class="value">${children}</span>
</div>`;

/** What else there is of this claim: go there, or set it beside this trace. */
function Chooser({ all, at, other }) {
  const same = family(all, at);
  if (same.length < 2) return null;
  const title = (one) => `${nameOf(all, one)} — ${verdictWord(all.verdict[one])}`;
  const options = (list) => list.map((one) => html`<option value=${one}>${title(one)}</option>`);
  const show = (event) => go(addressOf(all, Number(event.currentTarget.value)));
  const compare = ({ currentTarget: { value } }) => change({ vs: value && otherOf(all, Number(value)) });
  return html`<div class="chooser">
    <label>Trace <select value=${at} onChange=${show}>${options(same)}</select></label>
    <label>Compare with <select id="compare" value=${other ?? ""} onChange=${compare}>
      <option value="">nothing</option>${options(same.filter((one) => one !== at))}
    </select></label>
    ${other !== null && html`<${Differ} all=${all} at=${at} other=${other} />`}
  </div>`;
}

function Differ({ all, at, other }) {
  if (all.verdict[at] === all.verdict[other]) return html`<span class="muted">Same verdict</span>`;
  return html`<span class="difference differs">Verdicts differ</span>`;
}

function Trace({ all, read, side, spans, differences, against, titled }) {
  const { at, detail, evidence } = read;
  const status = all.status[at];
  const shared = callsOf(detail, null);
  const texts = () => source.judge(all.block_of[at], all.place_of[at], detail.judge);
  return html`<section class="trace" data-side=${side} aria-label=${side ? "Second trace" : "Trace"}>
    ${titled && html`<header class="trace-title">
      <h2>${nameOf(all, at)}</h2>
      <${Verdict} value=${all.verdict[at]} rests=${restsOn(all, at)} silent=${isSilent(all, at)} /><${Result} right=${all.right[at]} />
      ${all.confidence[at] !== null && html`<${Confidence} value=${all.confidence[at]} right=${all.right[at]} />`}
    </header>`}
    ${BROKEN[status] && html`<p class="banner alarm"><b>${BROKEN[status][0]}</b> ${BROKEN[status][1]}</p>`}
    ${detail.warnings.map((text) => html`<p class="banner" dir="auto">${text}</p>`)}
    ${detail.opening && html`<${More} title="Opening thought" open><p class="thought" dir="auto">${detail.opening}</p><//>`}
    ${detail.cycles.length > 0 && html`<h2>Questions <span class="muted">${detail.cycles.length}</span></h2>`}
    <${Cards} detail=${detail} evidence=${evidence} side=${side} marked=${spans}
      differences=${differences} texts=${texts} />
    ${!detail.cycles.length && status === "parsed" && html`<p class="muted">This system asks no questions.</p>`}
    ${detail.closing && html`<${More} title="Closing thought" open><p class="thought" dir="auto">${detail.closing}</p><//>`}
    <${Rewards} detail=${detail} against=${against} />
    ${shared.length > 0 && html`<section aria-label="Judge"><h2>Judge</h2><${Calls} calls=${shared} texts=${texts} /></section>`}
    ${detail.reply && html`<${More} title="Raw reply" open=${!detail.cycles.length}>
      <pre class="reply" dir="auto" tabindex="0">${detail.reply}</pre>
    <//>`}
    <${Facts} detail=${detail} engine=${systemOf(all, at)?.engine} />
    ${!side && html`<${Review} at=${at} detail=${detail} evidence=${evidence} />`}
  </section>`;
}

function Rewards({ detail, against }) {
  if (!detail.rewards.length) return null;
  const heads = ["Reward", "Bar", "Value", "Weight", ...(against ? ["Against the other trace"] : [])];
  const total = detail.rewards.reduce((sum, one) => sum + (one.value ?? 0) * one.weight, 0);
  const row = (one) => {
    const other = against?.rewards.find((two) => two.name === one.name)?.value ?? null;
    return html`<tr><th scope="row">${one.name.replaceAll("_", " ")}</th>
      <td><${Bar} one=${one} /></td>
      <td class="number">${one.value === null ? html`<span class="muted">${one.state || "–"}</span>` : decimal(one.value)}</td>
      <td class="number muted">${one.weight === 1 ? "" : `× ${one.weight}`}</td>
      ${against && html`<td class="number"><${Change} value=${one.value} other=${other} /></td>`}</tr>`;
  };
  return html`<section class="rewards" aria-label="Rewards"><h2>Rewards</h2><table>
    <thead class="unseen"><tr>${heads.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
    <tbody>${detail.rewards.map(row)}</tbody>
    <tfoot><tr>
      <th scope="row">weighted sum</th><td /><td class="number"><b>${decimal(total)}</b></td><td />${against && html`<td />`}
    </tr></tfoot>
  </table></section>`;
}

function Change({ value, other }) {
  if (value === null || other === null || value === other) return html`<span class="muted">=</span>`;
  return html`<b>${value > other ? "+" : "−"}${decimal(Math.abs(value - other))}</b>`;
}

/** A bar from zero to the value, over the reward's range. */
function Bar({ one }) {
  const wide = one.high - one.low || 1;
  const share = (value) => (100 * (Math.min(one.high, Math.max(one.low, value)) - one.low)) / wide;
  const zero = share(0);
  const end = share(one.value ?? 0);
  const style = { left: `${Math.min(zero, end)}%`, width: `${Math.abs(end - zero)}%` };
  return html`<span class="bar" aria-hidden="true">
    <span class=${one.value < 0 ? "below" : "above"} style=${style} /><i style=${{ left: `${zero}%` }} />
  </span>`;
}

/** How the trace was made, and the numbers behind the head. */
function Facts({ detail, engine }) {
  const { confidence } = detail;
  const rows = [
    ["Confidence", confidence && confidenceWords(confidence)],
    ["Its meaning", confidence?.meaning],
    ["Method", detail.method],
    ["Model", detail.model],
    ["Engine", engine],
    ["Protocol", detail.protocol],
    ["Seed", detail.seed === null ? "" : String(detail.seed)],
    ["Prompt", detail.prompt_hash],
    ["Source", detail.source],
    ["Faults", detail.faults.join(", ")],
    ["Notes", detail.notes],
  ].filter(([, value]) => value);
  if (!rows.length) return null;
  return html`<${More} title="How it was made" open>
    <dl class="made">${rows.map(([name, value]) => html`<div><dt>${name}</dt><dd dir="auto">${value}</dd></div>`)}</dl>
  <//>`;
}

function confidenceWords({ raw, normalised, calibrated }) {
  const fit = calibrated === null ? "not calibrated" : `calibrated ${decimal(calibrated, 4)}`;
  return `raw ${decimal(raw, 4)} · normalised ${decimal(normalised, 4)} · ${fit}`;
}

const wordsOf = (text) => new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []);

/** Share of words that two questions have in common (Jaccard). */
function likeness(one, two) {
  const [a, b] = [wordsOf(one), wordsOf(two)];
  const common = [...a].filter((word) => b.has(word)).length;
  return common / (a.size + b.size - common || 1);
}

/** For each question of both traces: "alone", or whether its like in the other has the same answer. */
export function compared(one, two) {
  const pairs = one.flatMap((a, at) => two.map((b, place) => [likeness(a.question, b.question), at, place]));
  const result = [one.map(() => "alone"), two.map(() => "alone")];
  for (const [like, at, place] of pairs.sort((a, b) => b[0] - a[0])) {
    if (like < SAME_WORDS || result[0][at] !== "alone" || result[1][place] !== "alone") continue;
    const same = plain(one[at].answer) === plain(two[place].answer);
    result[0][at] = result[1][place] = same ? "same" : "differs";
  }
  return result;
}

const plain = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, " ").trim();
