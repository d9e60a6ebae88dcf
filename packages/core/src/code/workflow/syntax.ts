import type { SourcePosition } from './tokens.ts'

/** An expression; `at` is where a failure of it is shown. */
export type Expression = { readonly at: SourcePosition } & (
  | { readonly kind: 'constant'; readonly value: string | number | boolean | null }
  | { readonly kind: 'variable'; readonly name: string }
  | { readonly kind: 'list'; readonly members: readonly Expression[] }
  | { readonly kind: 'object'; readonly members: readonly Member[] }
  | { readonly kind: 'member'; readonly of: Expression; readonly key: Expression }
  | { readonly kind: 'call'; readonly name: string; readonly args: readonly Expression[] }
  | { readonly kind: 'not' | 'minus'; readonly of: Expression }
  | { readonly kind: 'pair'; readonly sign: string; readonly left: Expression; readonly right: Expression }
  | { readonly kind: 'choice'; readonly test: Expression; readonly then: Expression; readonly otherwise: Expression }
)

/** One member of an object. */
export interface Member {
  readonly at: SourcePosition
  readonly key: string
  readonly value: Expression
}

export type Block = readonly Statement[]

export type Statement = { readonly at: SourcePosition } & (
  | { readonly kind: 'set'; readonly name: string; readonly value: Expression }
  | { readonly kind: 'do'; readonly value: Expression }
  | { readonly kind: 'return'; readonly value: Expression | undefined }
  | { readonly kind: 'break' | 'continue'; readonly loop: number }
  | { readonly kind: 'if'; readonly test: Expression; readonly then: Block; readonly otherwise: Block }
  | { readonly kind: 'while'; readonly loop: number; readonly test: Expression; readonly body: Block }
  | {
      readonly kind: 'for'
      readonly loop: number
      readonly index: string | undefined
      readonly name: string
      readonly list: Expression
      readonly body: Block
    }
  | { readonly kind: 'retry'; readonly times: Expression; readonly delay: Expression | undefined; readonly body: Block }
  | { readonly kind: 'try'; readonly body: Block; readonly name: string | undefined; readonly caught: Block }
)

/** A workflow as it was read. */
export interface Workflow {
  readonly body: Block
  /** Every variable that it sets. */
  readonly variables: ReadonlySet<string>
}
