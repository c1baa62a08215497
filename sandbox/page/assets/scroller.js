/** A list that grows at its end. A reader at the end stays there; a reader further up is not moved. */

const NEAR = 60;

export class Scroller {
  #last = 0;
  #key = null;
  #follows = true;

  constructor(node) {
    this.node = node;
    const sizes = new ResizeObserver(() => this.#follows && this.end());
    for (const each of [node, ...node.children]) sizes.observe(each);
    node.addEventListener("scroll", () => this.#scrolled(), { passive: true });
  }

  /** Draws the contents. `key` names the conversation; another one starts at its end. */
  around(key, draw) {
    if (key !== this.#key) this.#follows = true;
    this.#key = key;
    draw();
    if (this.#follows) this.end();
  }

  end() {
    this.#follows = true;
    this.node.scrollTop = this.node.scrollHeight;
  }

  /** Only a person scrolls up. If the end moves away, the reader has not left it. */
  #scrolled() {
    const { scrollHeight, scrollTop, clientHeight } = this.node;
    if (scrollHeight - scrollTop - clientHeight < NEAR) this.#follows = true;
    else if (scrollTop < this.#last) this.#follows = false;
    this.#last = scrollTop;
  }
}
