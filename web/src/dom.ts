// Elements from code. Texts always become text nodes, so an id such as "<script>" stays a text.

export type Child = Node | string | number | null | undefined | false | Child[];
type Handler = (event: Event) => void;
export type Props = Record<string, string | number | boolean | Handler | undefined>;

function append(parent: Element, child: Child): void {
  if (Array.isArray(child)) {
    for (const one of child) append(parent, one);
  } else if (child instanceof Node) {
    parent.append(child);
  } else if (child !== null && child !== undefined && child !== false) {
    parent.append(String(child));
  }
}

export function h<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag, props: Props = {}, ...children: Child[]): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (typeof value === "function") {
      element.addEventListener(name, value);
    } else if (value === true) {
      element.setAttribute(name, "");
    } else if (value !== undefined && value !== false) {
      element.setAttribute(name, String(value));
    }
  }
  append(element, children);
  return element;
}

export function replace(parent: Element, ...children: Child[]): void {
  parent.replaceChildren();
  append(parent, children);
}

// A heading with what belongs to it.
export function section(title: string, ...children: Child[]): HTMLElement {
  const id = "s" + Math.random().toString(36).slice(2);
  return h("section", { class: "card", "aria-labelledby": id }, h("h2", { id }, title), children);
}

// A number with its name.
export function figure(label: string, value: Child, note: Child = ""): HTMLElement {
  return h("div", { class: "figure" }, h("dt", {}, label),
    h("dd", {}, h("span", { class: "value" }, value), note ? h("span", { class: "note" }, note) : null));
}

export function table(caption: string, head: string[], rows: Child[][]): HTMLElement {
  return h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": caption },
    h("table", {}, h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, head.map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell) => h("td", {}, cell)))))));
}
