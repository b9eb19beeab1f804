/* The theme's buttons that open a branch of the sidebar have no name: that of their branch. */
document.addEventListener("DOMContentLoaded", () => {
  for (const summary of document.querySelectorAll(".bd-sidebar-primary li > details > summary")) {
    const link = summary.closest("li").querySelector("a");
    summary.setAttribute("aria-label", `Pages below ${link.textContent.trim()}`);
  }
});
