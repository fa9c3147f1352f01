"use strict";
const rows = Array.from(document.querySelectorAll("details"));
const buttons = Array.from(document.querySelectorAll("nav button"));
const search = document.querySelector("nav input");
let only = "";
function draw() {
  const words = search.value.toLowerCase();
  for (const row of rows) {
    const fits = (!only || row.dataset.outcome === only) && (!words || row.textContent.toLowerCase().includes(words));
    row.classList.toggle("gone", !fits);
  }
  for (const section of document.querySelectorAll("section")) {
    section.classList.toggle("gone", !section.querySelector("details:not(.gone)"));
  }
  for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.only === only));
}
for (const button of buttons) {
  button.addEventListener("click", () => { only = only === button.dataset.only ? "" : button.dataset.only; draw(); });
}
search.addEventListener("input", draw);
