// The dashboard: one page of the hash at a time, fed by one stream.

import { ask, hasKey, Refused, setKey } from "./api";
import { h, replace } from "./dom";
import { Live } from "./live";
import { EventPage, UserPage } from "./lookup";
import { ModelPage } from "./model";
import { Overview } from "./overview";
import { type Context, kRanges, type Page } from "./pages";
import { toggle } from "./theme";
import { TryPage } from "./tryit";

const header = document.getElementById("header")!;
const main = document.getElementById("main")!;
const status = document.getElementById("status")!;
const live = new Live();
let page: Page | null = null;

const context: Context = {
  live,
  range: kRanges[0],
  setRange(range) {
    context.range = range;
    open();
  },
};

function make(parts: string[]): Page {
  if (parts[0] === "models" && parts.length === 2) return new ModelPage(parts[1], context);
  if (parts[0] === "models" && parts[2] === "learners" && parts.length === 4) return new ModelPage(parts[1], context, Number(parts[3]));
  if (parts[0] === "models" && parts[2] === "users" && parts.length === 4) return new UserPage(parts[1], parts[3]);
  if (parts[0] === "models" && parts[2] === "events" && parts.length === 4) return new EventPage(parts[1], parts[3]);
  if (parts[0] === "try") return new TryPage(parts[1], parts[2]);
  return new Overview(context);
}

function parts(): string[] {
  try {
    return location.hash.replace(/^#\/?/, "").split("/").filter((part) => part !== "").map(decodeURIComponent);
  } catch {
    return [];
  }
}

function open(): void {
  page?.destroy?.();
  page = make(parts());
  document.title = page.title + " · mcnb";
  replace(main, page.element);
  for (const anchor of header.querySelectorAll("nav a")) {
    const here = anchor.getAttribute("href") === "#/" + (parts()[0] === "try" ? "try" : "");
    if (here && (parts().length === 0 || parts()[0] === "try")) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
  const shown = page as Page & { load?: () => Promise<void> };
  if (page instanceof UserPage || page instanceof EventPage || page instanceof TryPage) void shown.load!();
}

// Whatever a request was refused for, somebody must see it.
function complain(error: unknown): void {
  if (error instanceof Refused && (error.status === 401 || (error.status === 403 && /key/i.test(error.message + error.code) && !hasKey()))) {
    askForKey(error.message);
  } else if (error instanceof Refused && error.status === 403) {
    askForKey("The role of this key does not allow this.");
  } else if (error instanceof Refused) {
    replace(main, h("div", { class: "page" }, h("p", { class: "notice bad" }, error.message), h("p", {}, h("a", { href: "#/" }, "Overview"))));
  }
  // Otherwise the server is away, which the sign of the stream says.
}

let asking = false;
function askForKey(why: string): void {
  if (asking) return;
  asking = true;
  live.stop();
  page?.destroy?.();
  page = null;
  const input = h("input", { type: "password", name: "key", required: true, autocomplete: "off", "aria-describedby": "why" });
  const form = h("form", { class: "card key", submit: (event) => {
    event.preventDefault();
    setKey(input.value);
    asking = false;
    begin();
  } },
    h("h1", {}, "A key, please"),
    h("p", { id: "why", role: "alert" }, why),
    h("label", { class: "field" }, h("span", {}, "Key with the role read or admin"), input),
    h("p", { class: "note" }, "It stays in the memory of this page and is gone when you close or reload it."),
    h("button", { type: "submit" }, "Open the dashboard"));
  replace(main, form);
  input.focus();
}

const sign = h("span", { class: "live", role: "status" });
function showState(): void {
  const words = { connecting: "Connecting …", live: "Live", away: "The server is away; trying again" };
  sign.className = "live " + live.state;
  if (sign.textContent !== words[live.state]) sign.textContent = words[live.state];
}

let wasAway = false;
live.onChange = () => {
  showState();
  if (live.state === "live") {
    if (wasAway) {
      wasAway = false;
      status.textContent = "The server is back.";
      open();
    }
    page?.onLine?.();
  } else if (live.state === "away") {
    wasAway = true;
  }
};
live.onRefused = complain;

function begin(): void {
  live.start();
  open();
}

replace(header,
  h("a", { class: "brand", href: "#/" }, "mcnb"),
  h("nav", { "aria-label": "Pages" }, h("a", { href: "#/" }, "Overview"), h("a", { href: "#/try" }, "Try it"), h("a", { href: "/docs" }, "API")),
  sign,
  h("button", { type: "button", class: "quiet", click: () => askForKey("Enter another key.") }, "Key"),
  h("button", { type: "button", class: "quiet", click: toggle, "aria-label": "Light or dark" }, "◐"));
addEventListener("hashchange", () => {
  if (!asking) {
    open();
    main.focus();
    scrollTo(0, 0);
  }
});
addEventListener("themechange", () => page?.onTheme?.());
addEventListener("unhandledrejection", (event) => {
  event.preventDefault();
  complain(event.reason);
});
// A page that the browser keeps for its button "back" must not hold a connection.
addEventListener("pagehide", () => live.stop());
addEventListener("pageshow", (event) => {
  if (event.persisted && !asking) begin();
});
showState();
// A first request says whether a key is needed.
ask("/v1/models").then(begin, complain);
