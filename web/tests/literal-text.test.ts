// What a reader sees comes from the catalogue: no component writes a sentence of its own.
import { parse } from "svelte/compiler";
import { expect, it } from "vitest";

const SOURCES = import.meta.glob<string>("../src/**/*.svelte", { query: "?raw", import: "default", eager: true });
/** Attributes that are read, or read out. */
const READ = ["alt", "aria-label", "aria-roledescription", "aria-valuetext", "label", "placeholder", "title", "what"];
/** Elements that hold code, symbols and indices. */
const CODE = ["code", "mi", "sub", "sup"];
/** Names and JSON: the same in every language. */
const NAMES = /headscope|\b(KL|KV|MHA|GQA|MQA|W_O|SHA-256|softmax|fp8|fp16|config\.json|top-[kp])\b|\.zip\b|^\{".*/gi;
const LIMIT = 60_000; // milliseconds: every component is parsed

interface Node {
  type?: string;
  name?: string;
  data?: string;
  value?: unknown;
  quasis?: { value: { raw: string } }[];
  [child: string]: unknown;
}

/** The strings that an expression may show: `{on ? "Off" : say.on}` shows "Off". */
function shown(expression: Node): string[] {
  const { type, value, quasis } = expression;
  const sides = (...names: string[]) => names.flatMap((name) => shown(expression[name] as Node));
  if (type === "Literal") return typeof value === "string" ? [value] : [];
  if (type === "TemplateLiteral") return quasis!.map((part) => part.value.raw);
  if (type === "ConditionalExpression") return sides("consequent", "alternate");
  if (type === "LogicalExpression" || type === "BinaryExpression") return sides("left", "right");
  return [];
}

/** Text and labels in a component's markup that have a word in them: two letters or more, and no name. */
function literals(source: string): string[] {
  const found: string[] = [];
  const visit = (node: unknown): void => {
    if (Array.isArray(node)) return node.forEach(visit);
    if (typeof node !== "object" || node === null) return;
    const { type, name, data, expression } = node as Node;
    if (type === "StyleDirective" || (type === "Attribute" && !READ.includes(name!))) return;
    if (type === "RegularElement" && CODE.includes(name!)) return;
    if (type === "Text") found.push(data!);
    else if (type === "ExpressionTag") found.push(...shown(expression as Node));
    else Object.values(node).forEach(visit);
  };
  visit(parse(source, { modern: true }).fragment.nodes);
  return found.filter((text) => /\p{L}{2}/u.test(text.replace(NAMES, ""))).map((text) => text.trim());
}

it("finds text, labels and what an expression shows; leaves names, classes, styles and code alone", () => {
  expect(literals('<p class="some words">Some text {words.ui.save}</p>')).toEqual(["Some text"]);
  expect(literals('{#if on}<Slider label="How {much}" />{/if}')).toEqual(["How"]);
  expect(literals('{on ? `Switch ${name} off` : say.on}{all || "none"}')).toEqual(["Switch", "off", "none"]);
  expect(literals('<b style:width="{w}px" title={words.ui.again}>KL W<sub>in</sub> {say("key")}</b>')).toEqual([]);
});

it(
  "every component takes its text from the catalogue",
  () => {
    const all = Object.entries(SOURCES);
    expect(all.length).toBeGreaterThan(100);
    const written = all.map(([path, source]) => [path, literals(source)] as const);
    expect(written.filter(([, found]) => found.length)).toEqual([]);
  },
  LIMIT,
);
