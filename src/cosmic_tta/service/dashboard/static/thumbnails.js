// Thumbnails of a stream's images. Each is fetched once, with the token, and kept as an object URL.

import { request, streamPath } from "/page/api.js";
import { h } from "/page/dom.js";

const MAX_THUMBNAILS = 600;
const urls = new Map(); // path → promise of an object URL

const revoke = (url) =>
  url.then(
    (value) => URL.revokeObjectURL(value),
    () => {},
  );

function thumbnailUrl(stream, step) {
  const path = streamPath(stream, `/thumbnails/${step}`);
  if (!urls.has(path)) {
    if (urls.size >= MAX_THUMBNAILS) {
      const [oldest, url] = urls.entries().next().value;
      urls.delete(oldest);
      revoke(url);
    }
    const url = request(path).then((blob) => URL.createObjectURL(blob));
    urls.set(path, url);
    url.catch(() => urls.delete(path));
  }
  return urls.get(path);
}

export function clearThumbnails() {
  for (const url of urls.values()) revoke(url);
  urls.clear();
}

export function thumbnail(stream, step, alt) {
  if (step === null || step === undefined) {
    const title = "No image: the sample came as features, or its image was removed.";
    return h("span", { class: "thumb none", title, "aria-label": alt, role: "img" });
  }
  const image = h("img", { class: "thumb", alt, width: 44, height: 44 });
  thumbnailUrl(stream, step).then(
    (url) => {
      image.src = url;
    },
    () => image.classList.add("none"),
  );
  return image;
}
