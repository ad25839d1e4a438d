// The page: what is shown for the address, the keyboard, the theme, and help.
import { render } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { effect, signal, untracked } from "@preact/signals";

import { Claim } from "trace-page/trace.js";
import { source } from "trace-page/data.js";
import { html } from "trace-page/html.js";
import { List, place, resume, step } from "trace-page/list.js";
import { mark, openMarks } from "trace-page/marks.js";
import { search } from "trace-page/search.js";
import {
  addressOf, announced, change, failure, go, index, listAddress, opened, query, readAddress, route, rows, shown,
} from "trace-page/state.js";
import { neighbour } from "trace-page/training.js";

const TYPING_MS = 180;
const THEME = "trace-theme";
const THEMES = { "": "auto", light: "light", dark: "dark" };

const theme = signal("");
const helping = signal(false);

/** Read the index, then show the list or the claim that the address names. */
export async function start() {
  openTheme();
  const root = document.getElementById("app");
  try {
    const all = opened(await source.index());
    await openMarks(all).catch((error) => (announced.value = `Marks cannot be read: ${error.message}`));
    index.value = all;
    // One trace needs no list: its page opens.
    if (!location.hash && all.claim_id.length === 1) location.replace(addressOf(all, 0));
    readAddress();
  } catch (error) {
    failure.value = error.message;
  }
  root.replaceChildren();
  render(html`<${Page} />`, root);
  addEventListener("hashchange", moved);
  addEventListener("keydown", pressed);
  effect(() => searchSoon(query.value.q ?? ""));
}

/** Whether the list is opened for its search field, which then takes the focus. */
let toSearch = false;

function moved() {
  const before = shown.value;
  readAddress();
  if (toSearch) requestAnimationFrame(() => document.getElementById("search")?.focus());
  else if (shown.value === null && before !== null) resume(before);
  toSearch = false;
  if (shown.value !== null && shown.value !== before) {
    const at = rows.value.indexOf(shown.value);
    if (at >= 0) place.value = at;
    if (before === null || index.value.claim_id[before] !== index.value.claim_id[shown.value]) scrollTo(0, 0);
  }
}

let waiting = 0;
let searched = "";

function searchSoon(text) {
  if (!index.value || text === searched) return;
  searched = text;
  clearTimeout(waiting);
  waiting = setTimeout(() => untracked(() => search(text)).catch((error) => (announced.value = error.message)), TYPING_MS);
}

