// The keys of the page: the keyboard and all labels take them from here.
import { findAll } from "./dom.js";
import { texts } from "./text.js";

export const KEYS = {
  prefer_1: "Q",
  prefer_2: "W",
  tie: "E",
  irrelevant: "X",
  reason: "R",
  zoom: "Z",
  next: "Enter",
  back: "B",
  guidelines: "?",
};

/** Scores are the numbers from 1 to this one; each has its anchor. */
export const highestScore = () => texts.anchors.length;

/** @param {number} side */
export const scoreKeys = (side) => `${side === 1 ? "" : "Shift "}1 \u2013 ${highestScore()}`;

/** Label the buttons that have a key. */
export function fillKeys() {
  for (const element of findAll("[data-key]")) {
    element.textContent = KEYS[/** @type {keyof typeof KEYS} */ (element.dataset.key)];
  }
}
