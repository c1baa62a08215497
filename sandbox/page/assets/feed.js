/**
 * The connection to the server: a stream of this person's screen. The browser reconnects by itself, and each connection
 * starts with the whole screen. A hidden page closes it, because a browser allows few connections to one address.
 */

const PATIENCE = 2000;

export class Feed {
  #source = null;
  #as = "";

  constructor(store, onState) {
    this.store = store;
    this.onState = onState;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#close() : this.#open()));
  }

  follow(person) {
    this.#as = person;
    this.#close();
    if (!document.hidden) this.#open();
  }

  #open() {
    if (this.#source) return;
    const source = new EventSource(`/sandbox/feed?as=${encodeURIComponent(this.#as)}`);
    this.#source = source;
    source.addEventListener("screen", (event) => {
      this.onState("here");
      this.store.replace(JSON.parse(event.data));
    });
    source.addEventListener("patch", (event) => this.store.patch(JSON.parse(event.data)));
    source.addEventListener("error", () => this.#broken(source));
  }

  /** Connects again if the browser has given up. */
  #broken(source) {
    this.onState("away");
    if (source.readyState !== EventSource.CLOSED || source !== this.#source) return;
    this.#source = null;
    setTimeout(() => document.hidden || this.#open(), PATIENCE);
  }

  #close() {
    this.#source?.close();
    this.#source = null;
  }
}
