/** Files: shared ones are shown in a dialog, attached ones are sent to the server. */

import { h } from "./dom.js";
import { shown } from "./dialogs.js";

const LARGEST = 1024 * 1024;

export async function showFile(app, file) {
  const response = await fetch(`/sandbox/files/${file.id}?as=${app.store.me}`);
  const text = await response.text();
  if (response.ok) shown(file.title, h("pre", { class: "pre" }, text));
  else app.toast(JSON.parse(text).error);
}

/** Name and content of the picked files. Files that are too large are named and left out. */
export async function read(app, files) {
  const fitting = [...files].filter((file) => file.size > 0 && file.size <= LARGEST);
  if (fitting.length < files.length) app.toast("A file must hold something, and no more than 1 MB.");
  return Promise.all(
    fitting.map(async (file) => ({ name: file.name, content: base64(new Uint8Array(await file.arrayBuffer())) })),
  );
}

function base64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}
