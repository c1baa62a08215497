// What is wrong with a page as it stands: ids, what points at them, contrast of texts, width. See audit.py.
() => {
  const wrong = [];
  const seen = new Set();
  for (const {id} of document.querySelectorAll("[id]")) {
    if (seen.has(id)) wrong.push(`the id ${id} is there twice`);
    seen.add(id);
  }
  for (const name of ["aria-controls", "aria-labelledby", "aria-describedby", "aria-activedescendant", "for"]) {
    for (const node of document.querySelectorAll(`[${name}]`)) {
      for (const id of node.getAttribute(name).split(/\s+/)) {
        if (!seen.has(id)) wrong.push(`${name} of <${node.localName}> points at ${id}, which is not there`);
      }
    }
  }
  if (document.querySelector("[tabindex]:is([tabindex='1'], [tabindex='2'])")) wrong.push("a tabindex above 0");
  if (document.querySelectorAll("h1").length !== 1) wrong.push("there should be one h1");
  if (!document.querySelector("main")) wrong.push("there is no main");

  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], under) => [r, g, b].map((value, at) => value * a + under[at] * (1 - a));
  const ground = (node) => {
    const layers = [];
    for (let each = node; each; each = each.parentElement) {
      const colour = rgba(getComputedStyle(each).backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255]);
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((value) => value / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [bright, dark] = [light(one), light(other)].sort((a, b) => b - a);
    return (bright + 0.05) / (dark + 0.05);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const reported = new Set();
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim();
    const node = walker.currentNode.parentElement;
    if (!text || /^\p{Emoji_Presentation}+$/u.test(text) || node.closest(".unheard, noscript, option, [aria-busy=true]")) continue;
    if (!node.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    const under = ground(node);
    const found = contrast(over(rgba(getComputedStyle(node).color), under), under);
    const key = `${node.className} ${found.toFixed(2)}`;
    if (found < 4.5 && !reported.has(key)) wrong.push(`“${text.slice(0, 40)}” (.${node.className}) has a contrast of ${found.toFixed(2)}`);
    reported.add(key);
  }
  if (document.documentElement.scrollWidth > innerWidth) wrong.push("the page is wider than its window");
  return wrong;
}
