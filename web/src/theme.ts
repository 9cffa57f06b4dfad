// Light or dark: as the system says, until somebody chooses.

export interface Colours {
  text: string; muted: string; grid: string; surface: string;
  reward: string; random: string; first: string; marked: string; palette: string[];
}

export function colours(): Colours {
  const style = getComputedStyle(document.documentElement);
  const read = (name: string) => style.getPropertyValue("--" + name).trim();
  return {
    text: read("text"), muted: read("muted"), grid: read("grid"), surface: read("surface"),
    reward: read("reward"), random: read("random"), first: read("first"), marked: read("marked"),
    palette: read("palette").split(" "),
  };
}

export function isDark(): boolean {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

export function toggle(): void {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  dispatchEvent(new Event("themechange"));
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("themechange")));
