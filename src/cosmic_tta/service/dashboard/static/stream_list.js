// The list of streams, damaged ones first.

import { request, streamPath } from "/page/api.js";
import { confirmDialog } from "/page/dialogs.js";
import { button, h, replaceContent } from "/page/dom.js";
import { count, percent } from "/page/format.js";
import { notify, notifyError } from "/page/notifications.js";
import { statusLabel } from "/page/stream_status.js";

const displayName = (stream) => stream.name ?? stream.id.slice(0, 8);

function streamItem(stream, isOpen) {
  const hasAlarm = stream.alarms.length && !stream.fallen_back;
  const [kind, label] = hasAlarm ? ["bad", `alarm: ${stream.alarms.join(", ")}`] : statusLabel(stream);
  const zeroShot = percent(stream.zero_shot_accuracy, 0);
  const accuracy = stream.accuracy === null ? "" : ` · ${percent(stream.accuracy, 0)} (zero-shot ${zeroShot})`;
  const figures = `${stream.method} · ${count(stream.classes)} classes · ${count(stream.seen)} seen${accuracy}`;
  const props = {
    href: `#${encodeURIComponent(stream.name)}`,
    "data-key": stream.name,
    "aria-current": isOpen ? "page" : null,
  };
  return h(
    "li",
    {},
    h(
      "a",
      props,
      h("b", { title: stream.name }, stream.name),
      h("span", { class: `state ${kind}` }, label),
      h("small", {}, figures),
    ),
  );
}

export class StreamList {
  constructor(element, refresh) {
    Object.assign(this, { element, refresh, drawn: "" });
  }

  draw({ streams, damaged }, openName) {
    if (this.element.matches(":active")) return; // a button is held down
    const key = JSON.stringify([streams, damaged, openName]);
    if (key === this.drawn) return;
    this.drawn = key;
    const items = streams.map((stream) => streamItem(stream, stream.name === openName));
    replaceContent(
      this.element,
      h(
        "ul",
        {},
        damaged.map((stream) => this.damagedItem(stream)),
        items,
      ),
    );
  }

  // Draw the list again, whatever was drawn before.
  invalidate() {
    this.drawn = "";
  }

  damagedItem(stream) {
    const name = displayName(stream);
    const { id, reason, recoverable } = stream;
    const text =
      recoverable === null
        ? "Nothing can be recovered of it here. A copy or an export can restore it."
        : `What came up to event ${count(recoverable)} can be recovered.`;
    const recover =
      recoverable === null
        ? null
        : button(`Recover to ${count(recoverable)}`, { "data-key": `r-${id}` }, () => this.recover(stream));
    const removeProps = {
      class: "danger",
      "data-key": `d-${id}`,
      "aria-label": `Delete ${name}, which is damaged`,
    };
    return h(
      "li",
      { class: "damaged" },
      h("b", { title: name }, name),
      h("span", { class: "state bad" }, "damaged"),
      h("small", {}, reason),
      h("small", {}, text),
      h(
        "div",
        { class: "row" },
        recover,
        button("Delete", removeProps, () => this.remove(stream)),
      ),
    );
  }

  async recover(stream) {
    const text =
      `Events up to ${count(stream.recoverable)} are kept. ` +
      "What comes after the damage is moved aside, not removed.";
    if (!(await confirmDialog(`Recover ${displayName(stream)}?`, text, "Recover"))) return;
    try {
      const recovered = await request(streamPath(stream.id, "/recover"), { method: "POST" });
      notify(`${recovered.name} is open again.`);
    } catch (error) {
      notifyError("Recover", error);
    }
    this.refresh();
  }

  async remove(stream) {
    const rest =
      stream.recoverable === null
        ? ""
        : ` What could be recovered, up to event ${count(stream.recoverable)}, is lost.`;
    const title = `Delete ${displayName(stream)}, which is damaged?`;
    if (!(await confirmDialog(title, `Its files are removed for good.${rest}`, "Delete", true))) return;
    try {
      await request(streamPath(stream.id), { method: "DELETE" });
    } catch (error) {
      notifyError("Delete", error);
    }
    this.refresh();
  }
}
