// The same claim over training: a slider over steps, the rollouts of a step, and their rewards.
import { Verdict, verdictWord } from "trace-page/badges.js";
import { decimal, html } from "trace-page/html.js";
import { addressOf, family, go, index } from "trace-page/state.js";

const WIDE = 100;
const TALL = 22;

/** Positions of the rollouts of the claim and system at `at`, by step. */
export function history(all, at) {
  const found = new Map();
  for (const one of family(all, at)) {
    if (all.system[one] !== all.system[at] || all.step[one] === null) continue;
    if (!found.has(all.step[one])) found.set(all.step[one], []);
    found.get(all.step[one]).push(one);
  }
  return new Map([...found].sort(([a], [b]) => a - b));
}

/** The trace `by` steps away: the same rollout, or the first of that step. */
export function neighbour(all, at, by) {
  const steps = [...history(all, at)];
  const here = steps.findIndex(([step]) => step === all.step[at]);
  const next = here < 0 ? undefined : steps[here + by];
  return next && (next[1].find((one) => all.rollout[one] === all.rollout[at]) ?? next[1][0]);
}

export function Training({ at }) {
  const all = index.value;
  if (all.step[at] === null) return null;
  const steps = [...history(all, at)];
  const here = steps.findIndex(([step]) => step === all.step[at]);
  const move = (event) => {
    const to = neighbour(all, at, Number(event.currentTarget.value) - here);
    if (to !== undefined) location.replace(addressOf(all, to));
  };
  const rollouts = steps[here][1];
  return html`<section class="training" aria-label="Training">
    <div class="slider">
      <div class="caption">
        <p class="muted">Reward of each rollout<br /><span class="key right" /> right <span class="key wrong" /> wrong</p>
        <label for="step">Step <output>${all.step[at]}</output></label>
      </div>
      ${steps.length > 1 && html`<div class="slide">
        <${Chart} all=${all} steps=${steps} at=${at} />
        <input id="step" type="range" min="0" max=${steps.length - 1} step="1" value=${here} onInput=${move}
          aria-valuetext=${`step ${all.step[at]}`} />
        <div class="ticks muted" aria-hidden="true"><span>${steps[0][0]}</span><span>${steps.at(-1)[0]}</span></div>
      </div>`}
    </div>
    ${rollouts.length > 1 && html`<nav class="rollouts" aria-label="Rollouts of this step">
      <span>Rollout</span>
      ${rollouts.map((one) => html`<${Rollout} all=${all} at=${one} here=${one === at} />`)}
      <${Verdict} value=${all.verdict[at]} />
    </nav>`}
  </section>`;
}

function Rollout({ all, at, here }) {
  const label = `${verdictWord(all.verdict[at])}, reward ${decimal(all.total[at])}`;
  const sign = ["✕", "✓"][all.right[at]];
  return html`<a href=${addressOf(all, at)} class=${all.right[at] === 0 ? "wrong" : ""} title=${label}
    aria-current=${here ? "true" : undefined}>${all.rollout[at] ?? "–"}${sign && html`<span aria-hidden="true">${sign}</span>`}</a>`;
}

/** One dot a rollout, by step and total reward: filled where the verdict was right. */
function Chart({ all, steps, at }) {
  const totals = steps.flatMap(([, found]) => found.map((one) => all.total[one])).filter((value) => value !== null);
  if (!totals.length) return null;
  const [low, high] = [Math.min(...totals), Math.max(...totals)];
  const x = (place) => 2 + ((WIDE - 4) * place) / Math.max(1, steps.length - 1);
  const y = (value) => TALL - 3 - ((TALL - 6) * (value - low)) / (high - low || 1);
  const means = steps.map(([, found], place) => {
    const known = found.map((one) => all.total[one]).filter((value) => value !== null);
    return known.length ? `${x(place)},${y(known.reduce((sum, value) => sum + value, 0) / known.length)}` : "";
  });
  const label = `Total reward of each rollout by training step, from ${decimal(low)} to ${decimal(high)}`;
  return html`<div class="chart"><svg viewBox="0 0 ${WIDE} ${TALL}" preserveAspectRatio="none" role="img" aria-label=${label}>
      <polyline points=${means.filter(Boolean).join(" ")} vector-effect="non-scaling-stroke" />
    </svg>
    ${steps.map(([, found], place) => found.filter((one) => all.total[one] !== null).map((one) => html`<span
      class="dot ${["wrong", "right"][all.right[one]] ?? ""} ${one === at ? "here" : ""}" onClick=${() => go(addressOf(all, one))}
      style=${{ left: `${x(place)}%`, top: `${(100 * y(all.total[one])) / TALL}%` }} />`))}
    <span class="most muted">${decimal(high)}</span><span class="least muted">${decimal(low)}</span>
  </div>`;
}
