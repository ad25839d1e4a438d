// What the page shows: the index, the address (one claim, filters, sort), and the rows that follow.
import { computed, signal } from "@preact/signals";

export const CONFIDENT = 0.9;
const PARTS = ["q", "f", "system", "benchmark", "verdict", "result", "step", "mark", "low", "high", "sort", "vs"];

export const index = signal(null);
export const failure = signal("");
/** {claim, system, step, rollout}: texts, or undefined. `claim` is undefined on the list. */
export const route = signal({});
/** The parts of the address behind `?`, each a text; absent where not set. */
export const query = signal({});
/** What a full-text search found so far: {found: Uint8Array, where: Map}, null without a search. */
export const hits = signal(null);
export const announced = signal("");

/** All marks, as they came; the newest of a trace and reviewer holds. */
export const marks = signal([]);

export const wellFormed = (text) => (text.toWellFormed ? text.toWellFormed() : text);
const encoded = (text) => encodeURIComponent(wellFormed(text));

/** The index with what lists and links need: positions by claim and block, right or wrong, steps. */
export function opened(raw) {
  const size = raw.claim.length;
  const positions = new Map();
  const members = Array.from({ length: raw.blocks }, () => []);
  const right = new Int8Array(size).fill(-1);
  for (let at = 0; at < size; at += 1) {
    const id = wellFormed(raw.claim_id[at]);
    if (!positions.has(id)) positions.set(id, []);
    positions.get(id).push(at);
    members[raw.block_of[at]][raw.place_of[at]] = at;
    if (raw.gold[at]) right[at] = raw.verdict[at] === raw.gold[at] ? 1 : 0;
  }
  const steps = [...new Set(raw.step)].filter((step) => step !== null).sort((a, b) => a - b);
  return { ...raw, size, positions, members, right, steps };
}

export const hasFlag = (all, at, name) => Boolean((all.flags[at] >> all.flag_names.indexOf(name)) & 1);

/** What identifies the trace at `at` in marks and links. */
export function identity(all, at) {
  const system = systemOf(all, at)?.key ?? "";
  return { claim_id: all.claim_id[at], system, step: all.step[at], rollout: all.rollout[at] };
}

export const systemOf = (all, at) => all.systems[all.system[at]];

/** "step 20 · rollout 3" of a trace of a training run, "trace 2" of a system's second one; else an empty text. */
export function momentOf(all, at) {
  const number = all.rollout[at];
  if (all.step[at] === null) return number === null ? "" : `trace ${number}`;
  return [`step ${all.step[at]}`, number !== null && `rollout ${number}`].filter(Boolean).join(" · ");
}

/** Positions of the benchmarks that hold the trace at `at`. */
const benchmarksOf = (all, at) => [all.benchmark[at], ...(all.also?.[at] ?? [])];

/** Their names. */
export const benchmarksAt = (all, at) =>
  benchmarksOf(all, at).map((one) => all.benchmarks[one]).filter(Boolean).join(", ");

/** System, step and rollout of a trace in words. */
export const nameOf = (all, at) => [systemOf(all, at)?.title, momentOf(all, at)].filter(Boolean).join(" · ");

/** Positions of all traces of the claim at `at`: every system, step and rollout. */
export const family = (all, at) => all.positions.get(wellFormed(all.claim_id[at])) ?? [];

const rest = (all, at) =>
  [systemOf(all, at)?.key ?? "", all.step[at], all.rollout[at]]
    .slice(0, all.step[at] === null && all.rollout[at] === null ? 1 : 3)
    .map((part) => encoded(String(part ?? "")))
    .join("/");

/** The address of the trace at `at`, under the filters of now, or under `parts`. */
export const addressOf = (all, at, parts = query.value) =>
  `#/${encoded(all.claim_id[at])}/${rest(all, at)}${suffix(parts)}`;

export const otherOf = (all, at) => rest(all, at);

export const listAddress = (parts = query.value) => `#/${suffix({ ...parts, vs: "" })}`;

function suffix(parts) {
  const set = new URLSearchParams();
  for (const name of PARTS) if (parts[name]) set.set(name, parts[name]);
  const text = set.toString();
  return text && `?${text}`;
}

