import type { Json } from '@gantry/contract'
import type { QuickJSHandle } from 'quickjs-emscripten-core'
import type { ProgramFault } from '../../runtime.ts'
import type { Guest } from './guest.ts'
import type { Place } from './strip-types.ts'

/** Room to say what went wrong when all the memory is used up. */
const spareBytes = 1_048_576
const speechless: ProgramFault = { kind: 'run', name: 'InternalError', message: 'out of memory' }

/** An error of the guest as its own code tells it, and so bounded like everything that it does. */
export function faultOf(guest: Guest, error: QuickJSHandle, kind: ProgramFault['kind'] = 'run'): ProgramFault {
  const { context, call, allow } = guest
  allow(spareBytes)
  const said = call('fault', error)
  if (said.error !== undefined || context.typeof(said.value) !== 'string') return { ...speechless, kind }
  return readFault(context.getString(said.value), kind)
}

/** Reads what a guest says of an error; everything in it is the program's own word. */
export function readFault(text: string, kind: ProgramFault['kind'] = 'run'): ProgramFault {
  const { name, message, line, column, stack, error } = JSON.parse(text) as { readonly [key: string]: Json }
  return {
    kind,
    name: String(name),
    message: String(message),
    ...(typeof line === 'number' ? { line } : {}),
    ...(typeof column === 'number' ? { column } : {}),
    ...(typeof stack === 'string' && stack !== '' ? { stack } : {}),
    ...(error === undefined ? {} : { error }),
  }
}

/** A fault, and the places in its stack, where its author looks for them. */
export function placed(fault: ProgramFault, places: ((place: Place) => Place) | undefined): ProgramFault {
  if (places === undefined || fault.kind === 'compile') return fault
  const { line, column, stack, ...rest } = fault
  return {
    ...rest,
    ...(line === undefined ? {} : places({ line, column: column ?? 1 })),
    ...(stack === undefined
      ? {}
      : { stack: stack.replace(mainPlace, (_, at, to) => mainText(places({ line: Number(at), column: Number(to) }))) }),
  }
}

const mainPlace = /\bmain\.js:(\d+):(\d+)/g

function mainText({ line, column }: Place): string {
  return `main.js:${line}:${column}`
}
