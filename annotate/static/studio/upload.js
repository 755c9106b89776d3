// Sends dropped and chosen files to the server in parts. The server says how much of a file it has,
// and the file goes on from there, also after a reload. The images of a folder go as one zip that is
// made while it is sent.
//
// data-upload="ADDRESS"   the area to drop on, with the texts that are shown meanwhile
// data-choose="ID"        a button that opens the file input with this id; data-replaces="NAME"
// data-stop="KEY"         a button that stops an upload

import { filled, refresh, say } from "./studio.js";

const PART = 2 ** 20, AT_ONCE = 2, FIRST_WAIT = 1000, LONGEST_WAIT = 20_000;
const MOST_TABLES = 20, MOST_OTHERS = 100;
const IMAGE = /\.(png|jpe?g|webp|gif|bmp)$/i;
const TABLE = /\.(csv|tsv|txt|json|jsonl|parquet|xlsx|xlsm|xls|ods)$/i;

/** @typedef {{path: string, file: Blob, changed: number}} Found */
/** @typedef {(from: number, to: number) => Promise<Blob>} Slice */
/** @typedef {{name: string, size: number, stamp: string, slice: Slice}} Source */
/** @typedef {Source & {replaces: string, key: string, received: number, began: number, from: number,
 *   lost: boolean, stopped: boolean}} Upload */

/** @type {Upload[]} */
const waiting = [];
/** @type {Set<Upload>} */
const sending = new Set();

const area = () => /** @type {HTMLElement | null} */ (document.querySelector("[data-upload]"));

// What was dropped or chosen, as the files that are sent.

/** Puts the images of each folder, and several single images, together. */
function sourcesOf(/** @type {Found[]} */ found) {
  /** @type {Map<string, Found[]>} */
  const groups = new Map();
  for (const each of found) {
    const parts = each.path.split("/");
    if (parts.some((part) => part.startsWith(".") || part === "__MACOSX" || part === "Thumbs.db")) continue;
    const folder = parts.length > 1 ? parts[0] ?? "" : "";
    const path = parts.slice(folder ? 1 : 0).join("/");
    if (!groups.has(folder)) groups.set(folder, []);
    groups.get(folder)?.push({ ...each, path });
  }
  return [...groups].flatMap(([folder, members]) => folder ? ofFolder(folder, members) : ofFiles(members));
}

function ofFolder(/** @type {string} */ folder, /** @type {Found[]} */ members) {
  const images = members.filter((each) => IMAGE.test(each.path));
  const tables = members.filter((each) => TABLE.test(each.path)).slice(0, MOST_TABLES);
  const others = members.filter((each) => !images.includes(each) && !tables.includes(each));
  // Of other files only the names are sent, so that the page can say that they are left out.
  const named = others.slice(0, MOST_OTHERS).map((each) => ({ ...each, file: new Blob([]) }));
  return [...(images.length ? [zipOf(folder, [...images, ...named])] : []), ...tables.map(asFile)];
}

function ofFiles(/** @type {Found[]} */ members) {
  const images = members.filter((each) => IMAGE.test(each.path));
  if (images.length < 2) return members.map(asFile);
  const name = filled(area()?.dataset.several, { name: images[0]?.path ?? "", n: String(images.length - 1) });
  return [zipOf(name, images), ...members.filter((each) => !IMAGE.test(each.path)).map(asFile)];
}

function asFile(/** @type {Found} */ { path, file, changed }) {
  const slice = async (/** @type {number} */ from, /** @type {number} */ to) => file.slice(from, to);
  return { name: path.split("/").at(-1) ?? "", size: file.size, stamp: String(changed), slice };
}

