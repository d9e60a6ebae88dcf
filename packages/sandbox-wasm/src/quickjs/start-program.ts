import type { ProgramFault } from '@gantry/core/internal/runtimes/runtime'
import type { QuickJSHandle } from 'quickjs-emscripten-core'
import { faultOf } from './fault.ts'
import { bodyHead } from './forms.ts'
import type { Guest } from './guest.ts'
import type { Run } from './run.ts'
import {
  ParserFellError,
  type Place,
  type Stripped,
  stripTypesMapped,
  syntaxFault,
  TypeScriptError,
} from './strip-types.ts'

/** Starts a program over tools, which is the body of an async function; undefined when it does not compile. */
export function startProgram(
  { code, language }: { readonly code: string; readonly language: string },
  guest: Guest,
  run: Run,
): QuickJSHandle | undefined {
  const whole = `${bodyHead}${code.replace(/^\uFEFF/, ' ').replace(/^#!/, '//')}\n})()`
  try {
    const { text, original }: Stripped = language === 'typescript' ? stripTypesMapped(whole) : { text: whole }
    if (original !== undefined) {
      guest.place(0)
      run.places = (place) => inBody(original(place))
    }
    const result = guest.context.evalCode(text, 'main.js', { type: 'global' })
    if (result.error === undefined) return result.value
    refuse(faultOf(guest, result.error, 'compile'), whole, guest, run)
  } catch (error) {
    if (error instanceof TypeScriptError) run.fault(syntaxError(error.message, error.place, whole), false)
    else throw fallen(error, run)
  }
  return undefined
}

/** Tells of a parser that fell, which is thrown on so that nothing else is run beside it. */
function fallen(error: unknown, run: Run): unknown {
  if (error instanceof ParserFellError) run.fault({ kind: 'compile', name: error.name, message: error.message }, false)
  return error
}

/** Ends with what the compiler said. */
function refuse(fault: ProgramFault, whole: string, { engine }: Guest, run: Run): void {
  try {
    run.fault(sharper(fault, whole), engine.refused)
  } finally {
    // The first end counts: this is one only when the other parser fell.
    run.fault(fault, engine.refused)
  }
}

/** QuickJS tells the line of a syntax error and not its column; another parser does, where it sees one too. */
function sharper(fault: ProgramFault, whole: string): ProgramFault {
  if (/call stack|stack overflow/.test(fault.message)) return { ...fault, message: 'The code is nested too deeply.' }
  const found = fault.name === 'SyntaxError' ? syntaxFault(whole) : undefined
  if (found === undefined) return fault
  return syntaxError(found.message, found.place, whole)
}

/** What the parser misses in our own last line is missing at the end of the program. */
function syntaxError(message: string, place: Place | undefined, whole: string): ProgramFault {
  const common = { kind: 'compile', name: 'SyntaxError' } as const
  if (place === undefined) return { ...common, message }
  const lines = whole.split('\n')
  if (place.line < lines.length) return { ...common, message, ...inBody(place) }
  const end = { line: lines.length - 1, column: (lines.at(-2)?.length ?? 0) + 1 }
  return { ...common, message: 'Unexpected end of the program: something is not closed', ...inBody(end) }
}

/** A place in the whole text as one in the program. */
function inBody({ line, column }: Place): Place {
  return { line, column: line === 1 ? Math.max(1, column - bodyHead.length) : column }
}