function Page() {
  if (failure.value) {
    return html`<main class="failure" id="main"><h1>These traces cannot be shown</h1><p role="alert">${failure.value}</p></main>`;
  }
  const listed = route.value.claim === undefined;
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    <${Top} listed=${listed} />
    ${listed ? html`<${List} />` : html`<${Claim} />`}
    <p class="announced" role="status">${announced.value}</p>
    <${Help} />`;
}

function skip(event) {
  event.preventDefault();
  const main = document.getElementById("main");
  main.tabIndex = -1;
  main.focus();
}

function Top({ listed }) {
  const all = index.value;
  const next = { "": "light", light: "dark", dark: "" }[theme.value];
  return html`<header class="top ${listed ? "listed" : ""}">
    <div class="title">
      ${listed ? html`<h1 dir="auto">${all.title}</h1>` : html`<a href=${listAddress()} dir="auto">${all.title}</a>`}
      <p class="muted" dir="auto" title=${all.made}>${all.made}</p>
    </div>
    ${listed && html`<div class="search">
      <input id="search" type="search" placeholder="Search claims, questions, answers, evidence" aria-label="Search"
        value=${query.value.q ?? ""} onInput=${(event) => change({ q: event.currentTarget.value })} />
      <kbd aria-hidden="true">/</kbd>
    </div>`}
    <div class="tools">
      <button onClick=${() => setTheme(next)} aria-label=${`Theme: ${THEMES[theme.value]}`}>Theme: ${THEMES[theme.value]}</button>
      <button onClick=${() => (helping.value = true)} aria-label="Help and keys" aria-keyshortcuts="?">?</button>
    </div>
    ${all.warnings.map((text) => html`<p class="banner" dir="auto">${text}</p>`)}
  </header>`;
}

const KEYS = [
  ["Everywhere", [
    ["?", "this help"],
    ["/", "search"],
    ["Esc", "back: leave a field, close, return to the list"],
  ]],
  ["List", [
    ["j or ↓, k or ↑", "next, previous trace"],
    ["Home, End", "first, last"],
    ["Enter", "open"],
  ]],
  ["One claim", [
    ["j, k", "next, previous trace of the list"],
    ["n, p", "next, previous question"],
    ["↑, ↓ in the evidence", "sentence by sentence"],
    ["[ and ]", "previous, next training step"],
    ["c", "choose a trace to compare with"],
    ["m", "to the review note"],
    ["1, 2, 3", "mark: agree, disagree, unclear"],
  ]],
];

const SEARCH_HELP = `Search: words in any order, "words in quotes" together; a trace is found if its claim,
  questions, answers and evidence hold all of them. The address bar holds claim, filters and sort: its link
  leads back here.`;

function Help() {
  const dialog = useRef(null);
  useLayoutEffect(() => {
    if (helping.value && !dialog.current.open) dialog.current.showModal();
    if (!helping.value && dialog.current.open) dialog.current.close();
  }, [helping.value]);
  return html`<dialog ref=${dialog} class="help" aria-labelledby="help-title" onClose=${() => (helping.value = false)}>
    <h2 id="help-title">Keys and signs</h2>
    ${KEYS.map(([where, keys]) => html`<h3>${where}</h3>
      <dl>${keys.map(([key, what]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}</dl>`)}
    <h3>Answers</h3>
    <dl>
      <div><dt>● Grounded</dt><dd>the evidence holds what the answer says</dd></div>
      <div><dt>◌ Abstained</dt><dd>the answer says that it does not know</dd></div>
      <div><dt>✕ Contradicted</dt><dd>the evidence says otherwise</dd></div>
      <div><dt>△ Not in evidence</dt><dd>no part of the evidence is near to the answer</dd></div>
      <div><dt>? Not checked</dt><dd>a bare yes, no or verdict, or there is no evidence here</dd></div>
    </dl>
    <p class="muted">${SEARCH_HELP}</p>
    <p class="muted" dir="auto">${index.value.made}</p>
    <form method="dialog"><button>Close</button></form>
  </dialog>`;
}

function openTheme() {
  try {
    theme.value = localStorage.getItem(THEME) ?? "";
  } catch {
    theme.value = "";
  }
  effect(() => (document.documentElement.dataset.theme = theme.value));
}

function setTheme(name) {
  theme.value = name;
  try {
    localStorage.setItem(THEME, name);
  } catch {
    // A browser that keeps nothing: the theme holds until the page is closed.
  }
}

const TYPED = "input:not([type=checkbox], [type=range], [type=file]), textarea, select";

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || !index.value) return;
  if (document.querySelector("dialog[open]")) return;
  if (event.target.matches?.(TYPED)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const act = { ...EVERYWHERE, ...(route.value.claim === undefined ? ON_LIST : ON_CLAIM) }[event.key];
  if (!act || act(event) === false) return;
  event.preventDefault();
}

const EVERYWHERE = {
  "?": () => (helping.value = true),
  "/": () => {
    if (route.value.claim === undefined) return document.getElementById("search").focus();
    toSearch = true;
    return go(listAddress());
  },
};

const onRow = (event) => event.target === document.body || event.target.matches("a.row");

const ON_LIST = {
  j: () => step(first() ? 0 : 1),
  k: () => step(first() ? 0 : -1),
  ArrowDown: (event) => onRow(event) && ON_LIST.j(),
  ArrowUp: (event) => onRow(event) && ON_LIST.k(),
  Home: (event) => onRow(event) && step(0, 0),
  End: (event) => onRow(event) && step(0, rows.value.length - 1),
  Escape: () => false,
};

/** Whether the keyboard is on no row yet: the first key goes to the row of now. */
const first = () => !document.activeElement?.matches("a.row");

const ON_CLAIM = {
  Escape: () => go(listAddress()),
  j: () => turn(1),
  k: () => turn(-1),
  n: () => card(1),
  p: () => card(-1),
  "]": () => stepped(1),
  "[": () => stepped(-1),
  c: () => document.getElementById("compare")?.focus(),
  m: () => document.getElementById("note")?.focus(),
  1: () => shown.value !== null && mark(shown.value, "agree"),
  2: () => shown.value !== null && mark(shown.value, "disagree"),
  3: () => shown.value !== null && mark(shown.value, "unclear"),
};

function turn(by) {
  const at = rows.value.indexOf(shown.value);
  const next = at < 0 ? rows.value[0] : rows.value[at + by];
  if (next !== undefined) go(addressOf(index.value, next, { ...query.value, vs: "" }));
}

function card(by) {
  const cards = [...document.querySelectorAll(".card")];
  const at = cards.indexOf(document.activeElement?.closest(".card"));
  const next = cards[at < 0 ? (by > 0 ? 0 : cards.length - 1) : at + by];
  next?.focus();
}

function stepped(by) {
  const to = shown.value === null ? undefined : neighbour(index.value, shown.value, by);
  if (to !== undefined) location.replace(addressOf(index.value, to));
}
