// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Searches the pages in the browser. The index is loaded when the search is used first.
(() => {
  const script = document.currentScript;
  const input = document.querySelector("#search input");
  const list = document.querySelector("#search ol");
  const home = document.querySelector("#home").href.replace(/[^/]*$/, "");
  const limit = 20;
  let selected = -1;

  const load = () => {
    if (window.searchIndex || document.querySelector("script[data-loaded]")) return;
    const index = document.createElement("script");
    index.src = home + script.dataset.index;
    index.dataset.loaded = "";
    index.onload = show;
    document.head.append(index);
  };

  // A word counts most in a heading, less in the title of the page, least in the text. Every word has to be found.
  const score = (entry, words) => {
    let sum = 0;
    for (const word of words) {
      const section = entry.section.toLowerCase();
      let value = 0;
      if (section === word) value += 100;
      if (section.includes(word)) value += 20;
      if (entry.page.toLowerCase().includes(word)) value += 5;
      if (entry.text.toLowerCase().includes(word)) value += 1;
      if (value === 0) return 0;
      sum += value;
    }
    return sum;
  };

  const marked = (text, words) => {
    const escaped = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    const nodes = text.split(new RegExp(`(${escaped.join("|")})`, "i"));
    return nodes.map((part, i) => {
      if (i % 2 === 0) return part;
      const mark = document.createElement("mark");
      mark.textContent = part;
      return mark;
    });
  };

  const excerpt = (text, words) => {
    const at = Math.max(0, text.toLowerCase().indexOf(words[0]) - 50);
    return (at > 0 ? "…" : "") + text.slice(at, at + 160) + (at + 160 < text.length ? "…" : "");
  };

  const item = (entry, words) => {
    const link = document.createElement("a");
    link.href = home + entry.url;
    const title = document.createElement("span");
    title.append(entry.page);
    if (entry.section && entry.section !== entry.page) title.append(" › ", ...marked(entry.section, words));
    const text = document.createElement("small");
    text.append(...marked(excerpt(entry.text, words), words));
    link.append(title, text);
    link.onclick = hide;
    const row = document.createElement("li");
    row.append(link);
    return row;
  };

  const hide = () => { list.hidden = true; };

  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    selected = -1;
    list.replaceChildren();
    list.hidden = words.length === 0;
    if (list.hidden || !window.searchIndex) return;
    const found = window.searchIndex.map((entry) => [score(entry, words), entry]).filter(([value]) => value > 0);
    found.sort(([a], [b]) => b - a);
    list.append(...found.slice(0, limit).map(([, entry]) => item(entry, words)));
    if (found.length === 0) {
      const none = document.createElement("li");
      none.className = "none";
      none.textContent = "No page has all these words.";
      list.append(none);
    }
  };

  const select = (step) => {
    const links = [...list.querySelectorAll("a")];
    if (links.length === 0) return;
    selected = (selected + step + links.length) % links.length;
    links.forEach((link, i) => link.classList.toggle("selected", i === selected));
    links[selected].scrollIntoView({ block: "nearest" });
  };

  input.addEventListener("focus", () => { load(); show(); });
  input.addEventListener("input", () => { load(); show(); });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      select(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter") {
      list.querySelectorAll("a")[Math.max(selected, 0)]?.click();
    } else if (event.key === "Escape") {
      input.blur();
      hide();
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.matches("input, textarea")) return;
    event.preventDefault();
    input.focus();
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest("#search")) hide();
  });
  // On a narrow screen the menu is closed at first.
  if (matchMedia("(max-width: 48rem)").matches) document.querySelector("nav details").open = false;
})();