/** Take route and query from the browser's address. */
export function readAddress() {
  const [path, search] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [claim, system, step, rollout] = path.split("/").map(decoded);
  const given = new URLSearchParams(search ?? "");
  query.value = Object.fromEntries(PARTS.filter((name) => given.get(name)).map((name) => [name, given.get(name)]));
  route.value = claim ? { claim, system, step, rollout } : {};
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Change parts of the query without a new entry in the browser's history. */
export function change(parts) {
  query.value = { ...query.value, ...parts };
  const all = index.value;
  const address = shown.value === null ? listAddress() : addressOf(all, shown.value);
  try {
    history.replaceState(null, "", address);
  } catch {
    // Some browsers limit how often a page may do this: the next change writes the address.
  }
}

export function go(address) {
  if (location.hash !== address) location.hash = address;
}

/** The trace that system, step and rollout name among those of a claim; null where there is none. */
function chosen(all, claim, system, step, rollout) {
  const same = (value, given) => given === undefined || given === "" || String(value ?? "") === given;
  const found = (all.positions.get(claim) ?? []).find((at) => {
    const key = systemOf(all, at)?.key ?? "";
    return same(wellFormed(key), system) && same(all.step[at], step) && same(all.rollout[at], rollout);
  });
  return found ?? null;
}

/** Position of the trace that the address names; null on the list, or where there is none. */
export const shown = computed(() => {
  const { claim, system, step, rollout } = route.value;
  if (!index.value || claim === undefined) return null;
  return chosen(index.value, claim, system, step, rollout);
});

/** Position of the second trace, beside the first; null without one. */
export const second = computed(() => {
  if (shown.value === null || !query.value.vs) return null;
  const found = chosen(index.value, route.value.claim, ...query.value.vs.split("/").map(decoded));
  return found === shown.value ? null : found;
});

export const flagsChosen = computed(() => (query.value.f ?? "").split(",").filter(Boolean));

const SORTS = {
  confident_and_wrong: ["Wrong and confident first", (all) => (at) => (all.right[at] ? 1 : -1) * (all.confidence[at] ?? 0)],
  confidence: ["Confidence, high to low", (all) => (at) => negative(all.confidence[at])],
  unsure: ["Confidence, low to high", (all) => (at) => all.confidence[at]],
  best: ["Reward, high to low", (all) => (at) => negative(all.total[at])],
  worst: ["Reward, low to high", (all) => (at) => all.total[at]],
  questions: ["Most questions", (all) => (at) => -all.questions[at]],
  abstentions: ["Most abstentions", (all) => (at) => -all.abstentions[at]],
  step: ["Training step", (all) => (at) => all.step[at]],
};
export const sorts = Object.entries(SORTS).map(([key, [title]]) => [key, title]);

const negative = (value) => (value === null ? null : -value);

/** The newest mark of each reviewer, by the trace's key. */
export const marksOf = computed(() => {
  const newest = new Map();
  for (const mark of [...marks.value].sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0))) {
    const key = markKey(mark);
    if (!newest.has(key)) newest.set(key, new Map());
    if (mark.mark) newest.get(key).set(mark.reviewer, mark);
    else newest.get(key).delete(mark.reviewer);
  }
  return newest;
});

export const markKey = (of) => JSON.stringify([of.claim_id, of.system, of.step ?? null, of.rollout ?? null]);

export const marksAt = (all, at) => [...(marksOf.value.get(markKey(identity(all, at)))?.values() ?? [])];

/** Whether a mark is of another reply than the one that is shown. */
export const isEarlier = (all, at, mark) => Boolean(mark.of && all.of && mark.of !== all.of[at]);

/** The marks of the reply that is shown. */
export const currentMarksAt = (all, at) => marksAt(all, at).filter((mark) => !isEarlier(all, at, mark));

const MARKED = {
  any: (found) => found.length > 0,
  none: (found) => found.length === 0,
  agree: (found) => found.some((mark) => mark.mark === "agree"),
  disagree: (found) => found.some((mark) => mark.mark === "disagree"),
  unclear: (found) => found.some((mark) => mark.mark === "unclear"),
};

const inBand = (value, low, high) => value !== null && value >= low && value <= high;

/** One test for each part of the query that is set. */
function tests(all, parts) {
  const wanted = flagsChosen.value.reduce((bits, name) => bits | (1 << all.flag_names.indexOf(name)), 0);
  const system = all.systems.findIndex((one) => one.key === parts.system);
  const benchmark = all.benchmarks.indexOf(parts.benchmark);
  const low = Number(parts.low ?? 0) / 100;
  const high = Number(parts.high ?? 100) / 100;
  const verdict = { supported: "S", refuted: "R", open: "N", none: "" }[parts.verdict];
  const result = { right: 1, wrong: 0, unknown: -1 }[parts.result];
  const marked = MARKED[parts.mark];
  return [
    hits.value && ((at) => hits.value.found[at]),
    wanted && ((at) => (all.flags[at] & wanted) === wanted),
    parts.system && ((at) => all.system[at] === system),
    parts.benchmark && ((at) => benchmarksOf(all, at).includes(benchmark)),
    verdict !== undefined && ((at) => all.verdict[at] === verdict),
    result !== undefined && ((at) => all.right[at] === result),
    parts.step && ((at) => String(all.step[at]) === parts.step),
    (parts.low || parts.high) && ((at) => inBand(all.confidence[at], low, high)),
    marked && ((at) => marked(currentMarksAt(all, at))),
  ].filter(Boolean);
}

/** Positions of the traces that are listed, in order. */
export const rows = computed(() => {
  const all = index.value;
  if (!all) return [];
  const needed = tests(all, query.value);
  const left = [];
  for (let at = 0; at < all.size; at += 1) if (needed.every((test) => test(at))) left.push(at);
  const sort = SORTS[query.value.sort];
  return sort ? sorted(left, sort[1](all)) : left;
});

/** Ascending by `value`, nulls last, otherwise as they came. */
function sorted(positions, value) {
  const keys = new Map(positions.map((at) => [at, value(at) ?? Infinity]));
  return positions.sort((a, b) => keys.get(a) - keys.get(b) || a - b);
}
