// Full-text search: claims at once from the index; questions, answers and evidence block by block.
import { signal } from "@preact/signals";

import { block } from "trace-page/data.js";
import { lowered } from "trace-page/spans.js";
import { hits, index } from "trace-page/state.js";

const MOST_TERMS = 24;
const REFRESH_MS = 250;
const SNIPPET = [36, 90];

/** {done, of}: blocks searched so far; null where no search is under way. */
export const progress = signal(null);

let current = 0;
let claims = null;

/** Words of a search text in lower case; "…" keeps words together. */
export function terms(text) {
  const found = [...lowered(text).matchAll(/"([^"]+)"?|([^\s"]+)/g)].map((match) => match[1] ?? match[2]);
  return [...new Set(found)].slice(0, MOST_TERMS);
}

const maskOf = (words, text) => words.reduce((mask, word, bit) => (text.includes(word) ? mask | (1 << bit) : mask), 0);

/** Find the traces that hold every term; a later call ends an earlier one. */
export async function search(text) {
  current += 1;
  const mine = current;
  const all = index.value;
  const words = terms(text);
  progress.value = null;
  if (!words.length) {
    hits.value = null;
    return;
  }
  claims ??= all.claim.map(lowered);
  const whole = (1 << words.length) - 1;
  const inClaim = claims.map((claim) => maskOf(words, claim));
  const found = Uint8Array.from(inClaim, (mask) => mask === whole);
  const where = new Map();
  hits.value = { found, where };
  try {
    await searchBlocks({ mine, words, whole, inClaim, found, where });
  } finally {
    if (mine === current) progress.value = null;
  }
}

/** Search one block after the other, until a later search begins. */
async function searchBlocks({ mine, ...wanted }) {
  const all = index.value;
  const { found, where } = wanted;
  let refreshed = performance.now();
  for (let number = 0; number < all.blocks; number += 1) {
    progress.value = { done: number, of: all.blocks };
    const read = await block(number);
    if (mine !== current) return;
    searchBlock(read, all.members[number], wanted);
    if (performance.now() - refreshed < REFRESH_MS) continue;
    hits.value = { found, where };
    refreshed = performance.now();
  }
  hits.value = { found, where };
}

function searchBlock(read, members, { words, whole, inClaim, found, where }) {
  const evidence = read.evidence.map((one) => maskOf(words, lowered(one.text)));
  read.items.forEach((item, place) => {
    const at = members[place];
    const texts = item.cycles.flatMap((cycle) => [cycle.question, cycle.answer]);
    if (!item.cycles.length) texts.push(item.reply);
    const mask = maskOf(words, lowered(texts.join("\n"))) | (evidence[item.evidence] ?? 0) | inClaim[at];
    if (mask !== whole) return;
    found[at] = 1;
    if (inClaim[at] !== whole) where.set(at, snippet(read, item, words, inClaim[at]));
  });
}

/** Where the first term is that the claim lacks: {place, text}. */
function snippet(read, item, words, inClaim) {
  const word = words.find((_, bit) => !(inClaim & (1 << bit)));
  const places = item.cycles.flatMap((cycle, at) => [
    [`question ${at + 1}`, cycle.question],
    [`answer ${at + 1}`, cycle.answer],
  ]);
  places.push(["reply", item.cycles.length ? "" : item.reply], ["evidence", read.evidence[item.evidence]?.text ?? ""]);
  const [place, text] = places.find(([, one]) => lowered(one).includes(word)) ?? ["", ""];
  const at = lowered(text).indexOf(word);
  const start = Math.max(0, at - SNIPPET[0]);
  const cut = text.slice(start, at + SNIPPET[1]);
  return { place, text: `${start ? "…" : ""}${cut}${at + SNIPPET[1] < text.length ? "…" : ""}` };
}
