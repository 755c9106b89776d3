import js from "@eslint/js";
import globals from "globals";

export default [
  js.configs.recommended,
  {
    languageOptions: { ecmaVersion: 2024, sourceType: "module", globals: globals.browser },
    rules: {
      complexity: ["error", 10],
      curly: ["error", "multi-line"],
      eqeqeq: "error",
      "max-depth": ["error", 3],
      "max-len": ["error", { code: 110 }],
      "max-lines-per-function": ["error", 40],
      "max-params": ["error", 4],
      "no-shadow": "error",
      "no-var": "error",
      "prefer-const": "error",
    },
  },
];
