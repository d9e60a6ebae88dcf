import type { OptionName } from './option-table.ts'

export interface Operand {
  readonly name: string
  readonly optional?: boolean
  /** Accepts all remaining words. */
  readonly many?: boolean
  /** Completions that a shell offers. */
  readonly completes?: 'tools' | 'files' | 'commands' | readonly string[]
}

export interface Example {
  readonly line: string
  readonly what: string
}

export interface CommandInfo {
  readonly summary: string
  /** More than the summary, for the command's own help. */
  readonly notes?: readonly string[]
  readonly operands: readonly Operand[]
  readonly options: readonly OptionName[]
  readonly examples: readonly Example[]
  /** Superfluous words are not quoted in messages, because they may be secret. */
  readonly discreet?: boolean
  /** Not listed; for scripts. */
  readonly hidden?: boolean
}
