import type { Json } from '@gantry/contract'
import type { ProgramFault } from '@gantry/core/internal/runtimes/runtime'
import type { QuickJSHandle } from 'quickjs-emscripten-core'
import type { Guest } from './guest.ts'
import type { Place } from './strip-types.ts'

/** Room to say what went wrong when all the memory is used up. */
const spareBytes = 1_048_576

/** As QuickJS says it. */
export const outOfMemory: ProgramFault = { kind: 'run', name: 'InternalError', message: 'out of memory' }
/** Of an error that keeps others from looking at it. */
const hidden: ProgramFault = { kind: 'run', name: 'Error', message: 'What was thrown cannot be read.' }

/** An error of the guest as its own code tells it, and so bounded like everything that it does. */
export function faultOf(guest: Guest, error: QuickJSHandle, kind: ProgramFault['kind'] = 'run'): ProgramFault {
  return { ...toldBy(guest, () => guest.call('fault', error)), kind }
}

/** What a program failed with. */
export function lastFault(guest: Guest): ProgramFault {
  return toldBy(guest, () => guest.call('end'))
}

function toldBy({ context, allow, engine }: Guest, tell: () => ReturnType<Guest['call']>): ProgramFault {
  allow(spareBytes)
  const said = tell()
  const text = said.error === undefined && context.typeof(said.value) === 'string' ? context.getString(said.value) : ''
  return readFault(text) ?? (engine.refused ? outOfMemory : hidden)
}

/** Reads what a guest says of an error, all of which is the program's own word; undefined when it is none. */
function readFault(text: string): ProgramFault | undefined {
  const said = text === '' ? null : (JSON.parse(text) as Json)
  if (typeof said !== 'object' || said === null) return undefined
  const { name, message, line, column, stack, error } = said as { readonly [key: string]: Json }
  if (typeof name !== 'string' || typeof message !== 'string') return undefined
  return {
    kind: 'run',
    name,
    message,
    ...(isPlace(line) ? { line } : {}),
    ...(isPlace(column) ? { column } : {}),
    ...(typeof stack === 'string' && stack !== '' ? { stack } : {}),
    ...(error === undefined ? {} : { error }),
  }
}

function isPlace(value: Json | undefined): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 1
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
