import type { ProgramFault } from '../../runtimes/runtime.ts'
import { readWorkflow } from './read.ts'
import { type Script, writeWorkflow } from './write.ts'

/** A workflow as a JavaScript program over tools. */
export interface TranslatedWorkflow {
  readonly code: string
  /** A fault of the program with its places in the workflow. */
  original(fault: ProgramFault): ProgramFault
}

/** A workflow as it is checked by a compiler: without its helpers, and with the way back to its own places. */
export function checkedWorkflow(source: string): Script {
  return writeWorkflow(readWorkflow(source), '')
}

/**
 * Translates a workflow. Only what the grammar of docs/code-mode.md knows comes through, whatever the source holds.
 * Throws CODE_INVALID with line, column and frame.
 */
export function translateWorkflow(source: string): TranslatedWorkflow {
  const script = writeWorkflow(readWorkflow(source))
  return {
    code: script.text,
    original({ line, column, stack, ...rest }) {
      const found = [...`${stack ?? ''} main.js:${line ?? 0}:${column ?? 0}`.matchAll(/main\.js:(\d+):(\d+)/g)]
      const places = found.map(([, at, of]) => script.source({ line: Number(at), column: Number(of) }))
      const [place] = places.filter((each) => each !== undefined)
      return { ...rest, ...place }
    },
  }
}