/** The files below a dropped folder. */
async function filesBelow(/** @type {FileSystemEntry} */ entry) {
  if (entry instanceof FileSystemFileEntry) {
    const file = /** @type {File} */ (await new Promise((resolve, reject) => entry.file(resolve, reject)));
    return [{ path: entry.fullPath.replace(/^\//, ""), file, changed: file.lastModified }];
  }
  const reader = /** @type {FileSystemDirectoryEntry} */ (entry).createReader();
  /** @type {Found[]} */
  const found = [];
  for (;;) {
    const entries = /** @type {FileSystemEntry[]} */ (
      await new Promise((resolve, reject) => reader.readEntries(resolve, reject)));
    if (!entries.length) return found;
    for (const each of entries) found.push(...await filesBelow(each));
  }
}

// A zip of files that are stored as they are; it is the same whenever the files are.

/** The bytes of little-endian numbers, each given as [bytes, number]. */
function numbers(/** @type {[number, number][]} */ fields) {
  const view = new DataView(new ArrayBuffer(fields.reduce((sum, [size]) => sum + size, 0)));
  let at = 0;
  for (const [size, number] of fields) {
    if (size === 2) view.setUint16(at, number, true);
    else if (size === 4) view.setUint32(at, number, true);
    else view.setBigUint64(at, BigInt(number), true);
    at += size;
  }
  return new Uint8Array(view.buffer);
}

const CRC = Uint32Array.from({ length: 256 }, (_, byte) => {
  for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? byte >>> 1 ^ 0xedb88320 : byte >>> 1;
  return byte;
});

async function checksum(/** @type {Blob} */ file) {
  let crc = -1;
  for (let at = 0; at < file.size; at += PART) {
    const bytes = new Uint8Array(await file.slice(at, at + PART).arrayBuffer());
    for (const byte of bytes) crc = /** @type {number} */ (CRC[(crc ^ byte) & 255]) ^ crc >>> 8;
  }
  return ~crc >>> 0;
}

const UTF8 = 0x800, LARGE = 0xffffffff;

/** The parts of a zip before its list of files, each with the place where it begins. */
function placed(/** @type {Found[]} */ files) {
  let at = 0;
  return files.flatMap(({ path, file }) => {
    const name = new TextEncoder().encode(path);
    const header = numbers([[4, 0x04034b50], [2, 20], [2, UTF8], [2, 0], [4, 0x210000], [4, 0],
      [4, file.size], [4, file.size], [2, name.length], [2, 0]]);
    const blobs = [new Blob([header, name]), file];
    const begin = at;
    return blobs.map((blob) => {
      at += blob.size;
      return { at: at - blob.size, blob, name, begin };
    });
  });
}

function listed(
  /** @type {Uint8Array<ArrayBuffer>} */ name, /** @type {number} */ size, /** @type {number} */ at,
  /** @type {number} */ crc) {
  const wide = at >= LARGE;
  const fields = numbers([[4, 0x02014b50], [2, 45], [2, 20], [2, UTF8], [2, 0], [4, 0x210000], [4, crc],
    [4, size], [4, size], [2, name.length], [2, wide ? 12 : 0], [2, 0], [2, 0], [2, 0], [4, 0],
    [4, wide ? LARGE : at]]);
  return [fields, name, ...(wide ? [numbers([[2, 1], [2, 8], [8, at]])] : [])];
}

function ending(/** @type {number} */ count, /** @type {number} */ size, /** @type {number} */ at) {
  const record = numbers([[4, 0x06064b50], [8, 44], [2, 45], [2, 45], [4, 0], [4, 0], [8, count], [8, count],
    [8, size], [8, at]]);
  const locator = numbers([[4, 0x07064b50], [4, 0], [8, at + size], [4, 1]]);
  const wide = at + size >= LARGE;
  return [record, locator, numbers([[4, 0x06054b50], [2, 0], [2, 0], [2, count], [2, count],
    [4, wide ? LARGE : size], [4, wide ? LARGE : at], [2, 0]])];
}

function zipOf(/** @type {string} */ name, /** @type {Found[]} */ members) {
  const files = members.toSorted((one, other) => one.path < other.path ? -1 : 1);
  const parts = placed(files);
  const last = parts.at(-1);
  const end = last ? last.at + last.blob.size : 0;
  const tailOf = (/** @type {number[]} */ sums) => {
    const list = files.flatMap(({ file }, n) => {
      const part = /** @type {typeof parts[number]} */ (parts[2 * n]);
      return listed(part.name, file.size, part.begin, sums[n] ?? 0);
    });
    const blob = new Blob(list);
    return new Blob([blob, ...ending(files.length, blob.size, end)]);
  };
  const size = end + tailOf([]).size;
  /** @type {Promise<Blob> | null} */
  let tail = null;
  const withSums = async () => {
    const sums = [];
    for (const { file } of files) sums.push(await checksum(file));
    return tailOf(sums);
  };
  const slice = async (/** @type {number} */ from, /** @type {number} */ to) => {
    const blobs = parts.filter(({ at, blob }) => at < to && at + blob.size > from)
      .map(({ at, blob }) => blob.slice(Math.max(0, from - at), to - at));
    if (to > end) blobs.push((await (tail ??= withSums())).slice(Math.max(0, from - end), to - end));
    return new Blob(blobs);
  };
  const facts = files.map(({ path, file, changed }) => [path, file.size, changed]);
  return { name, size, stamp: digest(JSON.stringify(facts)), slice };
}

/** A number of 53 bits that tells texts apart; browsers have better ones only over HTTPS. */
function digest(/** @type {string} */ facts) {
  let one = 0xdeadbeef, two = 0x41c6ce57;
  for (let at = 0; at < facts.length; at++) {
    const code = facts.charCodeAt(at);
    one = Math.imul(one ^ code, 2654435761);
    two = Math.imul(two ^ code, 1597334677);
  }
  one = Math.imul(one ^ one >>> 16, 2246822507) ^ Math.imul(two ^ two >>> 13, 3266489909);
  two = Math.imul(two ^ two >>> 16, 2246822507) ^ Math.imul(one ^ one >>> 13, 3266489909);
  return (4294967296 * (2097151 & two) + (one >>> 0)).toString(36);
}

// Sending.

function add(/** @type {Found[]} */ found, replaces = "") {
  const started = { replaces, key: "", received: -1, began: 0, from: 0, lost: false, stopped: false };
  for (const source of sourcesOf(found)) {
    waiting.push({ ...source, ...started });
    started.replaces = "";
  }
  next();
}

function next() {
  while (sending.size < AT_ONCE) {
    const upload = waiting.shift();
    if (!upload) return;
    sending.add(upload);
    send(upload).catch((error) => say(`${upload.name}: ${error}`, { bad: true })).finally(() => {
      sending.delete(upload);
      refresh();
      next();
    });
  }
}

async function send(/** @type {Upload} */ upload) {
  let wait = FIRST_WAIT;
  while (!upload.stopped && upload.received < upload.size) {
    const response = await sendPart(upload);
    upload.lost = response === null || response.status === 409 || response.status >= 500;
    if (response && !upload.lost) {
      wait = FIRST_WAIT;
      if (!await took(upload, response)) return;
    } else {
      paint();
      await new Promise((resolve) => setTimeout(resolve, wait));
      wait = Math.min(2 * wait, LONGEST_WAIT);
    }
  }
}

/** Sends what comes next; at first nothing, to learn how much the server has. Null: no connection. */
async function sendPart(/** @type {Upload} */ upload) {
  const { name, size, stamp, replaces, received } = upload;
  const at = Math.max(0, received);
  const body = await upload.slice(at, received < 0 ? at : Math.min(size, at + PART));
  const fields = new URLSearchParams({ name, size: String(size), stamp, replaces, offset: String(at) });
  const headers = { "Content-Type": "application/octet-stream", Accept: "application/json" };
  const address = `${area()?.dataset.upload ?? "upload"}?${fields}`;
  return fetch(address, { method: "POST", headers, body: await body.arrayBuffer() }).catch(() => null);
}

/** Notes what the server has; false if it refuses the file. */
async function took(/** @type {Upload} */ upload, /** @type {Response} */ response) {
  const reply = await response.json().catch(() => ({ error: `HTTP ${response.status}` }));
  if (!response.ok) { say(`${upload.name}: ${reply.error}`, { bad: true }); return false; }
  const begins = upload.received < 0;
  upload.key = reply.key;
  upload.received = reply.received;
  if (begins) {
    upload.began = Date.now();
    upload.from = upload.received;
    if (upload.received < upload.size) await refresh();
  }
  paint();
  return true;
}

// Showing how far they are, in the rows that the server has made.

function paint() {
  for (const upload of sending) {
    const row = document.querySelector(`tr[data-key="${upload.key}"]`);
    if (!upload.key || !row) continue;
    const percent = Math.floor(100 * upload.received / upload.size);
    const bar = row.querySelector("progress");
    if (bar) bar.value = percent;
    text(row, "[data-percent]", `${percent} %`);
    text(row, "[data-left]", left(upload));
    text(row, "[data-idle]", "");
    row.querySelector("[data-stop]")?.toggleAttribute("hidden", false);
    row.querySelector("[data-act]")?.toggleAttribute("hidden", true);
  }
}

function text(/** @type {Element} */ row, /** @type {string} */ place, /** @type {string} */ shown) {
  const element = row.querySelector(place);
  if (element) element.textContent = shown;
}

function left(/** @type {Upload} */ upload) {
  const words = area()?.dataset ?? {};
  if (upload.lost) return words.lost ?? "";
  const seconds = (Date.now() - upload.began) / 1000, sent = upload.received - upload.from;
  if (!sent || seconds < 2) return "";
  const minutes = Math.ceil((upload.size - upload.received) / sent * seconds / 60);
  return minutes > 1 ? filled(words.left, { n: String(minutes) }) : words.seconds ?? "";
}

// Dropping, choosing, stopping.

function chosen(/** @type {HTMLInputElement} */ input) {
  const files = [...input.files ?? []];
  add(files.map((file) => ({ path: file.webkitRelativePath || file.name, file, changed: file.lastModified })),
    input.dataset.replaces ?? "");
  input.value = "";
  delete input.dataset.replaces;
}

document.addEventListener("change", (event) => {
  const input = event.target;
  if (input instanceof HTMLInputElement && input.type === "file") chosen(input);
});
function choose(/** @type {HTMLElement} */ button) {
  const input = document.getElementById(button.dataset.choose ?? "");
  if (!(input instanceof HTMLInputElement)) return;
  input.dataset.replaces = button.dataset.replaces ?? "";
  input.click();
}

document.addEventListener("click", (event) => {
  const target = event.target instanceof Element ? event.target : null;
  const button = target?.closest("[data-choose], [data-stop]");
  if (!(button instanceof HTMLElement)) return;
  if (button.dataset.choose) choose(button);
  for (const upload of sending) if (upload.key === button.dataset.stop) upload.stopped = true;
});
document.addEventListener("dragover", (event) => { if (area()) event.preventDefault(); });
document.addEventListener("drop", async (event) => {
  if (!area()) return;
  event.preventDefault();
  const entries = [...event.dataTransfer?.items ?? []].map((item) => item.webkitGetAsEntry());
  try {
    const found = await Promise.all(entries.map((entry) => entry ? filesBelow(entry) : []));
    add(found.flat());
  } catch (error) {
    say(String(error), { bad: true });
  }
});
document.addEventListener("studio:shown", paint);
addEventListener("beforeunload", (event) => { if (sending.size) event.preventDefault(); });
