// The keys of the page: the keyboard and all labels take them from here.
import { findAll } from "./dom.js";
import { currentStudy } from "./state.js";

export const KEYS = {
  prefer_1: "Q",
  prefer_2: "W",
  tie: "E",
  irrelevant: "X",
  reason: "R",
  extra: "A",
  zoom: "Z",
  full_size: "F",
  next: "Enter",
  back: "B",
  guidelines: "?",
  search_text: "T",
  search_found: "I",
  search_none: "N",
};

/** Scores are the numbers from 1 to this one; each has its anchor, which may be empty. */
export const highestScore = () => currentStudy().points;

/**
 * The score of a digit key, also of the keypad; null for any other key.
 * @param {KeyboardEvent} event
 * @param {number} [highest] by default, that of the scale for sets
 */
export function digitOf(event, highest = highestScore()) {
  const digit = Number(/^(?:Digit|Numpad)([1-9])$/.exec(event.code)?.[1]);
  return digit <= highest && (isDigit(event) || isShiftedKeypad(event)) ? digit : null;
}

/**
 * Whether Shift is held with a digit key.
 * @param {KeyboardEvent} event
 */
export const isShifted = (event) => event.shiftKey || isShiftedKeypad(event);

/** @param {KeyboardEvent} event */
const isDigit = ({ code, key }) => code.startsWith("Digit") || /^[1-9]$/.test(key);

/**
 * With Num Lock, Shift makes the keypad's digits arrows; Windows then reports no Shift.
 * @param {KeyboardEvent} event
 */
const isShiftedKeypad = (event) =>
  event.code.startsWith("Numpad") && !isDigit(event) && event.getModifierState("NumLock");

/**
 * The letter printed on the key, also under a keyboard layout without Latin letters.
 * @param {KeyboardEvent} event
 */
export const letterOf = (event) =>
  (/^[a-z]$/i.test(event.key) ? event.key : event.code.replace(/^Key/, "")).toUpperCase();

/** @param {number} side */
export const scoreKeys = (side) => `${side === 1 ? "" : "Shift "}1 \u2013 ${highestScore()}`;

/** Label the buttons that have a key. */
export function fillKeys() {
  for (const element of findAll("[data-key]")) {
    element.textContent = KEYS[/** @type {keyof typeof KEYS} */ (element.dataset.key)];
  }
}
