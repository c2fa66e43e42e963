// Tabs: the panels stand in one column that scrolls beside the drawing; a tab brings its panel to the top.

const narrow = matchMedia("(max-width: 899px)");

class Tabs {
  #scroller = byId("scroller");
  #tabs = [];

  constructor() {
    byId("tabs").addEventListener("keydown", (event) => this.#press(event));
    this.#scroller.addEventListener("scroll", () => this.#follow());
    narrow.addEventListener("change", () => this.#place());
    this.#place();
  }

  /** In a narrow window the explanation is the first panel; in a wide one it stands below the drawing. */
  #place() {
    const explanation = byId("explanation");
    if (narrow.matches) this.#scroller.prepend(explanation);
    else document.querySelector(".side").before(explanation);
    this.refresh();
  }

  /** A tab for each panel. */
  refresh() {
    const panels = [...this.#scroller.querySelectorAll("section")].filter((section) => section.checkVisibility());
    this.#tabs = panels.map((panel) => {
      const name = panel.id === "explanation" ? "Step" : panel.dataset.tab ?? panel.querySelector("h2").textContent;
      const tab = htmlElement("button", name);
      Object.assign(tab, { type: "button", role: "tab", tabIndex: -1 });
      tab.addEventListener("click", () => this.select(tab));
      return { tab, panel };
    });
    byId("tabs").replaceChildren(...this.#tabs.map(({ tab }) => tab));
    this.#follow();
  }

  /** Bring the panel of a tab to the top. */
  select(tab) {
    this.show(this.#tabs.find((one) => one.tab === tab).panel);
    this.#mark(tab);
  }

  /** Scroll to a panel. */
  show(panel) {
    this.#scroller.scrollTop = panel.offsetTop - this.#scroller.firstElementChild.offsetTop;
  }

  /** Mark the tab of the panel at the top. */
  #follow() {
    const top = this.#scroller.getBoundingClientRect().top + 24;
    const at = this.#tabs.findLast(({ panel }) => panel.getBoundingClientRect().top <= top) ?? this.#tabs[0];
    if (at) this.#mark(at.tab);
  }

  #mark(tab) {
    for (const one of this.#tabs) {
      one.tab.ariaSelected = String(one.tab === tab);
      one.tab.tabIndex = one.tab === tab ? 0 : -1;
    }
    byId("tabs").scrollLeft = tab.offsetLeft + (tab.offsetWidth - byId("tabs").clientWidth) / 2; // where they do not all fit
  }

  #press(event) {
    const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!way) return;
    event.preventDefault();
    event.stopPropagation();
    const at = this.#tabs.findIndex(({ tab }) => tab === event.target);
    const { tab } = this.#tabs[(at + way + this.#tabs.length) % this.#tabs.length];
    tab.focus();
    this.select(tab);
  }
}
