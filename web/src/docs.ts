// The OpenAPI document as a page.

import { ask } from "./api";
import { type Child, h, replace } from "./dom";

interface Schema {
  $ref?: string; type?: string; description?: string; enum?: string[]; items?: Schema; format?: string;
  properties?: Record<string, Schema>; additionalProperties?: Schema | boolean; required?: string[];
  allOf?: Schema[]; oneOf?: Schema[]; nullable?: boolean; minimum?: number; maximum?: number;
  default?: unknown; maxLength?: number; maxItems?: number; minItems?: number;
}
interface Media { schema: Schema; example?: unknown }
interface Parameter { $ref?: string; name: string; in: string; description?: string; required?: boolean; schema: Schema }
interface Operation {
  operationId: string; summary: string; description?: string; tags?: string[]; security?: unknown[]; parameters?: Parameter[];
  requestBody?: { content: Record<string, Media> };
  responses: Record<string, { $ref?: string; description: string; content?: Record<string, Media> }>;
}
interface Document {
  info: { title: string; version: string; description: string };
  tags?: { name: string; description: string }[];
  paths: Record<string, Record<string, Operation> & { parameters?: Parameter[] }>;
  components: { schemas: Record<string, Schema>; parameters: Record<string, Parameter> };
}

let api: Document;

const nameOf = (reference: string) => reference.slice(reference.lastIndexOf("/") + 1);

function typeOf(schema: Schema): Child {
  if (schema.$ref) return h("a", { href: "#schema-" + nameOf(schema.$ref) }, nameOf(schema.$ref));
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
  if (schema.oneOf) return schema.oneOf.map((one, i) => [i ? " or " : "", typeOf(one)]);
  if (schema.type === "array") return ["list of ", typeOf(schema.items ?? {})];
  return (schema.type ?? "anything") + (schema.nullable ? " or null" : "");
}

function limits(schema: Schema): string {
  const parts: string[] = [];
  if (schema.minimum !== undefined) parts.push(`at least ${schema.minimum}`);
  if (schema.maximum !== undefined) parts.push(`at most ${schema.maximum}`);
  if (schema.minItems !== undefined) parts.push(`at least ${schema.minItems} entries`);
  if (schema.maxItems !== undefined) parts.push(`at most ${schema.maxItems} entries`);
  if (schema.maxLength !== undefined) parts.push(`at most ${schema.maxLength} bytes`);
  if (schema.default !== undefined) parts.push(`default ${JSON.stringify(schema.default)}`);
  return parts.join(", ");
}

function fields(schema: Schema): Child {
  if (schema.$ref) return h("p", {}, "As ", typeOf(schema), ".");
  if (schema.allOf) return schema.allOf.map(fields);
  const inner = schema.items ?? schema;
  if (!inner.properties) return h("p", { class: "note" }, schema.description ?? "", " ", typeOf(schema));
  return h("ul", { class: "fields-list" }, Object.entries(inner.properties).map(([name, one]) =>
    h("li", {}, h("code", {}, name), inner.required?.includes(name) ? h("span", { class: "tag" }, "required") : null, " ",
      h("span", { class: "note" }, typeOf(one), limits(one) ? ", " + limits(one) : "", one.description ? ": " + one.description : ""),
      one.properties || one.items?.properties ? fields(one) : null)));
}

function body(content: Record<string, Media> | undefined): Child {
  return Object.entries(content ?? {}).map(([type, media]) => [
    h("p", {}, h("code", {}, type), " ", typeOf(media.schema)),
    media.example === undefined ? null : h("pre", { tabindex: 0 }, h("code", {}, typeof media.example === "string" ? media.example : JSON.stringify(media.example, null, 2)))]);
}

function operation(path: string, method: string, one: Operation, shared: Parameter[]): HTMLElement {
  const parameters = [...shared, ...(one.parameters ?? [])].map((p) => (p.$ref ? api.components.parameters[nameOf(p.$ref)] : p));
  return h("details", { class: "card operation", id: one.operationId },
    h("summary", {}, h("span", { class: "method " + method }, method.toUpperCase()), " ", h("code", {}, path), " ", h("span", { class: "note" }, one.summary)),
    one.description ? h("p", {}, one.description) : null,
    one.security?.length === 0 ? h("p", { class: "note" }, "Needs no key.") : null,
    parameters.length ? [h("h3", {}, "Parameters"), h("ul", { class: "fields-list" }, parameters.map((p) =>
      h("li", {}, h("code", {}, p.name), " ", h("span", { class: "note" }, p.in, ", ", typeOf(p.schema), limits(p.schema) ? ", " + limits(p.schema) : "", p.description ? ": " + p.description : ""))))] : null,
    one.requestBody ? [h("h3", {}, "Request"), body(one.requestBody.content)] : null,
    h("h3", {}, "Responses"),
    h("ul", { class: "fields-list" }, Object.entries(one.responses).map(([status, response]) =>
      h("li", {}, h("strong", {}, status), " ", response.$ref ? ["an error, ", typeOf({ $ref: "#/components/schemas/Error" })] : response.description, body(response.content)))));
}

function openTarget(): void {
  const target = location.hash ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null;
  if (target instanceof HTMLDetailsElement) target.open = true;
  target?.scrollIntoView();
}

async function show(): Promise<void> {
  api = await ask<Document>("/openapi.json");
  const methods = ["get", "post", "put", "patch", "delete"];
  const operations = Object.entries(api.paths).flatMap(([path, item]) => methods.filter((method) => item[method])
    .map((method) => ({ path, method, one: item[method], shared: item.parameters ?? [] })));
  const tags = api.tags ?? [{ name: "", description: "" }];
  replace(document.getElementById("main")!, h("div", { class: "page docs" },
    h("h1", {}, api.info.title, " ", h("span", { class: "tag" }, api.info.version)),
    h("p", {}, api.info.description, " ", h("a", { href: "/openapi.json" }, "The OpenAPI document")),
    tags.map((tag) => h("section", { "aria-label": tag.name }, h("h2", {}, tag.name), tag.description ? h("p", {}, tag.description) : null,
      operations.filter(({ one }) => !api.tags || one.tags?.includes(tag.name)).map(({ path, method, one, shared }) => operation(path, method, one, shared)))),
    h("section", { "aria-label": "Schemas" }, h("h2", {}, "Schemas"),
      Object.entries(api.components.schemas).map(([name, schema]) =>
        h("details", { class: "card operation", id: "schema-" + name }, h("summary", {}, h("code", {}, name)), schema.description ? h("p", {}, schema.description) : null, fields(schema))))));
  openTarget();
}

addEventListener("hashchange", openTarget);
void show();
