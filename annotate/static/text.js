// The page's texts come with the study, in its language; here they are put in their places.
let texts = {};

// The text of this name, its {gaps} filled.
function t(name, values = {}) {
  return fill(texts[name] ?? name, values);
}

function fill(text, values) {
  return text.replace(/[{](\w+)[}]/g, (_gap, name) => String(values[name]));
}

function speak(language, given) {
  texts = given;
  document.documentElement.lang = language;
  root.lang = language;
  for (const node of root.querySelectorAll("[data-text]")) node.textContent = t(node.dataset.text);
  for (const node of root.querySelectorAll("[data-label]")) node.setAttribute("aria-label", t(node.dataset.label));
  for (const node of root.querySelectorAll("[data-title]")) node.title = t(node.dataset.title);
  for (const node of root.querySelectorAll("[data-alt]")) node.alt = t(node.dataset.alt);
}
