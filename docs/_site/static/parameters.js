/* A search box on the page of parameters: names, aliases and explanations, as you type. */
document.addEventListener("DOMContentLoaded", () => {
  const page = document.querySelector("section#parameters");
  if (!page) return;
  const groups = [...page.querySelectorAll(":scope > section")];
  const entries = groups.flatMap((group) => [...group.querySelectorAll(":scope > section")]);
  const words = new Map(entries.map((entry) => [entry, entry.textContent.toLowerCase()]));

  const box = document.createElement("div");
  box.className = "parameter-search";
  box.innerHTML =
    '<label for="parameter-search">Find a parameter</label>' +
    '<input id="parameter-search" type="search" autocomplete="off" spellcheck="false" ' +
    'placeholder="for example: lambda_l2, bagging, missing">' +
    '<span role="status" aria-live="polite"></span>';
  const [input, status] = [box.querySelector("input"), box.querySelector("span")];

  const search = () => {
    const wanted = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const group of groups) {
      let here = 0;
      for (const entry of group.querySelectorAll(":scope > section")) {
        const hit = wanted.every((word) => words.get(entry).includes(word));
        entry.hidden = !hit;
        here += hit;
      }
      group.hidden = here === 0;
      group.classList.toggle("searched", wanted.length > 0);
      found += here;
    }
    status.textContent = wanted.length ? `${found} of ${entries.length}` : "";
  };
  input.addEventListener("input", search);
  page.insertBefore(box, groups[0]);

  const asked = new URLSearchParams(location.search).get("q");
  if (asked) {
    input.value = asked;
    search();
  }
});
