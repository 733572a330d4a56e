// Names, roles and focus that the theme leaves out, so that keyboards and screen readers get everywhere.
const dialog = document.querySelector(".md-search");
if (dialog) dialog.ariaLabel = "Search";
for (const nav of document.querySelectorAll("nav[aria-labelledby]")) {
  if (document.getElementById(nav.getAttribute("aria-labelledby"))?.textContent.trim()) continue;
  nav.ariaLabel = nav.querySelector(".md-nav__title").textContent.trim(); // a section with a page of its own
  nav.removeAttribute("aria-labelledby");
}
// The theme adds boxes around tables, and buttons to code, after this has run.
new MutationObserver(() => {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap, .models table")) box.tabIndex = 0;
  for (const buttons of document.querySelectorAll(".md-code__nav:not([role])")) buttons.role = "none";
}).observe(document.querySelector(".md-content"), { childList: true, subtree: true });
