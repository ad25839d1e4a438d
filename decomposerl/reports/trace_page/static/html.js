// Markup as tagged templates: every value becomes a text node or an attribute, never HTML.
import htm from "htm";
import { h } from "preact";

export const html = htm.bind(h);

/** The names in `names` whose value is true, as a class attribute. */
export const classes = (names) => Object.keys(names).filter((name) => names[name]).join(" ");

/** A number with two decimals, or a dash. */
export const decimal = (value, digits = 2) => (value === null || value === undefined ? "–" : value.toFixed(digits));

export const count = (number) => number.toLocaleString("en");

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;
