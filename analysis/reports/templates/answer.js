const buttons = document.querySelector(".buttons");
buttons.hidden = false;
buttons.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const paper = document.getElementById("paper");
  let text = paper.textContent;
  if (button.dataset.copy === "latex") {
    text = text.replace(/([_%#{}])/g, "\\$1").replaceAll(String.fromCharCode(38), "\\" + String.fromCharCode(38))
      .replaceAll("\u2212", "$-$").replaceAll("\u003c", "$\u003c$");
  }
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(paper);
    button.textContent = "Press Ctrl+C";
  }
  setTimeout(() => { button.textContent = label; }, 1600);
});
document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  const part = link ? document.querySelector(link.getAttribute("href"))?.closest("details") : null;
  if (part) part.open = true;
});
