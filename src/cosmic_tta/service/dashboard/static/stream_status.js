// What a stream is doing, as a colour and words.

export function statusLabel(stream) {
  if (stream.problem) return ["bad", "takes no images"];
  if (stream.fallen_back) return ["bad", "zero-shot only"];
  return stream.paused ? ["wait", "paused"] : ["good", "learning"];
}

export function pauseDisabledReason(stream) {
  if (stream.fallen_back) return "It learns nothing already: it answers zero-shot until it is resumed.";
  return stream.paused ? "It is paused already." : "";
}

export function resumeDisabledReason(stream) {
  return stream.paused || stream.fallen_back ? "" : "It is learning already.";
}

export const PAUSED_MESSAGE = "Paused: it answers and learns nothing.";

// Why a sample was answered and not learned from.
export const REASONS = { duplicate: "seen before", quota: "over its source's quota" };
