// Numbers as text.

// A share of one as a percentage. A value below one is never shown as 100 %.
export function percent(value, digits = 1) {
  if (value === null || value === undefined) return "–";
  const text = (100 * value).toFixed(digits);
  const largest = (100 - 10 ** -digits).toFixed(digits);
  return value < 1 && Number(text) >= 100 ? `>${largest}\u202f%` : `${text}\u202f%`;
}

// The server rounds scores, so that a score of one stands for slightly less.
export const scorePercent = (value) => percent(Math.min(value, 0.99999), 0);

export const count = (value) => value.toLocaleString("en");
