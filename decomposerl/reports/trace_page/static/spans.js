// Texts cut at spans: which part is cited by which answer, and what a reader has selected.
import { computed, signal } from "@preact/signals";

import { html } from "trace-page/html.js";

/** Cut `text` at the borders of `ranges` ({start, end, key}): [{start, text, keys}]. */
export function segments(text, ranges, from = 0, to = text.length) {
  const inside = ranges.filter((one) => one.start < one.end && one.start < to && one.end > from);
  const cuts = new Set([from, to]);
  for (const one of inside) cuts.add(Math.max(from, one.start)).add(Math.min(to, one.end));
  const borders = [...cuts].sort((a, b) => a - b);
  return borders.slice(0, -1).map((start, at) => {
    const keys = inside.filter((one) => one.start <= start && one.end > start).map((one) => one.key);
    return { start, text: text.slice(start, borders[at + 1]), keys };
  });
}

/** Whether a key names a citation: {…, match}; others are the words "found" and "reviewed". */
export const isCitation = (key) => typeof key === "object";

/** A text in lower case, as long as before, so that places in it are places in the text ("İ" is two letters else). */
export function lowered(text) {
  const lower = text.toLowerCase();
  if (lower.length === text.length) return lower;
  return Array.from(text, (letter) => letter.toLowerCase().slice(0, letter.length)).join("");
}

/** Ranges of the terms of a search in a text. */
export function termRanges(text, words) {
  const lower = lowered(text);
  const ranges = [];
  for (const word of words) {
    for (let at = lower.indexOf(word); at >= 0; at = lower.indexOf(word, at + word.length)) {
      ranges.push({ start: at, end: at + word.length, key: "found" });
    }
  }
  return ranges;
}

/** A text with the terms of the search marked. */
export function Found({ text, words }) {
  if (!words.length) return text;
  return segments(text, termRanges(text, words)).map((one) =>
    one.keys.length ? html`<mark class="found">${one.text}</mark>` : one.text,
  );
}

/** What is lit: {keys: [{side, cycle, span?}], sentence?}. Focus holds, hover goes first. */
export const hovered = signal(null);
export const focused = signal(null);
export const lit = computed(() => hovered.value ?? focused.value);

/** Whether span `span` of answer `cycle` is lit; without a span, whether any of it is. */
export function isLit(at, side, cycle, span) {
  const same = (given, value) => given === undefined || value === undefined || given === value;
  return Boolean(at?.keys.some((key) => key.side === side && key.cycle === cycle && same(key.span, span)));
}

/** Numbers (from 0) of the sentences that a range touches. */
export function sentencesOf(evidence, [start, end]) {
  const touched = [];
  evidence.sentences.forEach(([from, to], number) => {
    if (from < end && to > start) touched.push(number);
  });
  return touched;
}

/** The selected part of the evidence or of an answer as a mark's span; null where none is. */
export function selectedSpan(texts) {
  const selection = getSelection();
  if (!selection || selection.isCollapsed || !selection.rangeCount) return null;
  const range = selection.getRangeAt(0);
  const touched = [...document.querySelectorAll('[data-side="0"] [data-from]')].filter((one) => range.intersectsNode(one));
  if (!touched.length) return null;
  const host = touched[0].closest("[data-where]");
  const last = touched.filter((one) => host.contains(one)).at(-1);
  const start = Number(touched[0].dataset.from) + (touched[0].contains(range.startContainer) ? range.startOffset : 0);
  const end = Number(last.dataset.from) + (last.contains(range.endContainer) ? range.endOffset : last.textContent.length);
  const cycle = host.dataset.cycle === undefined ? null : Number(host.dataset.cycle);
  const text = texts(host.dataset.where, cycle).slice(start, end);
  return text.trim() ? { where: host.dataset.where, cycle, start, end, text } : null;
}
