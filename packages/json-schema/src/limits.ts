/** Bounds on what a schema may cost to compile and a value to check; schemas and values are both hostile. */
export interface SchemaLimits {
  /** Sub-schemas, over every document that is referred to. */
  readonly nodes: number
  /** Nesting of a schema. */
  readonly depth: number
  /** Members of one `enum`, and values inside one `const` or `enum`. */
  readonly values: number
  /** Characters of property names, patterns and enumerated strings together. */
  readonly text: number
  /** Sub-schema applications in one check; long strings and large arrays cost more than one. */
  readonly steps: number
  /** Schema levels that references may nest in one check, so that a deep value cannot exhaust the stack. */
  readonly recursion: number
  /** Issues reported before the report stops. */
  readonly issues: number
}

export const defaultLimits: SchemaLimits = {
  nodes: 20_000,
  depth: 256,
  values: 20_000,
  text: 2_000_000,
  steps: 2_000_000,
  recursion: 1_000,
  issues: 100,
}
