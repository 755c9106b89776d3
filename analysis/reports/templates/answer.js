const buttons = document.querySelector(".buttons");
const labels = new Map([...buttons.children].map((button) => [button, button.textContent]));
buttons.hidden = false;
buttons.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const paper = document.getElementById("paper");
  try {
    await navigator.clipboard.writeText(button.dataset.copy === "latex" ? buttons.dataset.latex : paper.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(paper);
    button.textContent = "Press Ctrl+C";
  }
  setTimeout(() => { button.textContent = labels.get(button); }, 1600);
});
document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  const part = link ? document.querySelector(link.getAttribute("href"))?.closest("details") : null;
  if (part) part.open = true;
});
