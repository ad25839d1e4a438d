// Where traces and marks come from: this file's own data, or the server of `decomposerl view`.

const KEPT_BLOCKS = 16;
const WAIT_MS = 50;

/** The value of base64(gzip(JSON)). */
async function unpacked(base64) {
  const stream = new Blob([bytes(base64)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

function bytes(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const text = atob(base64);
  const result = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) result[at] = text.charCodeAt(at);
  return result;
}

/** The element of block `number`, once the browser has parsed it to its end. */
async function blockElement(number) {
  for (;;) {
    const loading = document.readyState === "loading";
    const found = document.querySelector(`script[data-block="${number}"]`);
    if (found && (!loading || found.nextElementSibling)) return found;
    if (!loading) throw new Error(`Part ${number + 1} of this file is missing: it was cut off.`);
    await new Promise((resume) => setTimeout(resume, WAIT_MS));
  }
}

/** The offline file; marks are kept by the browser, under the page's title. */
class FileSource {
  live = false;

  index() {
    return unpacked(document.getElementById("index-data").textContent);
  }

  async block(number) {
    return unpacked((await blockElement(number)).textContent);
  }

  async marks(title) {
    this.key = `trace-marks:${title}`;
    return JSON.parse(localStorage.getItem(this.key) ?? "[]");
  }

  async save(mark) {
    const stored = { ...mark, at: new Date().toISOString() };
    const before = JSON.parse(localStorage.getItem(this.key) ?? "[]");
    localStorage.setItem(this.key, JSON.stringify([...before, stored]));
    return stored;
  }

  /** The judge's calls with prompts and replies: a file holds them already. */
  async judge(number, place, calls) {
    return calls;
  }

  /** Add the marks of another file; those that are known are not added twice. */
  async merge(marks) {
    const before = JSON.parse(localStorage.getItem(this.key) ?? "[]");
    const known = new Set(before.map((mark) => JSON.stringify(mark)));
    const fresh = marks.filter((mark) => !known.has(JSON.stringify(mark)));
    localStorage.setItem(this.key, JSON.stringify([...before, ...fresh]));
    return fresh;
  }
}

/** The server of `decomposerl view`, which stores the marks of all reviewers. */
class ServerSource {
  live = true;

  /** The stamp of the index names the state of the files that its blocks must have. */
  async index() {
    const read = await answered("/data/index");
    this.version = read.stamp ? `?v=${encodeURIComponent(read.stamp)}` : "";
    return read;
  }

  block(number) {
    return answered(`/data/block/${number}${this.version}`);
  }

  /** The judge's calls of one trace with prompts and replies, which the blocks leave out. */
  judge(number, place) {
    return answered(`/data/judge/${number}/${place}${this.version}`);
  }

  marks() {
    return answered("/marks");
  }

  save(mark) {
    const headers = { "Content-Type": "application/json" };
    return answered("/marks", { method: "POST", headers, body: JSON.stringify(mark) });
  }
}

async function answered(path, request) {
  const response = await fetch(path, request).catch(() => {
    throw new Error("The server does not answer: is `decomposerl view` still running?");
  });
  if (response.ok) return response.json();
  const answer = await response.json().catch(() => ({}));
  throw new Error(answer.error ?? `The server answered ${response.status} for ${path}.`);
}

export const source = document.getElementById("index-data") ? new FileSource() : new ServerSource();

const kept = new Map();

/** Block `number`; the most recent ones are kept decoded. */
export function block(number) {
  const reading = kept.get(number) ?? source.block(number);
  kept.delete(number);
  kept.set(number, reading);
  reading.catch(() => kept.delete(number));
  if (kept.size > KEPT_BLOCKS) kept.delete(kept.keys().next().value);
  return reading;
}
