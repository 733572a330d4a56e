// Shows the rows of the models' table that have all words of the filter, and that are right in the chosen mode.
document.addEventListener("DOMContentLoaded", () => {
  const box = document.querySelector(".models");
  if (!box) return;
  const [words, mode, count] = box.querySelectorAll("input, select, output");
  const rows = [...box.querySelectorAll("tbody tr")];
  const show = () => {
    const wanted = words.value.toLowerCase().split(/\s+/);
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      const isRight = !mode.value || row.dataset.right.split(",").includes(mode.value);
      row.hidden = !isRight || !wanted.every((word) => text.includes(word));
    }
    count.value = `${rows.filter((row) => !row.hidden).length} of ${rows.length}`;
  };
  words.addEventListener("input", show);
  mode.addEventListener("input", show);
  show();
});
