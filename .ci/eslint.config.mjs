// The rules for the scripts of pages: names that exist, are used, and mean one thing; no code that does nothing.
const browser = [
  "document", "window", "location", "history", "navigator", "localStorage", "performance", "console", "getComputedStyle",
  "matchMedia", "addEventListener", "setTimeout", "clearTimeout", "requestAnimationFrame", "cancelAnimationFrame", "fetch",
  "ResizeObserver", "IntersectionObserver", "CustomEvent", "Event", "DOMPoint", "SVGElement", "URLSearchParams", "structuredClone",
  "getSelection", "Range",
];
const errors = [
  "no-undef", "no-dupe-keys", "no-dupe-class-members", "no-dupe-else-if", "no-duplicate-case", "no-const-assign",
  "no-func-assign", "no-import-assign", "no-class-assign", "no-unreachable", "no-unsafe-finally", "no-unsafe-negation",
  "no-unsafe-optional-chaining", "no-self-assign", "no-self-compare", "no-sparse-arrays", "no-useless-escape", "no-var",
  "prefer-const", "use-isnan", "valid-typeof", "no-cond-assign", "no-constant-condition", "no-fallthrough", "no-implied-eval",
  "no-eval", "no-invalid-regexp", "no-loss-of-precision", "no-unused-private-class-members", "array-callback-return", "getter-return",
];
export default [{ ignores: ["*.mjs"] }, {
  linterOptions: { reportUnusedDisableDirectives: "off" },
  languageOptions: { ecmaVersion: 2024, sourceType: "script", globals: Object.fromEntries(browser.map((name) => [name, "readonly"])) },
  rules: {
    ...Object.fromEntries(errors.map((rule) => [rule, "error"])),
    eqeqeq: "error",
    "no-redeclare": ["error", { builtinGlobals: false }],
    "no-unused-vars": ["error", { varsIgnorePattern: "^why$", args: "none", destructuredArrayIgnorePattern: "^_", ignoreRestSiblings: true }],
  },
}];
