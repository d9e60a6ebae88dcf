import type { ProgramLanguage } from '@gantry/contract'
import type { Outcome } from '../runtimes/runtime.ts'

/** A program as its runtime takes it. */
export interface Prepared {
  readonly language: 'javascript' | 'typescript' | 'python'
  readonly code: string
  /** The kind of runtime that has the gateway for this language. */
  readonly runtime: 'wasm' | 'process'
  /** How it ended, with the places of a fault in what the author wrote. */
  original(outcome: Outcome): Outcome
}

/** Makes what the runtimes know of a program. Throws CODE_INVALID with its place. */
export async function prepare(code: string, language: ProgramLanguage): Promise<Prepared> {
  const original = (outcome: Outcome): Outcome => outcome
  if (language === 'python') return { language, code, runtime: 'process', original }
  if (language !== 'workflow') return { language, code, runtime: 'wasm', original }
  const { translateWorkflow } = await import('./workflow/translate.ts')
  const translated = translateWorkflow(code)
  return {
    language: 'javascript',
    code: translated.code,
    runtime: 'wasm',
    original: (outcome) =>
      outcome.fault === undefined ? outcome : { ...outcome, fault: translated.original(outcome.fault) },
  }
}
